"""Link-layer retry, the switch as the receiver: in order, once, and when it acknowledges or asks again."""

from __future__ import annotations

from codec.constants import Kind
from codec.scapy_layers import Link
from ptf_tests.links import Profile, credits_of, one_lane
from ptf_tests.retry import (
    LLR,
    POISON,
    REPLAY,
    RETRIED,
    RX_NACK_SENT,
    RX_SEND_ACKS,
    RX_SEND_NACK,
    SEQS,
    RetryPeer,
    RetryTest,
)


class ReceiverTest(RetryTest):
    """What the tests below share: a peer on port 1, GPU 2 on an open port."""

    def peer(self, profile: Profile = RETRIED) -> RetryPeer:
        """Bring the link up and begin to count."""
        (peer,) = self.retry_links(1, profile=profile)
        return peer

    def counted(self, *names: str) -> dict[str, int]:
        """Read counters of port 1."""
        return {name: self.count(name, 1) for name in names}

    def expect_counted(self, before: dict[str, int], **more: int) -> None:
        """Wait until counters have grown by this; fail with by how much they have grown."""
        self.wait_until(lambda: all(self.count(name, 1) - before[name] >= by for name, by in more.items()))
        self.assertEqual({name: self.count(name, 1) - before[name] for name in more}, more)


class InOrder(ReceiverTest):
    """Frames in sequence are taken and go on; what leaves on an open port has no number."""

    def runTest(self) -> None:
        peer = self.peer()
        before = self.counted("llr_rx_ok", "llr_rx_expected_seq_good", "llr_rx_replay")
        frames = self.stores(1, 2, 10)
        peer.send_numbered(*frames)
        for frame in frames:
            self.expect_forwarded_to(2, frame)
        self.expect_counted(before, llr_rx_ok=10, llr_rx_expected_seq_good=10, llr_rx_replay=0)
        self.expect_retry(1, expected_seq=10, rx_state=RX_SEND_ACKS)
        self.expect_silence_on([1])


class AcknowledgedEvery16(ReceiverTest):
    """Every sixteenth frame is acknowledged at once, if nothing else has acknowledged it."""

    def runTest(self) -> None:
        peer = self.peer()
        frames = self.stores(1, 2, 33)
        for first, last in ((0, 16), (16, 32)):
            peer.send_numbered(*frames[first:last])
            peer.expect_control(Kind.LLR_ACK, last - 1)
        peer.send_numbered(frames[32])
        for frame in frames:
            self.expect_forwarded_to(2, frame)
        self.expect_silence_on([1])


class AcknowledgedByTheTick(ReceiverTest):
    """What nothing has acknowledged yet is at the next tick, once."""

    def runTest(self) -> None:
        peer = self.peer()
        self.keepalive()
        peer.expect_freed()
        peer.send_numbered(*self.stores(1, 2, 3))
        self.expect_retry(1, expected_seq=3)
        self.tick()
        peer.expect_control(Kind.LLR_ACK, 2)
        self.tick(3)
        self.expect_silence_on([1])


class EveryFrameAcknowledges(ReceiverTest):
    """Data that leaves, and the keepalive's CF_UPDATE, carry the acknowledgement, so that no LLR_ACK is needed."""

    def runTest(self) -> None:
        peer = self.peer()
        peer.send_numbered(*self.stores(1, 2, 2))
        self.expect_retry(1, expected_seq=2)
        (frame,) = self.stores(2, 1, 1)
        self.send(2, frame)
        peer.expect_numbered(frame, 0)
        self.assertEqual(peer.told, 1)
        self.tick()
        peer.send_numbered(*self.stores(1, 2, 1))
        self.expect_retry(1, expected_seq=3)
        self.tick(9)
        self.assertEqual(peer.next().ack, 2)


