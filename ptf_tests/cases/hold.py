"""Frames that wait for credit: none is lost, order is kept where it is promised, none waits for another's credit."""

import threading
from collections.abc import Sequence

from codec.constants import Ecn, Kind, NoticeType
from codec.scapy_layers import Link, Notice
from ptf_tests.base import EVENT_PORT, UPLINKS
from ptf_tests.frames import forwarded, probe, store, write
from ptf_tests.links import CYCLE, HOLD_PORT, NONE, SLOW_PORT, ManagedTest, Peer, Profile, in_session, lanes, one_lane

SMALL = Profile(credit_limit=8, update_threshold=2)


class HoldTest(ManagedTest):
    """What the tests below share."""

    def hold(self, port: int, frames: Sequence[bytes], in_port: int = 1) -> None:
        """Send frames and wait until the switch holds all of them for a port."""
        before = self.count("frames_held", port)
        for frame in frames:
            self.send(in_port, frame)
        self.expect_count("frames_held", port, before + len(frames))

    def fill(self, peer: Peer, vc: int = 0, limit: int = 8, in_port: int = 1, src: int = 1) -> None:
        """Use up the credits that a peer has given on a VC."""
        for frame in self.stores(src, peer.port, limit, vc=vc):
            self.send(in_port, frame)
            peer.expect_data(frame)

    def data_before_update(self, peer: Peer) -> list[bytes]:
        """Return the frames that come before a keepalive's last update, and take that update."""
        came = []
        while (frame := peer.next()).kind != Kind.CF_UPDATE:
            if frame.kind == Kind.DATA:
                came.append(bytes(frame))
        return came

    def received(self, peer: Peer, count: int) -> list[bytes]:
        """Return the next frames of a port as their data was sent, in the order that they came."""
        return [bytes(peer.next()) for _ in range(count)]


class WithoutCreditHeld(HoldTest):
    """What finds no credit waits, inside the switch; each credit that comes lets one go; nothing is lost."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=SMALL)
        self.fill(peer)
        frames = self.stores(1, 2, 20, vc=0, entropy=1)
        before = self.drops()
        self.hold(2, frames)
        self.expect_silence_on([2])
        self.expect_credits(2, held_frames=one_lane(0, 20), sender_credits_consumed=one_lane(0, 8))
        released = self.count("frames_released", 2)
        for freed in range(1, 4):
            peer.free(one_lane(0, freed))
            peer.expect_data(frames[freed - 1])
            self.expect_silence_on([2], 0.02)
        for freed, first, until in ((8, 3, 8), (16, 8, 16), (23, 16, 20)):
            peer.free(one_lane(0, freed))
            for frame in frames[first:until]:
                peer.expect_data(frame)
        self.expect_count("frames_released", 2, released + 20)
        peer.free(one_lane(0, 28))
        self.expect_credits(
            2,
            held_frames=NONE,
            sender_credits_consumed=one_lane(0, 28),
            sender_credits_freed=one_lane(0, 28),
            sender_credits_used_watermark=one_lane(0, 8),
        )
        self.assertEqual(self.new_drops(before), {})


class HoldFull(HoldTest):
    """An open port's source knows no credits: what it sends while 16,384 frames wait is dropped before it has a ticket.

    The depth that the hold has seen last is written into its register; where that cannot be done, there is nothing to
    see, as so many frames take longer than a test may.
    """

    MOST = 16_384

    def runTest(self) -> None:
        (peer,) = self.manage(2)
        peer.come_up()
        dropped, first, second = self.stores(1, 2, 3)
        if not self.switch.write_register("hold_depth", 0, self.MOST):
            self.skipTest("this target's P4Runtime server writes no registers")
        before = self.drops([1])
        self.send(1, dropped)
        self.wait_for_drops(before, {("hold_full", 1): 1})
        self.switch.write_register("hold_depth", 0, self.MOST - 1)
        self.hold(2, [first])
        self.switch.write_register("hold_depth", 0, self.MOST)  # the frame that goes round puts it right
        held = self.count("frames_held", 2)

        def second_is_held() -> bool:
            self.send(1, second)
            return self.count("frames_held", 2) > held

        self.assertTrue(self.wait_until(second_is_held))
        peer.free(NONE)
        peer.expect_data(first)
        peer.expect_data(second)


class ManyTicksAtOnce(HoldTest):
    """A switch that was held up takes many ticks at once: no frame that waits is given up for it, and order is kept."""

    FRAMES = 2000
    AT_ONCE = 200
    TICKS = 1500
    """Sent within the time of one round of so many frames, and more than a lost frame is waited for."""

    def runTest(self) -> None:
        (peer,) = self.manage(2, profile=Profile(credit_limit=self.AT_ONCE, update_threshold=1, silence=0))
        peer.come_up()
        skipped = self.count("tickets_skipped", 2)
        frames = self.stores(1, 2, self.FRAMES, f=0)
        for first in range(0, self.FRAMES, self.AT_ONCE):
            self.hold(2, frames[first : first + self.AT_ONCE])
        tick = bytes(Link(kind=0, crc=0) / Notice(type=NoticeType.TICK))
        ticked = self.count("port_rx", EVENT_PORT)
        for _ in range(self.TICKS):
            self.send(EVENT_PORT, tick)
        self.wait_until(lambda: self.count("port_rx", EVENT_PORT) >= ticked + self.TICKS)
        self._ticks += self.count("port_rx", EVENT_PORT) - ticked  # a few may not fit the ring: the phase is what came
        came: list[bytes] = []
        for freed in range(0, self.FRAMES, self.AT_ONCE):
            peer.free(one_lane(0, freed))
            came += self.data_of(peer, self.AT_ONCE)
        self.assertEqual(self.count("tickets_skipped", 2), skipped)
        wanted = [in_session(forwarded(frame), peer.session) for frame in frames]
        self.assertTrue(came == wanted, "they came in another order")

    def data_of(self, peer: Peer, count: int) -> list[bytes]:
        """Return the next frames of data, without what the keepalives of so many ticks say."""
        came: list[bytes] = []
        while len(came) < count:
            frame = peer.next()
            if frame.kind == Kind.DATA:
                came.append(bytes(frame))
        return came


class InOrder(HoldTest):
    """F = 0 frames leave in the order that they came in, also mixed with fresh ones while some wait."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=SMALL)
        self.fill(peer)
        first = self.stores(1, 2, 30, f=0)
        later = self.stores(1, 2, 30, f=0, entropy=7)
        self.hold(2, first)
        peer.free(one_lane(0, 8))
        for frame in later[:15]:
            self.send(1, frame)
        freed = 8
        for index, frame in enumerate(first + later[:15], 1):
            peer.expect_data(frame)
            if index % 4 == 0:
                freed += 4
                peer.free(one_lane(0, freed))
        self.expect_credits(2, held_frames=NONE)
        for frame in later[15:]:
            self.send(1, frame)
            peer.expect_data(frame)
            freed = min(freed + 1, 8 + 45 + 15)
            peer.free(one_lane(0, freed))


