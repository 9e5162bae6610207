"""What a GPU believes of the ways to others: words that are new, repeated, old, late or lost, and own links."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from codec.constants import EventType
from endpoint.reachability import (
    DEGRADED_S,
    MEMORY_S,
    SETTLING_S,
    SILENT_MOST_S,
    SILENT_S,
    WORDS_MOST,
    Heard,
    Reachability,
)

DOWN, UP, DEGRADED = EventType.LINK_DOWN, EventType.LINK_UP, EventType.LINK_DEGRADED
KEEPALIVE_S = 0.01
S1, S2 = 0xF01, 0xF02
A, B = 10, 11


class Ways(Reachability):
    """Reachability on two planes, with switch S1 on plane 0 and S2 on plane 1."""

    def __init__(self) -> None:
        super().__init__([0, 1], 0.0)
        self.now = 0.0

    def hear(self, kind: int, sequence: int, *, plane: int = 0, subject: int = A, switch: int | None = None) -> Heard:
        return self.take(self.now, plane, switch or (S1, S2)[plane], kind, subject, sequence)

    def wait(self, seconds: float, *, repeating: int | None = None) -> list[tuple[int, int]]:
        """Let time pass in steps of a millisecond; S1 repeats LINK_DOWN with this sequence at every keepalive."""
        opened = []
        for n in range(round(seconds * 1000)):
            self.now += 0.001
            if repeating is not None and n % 10 == 9:
                self.hear(DOWN, repeating)
            opened += self.poll(self.now)
        return opened


def test_down_closes_one_path_and_up_opens_it() -> None:
    ways = Ways()
    assert ways.planes_to(A) == ways.planes_to(B) == (0, 1)
    assert ways.hear(DOWN, 1) is Heard.CLOSED
    assert (ways.planes_to(A), ways.planes_to(B)) == ((1,), (0, 1))
    assert ways.hear(UP, 2) is Heard.OPENED
    assert ways.planes_to(A) == (0, 1)


@pytest.mark.parametrize("first", [1, 0x7FFF, 0xFFFE, 0xFFFF])
def test_old_and_repeated_words_change_nothing(first: int) -> None:
    ways = Ways()
    ways.hear(DOWN, first)
    assert ways.hear(DOWN, first) is Heard.REPEATED
    ways.hear(UP, first + 1 & 0xFFFF)
    for age in (1, 2, 100, 0x7FFF):
        assert ways.hear(DOWN, first + 1 - age & 0xFFFF) is Heard.OLD, age
    assert ways.hear(DOWN, first + 1 & 0xFFFF) is Heard.CONTRADICTED
    assert ways.planes_to(A) == (0, 1)
    assert ways.hear(DOWN, first + 2 & 0xFFFF) is Heard.CLOSED
    assert ways.hear(UP, first + 1 & 0xFFFF) is Heard.OLD
    assert ways.planes_to(A) == (1,)


def test_sequences_are_a_switchs_own_and_a_subjects_own() -> None:
    """A switch repeats each port's last change: those of different subjects come mixed."""
    ways = Ways()
    assert ways.hear(DOWN, 9, subject=B) is Heard.CLOSED
    assert ways.hear(DOWN, 5, subject=A) is Heard.CLOSED
    assert ways.hear(DOWN, 1, plane=1) is Heard.CLOSED
    assert ways.planes_to(A) == ()
    assert ways.hear(UP, 2, plane=1) is Heard.OPENED
    assert (ways.planes_to(A), ways.planes_to(B)) == ((1,), (1,))


def test_a_path_that_two_switches_close_needs_both_to_open() -> None:
    ways = Ways()
    assert ways.hear(DOWN, 1) is Heard.CLOSED
    assert ways.hear(DOWN, 1, switch=0xF09) is Heard.NOTED
    assert ways.hear(UP, 2) is Heard.NOTED
    assert ways.planes_to(A) == (1,)
    assert ways.hear(UP, 2, switch=0xF09) is Heard.OPENED


def test_a_path_opens_when_the_repetitions_stop() -> None:
    ways = Ways()
    ways.hear(DOWN, 3)
    assert ways.wait(1.0, repeating=3) == []
    assert ways.planes_to(A) == (1,)
    assert ways.wait(SILENT_S - KEEPALIVE_S) == []
    assert ways.wait(2 * KEEPALIVE_S) == [(0, A)]
    assert ways.planes_to(A) == (0, 1)


def test_four_lost_repetitions_are_no_silence() -> None:
    ways = Ways()
    ways.hear(DOWN, 3)
    for _ in range(20):
        assert ways.wait(4.5 * KEEPALIVE_S) == []
        ways.hear(DOWN, 3)
    assert ways.planes_to(A) == (1,)