class Gap(ReceiverTest):
    """A gap is asked for once, what follows it is dropped and counted, the replay is taken, and ACKs go on after it."""

    def runTest(self) -> None:
        peer = self.peer()
        names = (
            "llr_rx_missing_seq",
            "llr_tx_nack_ctl_os",
            "llr_out_of_sequence",
            "llr_rx_replay",
            "llr_tx_ack_ctl_os",
        )
        before = self.counted(*names)
        frames = self.stores(1, 2, 6)
        peer.send_numbered(frames[0])
        for seq in (2, 3, 4, 5):
            peer.send(peer.stamp(frames[seq], seq))
        peer.expect_control(Kind.LLR_NACK, 0)
        self.expect_counted(before, llr_out_of_sequence=4)
        self.expect_retry(1, rx_state=RX_NACK_SENT, expected_seq=1)
        self.tick(3)
        self.expect_silence_on([1])  # neither ACK nor NACK
        for seq in range(1, 6):
            peer.send(peer.stamp(frames[seq], seq, LLR | REPLAY))
        for frame in frames:
            self.expect_forwarded_to(2, frame)
        self.expect_retry(1, rx_state=RX_SEND_ACKS, expected_seq=6)
        self.tick()
        peer.expect_control(Kind.LLR_ACK, 5)
        one = {"llr_rx_missing_seq": 1, "llr_tx_nack_ctl_os": 1, "llr_rx_replay": 1, "llr_tx_ack_ctl_os": 1}
        self.expect_counted(before, **one)


class BadCrc(ReceiverTest):
    """A frame with a bad CRC is asked for like a missing one: one NACK, and the first one counts as expected."""

    def runTest(self) -> None:
        peer = self.peer()
        names = ("llr_rx_expected_seq_bad", "llr_rx_bad", "llr_tx_nack_ctl_os", "bad_crc", "llr_out_of_sequence")
        before = self.counted(*names)
        frames = self.stores(1, 2, 4)
        peer.send_numbered(frames[0])
        for frame in frames[1:3]:
            bad = bytearray(peer.stamp(frame))
            bad[-1] ^= 1
            peer.send(bytes(bad))
            peer.next_seq += 1
        peer.send_numbered(frames[3])
        peer.expect_control(Kind.LLR_NACK, 0)
        self.expect_counted(before, llr_out_of_sequence=1, bad_crc=2, llr_rx_bad=2, llr_rx_expected_seq_bad=1)
        for seq in (1, 2, 3):
            peer.send(peer.stamp(frames[seq], seq, LLR | REPLAY))
        for frame in frames:
            self.expect_forwarded_to(2, frame)
        self.expect_counted(before, llr_tx_nack_ctl_os=1)
        self.expect_silence_on([1])


class BadCrcOfAShortFrame(ReceiverTest):
    """Noise of any length is a bad CRC: it makes a NACK that is well formed."""

    def runTest(self) -> None:
        peer = self.peer()
        for size in (14, 17, 18, 60, 4000):
            peer.send(bytes([0x10]) + bytes(11) + bytes([1]) * (size - 12))
            peer.expect_control(Kind.LLR_NACK, peer.next_seq - 1)
            peer.send_numbered(*self.stores(1, 2, 1))
            self.expect_forwarded_to(2, self.stores(1, 2, 1)[0])


class DuplicatesAreDropped(ReceiverTest):
    """What was accepted before is dropped and counted; the newest one, come again, is acknowledged at once."""

    def runTest(self) -> None:
        peer = self.peer()
        before = self.counted("llr_rx_duplicate_seq", "llr_rx_expected_seq_good", "llr_tx_ack_ctl_os")
        frames = self.stores(1, 2, 4)
        peer.send_numbered(*frames)
        for seq, frame in enumerate(frames):
            peer.send(peer.stamp(frame, seq, LLR | REPLAY))
        peer.expect_control(Kind.LLR_ACK, 3)
        for frame in frames:
            self.expect_forwarded_to(2, frame)
        self.expect_counted(before, llr_rx_duplicate_seq=4, llr_rx_expected_seq_good=4, llr_tx_ack_ctl_os=1)
        self.expect_silence_on([2])