class OrderAcrossTheTicketWrap(HoldTest):
    """Tickets of 16 bits wrap, and so do the counters of granted credits: order is kept, and fresh frames wait behind.

    It starts just below the wrap, by the switch's registers; where they cannot be written there is nothing to see, as
    65,536 frames would have to wait first.
    """

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=SMALL)
        vc = 3
        started = {"ticket_head": (2 << 3 | vc, (1 << 16) - 5), "tickets_returned": (2 << 3 | vc, 0)}
        started |= {name: (2, lanes(CYCLE - 5)) for name in ("credits_granted", "credits_returned")}
        if not all(self.switch.write_register(name, *cell) for name, cell in started.items()):
            self.skipTest("this target's P4Runtime server writes no registers")
        self.fill(peer, vc=vc)
        frames = self.stores(1, 2, 30, vc=vc)
        self.hold(2, frames[:3])
        freed = 0
        for first in range(3, 30, 3):  # never fewer than three wait while the head passes the wrap
            self.hold(2, frames[first : first + 3])
            freed += 3
            peer.free(one_lane(vc, freed))
            for frame in frames[first - 3 : first]:
                peer.expect_data(frame)
        peer.free(one_lane(vc, 33))
        for frame in frames[-3:]:
            peer.expect_data(frame)
        self.expect_credits(2, held_frames=NONE, sender_credits_consumed=one_lane(vc, 38))


