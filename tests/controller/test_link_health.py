"""When a link is judged bad, and good again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.link_health import LinkHealth, Seen


class Port:
    """A port whose counters a test moves, looked at every half second."""

    def __init__(self, **rules: float) -> None:
        self.health = LinkHealth(3, rules.get("window_s", 10), rules.get("clean_s", 60), int(rules.get("frames", 0)))
        self.at_s = 1000.0
        self.found = self.told = self.received = self.sent = self.numbered = 0
        self.look()

    def look(self) -> bool:
        return self.health.update(Seen(self.at_s, self.found, self.told, self.received, self.sent, self.numbered))

    def passes(self, seconds: float, found: int = 0, told: int = 0) -> bool:
        """Let so much time pass, with 100 frames a second each way, and losses at its beginning."""
        self.found += found
        self.told += told
        bad = self.look()
        for _ in range(int(seconds * 2)):
            self.at_s += 0.5
            self.received += 50
            self.sent += 50
            bad = self.look()
        return bad


@pytest.mark.parametrize("where", ["found", "told"])
def test_three_losses_in_the_window(where: str) -> None:
    port = Port()
    assert not port.passes(2, **{where: 2})
    assert not port.passes(7)
    assert port.passes(0.5, **{where: 1})


def test_three_losses_over_a_longer_time_are_none_of_a_bad_link() -> None:
    port = Port()
    for _ in range(20):
        assert not port.passes(6, found=1)


def test_both_directions_count_together() -> None:
    assert Port().passes(1, found=1, told=2)


def test_what_was_lost_before_the_first_look_is_past() -> None:
    health = LinkHealth(3, 10, 60, 0)
    assert not health.update(Seen(5.0, 100, 100, 10_000, 10_000))
    assert not health.update(Seen(5.5, 102, 100, 10_050, 10_050))
    assert health.update(Seen(6.0, 103, 100, 10_100, 10_100))


def test_good_again_when_clean_for_long() -> None:
    port = Port()
    assert port.passes(1, found=3)
    assert port.passes(58)
    assert port.passes(1, told=1)  # one more loss: the time begins anew
    assert port.passes(58)
    assert not port.passes(2)


def test_an_idle_link_proves_nothing() -> None:
    port = Port(frames=1000)
    assert port.passes(1, found=3)
    assert port.passes(100)
    port.numbered += 999
    assert port.passes(100)
    port.numbered += 1
    assert not port.passes(1)


def test_one_that_turns_bad_again_soon_has_to_be_clean_for_longer() -> None:
    port = Port()
    for wanted_s in (60, 120, 240, 480, 480):
        assert port.passes(1, found=3)
        assert port.health.clean_for_s == wanted_s
        assert port.passes(wanted_s - 2)
        assert not port.passes(2)
        port.passes(20)
    port.passes(1000)
    assert port.passes(1, found=3)
    assert port.health.clean_for_s == 60


def test_a_switch_that_starts_anew_counts_from_nothing() -> None:
    port = Port()
    assert not port.passes(1, found=2)
    port.found = port.received = port.sent = 0
    assert not port.passes(1)
    assert not port.passes(1, found=2)
    assert port.passes(1, found=1)


def test_a_window_longer_than_the_clean_time_holds_nothing_against_a_good_link() -> None:
    port = Port(window_s=60, clean_s=2)
    assert port.passes(1, found=5)
    assert not port.passes(2)
    assert not port.passes(10)


def test_what_it_is_supposed_to_be() -> None:
    port = Port()
    port.health.suppose(bad=True, at_s=port.at_s)
    assert port.passes(59)
    assert not port.passes(2)


def test_rates_are_of_each_direction() -> None:
    port = Port()
    port.passes(5, found=1, told=2)
    loss = port.health.loss
    assert (loss.found, loss.received, loss.told, loss.sent) == (1, 500, 2, 500)
    assert loss.to_switch == pytest.approx(1 / 501)
    assert loss.to_peer == pytest.approx(2 / 500)
    assert str(loss) == "1 losses to the switch (2.0e-03 of its frames), 2 to the peer (4.0e-03)"


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=200))
def test_changes_are_rare_and_for_a_reason(steps: list[tuple[int, int, bool]]) -> None:
    """Whatever comes: bad needs three losses in 10 s, good needs 60 s without one, so it cannot flap."""
    port = Port()
    losses: list[tuple[float, int]] = []
    before, good_at = False, float("-inf")
    for found, told, restarts in steps:
        if restarts:
            port.found = port.told = port.received = port.sent = 0
            port.look()
        bad = port.passes(7, found, told)
        losses.append((port.at_s, found + told))
        if bad and not before:
            assert sum(count for at, count in losses if at > port.at_s - 18) >= 3
        if before and not bad:
            assert all(not count for at, count in losses if at > port.at_s - 60 + 7)
            assert port.at_s - good_at > 60
            good_at = port.at_s
        before = bad
