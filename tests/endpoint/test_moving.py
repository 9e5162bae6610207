"""Requests that move between planes take effect once, whenever a path ends and however the word of it comes.

Source and target meet over two simulated planes. Hypothesis cuts and mends paths, lets the words of it come at once,
late, twice or never, and takes the source's own links down.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.constants import EventType, LsuOpcode
from codec.frames import parse_lsu
from endpoint.errors import Unreachable
from endpoint.initiator import Initiator
from endpoint.memory import Memory
from endpoint.options import EndpointOptions
from endpoint.paths import Paths
from endpoint.reachability import Heard, Reachability
from endpoint.target import Target
from endpoint.transfer import Transfer

SOURCE, TARGET, SWITCH = 1, 2, 0xF01
KEY = 9
FLIGHT_S = 0.001
LONG_S = 50.0
OPTIONS = EndpointOptions(
    window=16, timeout_s=200, first_rto_s=LONG_S, min_rto_s=LONG_S, max_rto_s=LONG_S, unreachable_s=1.0
)
NEVER = float("inf")


@dataclass(frozen=True)
class Cut:
    """A path that ends and is mended `mended` seconds later; the words of it come after the delays given (none: lost).

    `own`: it is the source's own link, which it sees at once. `repeated`: the switch repeats it at every keepalive.
    """

    plane: int
    mended: float
    own: bool
    down: tuple[float, ...]
    up: tuple[float, ...]
    repeated: bool


DELAYS = st.lists(st.floats(0.0001, 0.3), max_size=2).map(tuple)
CUTS = st.builds(Cut, st.integers(0, 1), st.floats(0.001, 0.5), st.booleans(), DELAYS, DELAYS, st.booleans())
STEPS = st.lists(st.one_of(CUTS, st.integers(1, 8), st.floats(0.0005, 0.2)), min_size=1, max_size=25)
"""Cut a path, submit so many requests, or let time pass."""


class World:
    """Two planes between a source and a target, and the time. Paths that are cut swallow what is on them."""

    def __init__(self, options: EndpointOptions = OPTIONS) -> None:
        self.now = 0.0
        self.serial = 0
        self.agenda: list[tuple[float, int, str, tuple[int, ...], bytes]] = []
        self.cut_until = [0.0, 0.0]
        self.cuts = [0, 0]
        self.sequence = 0
        self.reachability = Reachability([0, 1], 0.0)
        self.memory = Memory()
        self.region = self.memory.register(64, KEY)
        self.counters: Counter[str] = Counter()
        self.executed: Counter[str] = Counter()
        self.target = Target(TARGET, self.memory, self.executed)
        self.initiator = Initiator(
            SOURCE, 1, Paths(SOURCE, [0, 1], False, self.reachability), self.send, self.counters, options
        )
        self.transfers: list[Transfer[int]] = []

    def at(self, when: float, what: str, *values: int, packet: bytes = b"") -> None:
        self.serial += 1
        heapq.heappush(self.agenda, (when, self.serial, what, values, packet))

    def send(self, plane: int, packet: bytes) -> None:
        self.at(self.now + FLIGHT_S, "request", plane, self.cuts[plane], packet=packet)

    def submit(self) -> None:
        if self.initiator.has_room(TARGET):
            transfer: Transfer[int] = Transfer(1, lambda values: int(values[0]))
            self.transfers.append(transfer)
            data = (1).to_bytes(8, "little")
            self.initiator.submit(
                self.now, self.now + 200, TARGET, LsuOpcode.ATOMIC_ADD, KEY, 8, 8, data, transfer, 0, True
            )

    def cut(self, cut: Cut) -> None:
        if self.now < self.cut_until[cut.plane]:
            return
        self.cuts[cut.plane] += 1
        self.cut_until[cut.plane] = self.now + cut.mended
        self.sequence += 2
        if cut.own:
            self.at(self.now, "link", cut.plane, 0)
            self.at(self.now + cut.mended, "link", cut.plane, 1)
            return
        for delay in cut.down:
            self.at(self.now + delay, "word", cut.plane, EventType.LINK_DOWN, self.sequence)
        for delay in cut.up:
            self.at(self.now + cut.mended + delay, "word", cut.plane, EventType.LINK_UP, self.sequence + 1)
        if cut.repeated:
            for n in range(int(cut.mended / 0.01)):
                self.at(self.now + 0.01 * (n + 1), "word", cut.plane, EventType.LINK_DOWN, self.sequence)

    def alive(self, plane: int, cuts: int) -> bool:
        """Tell whether what was sent on a plane when it had been cut so often arrives now."""
        return cuts == self.cuts[plane] and self.now >= self.cut_until[plane]

    def happen(self, what: str, values: tuple[int, ...], packet: bytes) -> None:
        if what == "request" and self.alive(values[0], values[1]):
            response = self.target.handle(parse_lsu(memoryview(packet)))
            if response is not None:
                self.at(self.now + FLIGHT_S, "response", *values, packet=response)
        elif what == "response" and self.alive(values[0], values[1]):
            self.initiator.handle(self.now, parse_lsu(memoryview(packet)))
        elif what == "link":
            plane, up = values
            self.reachability.link(self.now, plane, bool(up))
            if up:
                self.initiator.opened(self.now, None)
            else:
                self.initiator.moved(self.now, None, plane)
        elif what == "word":
            plane, kind, sequence = values
            if not self.reachability.is_up(plane):
                return
            heard = self.reachability.take(self.now, plane, SWITCH, kind, TARGET, sequence)
            if heard in (Heard.CLOSED, Heard.RENEWED):
                self.initiator.moved(self.now, TARGET, plane)
            elif heard is Heard.OPENED:
                self.initiator.opened(self.now, TARGET)

    def run(self, until: float) -> None:
        while True:
            for _, subject in self.reachability.poll(self.now):
                self.initiator.opened(self.now, subject)
            due = self.initiator.expire(self.now) or NEVER
            moment = min(due, self.reachability.due, self.agenda[0][0] if self.agenda else NEVER)
            if moment > until:
                break
            self.now = max(self.now, moment)
            while self.agenda and self.agenda[0][0] <= self.now:
                _, _, what, values, packet = heapq.heappop(self.agenda)
                self.happen(what, values, packet)
        self.now = max(self.now, until)

    def finish(self) -> None:
        limit = self.now + 1000
        while not all(transfer.done() for transfer in self.transfers):
            assert self.now < limit
            self.run(self.now + 0.05)


def play(steps: list[Cut | int | float]) -> World:
    world = World()
    for step in steps:
        if isinstance(step, Cut):
            world.cut(step)
        elif isinstance(step, int):
            for _ in range(step):
                world.submit()
        else:
            world.run(world.now + step)
    return world


@settings(max_examples=500, deadline=None)
@given(STEPS)
def test_each_add_takes_effect_once(steps: list[Cut | int | float]) -> None:
    world = play(steps)
    world.finish()
    before = [transfer.result(0) for transfer in world.transfers]
    assert sorted(before) == list(range(len(before)))
    assert world.region.u64[1] == world.executed["requests"] == len(before)


TOLD = st.builds(
    Cut, st.integers(0, 1), st.floats(0.06, 0.5), st.just(False),
    st.lists(st.floats(0.0001, 0.02), min_size=1, max_size=2).map(tuple), DELAYS, st.just(True),
)  # fmt: skip
SEEN = st.builds(Cut, st.integers(0, 1), st.floats(0.06, 0.5), st.just(True), st.just(()), st.just(()), st.just(False))


@settings(max_examples=500, deadline=None)
@given(st.lists(st.one_of(TOLD, SEEN, st.integers(1, 8), st.floats(0.0005, 0.2)), min_size=1, max_size=25))
def test_who_is_told_waits_for_no_time_out(steps: list[Cut | int | float]) -> None:
    """However often paths are cut: if the switch tells of it, or the own link shows it, nothing waits for the RTO."""
    world = play(steps)
    world.finish()
    assert world.now < LONG_S
    assert "resent_requests" not in world.counters
    assert all(transfer.exception(0) is None for transfer in world.transfers)


def test_without_a_plane_it_ends_in_bounded_time() -> None:
    world = World()
    for plane in (0, 1):
        world.cut(Cut(plane, 100.0, True, (), (), False))
    world.run(0.1)
    transfer: Transfer[int] = Transfer(1, lambda values: int(values[0]))
    world.initiator.submit(world.now, world.now + 200, TARGET, LsuOpcode.LOAD, KEY, 8, 8, b"", transfer, 0)
    world.run(0.9)
    assert not transfer.done()
    world.run(1.1)
    with pytest.raises(Unreachable, match=r"plane 0: own link down for 1\.0 s; plane 1: own link down for 1\.0 s"):
        transfer.result(0)
    late: Transfer[int] = Transfer(1, lambda values: int(values[0]))
    world.initiator.submit(world.now, world.now + 200, TARGET, LsuOpcode.LOAD, KEY, 8, 8, b"", late, 0)
    assert late.done(), "at once"
    assert world.initiator.unfinished == 0


def test_what_moved_has_its_whole_time_out_again() -> None:
    options = EndpointOptions(timeout_s=60, first_rto_s=1.0, min_rto_s=1.0, max_rto_s=8.0)
    world = World(options)
    world.cut(Cut(0, 100.0, False, (0.9,), (), False))
    world.cut(Cut(1, 100.0, False, (), (), False))
    world.submit()  # number 1 goes by plane 1
    world.submit()  # number 2 by plane 0, of whose end the source hears after 0.9 s
    world.run(1.5)
    assert world.counters["resent_requests"] == 1, "number 1 alone"
    world.run(1.95)
    assert world.counters["resent_requests"] == 2