class NackIsArmedAgain(ReceiverTest):
    """A duplicate, the start of a replay or a keepalive make the switch ask once more."""

    def runTest(self) -> None:
        peer = self.peer()
        frames = self.stores(1, 2, 5)
        peer.send_numbered(*frames[:2])
        peer.send(peer.stamp(frames[3], 3))
        peer.expect_control(Kind.LLR_NACK, 1)
        with self.subTest("not by more frames"):
            peer.send(peer.stamp(frames[4], 4))
            self.expect_silence_on([1])
        with self.subTest("a duplicate"):
            peer.send(peer.stamp(frames[1], 1))
            self.expect_retry(1, rx_state=RX_SEND_NACK)
            self.expect_silence_on([1])
            peer.send(peer.stamp(frames[4], 4))
            peer.expect_control(Kind.LLR_NACK, 1)
        with self.subTest("the start of a replay"):
            peer.send(peer.stamp(frames[3], 3, LLR | REPLAY))
            peer.expect_control(Kind.LLR_NACK, 1)
            peer.send(peer.stamp(frames[4], 4, LLR | REPLAY))
            self.expect_silence_on([1])
            peer.send(peer.stamp(frames[3], 3, LLR | REPLAY))
            peer.expect_control(Kind.LLR_NACK, 1)
        with self.subTest("a keepalive"):
            self.keepalive()
            kinds = {frame.kind: frame.ack for frame in (peer.next(), peer.next())}
            self.assertEqual(kinds, {Kind.CF_UPDATE: 1, Kind.LLR_NACK: 1})
        peer.send(peer.stamp(frames[2], 2))
        self.expect_retry(1, expected_seq=3, rx_state=RX_SEND_ACKS)


class Poisoned(ReceiverTest):
    """A frame that its sender knows to be bad takes its number, counts, and goes no further; nothing is asked for."""

    def runTest(self) -> None:
        peer = self.peer()
        names = ("llr_rx_expected_seq_poisoned", "llr_rx_poisoned", "poisoned", "llr_tx_nack_ctl_os")
        before = self.counted(*names)
        frames = self.stores(1, 2, 3)
        peer.send_numbered(frames[0])
        peer.send(peer.stamp(frames[1], 1, LLR | POISON))
        peer.send(peer.stamp(frames[2], 2))
        self.expect_forwarded_to(2, frames[0])
        self.expect_forwarded_to(2, frames[2])
        one = dict.fromkeys(names[:3], 1)
        self.expect_counted(before, **one, llr_tx_nack_ctl_os=0)
        self.expect_retry(1, expected_seq=3)


class UnnumberedFramesPass(ReceiverTest):
    """Frames without a number are taken as they come, while a numbered one is missing too."""

    def runTest(self) -> None:
        peer = self.peer()
        frames = self.stores(1, 2, 3)
        peer.send(peer.stamp(frames[1], 1))
        peer.expect_control(Kind.LLR_NACK, SEQS - 1)
        peer.send_unnumbered(frames[2])
        self.expect_forwarded_to(2, frames[2])
        self.expect_retry(1, expected_seq=0, rx_state=RX_NACK_SENT)


class CreditsCountOnce(ReceiverTest):
    """Credits are taken when a frame is accepted: neither a duplicate nor what follows a gap takes any."""

    def runTest(self) -> None:
        peer = self.peer()
        before = self.count("llr_out_of_sequence", 1)
        frames = self.stores(1, 2, 4)
        peer.send_numbered(*frames[:2])
        for seq in (0, 1, 3, 3, 3):
            peer.send(peer.stamp(frames[seq], seq, LLR | REPLAY))
        self.expect_count("llr_out_of_sequence", 1, before + 3)
        two = one_lane(0, 2 * credits_of(frames[0]))
        self.expect_credits(1, receiver_credits_consumed=two, receiver_credits_freed=two)


