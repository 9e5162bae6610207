"""Link-layer retry, the switch as the sender: numbers, copies until acknowledged, replays, the window."""

from __future__ import annotations

from collections.abc import Callable

from codec.constants import Kind
from codec.scapy_layers import Link
from ptf_tests.frames import store, write
from ptf_tests.links import SLOW_PORT, Profile, in_session, one_lane
from ptf_tests.retry import (
    LINE_PORT,
    LLR,
    REPLAY,
    RETRIED,
    RX_OFF,
    SEQS,
    TX_ADVANCE,
    TX_INIT,
    TX_OFF,
    RetryPeer,
    RetryTest,
    stamped,
)

BEHIND = 0x321
"""A GPU behind the slow port."""


class SenderTest(RetryTest):
    """What the tests below share: a peer on port 2 that gets what GPU 1 sends from an open port."""

    def out(self, peer: RetryPeer, frames: list[bytes], first: int = 0) -> None:
        """Send frames from GPU 1, and check that they leave at once with these numbers."""
        for frame in frames:
            self.send(1, frame)
        for seq, frame in enumerate(frames, first):
            peer.expect_numbered(frame, seq % SEQS)

    def expect_replay(self, peer: RetryPeer, frames: list[bytes], first: int) -> None:
        """Check that these frames come again, from a number on."""
        for seq, frame in enumerate(frames[first:], first):
            peer.expect_numbered(frame, seq, replay=True)

    def slow_link(self) -> RetryPeer:
        """Bring up a link on the port that sends 20 frames per second."""
        entry = self.switch.names.entry
        self.install([
            entry("port_config", {"ingress_port": SLOW_PORT}, "set_port", mode=0, role=2, tenant=0),
            entry("egress_config", {"egress_port": SLOW_PORT}, "set_link", mode=0),
        ])  # fmt: skip
        self.route_to(BEHIND, SLOW_PORT)
        (peer,) = self.retry_links(SLOW_PORT)
        return peer


class FramesAreNumbered(SenderTest):
    """Frames for a link with retry leave with numbers from 0 on; an acknowledgement ends their copies."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2)
        self.out(peer, self.stores(1, 2, 5))
        self.expect_retry(2, next_seq=5, unacknowledged_seq=0, tx_state=TX_ADVANCE)
        peer.expected = 5
        peer.acknowledge()
        self.expect_retry(2, next_seq=5, unacknowledged_seq=5, outstanding_bytes=0)
        rounds = self.count("llr_line_rounds", 2)
        self.expect_silence_on([2])
        self.assertLess(self.count("llr_line_rounds", 2) - rounds, 20, "copies go on round")


class ReplayOnNack(SenderTest):
    """A NACK makes the switch send again all that it does not acknowledge, in order, flagged REPLAY."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2)
        frames = self.stores(1, 2, 5)
        self.out(peer, frames)
        before = {name: self.count(name, 2) for name in ("llr_tx_replay", "llr_tx_replayed", "llr_tx_ok")}
        peer.expected = 2
        peer.refuse()
        self.expect_replay(peer, frames, 2)
        self.assertEqual(
            {name: self.count(name, 2) - old for name, old in before.items()},
            {"llr_tx_replay": 1, "llr_tx_replayed": 3, "llr_tx_ok": 0},
        )
        peer.refuse()  # the replay was lost too
        self.expect_replay(peer, frames, 2)
        peer.expected = 5
        peer.refuse()  # asks for nothing, but acknowledges
        self.expect_retry(2, unacknowledged_seq=5)
        self.expect_silence_on([2])


class ReplayOnTimer(SenderTest):
    """Without an acknowledgement for the time of the replay timer all is sent again, and not before."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2, replay_timer=400_000)
        frames = self.stores(1, 2, 3)
        timeouts = self.count("llr_replay_timeouts", 2)
        self.out(peer, frames)
        self.expect_silence_on([2], 0.2)
        self.expect_replay(peer, frames, 0)
        self.assertEqual(self.count("llr_replay_timeouts", 2), timeouts + 1)
        self.expect_silence_on([2], 0.2)
        self.expect_replay(peer, frames, 0)
        peer.expected = 3
        peer.acknowledge()
        self.expect_silence_on([2], 0.8)


class LargestFrameAgain(SenderTest):
    """A replayed frame is the same byte by byte, whatever its size."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2)
        frames = [bytes(write(1, 2, size)) for size in (38, 64, 1025, 4096, 4134)]
        self.out(peer, frames)
        peer.refuse()
        self.expect_replay(peer, frames, 0)