class RestartAtTheTicketWrap(HoldTest):
    """Frames that were granted and had to wait again, as their link came up anew, keep their order across the wrap."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=SMALL)
        if not self.switch.write_register("ticket_head", 2 << 3, (1 << 16) - 4):
            self.skipTest("this target's P4Runtime server writes no registers")
        self.switch.write_register("tickets_returned", 2 << 3, 0)
        self.fill(peer)
        frames = self.stores(1, 2, 12)
        self.hold(2, frames)
        peer.epoch ^= 0x77
        peer.bring_up()
        for frame in frames[:8]:
            peer.expect_data(frame)
        peer.free(one_lane(0, 4))
        for frame in frames[8:]:
            peer.expect_data(frame)
        self.expect_credits(2, held_frames=NONE)


class AnyOrder(HoldTest):
    """F = 1 frames all leave once there is credit, in whatever order."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=SMALL)
        self.fill(peer)
        frames = self.stores(1, 2, 24, f=1)
        self.hold(2, frames)
        got = []
        for freed in (8, 16, 24):
            peer.free(one_lane(0, freed))
            got += self.received(peer, 8)
        self.assertEqual(sorted(got), sorted(in_session(forwarded(frame), peer.session) for frame in frames))
        peer.free(one_lane(0, 32))


class OtherVcAndPortFlow(HoldTest):
    """What waits for one VC of one port stops neither the other VCs of that port nor other ports."""

    def runTest(self) -> None:
        peer, other = self.links(2, 3, profile=SMALL)
        self.fill(peer)
        waiting = self.stores(1, 2, 40)
        self.hold(2, waiting)
        for vc in range(1, 7):
            self.fill(peer, vc=vc)
        for vc in range(7):
            self.fill(other, vc=vc)
        self.send(1, probe(1, 2))  # VC 7 never waits
        peer.expect_data(probe(1, 2))
        self.hold(2, self.stores(1, 2, 3, vc=1))
        self.hold(3, self.stores(1, 3, 3))
        other.free(one_lane(0, 8))
        for frame in self.stores(1, 3, 3):
            other.expect_data(frame)
        peer.free((0, 8, *NONE[2:]))
        for frame in self.stores(1, 2, 3, vc=1):
            peer.expect_data(frame)
        self.expect_silence_on([2, 3])
        freed = 0
        for index, frame in enumerate(waiting):
            if index % 8 == 0:
                freed += 8
                peer.free((freed, 11, *NONE[2:]))
            peer.expect_data(frame)


class LargeAndSmall(HoldTest):
    """A large frame at the head is not overtaken by a small one of F = 0 that would have credit already."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=SMALL)
        self.fill(peer)
        large, small = write(1, 2, 4097), store(1, 2, b"after me")
        self.hold(2, [bytes(large), bytes(small)])
        for freed in range(1, 5):
            peer.free(one_lane(0, freed))
        self.expect_silence_on([2])
        peer.free(one_lane(0, 5))
        peer.expect_data(large)
        self.expect_silence_on([2])
        peer.free(one_lane(0, 6))
        peer.expect_data(small)
        peer.free(one_lane(0, 14))


class Backpressure(HoldTest):
    """A frame occupies the buffer that it came in to until it leaves: its sender gets no credit back before."""

    def runTest(self) -> None:
        sender, receiver = self.links(2, 3, profile=SMALL)
        for frame in self.stores(2, 3, 8):
            sender.send_data(frame)
            receiver.expect_data(frame)
        sender.expect_freed_up_to(one_lane(0, 8))
        self.dataplane.flush()
        for frame in self.stores(2, 3, 6):
            sender.send_data(frame)
        self.expect_credits(3, held_frames=one_lane(0, 6))
        self.expect_credits(2, receiver_credits_consumed=one_lane(0, 14), receiver_credits_freed=one_lane(0, 8))
        self.keepalive()
        sender.expect_freed(one_lane(0, 8))
        receiver.expect_freed(NONE)
        receiver.expect_update(Kind.CC_UPDATE, one_lane(0, 8))
        receiver.free(one_lane(0, 2))
        for frame in self.stores(2, 3, 2):
            receiver.expect_data(frame)
        sender.expect_freed(one_lane(0, 10))
        receiver.free(one_lane(0, 6))
        for frame in self.stores(2, 3, 6)[2:]:
            receiver.expect_data(frame)
        sender.expect_freed_up_to(one_lane(0, 14))


class ManySizesHeld(HoldTest):
    """Held frames of all kinds leave byte by byte as they came, the largest too, with one hop less."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(credit_limit=64, update_threshold=16))
        self.fill(peer, limit=64)
        frames = [bytes(write(1, 2, size)) for size in (64, 65, 1023, 1024, 1025, 4134)]
        frames += [bytes(store(1, 2)), bytes(store(1, 2, b"x" * 100))]
        self.hold(2, frames)
        peer.free(one_lane(0, 64))
        for frame in frames:
            peer.expect_data(frame)


