"""LINK_DOWN and LINK_UP: who is told of a port, when, how often, and in which words (docs/protocol.md, section 7)."""

from codec.constants import EventType, Kind
from ptf_tests.base import EVENT_PORT, PORTS, UPLINKS
from ptf_tests.events import EventTest
from ptf_tests.frames import store
from ptf_tests.links import NONE, Profile, one_lane

DOWN, UP = EventType.LINK_DOWN, EventType.LINK_UP


class CarrierLostAndBack(EventTest):
    """The other endpoint ports of the tenant are told at once, without a tick, and nobody else; likewise when the
    carrier is back. Each change counts once."""

    def runTest(self) -> None:
        lost, restored = self.count("links_lost", 2), self.count("links_restored", 2)
        told = {port: self.count("events_sent", port) for port in PORTS}
        self.carrier(2, up=False)
        first = self.expect_told([1, 3], DOWN, 2)
        self.expect_nothing_on([1, 3, 4, *UPLINKS])
        self.carrier(2, up=True)
        second = self.expect_told([1, 3], UP, 2)
        self.assertGreater(second[0].timestamp, first[0].timestamp)
        self.expect_quiet()
        self.expect_count("links_lost", 2, lost + 1)
        self.expect_count("links_restored", 2, restored + 1)
        for port in PORTS:
            self.expect_count("events_sent", port, told[port] + (2 if port in (1, 3) else 0))


class RepeatedAtEveryKeepalive(EventTest):
    """While a port stays down it is told again at every keepalive, as the same state change; after that no more."""

    def runTest(self) -> None:
        self.keepalive()
        self.expect_quiet()
        self.carrier(2, up=False)
        (last, _) = self.expect_told([1, 3], DOWN, 2)
        for _ in range(4):
            self.tick(9)
            self.expect_nothing_on([1, 3])
            self.tick()
            (repeat, _) = self.expect_told([1, 3], DOWN, 2, new=False)
            self.assertGreater(repeat.timestamp, last.timestamp)
            last = repeat
        self.carrier(2, up=True)
        self.expect_told([1, 3], UP, 2)
        self.keepalive()
        self.expect_quiet()


class SameStateAgain(EventTest):
    """A port status that changes nothing is no state change, and one that says up is not told again."""

    def runTest(self) -> None:
        self.carrier(2, up=True)
        self.expect_quiet()
        self.carrier(2, up=False)
        self.expect_told([1, 3], DOWN, 2)
        self.carrier(2, up=False)
        self.expect_told([1, 3], DOWN, 2, new=False)
        self.carrier(2, up=True)
        self.expect_told([1, 3], UP, 2)
        self.carrier(2, up=True)
        self.expect_quiet()


class SeveralPortsDown(EventTest):
    """Ports that are down at once are told of each by itself; the sequence says which change an event is about."""

    def runTest(self) -> None:
        self.carrier(2, up=False)
        self.expect_told([1, 3], DOWN, 2)
        second = self.sequence
        self.carrier(3, up=False)
        self.expect_event(1, DOWN, 3, new=True)
        third = self.sequence
        self.assertEqual(third, (second + 1) % (1 << 16))
        for _ in range(3):
            self.keepalive()
            heard = sorted((self.receive(1) or b"")[18 + 2 : 18 + 6] for _ in range(2))  # subject, sequence
            self.assertEqual(
                heard, [port.to_bytes(2, "big") + seq.to_bytes(2, "big") for port, seq in ((2, second), (3, third))]
            )
        self.carrier(2, up=True)
        self.expect_event(1, UP, 2, new=True)
        self.carrier(3, up=True)
        self.expect_event(1, UP, 3, new=True)


class TenantsAreApart(EventTest):
    """Who is another tenant's hears nothing."""

    def runTest(self) -> None:
        self.carrier(4, up=False)  # alone in its tenant
        self.keepalive()
        self.expect_nothing_on([1, 2, 3, *UPLINKS])
        self.carrier(4, up=True)
        self.expect_quiet()


class FabricPort(EventTest):
    """What is lost on a fabric port is told as its group says: here to the other switches, and no endpoint."""

    def runTest(self) -> None:
        down, *others = UPLINKS
        self.carrier(down, up=False)
        self.expect_told(others, DOWN, down)
        self.keepalive()
        self.expect_told(others, DOWN, down, new=False)
        self.expect_nothing_on([1, 2, 3, 4, *others])
        self.carrier(down, up=True)
        self.expect_told(others, UP, down)
        self.expect_quiet()