class NewFramesGoOutAfterTheReplay(SenderTest):
    """What comes in while a replay goes on leaves after it, in order, and is not flagged: it was not sent before."""

    def runTest(self) -> None:
        peer = self.slow_link()
        frames = self.stores(1, BEHIND, 5)
        postponed = self.count("llr_tx_postponed", SLOW_PORT)
        for frame in frames[:2]:
            self.send(1, frame)
        for seq in (0, 1):
            peer.expect_numbered(frames[seq], seq)
        for frame in frames[2:]:
            self.send(1, frame)
        self.expect_retry(SLOW_PORT, next_seq=5)  # they wait in the port's queue
        peer.refuse()
        came = [(got.seq, bool(got.flags & REPLAY)) for got in iter(self._more(peer), None)]
        begun = next(index for index, (_, replay) in enumerate(came) if replay)
        before = [(seq, False) for seq in range(2, 2 + begun)]  # what left ere the NACK was there
        self.assertEqual(came[:begun], before)
        again = [(seq, True) for seq in range(2 + begun)]
        self.assertEqual(came[begun:], again + [(seq, False) for seq in range(2 + begun, 5)])
        self.assertEqual(self.count("llr_tx_postponed", SLOW_PORT), postponed + 3 - begun)
        peer.expected = 5
        peer.acknowledge()
        self.expect_silence_on([SLOW_PORT], 0.2)

    def _more(self, peer: RetryPeer) -> Callable[[], Link | None]:
        """Return what gives the next frame until the fifth number has come."""
        seen = [0]

        def more() -> Link | None:
            if seen[0] == 4:
                return None
            got = peer.next()
            seen[0] = got.seq
            return got

        return more


class Acknowledgements(SenderTest):
    """Any frame acknowledges; what was acknowledged before is ignored, and so is what was never sent."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2)
        frames = self.stores(1, 2, 8)
        self.out(peer, frames)
        errors = self.count("llr_rx_ack_nack_seq_error", 2)
        for ack, oldest, wrong in ((2, 3, 0), (1, 3, 0), (SEQS - 1, 3, 0), (8, 3, 1), (1000, 3, 2), (4, 5, 2)):
            with self.subTest(ack=ack):
                peer.acknowledge(ack)
                self.expect_retry(2, unacknowledged_seq=oldest)
                self.expect_count("llr_rx_ack_nack_seq_error", 2, errors + wrong)
        with self.subTest("a NACK of what was never sent"):
            peer.refuse(500)
            self.expect_count("llr_rx_ack_nack_seq_error", 2, errors + 3)
            self.expect_silence_on([2])
        with self.subTest("in data"):
            peer.expected = 7
            peer.send_numbered(self.stores(2, 1, 1)[0])
            self.expect_retry(2, unacknowledged_seq=7)
        with self.subTest("in a CF_UPDATE"):
            peer.expected = 8
            peer.free(one_lane(0, 8))
            self.expect_retry(2, unacknowledged_seq=8)
        with self.subTest("of another session"):
            self.out(peer, frames[:1], first=8)
            dropped = self.count("wrong_session", 2)
            self.send(2, in_session(peer.control(Kind.LLR_ACK, 8), peer.session ^ 1))
            self.expect_count("wrong_session", 2, dropped + 1)
            self.assertEqual(self.retry_state(2)["unacknowledged_seq"], 8)


class WindowOfFrames(SenderTest):
    """Not more than outstanding_frames_max are out; the others wait, and leave in order as acknowledgements come."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2, outstanding_frames_max=4)
        held = self.count("frames_held", 2)
        frames = self.stores(1, 2, 12)
        for frame in frames:
            self.send(1, frame)
        for seq in range(4):
            peer.expect_numbered(frames[seq], seq)
        self.expect_count("frames_held", 2, held + 8)
        self.expect_silence_on([2])
        self.expect_retry(2, next_seq=4)
        seq = 4
        for more in (1, 2, 4, 1):
            peer.expected += more
            peer.acknowledge()
            for _ in range(more):
                peer.expect_numbered(frames[seq], seq)
                seq += 1
            self.expect_silence_on([2])
        peer.refuse()
        self.expect_replay(peer, frames, 8)
        self.expect_credits(2, held_frames=(0,) * 8)