def test_a_path_that_is_never_repeated_is_tried_with_growing_intervals() -> None:
    """What a distant switch turns around comes once per attempt: with each the source waits twice as long."""
    ways = Ways()
    ways.hear(DOWN, 3)
    intervals = []
    for _ in range(8):
        closed = ways.now
        while not ways.wait(0.001):
            assert ways.now < closed + 5
        intervals.append(ways.now - closed)
        assert ways.hear(DOWN, 3) is Heard.CLOSED
    expected = [min(SILENT_S * 2**n, SILENT_MOST_S) for n in range(8)]
    assert intervals == pytest.approx(expected, abs=0.002)
    ways.hear(UP, 4)
    ways.hear(DOWN, 5)
    assert ways.wait(SILENT_S + 0.002) == [(0, A)], "another change: the intervals begin anew"


def test_how_long_none_led_there_counts_from_the_first_closing() -> None:
    ways = Ways()
    ways.now = 1.0
    ways.hear(DOWN, 3)
    ways.now = 2.0
    ways.link(ways.now, 1, up=False)
    assert ways.unreachable_since(A) == 2.0
    assert ways.explain(A, 3.0) == "plane 0: closed by switch 0xf01 for 2.0 s; plane 1: own link down for 1.0 s"
    assert ways.wait(SILENT_S) == [(0, A)]
    ways.hear(DOWN, 3)  # closed still
    assert ways.unreachable_since(A) == 2.0


def test_silence_does_not_count_while_the_own_link_is_down() -> None:
    ways = Ways()
    ways.hear(DOWN, 3)
    ways.link(ways.now, 0, up=False)
    assert ways.wait(1.0) == []
    ways.link(ways.now, 0, up=True)
    assert ways.planes_to(A) == (1,), "still closed: the switch may repeat it"
    assert ways.wait(SILENT_S - KEEPALIVE_S) == []
    assert ways.wait(2 * KEEPALIVE_S) == [(0, A)]


def test_a_link_that_comes_up_forgets_its_switchs_sequences() -> None:
    """The switch may have begun to count anew."""
    ways = Ways()
    ways.hear(DOWN, 1000)
    ways.hear(UP, 1001)
    ways.hear(DOWN, 7, plane=1)
    ways.hear(UP, 8, plane=1)
    assert ways.hear(DOWN, 1) is Heard.OLD
    ways.link(ways.now, 0, up=False)
    ways.link(ways.now, 0, up=True)
    assert ways.hear(DOWN, 1) is Heard.CLOSED
    assert ways.hear(DOWN, 6, plane=1) is Heard.OLD, "the other plane's are remembered"


def test_a_distant_switch_that_begins_anew_is_believed_before_long() -> None:
    ways = Ways()
    ways.hear(UP, 1000)
    assert ways.hear(DOWN, 1) is Heard.OLD
    ways.wait(MEMORY_S + 0.01)
    assert ways.hear(DOWN, 1) is Heard.CLOSED


def test_an_open_path_whose_link_came_up_was_down_unheard() -> None:
    ways = Ways()
    assert ways.hear(UP, 1) is Heard.RENEWED
    assert ways.hear(UP, 1) is Heard.REPEATED
    assert ways.hear(UP, 3) is Heard.RENEWED
    ways.hear(DOWN, 1, switch=0xF09)
    assert ways.hear(UP, 5) is Heard.NOTED, "another switch closes it still"
    assert ways.hear(UP, 2, switch=0xF09) is Heard.OPENED
    ways.hear(DOWN, 6)
    ways.wait(SILENT_S + 0.002)
    assert ways.hear(UP, 7) is Heard.RENEWED, "what was tried meanwhile may be lost"


def test_own_link() -> None:
    ways = Ways()
    ways.link(0.0, 1, up=False)
    assert ways.planes_to(A) == ways.planes_to(B) == (0,)
    ways.link(0.5, 0, up=False)
    assert ways.planes_to(A) == ()
    assert ways.unreachable_since(A) == 0.5
    ways.link(1.0, 1, up=True)
    assert ways.planes_to(A) == (1,)
    ways.now = 1.001
    ways.link(ways.now, 0, up=True)
    assert ways.planes_to(A) == (0, 1), "both have just come up"
    ways.wait(SETTLING_S - 0.0005)
    assert ways.planes_to(A) == (1,), "one of them has settled"
    ways.wait(0.002)
    assert ways.planes_to(A) == (0, 1)


def test_a_plane_that_has_just_come_up_is_spared_while_there_is_another() -> None:
    ways = Ways()
    ways.link(0.0, 1, up=False)
    ways.link(0.0, 1, up=True)
    ways.hear(DOWN, 1, plane=0, subject=B)
    assert (ways.planes_to(A), ways.planes_to(B)) == ((0,), (1,))
    assert ways.wait(SETTLING_S + 0.001) == [(0, B)]
    assert ways.planes_to(A) == ways.planes_to(B) == (0, 1)