class UnknownPort(EventTest):
    """A port that the table does not know, and a notice about no data port, are told to nobody and do no harm."""

    def runTest(self) -> None:
        self.delete("link_events", {"port": 2})
        self.carrier(2, up=False)
        for port in (0, 504, 507, 511, 513, 514, 65535):
            self.carrier(port, up=False)
            self.carrier(port, up=True)
        self.keepalive()
        self.expect_nothing_on([1, 3, 4, *UPLINKS])
        self.carrier(2, up=True)
        self.expect_quiet()
        self.expect_forwarded(1, store(1, 2), 2)


class NoGroup(EventTest):
    """A port of which nobody is to hear: group 0."""

    def runTest(self) -> None:
        entry = self.switch.names.entry
        said = {"source": 0xF01, "plane": 1, "subject": 2, "group": 0}
        self.modify(entry("link_events", {"port": 2}, "tell_of_link", **said))
        self.carrier(2, up=False)
        self.keepalive()
        self.expect_nothing_on([1, 3, 4, *UPLINKS])
        self.carrier(2, up=True)
        self.expect_quiet()


class SilentPeer(EventTest):
    """A managed link whose peer is silent is dead: told at once and at every keepalive, beside the LLR_INIT that it
    sends; and back when data may be sent on it again, not before."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(silence=30))
        silences = self.count("silences", 2)
        for _ in range(3):
            self.keepalive()
            peer.expect_freed(NONE)
        self.expect_nothing_on([1, 3])
        self.keepalive()
        self.expect_told([1, 3], DOWN, 2)
        self.expect_count("silences", 2, silences + 1)
        peer.expect_init(peer_epoch=peer.epoch)
        for _ in range(3):
            self.keepalive()
            self.expect_told([1, 3], DOWN, 2, new=False)
            peer.expect_init(peer_epoch=peer.epoch)
        peer.send(peer.init())
        peer.expect_init(Kind.LLR_INIT_ECHO)
        peer.expect_freed(NONE)  # up, but it has not said that it takes data
        self.keepalive()
        self.expect_told([1, 3], DOWN, 2, new=False)
        peer.expect_freed(NONE)
        peer.free(NONE)
        self.expect_told([1, 3], UP, 2)
        self.keepalive()
        peer.expect_freed(NONE)
        self.expect_nothing_on([1, 3, 4, *UPLINKS])


class ManagedCarrier(EventTest):
    """A managed link that loses its carrier is dead until data may be sent on it again, carrier or not."""

    def runTest(self) -> None:
        (peer,) = self.links(2)
        self.carrier(2, up=False)
        self.expect_told([1, 3], DOWN, 2)
        self.keepalive()
        self.expect_told([1, 3], DOWN, 2, new=False)
        self.expect_silence_on([2], 0.02)
        self.carrier(2, up=True)
        self.expect_told([1, 3], DOWN, 2, new=False)
        self.keepalive()
        self.expect_told([1, 3], DOWN, 2, new=False)
        peer.expect_init(peer_epoch=0)
        peer.bring_up()
        self.expect_told([1, 3], UP, 2)
        self.expect_nothing_on([1, 3, 4, *UPLINKS])


class NeverUp(EventTest):
    """A managed link that nobody has answered on yet is dead from its first keepalive on."""

    def runTest(self) -> None:
        (peer,) = self.manage(2)
        self.expect_nothing_on([1, 3])
        self.keepalive()
        self.expect_told([1, 3], DOWN, 2)
        peer.expect_init(peer_epoch=0)
        self.keepalive()
        self.expect_told([1, 3], DOWN, 2, new=False)
        peer.expect_init(peer_epoch=0)
        peer.bring_up()
        self.expect_told([1, 3], UP, 2)


class StalledPeer(EventTest):
    """A managed link that the stall watchdog gives up is dead until its next session."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(credit_limit=8, update_threshold=2, silence=0, stall=30))
        held = self.count("frames_held", 2)
        for frame in self.stores(1, 2, 8):
            self.send(1, frame)
            peer.expect_data(frame)
        self.send(1, store(1, 2))
        self.expect_count("frames_held", 2, held + 1)
        for _ in range(3):
            self.keepalive()
            peer.expect_freed(NONE)
            peer.expect_update(Kind.CC_UPDATE)
        self.expect_nothing_on([1, 3])
        self.keepalive()
        self.expect_told([1, 3], DOWN, 2)
        self.expect_event(1, DOWN, 2)  # the frame that waited, turned around
        peer.expect_init(peer_epoch=peer.epoch)
        peer.send(peer.init())
        peer.expect_init(Kind.LLR_INIT_ECHO)
        peer.expect_freed(NONE)
        peer.free(NONE)
        self.expect_told([1, 3], UP, 2)