class FromFabricPort(HoldTest):
    """Frames from another switch, and through a group to one, wait like those of GPUs."""

    def runTest(self) -> None:
        (peer,) = self.links(UPLINKS[0], profile=SMALL)
        self.route_to(0x300, UPLINKS[0])
        for frame in self.stores(1, 0x300, 8):
            self.send(1, frame)
            peer.expect_data(frame)
        frames = self.stores(101, 0x300, 5)
        self.hold(UPLINKS[0], frames, in_port=UPLINKS[1])
        peer.free(one_lane(0, 8))
        for frame in frames:
            peer.expect_data(frame)


class EcnByWhatIsHeld(HoldTest):
    """From the threshold of held frames on, capable frames for the port are marked, on any VC; others never."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(credit_limit=8, update_threshold=2, ecn_threshold=3))
        self.fill(peer)
        capable = self.stores(1, 2, 6, ecn=Ecn.CAPABLE_0)
        marked = self.count("frames_marked", 2)
        self.hold(2, capable)
        self.expect_count("frames_marked", 2, marked + 3)
        for ecn, expected in ((Ecn.CAPABLE_1, 3), (Ecn.NOT_CAPABLE, 0), (Ecn.CONGESTION_EXPERIENCED, 3)):
            self.send(1, store(1, 2, vc=1, ecn=ecn))
            peer.expect_data(store(1, 2, vc=1, ecn=expected))
        peer.free(one_lane(0, 8))
        for frame in self.stores(1, 2, 3, ecn=Ecn.CAPABLE_0):
            peer.expect_data(frame)
        for frame in self.stores(1, 2, 6, ecn=3)[3:]:
            peer.expect_data(frame)
        self.send(1, store(1, 2, vc=1, ecn=Ecn.CAPABLE_1))  # nothing waits any more
        peer.expect_data(store(1, 2, vc=1, ecn=Ecn.CAPABLE_1))
        self.expect_count("frames_marked", 2, marked + 4)


class HeldAcrossBringUp(HoldTest):
    """Frames that wait outlive their link's session, and leave in the next one, in order, with its session."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=SMALL)
        self.fill(peer)
        frames = self.stores(1, 2, 12)
        self.hold(2, frames[:6])
        peer.epoch ^= 0x77
        peer.switch_epoch = 0
        peer.send(peer.init())
        peer.expect_init(Kind.LLR_INIT_ECHO)
        self.hold(2, frames[6:])  # a link that comes up again keeps its frames waiting
        self.expect_silence_on([2])
        peer.send(peer.init())
        peer.expect_init(Kind.LLR_INIT_ECHO)
        peer.expect_freed(NONE)
        self.expect_silence_on([2])  # no data before the first CF_UPDATE
        peer.free(NONE)
        for frame in frames[:8]:
            peer.expect_data(frame)
        self.expect_silence_on([2])
        peer.free(one_lane(0, 4))
        for frame in frames[8:]:
            peer.expect_data(frame)
        self.expect_credits(2, sender_credits_consumed=one_lane(0, 12), held_frames=NONE)


class ReceiverRestartsWithFramesHeld(HoldTest):
    """What is still in the buffer when a session begins is announced as in use, and its draining frees it."""

    def runTest(self) -> None:
        sender, receiver = self.links(2, 3, profile=Profile(credit_limit=8, update_threshold=8))
        for frame in self.stores(2, 3, 8):
            sender.send_data(frame)
            receiver.expect_data(frame)
        sender.expect_freed(one_lane(0, 8))
        held = self.stores(2, 3, 5)
        for frame in held:
            sender.send_data(frame)
        self.expect_credits(3, held_frames=one_lane(0, 5))
        sender.epoch ^= 0x99
        sender.switch_epoch = 0
        sender.send(sender.init())
        sender.expect_init(Kind.LLR_INIT_ECHO)
        self.assertEqual(sender.switch_in_use, one_lane(0, 5))
        receiver.free(one_lane(0, 2))  # drains while the link is coming up: what was announced stays
        for frame in held[:2]:
            receiver.expect_data(frame)
        sender.send(sender.init())
        sender.expect_init(Kind.LLR_INIT_ECHO)
        self.assertEqual(sender.switch_in_use, one_lane(0, 5))
        sender.expect_freed(one_lane(0, 2))
        self.expect_credits(2, receiver_credits_consumed=one_lane(0, 5), receiver_credits_in_use=one_lane(0, 5))
        sender.free(NONE)
        receiver.free(one_lane(0, 8))
        for frame in held[2:]:
            receiver.expect_data(frame)
        receiver.free(one_lane(0, 13))
        self.keepalive()
        sender.expect_freed(one_lane(0, 5))
        receiver.expect_freed(NONE)
        for frame in self.stores(2, 3, 3):
            sender.send_data(frame)
            receiver.expect_data(frame)
        self.expect_credits(2, receiver_credits_consumed=one_lane(0, 8), receiver_credits_freed=one_lane(0, 8))


