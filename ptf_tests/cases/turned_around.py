"""Frames for a dead port: turned around as events for their sources, never held, their buffer freed."""

from collections.abc import Sequence

from codec.constants import EventType, Kind, Next
from codec.scapy_layers import OEFH, Event, Link
from ptf_tests.base import CPU_PORT, DROP_REASONS, REMOTE, SWITCH_ID, UPLINKS
from ptf_tests.events import EventTest
from ptf_tests.frames import forwarded, probe, store, write
from ptf_tests.links import NONE, Peer, Profile, one_lane

DOWN, UP = EventType.LINK_DOWN, EventType.LINK_UP
SMALL = Profile(credit_limit=8, update_threshold=2)


class TurnedAroundTest(EventTest):
    """What the tests below share."""

    def lose(self, port: int, hearers: Sequence[int]) -> None:
        """Let a port lose its carrier, which others are told, and time pass until the first repeat."""
        self.carrier(port, up=False)
        self.expect_told(hearers, DOWN, port)
        sent = self.count("events_sent", hearers[0])
        while self.count("events_sent", hearers[0]) == sent:
            self.tick()
            self.expect_nothing_on([4])  # a keepalive's notice has had its turn
        self.expect_told(hearers, DOWN, port, new=False)

    def turned(self, port: int) -> int:
        """Return how many frames from a port were turned around."""
        return self.count("frames_turned_around", port)


class EveryTransaction(TurnedAroundTest):
    """Load/store and RDMA frames of any size, VC and order become an event: short, on VC 7, about their destination."""

    def runTest(self) -> None:
        self.lose(2, [1, 3])
        before, turned = self.drops(), self.turned(1)
        frames = [store(1, 2), store(1, 2, b"x" * 256, vc=6, f=1), write(1, 2, 38), write(1, 2, 4134, vc=3, ecn=1)]
        for frame in frames:
            self.send(1, frame)
            self.expect_event(1, DOWN, 2)
            self.tick()
        self.expect_nothing_on([1, 3, 4, *UPLINKS])
        self.assertEqual(self.new_drops(before), {})
        self.expect_count("frames_turned_around", 1, turned + len(frames))
        self.carrier(2, up=True)
        self.expect_told([1, 3], UP, 2)
        self.expect_forwarded(1, store(1, 2), 2)


class OncePerSourceAndTick(TurnedAroundTest):
    """Of the frames of one source in a millisecond one turns around, the others are dropped and counted; sources do
    not count for each other."""

    def runTest(self) -> None:
        self.lose(2, [1, 3])
        for _ in range(3):
            before = self.drops()
            turned = {port: self.turned(port) for port in (1, 3)}
            for frame in self.stores(1, 2, 10):
                self.send(1, frame)
            self.send(3, store(3, 2))
            self.expect_event(1, DOWN, 2)
            self.expect_event(3, DOWN, 2)
            self.wait_for_drops(before, {("dead_port", 1): 9})
            self.expect_nothing_on([1, 3])
            for port in (1, 3):
                self.expect_count("frames_turned_around", port, turned[port] + 1)
            self.tick()


class OwnEventsAreNotLimited(TurnedAroundTest):
    """The limit on VC 7 is for what comes in on it: what the switch owes leaves all the same."""

    def runTest(self) -> None:
        self.lose(2, [1, 3])
        for port in (1, 3):
            self.limit("control_rate_limit", port, rate=1, burst=1)
        for _ in range(8):
            self.send(1, store(1, 2))
            self.expect_event(1, DOWN, 2)
            self.tick()
        self.carrier(2, up=True)
        self.expect_told([1, 3], UP, 2)


class OnlyTransactions(TurnedAroundTest):
    """A probe and an event for a dead port are dropped: an event never makes another one."""

    def runTest(self) -> None:
        self.lose(2, [1, 3])
        head = OEFH(src=SWITCH_ID + 1, dst=2, hops=8, vc=7)
        for port, frame in ((1, probe(1, 2)), (UPLINKS[0], Link() / head / Event(type="LINK_DOWN", subject=101))):
            before = self.drops()
            self.send(port, frame)
            self.wait_for_drops(before, {("dead_port", port): 1})
        self.expect_nothing_on([1, 3, *UPLINKS])


class OtherFaultsFirst(TurnedAroundTest):
    """What would have been dropped on its way to a port that lives is dropped for that, and tells nobody anything."""

    def runTest(self) -> None:
        self.lose(2, [1, 3])
        for frame, reason in (
            (store(3, 2), "spoofed_source"),
            (store(1, 2, hops=1), "hop_expired"),
            (store(1, 2, vc=7), "reserved_vc"),
            (store(1, 9), "no_route"),
        ):
            before = self.drops()
            self.send(1, frame)
            self.wait_for_drops(before, {(reason, 1): 1})
        before = self.drops()
        self.send(4, store(4, 2))
        self.wait_for_drops(before, {("other_tenant", 4): 1})
        self.expect_nothing_on([1, 3, 4])