class QuickRestart(EventTest):
    """A peer that restarts before it was missed, and a link that is brought up anew for wrong updates, are not told."""

    def runTest(self) -> None:
        (peer,) = self.links(2)
        peer.epoch ^= 0x1234
        peer.bring_up()
        for _ in range(3):
            peer.send(peer.update(Kind.CF_UPDATE, one_lane(0, 7)))
        peer.expect_init(peer_epoch=peer.epoch)
        peer.send(peer.init())
        peer.expect_init(Kind.LLR_INIT_ECHO)
        peer.expect_freed(NONE)
        peer.free(NONE)
        self.keepalive()
        peer.expect_freed(NONE)
        self.expect_nothing_on([1, 3, 4, *UPLINKS])


class SilentWhileComingUp(EventTest):
    """A link that is being brought up anew, and whose peer then says nothing any more, is dead as well."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(silence=30))
        for _ in range(3):
            peer.send(peer.update(Kind.CF_UPDATE, one_lane(0, 7)))
        peer.expect_init(peer_epoch=peer.epoch)
        for _ in range(3):
            self.keepalive()
            peer.expect_init(peer_epoch=peer.epoch)
        self.expect_nothing_on([1, 3])
        self.keepalive()
        self.expect_told([1, 3], DOWN, 2)
        peer.expect_init(peer_epoch=peer.epoch)
        peer.bring_up()
        self.expect_told([1, 3], UP, 2)


class ManagedListener(EventTest):
    """On a managed link an EVENT travels in the session, needs no credit and takes none."""

    def runTest(self) -> None:
        (peer,) = self.links(1, profile=Profile(credit_limit=8, update_threshold=2))
        held = self.count("frames_held", 1)
        frames = self.stores(3, 1, 9)
        for frame in frames:
            self.send(3, frame)
        for frame in frames[:8]:
            peer.expect_data(frame)
        self.expect_count("frames_held", 1, held + 1)
        self.carrier(2, up=False)
        self.expect_event(1, DOWN, 2, new=True, session=peer.session)
        self.expect_event(3, DOWN, 2)
        self.expect_credits(1, sender_credits_consumed=one_lane(0, 8))
        self.carrier(2, up=True)
        self.expect_event(1, UP, 2, new=True, session=peer.session)
        peer.free(one_lane(0, 1))
        peer.expect_data(frames[8])


class ListenerNotReady(EventTest):
    """A link that takes no data yet is told nothing; it learns by the first repeat after it does."""

    def runTest(self) -> None:
        (peer,) = self.manage(3)
        sent = self.count("events_sent", 3)
        self.carrier(2, up=False)
        self.expect_event(1, DOWN, 2, new=True)
        self.expect_silence_on([3], 0.02)
        peer.bring_up()
        self.expect_count("events_sent", 3, sent)
        self.keepalive()
        self.expect_event(1, DOWN, 2)
        frames = [peer.next(), peer.next()]
        self.assertEqual({frame.kind for frame in frames}, {Kind.CF_UPDATE, Kind.DATA})
        (event,) = (frame for frame in frames if frame.kind == Kind.DATA)
        self.assertEqual((event["Event"].subject, event["OEFH"].dst, event.session), (2, 3, peer.session))
        self.expect_count("events_sent", 3, sent + 1)


class NoticesFromOutside(EventTest):
    """Only the event port is believed: a notice in a frame on a data port is a malformed frame."""

    def runTest(self) -> None:
        before = self.count("port_rx", EVENT_PORT)
        frame = bytes(12) + bytes([1, 0, 0, 2])
        self.send(1, frame)
        self.expect_quiet()
        self.assertEqual(self.count("port_rx", EVENT_PORT), before)
