"""Groups of paths of which some are dead: their frames spread evenly over the others, which keep theirs; and what
neighbours say of switches that they have lost (two tiers)."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction

from scapy.packet import Packet

from codec.constants import EventType, Next
from codec.scapy_layers import OEFH, Event, Link
from ptf_tests.base import (
    FENCE_DST,
    FENCE_PORT,
    GROUP,
    GROUP_MOST,
    NOBODY,
    PORTS,
    REMOTE,
    SWITCH_ID,
    TENANT,
    UPLINKS,
)  # fmt: skip
from ptf_tests.events import PLANE, SPINES, EventTest
from ptf_tests.frames import forwarded, probe, store
from ptf_tests.frames import slot as first_slot
from ptf_tests.links import Profile

DOWN, UP = EventType.LINK_DOWN, EventType.LINK_UP
HOME, OTHER_HOME = 0xF30, 0xF31
"""Switches that the remote GPUs are on, as the routes say."""
LOST_TICKS = 50


def path(frame: Packet, ports: Sequence[int], dead: Collection[int] = ()) -> int | None:
    """Return the port that docs/pipeline.md gives a frame in a group some of whose ports cannot be used."""
    first = first_slot(frame, len(ports))
    if ports[first] not in dead:
        return ports[first]
    usable = [port for port in ports if port not in dead]
    oefh = frame["OEFH"]
    alone = frame.copy()
    alone["OEFH"].f, alone["OEFH"].entropy = 1, oefh.entropy if oefh.f else 0
    whole = first_slot(alone, 1 << 32)  # the CRC itself
    fraction = Fraction(whole * len(ports), 1 << 32) % 1
    return usable[int(fraction * len(usable))] if usable else None


class PathsTest(EventTest):
    """What the tests below share."""

    def setUp(self) -> None:
        super().setUp()
        self.tick(LOST_TICKS + 1)  # what neighbours have said in earlier tests is forgotten

    def frames(self, dst: int = REMOTE[0]) -> list[Packet]:
        """Return a frame of each entropy value."""
        return [store(1, dst, f=1, entropy=entropy) for entropy in range(256)]

    def expect_paths(self, frames: Iterable[Packet], dead: Collection[int], ports: Sequence[int] = UPLINKS) -> None:
        """Check that each frame takes its path, and that those of dead paths spread evenly over the others."""
        pairs = [(frame, path(frame, ports, dead)) for frame in frames]
        self.expect_all_forwarded(1, [(frame, port) for frame, port in pairs if port is not None])
        moved = Counter(port for frame, port in pairs if path(frame, ports) in dead)
        if moved and len(pairs) >= 256 and len(set(ports)) == len(ports):
            usable = [port for port in ports if port not in dead]
            self.assertEqual(set(moved), set(usable))
            self.assertLessEqual(max(moved.values()) - min(moved.values()), 2, f"uneven: {dict(moved)}")

    def settle(self, dead: Collection[int]) -> None:
        """Take the events off all ports that live, up to a fence on each."""
        living = [port for port in PORTS if port not in dead]
        for port in living:
            self.send(FENCE_PORT, probe(FENCE_PORT, FENCE_DST + port, op=port))
        for port in living:
            while (data := self.receive(port)) is not None and Link(data)[OEFH].next != Next.PROBE:
                continue

    def home(self, gpus: Iterable[int], home: int) -> None:
        """Say on which switch GPUs are."""
        entry = self.switch.names.entry
        for gpu in gpus:
            self.modify(entry("forward", {"tenant": TENANT, "dst": gpu}, "to_group", group_id=GROUP, home=home))

    def say(self, port: int, kind: EventType, subject: int = HOME) -> None:
        """Let the spine on a port say that it has lost a switch, or has it back."""
        received = self.count("events_received", port)
        event = Event(type=kind, plane=PLANE, subject=subject, sequence=7, detail=3, timestamp=12345)
        self.send(port, Link() / OEFH(src=SPINES[port], dst=SWITCH_ID, next=Next.EVENT, vc=7, hops=8) / event)
        self.expect_count("events_received", port, received + 1)


class DeadPort(PathsTest):
    """A port that dies is skipped at once, for every frame that comes after; it is used again when it lives."""

    def runTest(self) -> None:
        for dead in UPLINKS:
            self.expect_paths(self.frames(), ())
            self.carrier(dead, up=False)
            self.expect_told([port for port in UPLINKS if port != dead], DOWN, dead)
            self.expect_paths(self.frames(), {dead})
            self.carrier(dead, up=True)
            self.expect_told([port for port in UPLINKS if port != dead], UP, dead)
        self.expect_paths(self.frames(), ())


class SeveralDead(PathsTest):
    """With more and more ports dead the rest carry all, evenly; with none left frames turn around."""

    def runTest(self) -> None:
        dead: set[int] = set()
        for port in (UPLINKS[1], UPLINKS[3], UPLINKS[0]):
            self.carrier(port, up=False)
            dead.add(port)
            self.expect_told([other for other in UPLINKS if other not in dead], DOWN, port)
            self.expect_paths(self.frames(), dead)
        self.tick()
        self.carrier(UPLINKS[2], up=False)
        self.settle(UPLINKS)
        frame = store(1, REMOTE[0])
        first = path(frame, UPLINKS)
        assert first is not None
        before = self.drops()
        for _ in range(3):
            self.send(1, frame)
        event = self.receive(1)
        assert event is not None
        body = Link(event)[Event]
        self.assertEqual((body.type, body.plane, body.subject, body.detail), (DOWN, PLANE, REMOTE[0], first))
        self.wait_for_drops(before, {("dead_port", 1): 2})
        self.carrier(UPLINKS[2], up=True)
        self.settle(dead)
        self.expect_paths(self.frames(), dead)


class OnePathPerFlow(PathsTest):
    """With F = 0 a pair has one path, whatever its entropy, also while paths are dead; pairs of a dead one spread."""

    def runTest(self) -> None:
        dead = UPLINKS[2]
        gpus = range(0x100, 0x140)
        entry = self.switch.names.entry
        self.install(
            entry("forward", {"tenant": TENANT, "dst": gpu}, "to_group", group_id=GROUP, home=NOBODY) for gpu in gpus
        )
        self.carrier(dead, up=False)
        self.expect_told([port for port in UPLINKS if port != dead], DOWN, dead)
        moved: Counter[int] = Counter()
        for gpu in gpus:
            frames = [store(1, gpu, f=0, entropy=entropy) for entropy in range(0, 256, 64)]
            (port,) = {path(frame, UPLINKS, {dead}) for frame in frames}
            assert port is not None
            self.expect_all_forwarded(1, [(frame, port) for frame in frames])
            if path(frames[0], UPLINKS) == dead:
                moved[port] += 1
        self.assertEqual(set(moved), set(UPLINKS) - {dead})


class LargestGroup(PathsTest):
    """Any of the 16 slots may be dead; empty slots are never taken for another one."""

    def runTest(self) -> None:
        ports = (5, 6, 7, 8, 2, 3, 4, 5, 6, 7, 8, 2, 3, 4, 5, 6)
        self.modify(self.group_entry(GROUP, ports))
        for dead in ({5}, {2, 3, 4}, {5, 6, 7, 8}, {2, 3, 4, 5, 6, 7}):
            for port in dead:
                self.carrier(port, up=False)
            self.settle(dead)
            self.expect_paths(self.frames(), dead, ports)
            for port in dead:
                self.carrier(port, up=True)
            self.settle(())
        with_holes = (5, 0, 6, 0, *(0,) * (GROUP_MOST - 5), 7)
        self.modify(self.group_entry(GROUP, with_holes))
        self.carrier(5, up=False)
        self.settle({5})
        for frame in self.frames()[:64]:
            if with_holes[first_slot(frame, GROUP_MOST)] == 5:
                self.send(1, frame)
                got = [port for port in (6, 7) if self.receive(port, 0.05) == forwarded(frame)]
                self.assertEqual(len(got), 1)


class ManagedUplink(PathsTest):
    """An uplink that is managed is skipped from when it dies until data may be sent on it again."""

    def runTest(self) -> None:
        (peer,) = self.links(UPLINKS[0], profile=Profile(credit_limit=400, silence=0))
        frame = next(frame for frame in self.frames() if path(frame, UPLINKS) == UPLINKS[0])
        other = path(frame, UPLINKS, {UPLINKS[0]})
        assert other is not None
        self.send(1, frame)
        peer.expect_data(frame)
        self.carrier(UPLINKS[0], up=False)
        self.expect_told(UPLINKS[1:], DOWN, UPLINKS[0])
        self.expect_forwarded_here(frame, other)
        self.carrier(UPLINKS[0], up=True)
        self.expect_told(UPLINKS[1:], DOWN, UPLINKS[0], new=False)
        self.expect_forwarded_here(frame, other)
        peer.bring_up()
        self.expect_told(UPLINKS[1:], UP, UPLINKS[0])
        self.send(1, frame)
        peer.expect_data(frame)

    def expect_forwarded_here(self, frame: Packet, port: int) -> None:
        """Check that a frame leaves by a port."""
        self.send(1, frame)
        self.expect(port, forwarded(frame))


class LostBehindANeighbour(PathsTest):
    """A spine that says that it has lost a leaf is taken out for what is behind that leaf, and for nothing else; the
    event itself goes no further. When the spine has the leaf back it is used again at once."""

    def runTest(self) -> None:
        self.home(REMOTE[:8], HOME)
        self.home(REMOTE[8:], OTHER_HOME)
        before = self.drops()
        for port in (UPLINKS[0], UPLINKS[2]):
            self.say(port, DOWN)
            self.expect_paths(self.frames(REMOTE[0]), {port})
            self.expect_paths(self.frames(REMOTE[9])[::8], ())
            self.say(port, UP)
            self.expect_paths(self.frames(REMOTE[0]), ())
        self.expect_quiet()
        self.assertEqual(self.new_drops(before), {})


class SilentNeighbour(PathsTest):
    """What a neighbour has said is forgotten when it has not said it again for five keepalives, and not before."""

    def runTest(self) -> None:
        self.home(REMOTE, HOME)
        lost = UPLINKS[1]
        self.say(lost, DOWN)
        for _ in range(3):  # said again in time
            self.tick(LOST_TICKS)
            self.expect_paths(self.frames()[::4], {lost})
            self.say(lost, DOWN)
        self.tick(LOST_TICKS)
        self.expect_paths(self.frames(), {lost})
        self.tick()
        self.expect_paths(self.frames(), ())


class AllLost(PathsTest):
    """A leaf that no spine reaches is out of reach: frames for it turn around, and those for others do not."""

    def runTest(self) -> None:
        self.home(REMOTE[:8], HOME)
        self.home(REMOTE[8:], OTHER_HOME)
        self.tick()
        for port in UPLINKS[:3]:
            self.say(port, DOWN)
        self.carrier(UPLINKS[3], up=False)  # a dead port and what neighbours say count alike
        self.expect_told(UPLINKS[:3], DOWN, UPLINKS[3])
        before, turned = self.drops(), self.count("frames_turned_around", 1)
        frame = store(1, REMOTE[0])
        self.send(1, frame)
        event = Link(self.receive(1) or b"")[Event]
        self.assertEqual((event.type, event.plane, event.subject), (DOWN, PLANE, REMOTE[0]))
        self.expect_count("frames_turned_around", 1, turned + 1)
        self.expect_paths(self.frames(REMOTE[9])[::8], {UPLINKS[3]})
        self.assertEqual(self.new_drops(before), {})
        self.say(UPLINKS[1], UP)
        self.send(1, frame)
        self.expect(UPLINKS[1], forwarded(frame))


class NotBelieved(PathsTest):
    """Such an event from an endpoint, or from no switch, is forged and changes nothing; one of another type neither."""

    def runTest(self) -> None:
        self.home(REMOTE, HOME)
        body = Event(type=DOWN, plane=PLANE, subject=HOME, sequence=1)
        for port, src in ((1, 1), (1, SPINES[UPLINKS[0]]), (UPLINKS[0], REMOTE[0]), (UPLINKS[0], 0xFFF)):
            frame = Link() / OEFH(src=src, dst=SWITCH_ID, next=Next.EVENT, vc=7, hops=8) / body
            self.expect_dropped(port, frame, "forged_event")
        self.say(UPLINKS[0], EventType.LINK_DEGRADED)
        self.say(UPLINKS[0], DOWN, subject=0xF00)  # of a switch that nobody is on
        self.expect_paths(self.frames(), ())
        nobody = Link() / OEFH(src=SPINES[5], dst=2, next=Next.EVENT, vc=7, hops=8) / Event(type=DOWN, subject=0xFFF)
        self.send(UPLINKS[0], nobody)  # no switch's id: an event like any other
        self.expect(2, forwarded(nobody))