class WindowOfBytes(SenderTest):
    """Not more than outstanding_bytes_max are out; a frame that alone is more goes when nothing else is."""

    def runTest(self) -> None:
        small = self.stores(1, 2, 6)
        (peer,) = self.retry_links(2, outstanding_bytes_max=3 * len(small[0]) + 10)
        for frame in small:
            self.send(1, frame)
        for seq in range(3):
            peer.expect_numbered(small[seq], seq)
        self.expect_retry(2, next_seq=3, outstanding_bytes=3 * len(small[0]))
        self.expect_silence_on([2])
        peer.expected = 2
        peer.acknowledge()
        for seq in (3, 4):
            peer.expect_numbered(small[seq], seq)
        self.expect_silence_on([2])
        peer.expected = 5
        peer.acknowledge()
        peer.expect_numbered(small[5], 5)
        large = bytes(write(1, 2, 1000))
        self.send(1, large)
        self.expect_silence_on([2])
        peer.expected = 6
        peer.acknowledge()
        peer.expect_numbered(large, 6)
        self.expect_retry(2, outstanding_bytes=len(large))


class WindowsThatCannotWork(RetryTest):
    """With a window of nothing, or one above what the switch remembers, a link stays down and says why."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2, up=False)
        self.keepalive()
        peer.expect_init()
        for wrong in (
            {"outstanding_frames_max": 0},
            {"outstanding_frames_max": 513},
            {"outstanding_bytes_max": 0},
            {"outstanding_bytes_max": 512 * 4146 + 1},
            {"outstanding_bytes_max": 0xFFFFFFFF},
        ):
            with self.subTest(**wrong):
                self.change_retry(2, **{"outstanding_frames_max": 32, "outstanding_bytes_max": 1 << 20, **wrong})
                self.expect_dropped_here(2, peer.init(), "bad_retry_profile")
                self.expect_dropped_here(2, peer.init(Kind.LLR_INIT_ECHO), "bad_retry_profile")
                self.expect_retry(2, tx_state=TX_INIT, rx_state=RX_OFF)
        self.change_retry(2, outstanding_frames_max=512, outstanding_bytes_max=512 * 4146)
        peer.bring_up()
        self.expect_retry(2, tx_state=TX_ADVANCE)
        (frame,) = self.stores(1, 2, 1)
        self.send(1, frame)
        peer.expect_numbered(frame, 0)


class ThePeersWindow(SenderTest):
    """The smaller one of both sides' windows counts."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2, up=False)
        peer.profile = Profile(capabilities=3, outstanding_frames_max=2, update_threshold=40)
        peer.bring_up()
        self.expect_retry(2, outstanding_frames_max=2)
        frames = self.stores(1, 2, 3)
        for frame in frames:
            self.send(1, frame)
        for seq in (0, 1):
            peer.expect_numbered(frames[seq], seq)
        self.expect_silence_on([2])
        peer.expected = 2
        peer.acknowledge()
        peer.expect_numbered(frames[2], 2)


class BothWaitsAreOne(SenderTest):
    """A frame may wait for credit or for the window: order is kept, whichever comes first."""

    def runTest(self) -> None:
        profile = Profile(capabilities=3, outstanding_frames_max=32, credit_limit=6, update_threshold=6)
        (peer,) = self.retry_links(2, profile=profile, outstanding_frames_max=4)
        frames = self.stores(1, 2, 16)
        for frame in frames:
            self.send(1, frame)
        for seq in range(4):
            peer.expect_numbered(frames[seq], seq)
        peer.expected = 4
        peer.acknowledge()
        for seq in (4, 5):
            peer.expect_numbered(frames[seq], seq)  # then the credits are used up
        self.expect_silence_on([2])
        peer.expected = 6
        peer.free(one_lane(0, 6))
        for seq in range(6, 10):
            peer.expect_numbered(frames[seq], seq)  # then the window is full
        self.expect_silence_on([2])
        for freed in range(7, 17):
            peer.expected = freed
            peer.free(one_lane(0, freed))
        for seq in range(10, 16):
            peer.expect_numbered(frames[seq], seq)