class PeerAnnouncesCreditsInUse(HoldTest):
    """Credits that the peer announces as in use are not the switch's to send on, until they are freed."""

    def runTest(self) -> None:
        (peer,) = self.manage(2, profile=SMALL)
        peer.in_use = one_lane(0, 6)
        peer.bring_up()
        frames = self.stores(1, 2, 4)
        for frame in frames:
            self.send(1, frame)
        for frame in frames[:2]:
            peer.expect_data(frame)
        self.expect_silence_on([2])
        peer.free(one_lane(0, 2))
        for frame in frames[2:]:
            peer.expect_data(frame)
        self.expect_credits(2, sender_credits_consumed=one_lane(0, 10))


class NothingWaitsForADeadPort(HoldTest):
    """When the carrier goes what waits leaves, and nothing waits until the link is up again (turned_around.py)."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=SMALL)
        self.fill(peer)
        frames = self.stores(1, 2, 4)
        before = self.drops()
        self.hold(2, frames)
        self.carrier(2, up=False)
        self.wait_for_drops(before, {("dead_port", 1): 4})
        self.expect_dropped_here(1, store(1, 2), "dead_port")
        self.expect_credits(2, held_frames=NONE)
        self.carrier(2, up=True)
        peer.bring_up()
        for frame in frames:
            self.send(1, frame)
            peer.expect_data(frame)


class LostHeldFrame(HoldTest):
    """A held frame that is lost inside the switch is passed over, and does not stop the ones behind it."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(credit_limit=8, update_threshold=2, silence=0))
        self.fill(peer)
        lost = self.stores(1, 2, 1, entropy=1)
        skipped = self.count("tickets_skipped", 2)
        self.forget_clone_session(HOLD_PORT)  # what goes round now is gone
        self.hold(2, lost)
        self.expect_silence_on([2])
        self.remember_clone_session(HOLD_PORT)
        frames = self.stores(1, 2, 5, entropy=2)
        self.hold(2, frames)
        peer.free(one_lane(0, 8))
        self.expect_silence_on([2])
        came: list[bytes] = []
        for _ in range(52):
            self.keepalive()
            came += self.data_before_update(peer)
        came += self.received(peer, len(frames) - len(came))
        self.assertEqual(came, [in_session(forwarded(frame), peer.session) for frame in frames])
        self.expect_count("tickets_skipped", 2, skipped + 1)
        self.expect_credits(2, held_frames=one_lane(0, 1))
        peer.free(one_lane(0, 13))
        self.dataplane.flush()
        # Given up for lost once nothing has come round for long: then frames go straight again.
        written_off = self.count("holds_written_off", 2)
        for _ in range(102):
            self.keepalive()
            peer.expect_freed()
        self.expect_count("holds_written_off", 2, written_off + 1)
        self.expect_credits(2, held_frames=NONE)
        held = self.count("frames_held", 2)
        for frame in frames:
            self.send(1, frame)
            peer.expect_data(frame)
        self.expect_count("frames_held", 2, held)


class LostBufferIsWrittenOff(HoldTest):
    """The buffer that a lost held frame took is free again after a while, so that its sender gets its credit back."""

    def runTest(self) -> None:
        profile = Profile(credit_limit=8, update_threshold=8, silence=0)
        sender, receiver = self.links(2, 3, profile=profile)
        for frame in self.stores(2, 3, 8):
            sender.send_data(frame)
            receiver.expect_data(frame)
        sender.expect_freed(one_lane(0, 8))
        self.forget_clone_session(HOLD_PORT)
        for frame in self.stores(2, 3, 3, f=1):
            sender.send_data(frame)
        self.expect_credits(3, held_frames=one_lane(0, 3))
        self.expect_credits(2, receiver_credits_consumed=one_lane(0, 11), receiver_credits_freed=one_lane(0, 8))
        self.remember_clone_session(HOLD_PORT)
        receiver.free(one_lane(0, 8))
        for _ in range(102):
            self.keepalive()
            sender.next()
            receiver.expect_freed()
        self.expect_credits(2, receiver_credits_freed=one_lane(0, 11))
        self.expect_credits(3, held_frames=NONE)