class CcUpdateInSequence(ReceiverTest):
    """A numbered CC_UPDATE waits for its turn: after a gap it changes nothing, so that no replay is written off."""

    def runTest(self) -> None:
        peer = self.peer()
        frames = self.stores(1, 2, 2)
        peer.send_numbered(frames[0])
        update = peer.update(Kind.CC_UPDATE, one_lane(0, 2))
        written_off = self.count("losses_written_off", 1)
        peer.send(peer.stamp(update, 2))
        peer.expect_control(Kind.LLR_NACK, 0)
        self.expect_credits(1, receiver_credits_consumed=one_lane(0, 1))
        peer.send(peer.stamp(frames[1], 1, LLR | REPLAY))
        peer.send(peer.stamp(update, 2, LLR | REPLAY))
        self.expect_retry(1, expected_seq=3)
        self.expect_credits(1, receiver_credits_consumed=one_lane(0, 2), receiver_credits_freed=one_lane(0, 2))
        self.expect_count("losses_written_off", 1, written_off)


class WrapAround(ReceiverTest):
    """Sequence numbers go on from 2^20 - 1 to 0, without a false duplicate or gap."""

    def runTest(self) -> None:
        peer = self.peer()
        started = ("llr_expected_seq", "llr_ack_asked")
        if not all(self.switch.write_register(name, 1, SEQS - 3) for name in started):
            self.skipTest("this target's P4Runtime server writes no registers")
        peer.next_seq = SEQS - 3
        names = ("llr_rx_duplicate_seq", "llr_out_of_sequence")
        before = self.counted(*names)
        frames = self.stores(1, 2, 8)
        peer.send_numbered(*frames[:6])
        for frame in frames[:6]:
            self.expect_forwarded_to(2, frame)
        self.expect_retry(1, expected_seq=3)
        self.expect_counted(before, llr_rx_duplicate_seq=0, llr_out_of_sequence=0)
        self.tick()
        peer.expect_control(Kind.LLR_ACK, 2)
        peer.send(peer.stamp(frames[0], SEQS - 1))
        self.expect_counted(before, llr_rx_duplicate_seq=1)
        peer.send(peer.stamp(frames[7], 4))
        peer.expect_control(Kind.LLR_NACK, 2)


class SequencesStartAnew(ReceiverTest):
    """A peer that restarts begins at 0, in both directions."""

    def runTest(self) -> None:
        peer = self.peer()
        peer.send_numbered(*self.stores(1, 2, 3))
        self.send(2, self.stores(2, 1, 1)[0])
        peer.expect_numbered(self.stores(2, 1, 1)[0], 0)
        for frame in self.stores(1, 2, 3):
            self.expect_forwarded_to(2, frame)
        peer.epoch += 1
        peer.bring_up()
        self.expect_retry(1, expected_seq=0, next_seq=0, unacknowledged_seq=0, outstanding_bytes=0)
        peer.send_numbered(*self.stores(1, 2, 2))
        self.send(2, self.stores(2, 1, 2)[1])
        peer.expect_numbered(self.stores(2, 1, 2)[1], 0)
        for frame in self.stores(1, 2, 2):
            self.expect_forwarded_to(2, frame)


class OnlyWhereBothOffer(ReceiverTest):
    """Where the peer does not offer it the link does not retry: no numbers, and an LLR_ACK is refused."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(1, up=False)
        peer.profile = Profile(capabilities=2, update_threshold=40)
        # as on a link without it
        peer.check_stamp = lambda frame: self.assertEqual((frame.flags, frame.seq, frame.ack), (0, 0, 0))  # type: ignore[method-assign]
        peer.bring_up()
        self.assertEqual(self.retry_state(1)["tx_state"], 0)
        (frame,) = self.stores(2, 1, 1)
        self.send(2, frame)
        peer.expect_data(frame)
        self.expect_dropped_here(1, peer.control(Kind.LLR_ACK), "unexpected_control")
        peer.send_data(Link(self.stores(1, 2, 1)[0]))
        self.expect_forwarded_to(2, self.stores(1, 2, 1)[0])