class OnlyLosslessFramesAreNumbered(SenderTest):
    """Best effort and VC 7 leave without number, take no place in the window, and are not sent again."""

    def runTest(self) -> None:
        profile = Profile(lossless_vcs=1, capabilities=3, outstanding_frames_max=32, update_threshold=40)
        (peer,) = self.retry_links(2, profile=profile, outstanding_frames_max=1)
        lossless, other = self.stores(1, 2, 1)[0], self.stores(1, 2, 1, vc=5)[0]
        self.out(peer, [lossless])
        self.send(1, other)
        self.assertEqual(
            bytes(peer.next()), stamped(self._forwarded(other), peer.session, SEQS - 1), "unnumbered, acknowledging"
        )
        peer.refuse()
        self.expect_replay(peer, [lossless], 0)
        self.expect_silence_on([2])

    def _forwarded(self, frame: bytes) -> bytes:
        from ptf_tests.frames import forwarded

        return forwarded(frame)


class CcUpdateIsNumbered(SenderTest):
    """A CC_UPDATE has a number like data, is sent again like data, and is left out while the window is full."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2, outstanding_frames_max=3)
        frames = self.stores(1, 2, 2)
        self.out(peer, frames)
        self.keepalive()
        kinds = {}
        for _ in range(2):
            got = peer.next()
            kinds[Kind(got.kind)] = got
        self.assertEqual(set(kinds), {Kind.CF_UPDATE, Kind.CC_UPDATE})
        update = kinds[Kind.CC_UPDATE]
        self.assertEqual((update.flags, update.seq), (LLR, 2))
        self.keepalive()
        peer.expect_freed()  # and no CC_UPDATE: three are out
        peer.expected = 1
        peer.refuse()
        peer.expect_numbered(frames[1], 1, replay=True)
        again = peer.next()
        self.assertEqual(bytes(again), stamped(bytes(update), peer.session, again.ack, 2, LLR | REPLAY))
        peer.expected = 3
        peer.acknowledge()
        self.expect_retry(2, unacknowledged_seq=3, outstanding_bytes=0)


class WrapAround(SenderTest):
    """Numbers go on from 2^20 - 1 to 0; acknowledgements, replays and the window hold across."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2, outstanding_frames_max=8)
        first = SEQS - 3
        if not all(self.switch.write_register(n, 2, first) for n in ("llr_next_seq", "llr_unacknowledged_seq")):
            self.skipTest("this target's P4Runtime server writes no registers")
        peer.expected = first
        frames = self.stores(1, 2, 12)
        self.out(peer, frames[:8], first=first)
        self.send(1, frames[8])
        self.expect_silence_on([2])
        peer.expected = SEQS - 1
        peer.refuse()
        for index in range(2, 8):
            peer.expect_numbered(frames[index], (first + index) % SEQS, replay=True)
        peer.expect_numbered(frames[8], 5)
        peer.expected = 4
        peer.refuse()
        peer.expect_numbered(frames[7], 4, replay=True)
        peer.expect_numbered(frames[8], 5, replay=True)
        peer.expected = 6
        peer.acknowledge()
        self.expect_retry(2, unacknowledged_seq=6, outstanding_bytes=0)