class ToAnotherSwitch(TurnedAroundTest):
    """A frame that came over a fabric port turns around there: its source is behind it."""

    def runTest(self) -> None:
        self.lose(2, [1, 3])
        self.send(UPLINKS[1], store(REMOTE[3], 2))
        self.expect_event(UPLINKS[1], DOWN, 2, dst=REMOTE[3])
        self.expect_nothing_on([1, 3, *UPLINKS])


class EventOfAnotherSwitch(TurnedAroundTest):
    """An event that another switch turned around reaches its GPU, by the GPU's tenant."""

    def runTest(self) -> None:
        for dst, port in ((2, 2), (4, 4)):
            event = Event(type="LINK_DOWN", plane=1, subject=101, sequence=9, detail=3, timestamp=77)
            frame = Link() / OEFH(src=SWITCH_ID + 1, dst=dst, next=Next.EVENT, hops=8, vc=7) / event
            self.send(UPLINKS[2], frame)
            self.expect(port, forwarded(frame))


class BehindAPort(TurnedAroundTest):
    """The subject is the frame's destination, also where several are behind the dead port."""

    def runTest(self) -> None:
        self.route_to(0x222, 2)
        self.lose(2, [1, 3])
        self.send(1, store(1, 0x222))
        self.expect_event(1, DOWN, 2, subject=0x222)


class UnknownPort(TurnedAroundTest):
    """Without an entry for the port nothing can be said: the frame is dropped and counted."""

    def runTest(self) -> None:
        self.delete("link_events", {"port": 2})
        self.carrier(2, up=False)
        before = self.drops()
        for _ in range(2):
            self.tick()
            self.send(1, store(1, 2))
        self.wait_for_drops(before, {("dead_port", 1): 2})
        self.expect_nothing_on([1, 3])


class FromTheController(TurnedAroundTest):
    """A packet-out for a dead port is dropped and counted."""

    def runTest(self) -> None:
        self.lose(2, [1, 3])
        before = self.drops()
        self.switch.packet_out(bytes(store(REMOTE[0], 2)), egress_port=0)
        self.wait_for_drops(before, {("dead_port", CPU_PORT): 1})
        self.expect_nothing_on([1, 3])


class Trapped(TurnedAroundTest):
    """What is dropped for a dead port can be shown to the controller, as it came in."""

    def runTest(self) -> None:
        self.insert("trap", {"reason": DROP_REASONS["dead_port"]}, "to_cpu")
        self.lose(2, [1, 3])
        first, second = self.stores(1, 2, 2)
        self.send(1, first)
        self.expect_event(1, DOWN, 2)
        self.send(1, second)
        self.expect_packet_in(second, 1, DROP_REASONS["dead_port"])


class CreditsComeBack(TurnedAroundTest):
    """On a managed link the event travels in the session, and the frame's buffer is free at once."""

    def runTest(self) -> None:
        (peer,) = self.links(1, profile=Profile(credit_limit=8, update_threshold=8))
        self.carrier(2, up=False)
        self.expect_event(1, DOWN, 2, new=True, session=peer.session)
        self.expect_event(3, DOWN, 2)
        self.tick()
        for frame in self.stores(1, 2, 7):
            peer.send_data(frame)
        self.expect_event(1, DOWN, 2, session=peer.session)
        self.expect_credits(1, receiver_credits_consumed=one_lane(0, 7), receiver_credits_freed=one_lane(0, 7))
        peer.send_data(store(1, 2))
        peer.expect_freed(one_lane(0, 8))
        self.expect_silence_on([1], 0.02)


class HeldTest(TurnedAroundTest):
    """What the tests of held frames share."""

    def fill(self, peer: Peer, in_port: int = 1) -> None:
        """Use up the credits of a link."""
        for frame in self.stores(in_port, peer.port, 8):
            self.send(in_port, frame)
            peer.expect_data(frame)

    def hold(self, port: int, frames: Sequence[bytes], in_port: int = 1) -> None:
        """Send frames and wait until the switch holds all of them."""
        before = self.count("frames_held", port)
        for frame in frames:
            self.send(in_port, frame)
        self.expect_count("frames_held", port, before + len(frames))

    def expect_works(self, peer: Peer) -> None:
        """Check that a link holds and releases frames in their order, right after it has come up."""
        self.fill(peer)
        frames = self.stores(1, peer.port, 20)
        self.hold(peer.port, frames)
        for first in (0, 8, 16):
            peer.free(one_lane(0, first + 8))
            for frame in frames[first : first + 8]:
                peer.expect_data(frame)
        self.expect_credits(peer.port, held_frames=NONE, sender_credits_consumed=one_lane(0, 28))