def test_a_degraded_path_is_avoided_while_there_is_another() -> None:
    ways = Ways()
    assert ways.hear(DEGRADED, 1) is Heard.DEGRADED
    assert ways.hear(DEGRADED, 2) is Heard.NOTED
    assert ways.planes_to(A) == (1,)
    ways.hear(DOWN, 1, plane=1)
    assert ways.planes_to(A) == (0,)
    ways.hear(DOWN, 3)
    assert ways.planes_to(A) == ()
    assert ways.hear(DEGRADED, 4) is Heard.OPENED
    assert ways.planes_to(A) == (0,)
    ways.hear(UP, 2, plane=1)
    assert ways.planes_to(A) == (1,)
    assert ways.hear(UP, 5) is Heard.NOTED, "good again, and was never down"
    assert ways.planes_to(A) == (0, 1)
    assert ways.hear(DEGRADED, 6) is Heard.DEGRADED
    assert ways.wait(DEGRADED_S - 0.1) == []
    assert ways.planes_to(A) == (1,)
    assert ways.wait(0.2) == [], "it was not closed"
    assert ways.planes_to(A) == (0, 1)


def test_memory_is_bounded() -> None:
    """Whoever can send as a switch fills it; nothing that is known is lost for it, and it empties by itself."""
    ways = Ways()
    ways.hear(DOWN, 1, subject=A)
    heard = [ways.hear(UP, 1, subject=n % 0xE00 + 12, switch=0xF00 + n // 0xE00) for n in range(WORDS_MOST + 5)]
    assert heard.count(Heard.OVERFLOWED) == 6
    assert ways.planes_to(A) == (1,)
    ways.now += MEMORY_S + 0.01
    assert ways.hear(DOWN, 1, plane=1, subject=B) is Heard.CLOSED
    assert sum(map(len, ways._words.values())) == ways._count == 2


@dataclass
class Port:
    """The truth about one subject at its switch."""

    up: bool = True
    sequence: int = 0
    said: list[tuple[int, int]] = field(default_factory=list)
    """Words under way, and those that may come once more."""


class Soft(RuleBasedStateMachine):
    """A switch whose words are lost, repeated and late: whatever happened, the truth prevails by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.ways = Ways()
        self.ports = {A: Port(sequence=0xFFFA), B: Port(sequence=3)}

    def _tick(self, lose: set[int]) -> None:
        """Let a keepalive pass: a port that is down is told of again."""
        for n, (subject, port) in enumerate(self.ports.items()):
            if not port.up and n not in lose:
                self.ways.hear(DOWN, port.sequence, subject=subject)
        self.ways.wait(KEEPALIVE_S)

    @rule(subject=st.sampled_from([A, B]), lost=st.booleans())
    def change(self, subject: int, lost: bool) -> None:
        port = self.ports[subject]
        port.up = not port.up
        port.sequence = port.sequence + 1 & 0xFFFF
        word = (int(UP if port.up else DOWN), port.sequence)
        port.said = [*port.said[-5:], word]
        if not lost:
            self.ways.hear(*word, subject=subject)

    @rule(subject=st.sampled_from([A, B]), n=st.integers(0, 5))
    def late(self, subject: int, n: int) -> None:
        said = self.ports[subject].said
        if n < len(said):
            self.ways.hear(*said[n], subject=subject)

    @rule(lose=st.sets(st.integers(0, 1)))
    def tick(self, lose: set[int]) -> None:
        self._tick(lose)

    @rule(wrong=st.integers(0, 0xFFFF), kind=st.sampled_from([DOWN, UP, DEGRADED]), subject=st.sampled_from([A, B]))
    def forged(self, wrong: int, kind: int, subject: int) -> None:
        """Somebody else says something, with an id of its own."""
        self.ways.hear(kind, wrong, subject=subject, switch=0xF77)

    @rule()
    def link(self) -> None:
        """The own link goes and comes back; the switch has started anew and counts from 0."""
        self.ways.link(self.ways.now, 0, up=False)
        self.ways.wait(0.1)
        for port in self.ports.values():
            port.sequence = 0 if port.up else 1
            port.said.clear()
        self.ways.link(self.ways.now, 0, up=True)

    @invariant()
    def nothing_touches_the_other_plane(self) -> None:
        assert all(1 in self.ways.planes_to(subject) for subject in (A, B))

    def teardown(self) -> None:
        """When the words come again as they should, the truth is known; what was forged lapses."""
        for _ in range(round(DEGRADED_S / KEEPALIVE_S) + 10):
            self._tick(set())
        for subject, port in self.ports.items():
            assert self.ways.planes_to(subject) == ((0, 1) if port.up else (1,))


TestSoft = Soft.TestCase
TestSoft.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