class AnotherSessionEndsCopies(SenderTest):
    """What waits for its acknowledgement when the link comes up anew ends, and never leaves in the new session."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2, replay_timer=300_000)
        ended = self.count("llr_line_ended", 2)
        self.out(peer, self.stores(1, 2, 5))
        peer.epoch ^= 0x5555
        peer.bring_up()
        self.expect_count("llr_line_ended", 2, ended + 5)
        self.expect_retry(2, next_seq=0, unacknowledged_seq=0, outstanding_bytes=0)
        self.expect_silence_on([2], 0.5)
        frames = self.stores(1, 2, 2)
        self.out(peer, frames)
        peer.refuse()
        self.expect_replay(peer, frames, 0)


class RestartDuringAReplay(SenderTest):
    """A link that comes up anew in the middle of a replay begins with a clean one."""

    def runTest(self) -> None:
        peer = self.slow_link()
        frames = self.stores(1, BEHIND, 6)
        for frame in frames:
            self.send(1, frame)
        for seq in range(4):
            peer.expect_numbered(frames[seq], seq)
        peer.refuse()
        peer.epoch ^= 0x5555
        peer.switch_epoch = 0
        peer.next_seq = peer.expected = 0
        stale = 0
        for _ in range(2):
            peer.send(peer.init())
            while (got := peer.next()).kind == Kind.DATA:
                stale += 1
            self.assertEqual(got.kind, Kind.LLR_INIT_ECHO)
            peer.switch_epoch = got["LinkInit"].own_epoch
        self.assertLess(stale, 7)
        peer.expect_freed()
        peer.free((0,) * 8)
        fresh = self.stores(1, BEHIND, 3)
        for frame in fresh:
            self.send(1, frame)
        for seq, frame in enumerate(fresh):
            peer.expect_numbered(frame, seq)


class CarrierLost(SenderTest):
    """A port that loses its carrier ends its copies; it retries again when it comes up."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2)
        self.out(peer, self.stores(1, 2, 3))
        ended = self.count("llr_line_ended", 2)
        self.carrier(2, up=False)
        self.expect_count("llr_line_ended", 2, ended + 3)
        self.assertEqual(self.retry_state(2)["tx_state"], TX_OFF)
        self.carrier(2, up=True)
        self.keepalive()
        peer.expect_init(Kind.LLR_INIT)
        self.assertEqual(self.retry_state(2)["tx_state"], TX_INIT)
        peer.epoch ^= 0x77
        peer.bring_up()
        frames = self.stores(1, 2, 2)
        self.out(peer, frames)
        peer.refuse()
        self.expect_replay(peer, frames, 0)


class EachPortApart(SenderTest):
    """A replay, a full window or a link that is not acknowledged on one port does nothing to another."""

    def runTest(self) -> None:
        second, third = self.retry_links(2, 3, outstanding_frames_max=4)
        for_two, for_three = self.stores(1, 2, 6), self.stores(1, 3, 4)
        for frame in for_two:
            self.send(1, frame)
        for seq in range(4):
            second.expect_numbered(for_two[seq], seq)
        for frame in for_three:
            self.send(1, frame)
        for seq, frame in enumerate(for_three):
            third.expect_numbered(frame, seq)
        third.expected = 2
        third.refuse()
        self.expect_replay(third, for_three, 2)
        self.expect_silence_on([2])
        second.expected = 4
        second.acknowledge()
        for seq in (4, 5):
            second.expect_numbered(for_two[seq], seq)


class LastCopyLost(SenderTest):
    """When the switch itself loses the copies, nothing comes round: the link is brought up anew, and is not stuck."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2, profile=Profile(**{**vars(RETRIED), "silence": 0}))
        lost = self.count("llr_copies_lost", 2)
        self.forget_clone_session(LINE_PORT)
        self.out(peer, self.stores(1, 2, 2))
        self.remember_clone_session(LINE_PORT)
        peer.free(one_lane(0, 2))  # or CC_UPDATEs would go round
        self.tick(1020)
        self.expect_count("llr_copies_lost", 2, lost + 1)
        while peer.next().kind != Kind.LLR_INIT:
            continue
        self.dataplane.flush()
        peer.epoch ^= 0x77
        peer.bring_up()
        frames = self.stores(1, 2, 2)
        self.out(peer, frames)
        peer.refuse()
        self.expect_replay(peer, frames, 0)


class OneCopyLost(SenderTest):
    """When one of several copies is lost the replay misses it, and the link is brought up anew."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2, profile=Profile(**{**vars(RETRIED), "silence": 0}))
        lost = self.count("llr_copies_lost", 2)
        frames = self.stores(1, 2, 4)
        self.forget_clone_session(LINE_PORT)
        self.out(peer, frames[:1])
        self.remember_clone_session(LINE_PORT)
        self.out(peer, frames[1:], first=1)
        peer.refuse(SEQS - 1)
        self.tick(1040)
        self.expect_count("llr_copies_lost", 2, lost + 1)


class PacketOut(SenderTest):
    """What the controller sends on a link that retries is numbered like the rest."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2)
        frame = bytes(store(1, 2))
        self.switch.packet_out(frame, egress_port=2)
        got = peer.next()
        self.assertEqual((got.flags, got.seq), (LLR, 0))
        peer.refuse()
        got = peer.next()
        self.assertEqual((got.flags, got.seq), (LLR | REPLAY, 0))