class StaleCopies(HoldTest):
    """Frames that wait in a port's queue while its link is brought up anew are dropped: the new session does not count
    them. Those admitted in the new session follow."""

    def runTest(self) -> None:
        entry = self.switch.names.entry
        self.install([
            entry("port_config", {"ingress_port": SLOW_PORT}, "set_port", mode=0, role=2, tenant=0),
            entry("egress_config", {"egress_port": SLOW_PORT}, "set_link", mode=0),
        ])  # fmt: skip
        self.route_to(0x309, SLOW_PORT)
        (peer,) = self.links(SLOW_PORT)
        stale = self.count("stale_session", SLOW_PORT)
        for frame in self.stores(1, 0x309, 8):
            self.send(1, frame)
        self.expect_credits(SLOW_PORT, sender_credits_consumed=one_lane(0, 8))
        old = peer.session
        peer.epoch ^= 0x7777
        peer.send(peer.init())
        sent = 0
        while (left := peer.next()).kind == Kind.DATA:
            self.assertEqual(left.session, old)
            sent += 1
        self.assertEqual(left.kind, Kind.LLR_INIT_ECHO)
        peer.expect_freed(NONE)
        self.assertIn(sent, range(8))
        self.expect_count("stale_session", SLOW_PORT, stale + 8 - sent)
        peer.free(NONE)
        self.expect_credits(SLOW_PORT, sender_credits_consumed=NONE)
        self.send(1, store(1, 0x309))
        peer.expect_data(store(1, 0x309))


class RestartsUnderLoad(HoldTest):
    """A peer that restarts again and again while frames come: every frame is of the session that it comes in, they stay
    in order, and nothing is left waiting."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=SMALL)
        number = last = 0
        for restart in range(20):
            for _ in range(14):
                number += 1
                self.send(1, store(1, 2, number.to_bytes(8, "big")))
            peer.epoch += restart + 1
            peer.send(peer.init(peer_epoch=0))
            while (frame := peer.next()).kind != Kind.LLR_INIT_ECHO:
                last = self.follows(frame, last)
            peer.switch_epoch = frame.payload.own_epoch
            peer.send(peer.init())
            while (frame := peer.next()).kind != Kind.CF_UPDATE:
                pass
            peer.free(NONE)
            came = 0
            while (data := self.receive(2, 0.03)) is not None:
                frame = Link(data)
                self.assertEqual(frame.session, peer.session)
                last = self.follows(frame, last)
                came += 1
                if came % 4 == 0:
                    peer.free(one_lane(0, came))
            peer.free(one_lane(0, came))
        self.expect_credits(2, held_frames=NONE)

    def follows(self, frame: Link, last: int) -> int:
        """Check that a frame comes after the last one, and return its number."""
        number = int.from_bytes(frame["LSU"].data, "big")
        self.assertGreater(number, last)
        return number


class NobodyStarves(HoldTest):
    """While one port floods the switch with fresh frames, held frames get their credit and leave, and control frames go
    out at every keepalive; the flood gets through too."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(credit_limit=8, update_threshold=8, silence=0))
        self.fill(peer)
        frames = self.stores(1, 2, 40, entropy=9)
        self.hold(2, frames)
        stop = threading.Event()
        flood = threading.Thread(target=self.flood, args=(stop,))
        flood.start()
        try:
            freed = 8
            peer.free(one_lane(0, freed))
            for index, frame in enumerate(frames):
                if index % 8 == 0:
                    self.keepalive()
                while (got := bytes(peer.next()))[0] >> 4 != Kind.DATA:
                    pass
                self.assertEqual(got, in_session(forwarded(frame), peer.session))
                if index % 8 == 7:
                    freed += 8
                    peer.send(peer.update(Kind.CF_UPDATE, one_lane(0, freed)))
        finally:
            stop.set()
            flood.join()
        self.expect_credits(2, held_frames=NONE)
        self.assertGreater(self.flooded, len(frames))
        self.assertIsNotNone(self.receive(4))

    def flood(self, stop: threading.Event) -> None:
        """Send from an open port to itself, as fast as it goes."""
        self.flooded = 0
        frame = bytes(store(4, 4))
        while not stop.is_set():
            self.send(4, frame)
            self.flooded += 1