class HeldFramesLeave(HeldTest):
    """What waits for a link when it dies leaves the hold: one frame per source turns around, the others are dropped,
    and the credits that they took go back to their senders. The link works as before when it is up again."""

    def runTest(self) -> None:
        self.tick()  # else an earlier test may have had the event of this one
        receiver, sender = self.links(2, 3, profile=SMALL)
        self.fill(receiver)
        held = self.count("frames_released", 2)
        self.hold(2, self.stores(1, 2, 12))
        self.hold(2, self.stores(1, 2, 5, f=1))
        for frame in self.stores(3, 2, 6):
            sender.send_data(frame)
        self.expect_credits(2, held_frames=one_lane(0, 23))
        self.expect_credits(3, receiver_credits_consumed=one_lane(0, 6), receiver_credits_freed=NONE)
        before, turned = self.drops(), {port: self.turned(port) for port in (1, 3)}
        self.carrier(2, up=False)
        self.expect_event(1, DOWN, 2, new=True)
        self.expect_event(1, DOWN, 2)  # the first of its frames
        self.wait_for_drops(before, {("dead_port", 1): 16, ("dead_port", 3): 5})
        self.expect_count("frames_released", 2, held + 23)
        for port in (1, 3):
            self.expect_count("frames_turned_around", port, turned[port] + 1)
        events = []
        while (came := sender.next()).kind == Kind.DATA:
            events.append(came)
        said = [(event["Event"].subject, event.session) for event in events]
        self.assertEqual(said, [(2, sender.session)] * 2)  # as it hears of the port, and for its own frames
        self.assertEqual(came.kind, Kind.CF_UPDATE)
        self.expect_credits(2, held_frames=NONE)
        self.expect_credits(3, receiver_credits_freed=one_lane(0, 6))
        self.dataplane.flush()
        self.carrier(2, up=True)
        self.dataplane.flush()
        receiver.bring_up()
        self.expect_event(1, UP, 2, new=True)
        self.expect_works(receiver)


class HeldForASilentPeer(HeldTest):
    """The same where silence says that the link is dead."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(credit_limit=8, update_threshold=2, silence=30))
        self.fill(peer)
        self.hold(2, self.stores(1, 2, 9))
        before, turned = self.drops(), self.count("frames_turned_around", 1)

        def ended() -> int:
            """Return how many frames were dropped or turned around: one of a source turns in each tick."""
            drops = self.new_drops(before)
            self.assertLessEqual(drops.keys(), {("dead_port", 1)})
            return sum(drops.values()) + self.count("frames_turned_around", 1) - turned

        for _ in range(4):
            self.keepalive()
        self.expect_event(1, DOWN, 2, new=True)
        self.expect_event(1, DOWN, 2)
        self.wait_until(lambda: ended() == 9)
        self.assertEqual(ended(), 9)
        self.expect_credits(2, held_frames=NONE)
        self.send(1, store(1, 2))  # and what comes now is not held
        self.wait_until(lambda: ended() == 10)
        self.assertEqual(ended(), 10)
        self.dataplane.flush()
        peer.bring_up()
        self.expect_event(1, UP, 2, new=True)
        self.expect_works(peer)


class Flapping(HeldTest):
    """A link that dies and comes back again and again under load: what arrives is in order, nothing is left waiting,
    and no ticket of a frame that has left is waited for."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=SMALL)
        skipped = self.count("tickets_skipped", 2)
        number = last = 0
        for flap in range(12):
            for _ in range(14 + flap):
                number += 1
                self.send(1, store(1, 2, number.to_bytes(8, "big")))
            self.carrier(2, up=False)
            self.carrier(2, up=True)
            while (data := self.receive(2, 0.02)) is not None:
                last = self.follows(Link(data), last)
            peer.epoch += flap + 1
            peer.bring_up()
            came = 0
            for _ in range(4):
                number += 1
                self.send(1, store(1, 2, number.to_bytes(8, "big")))
            while (data := self.receive(2, 0.05)) is not None:
                last = self.follows(Link(data), last)
                came += 1
                peer.free(one_lane(0, came))
            self.assertEqual(last, number, "the frames of the new session all come")
            self.expect_credits(2, held_frames=NONE)
        self.expect_count("tickets_skipped", 2, skipped)

    def follows(self, frame: Link, last: int) -> int:
        """Check that a frame comes after the last one, and return its number."""
        number = int.from_bytes(frame["LSU"].data, "big")
        self.assertGreater(number, last)
        return number
