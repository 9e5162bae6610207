"""What a run with bad links makes of its figures, and when it falls short."""

from __future__ import annotations

from collections import Counter

import pytest

from topologies.bad_link import (
    COUNT,
    LOSSES,
    RTO_S,
    SEMANTICS,
    BadLinkResult,
    Case,
    Figures,
    check,
    given,
    judge,
    together,
)
from topologies.describe import describe
from topologies.errors import LaunchError
from topologies.faults import drop_entries
from topologies.topos import parse_topo

CASES = [Case(loss, every, semantics) for loss in LOSSES for every in (False, True) for semantics in SEMANTICS]


def good() -> BadLinkResult:
    """Return a result that falls short of nothing."""
    result = BadLinkResult()
    for case in CASES:
        result.on.cases[case] = Figures(COUNT, exposed=COUNT, dropped=10, replays=12, goodput_ratio=0.95)
        lost = 10 if case.loss >= 1e-2 else 0
        result.off.cases[case] = Figures(frames=1000, dropped=lost, lost=lost, goodput_ratio=0.5)
    for semantics in SEMANTICS:
        result.on.last[semantics] = Figures(frames=100, dropped=9, replays=9, latencies=Counter({20_000: 9}))
        result.off.last[semantics] = Figures(frames=100, dropped=9, lost=9)
        for every in (False, True):
            result.on.clean[semantics, every] = result.off.clean[semantics, every] = 1000.0
    return result


def test_a_good_run_falls_short_of_nothing() -> None:
    assert judge(good(), COUNT) == []


def test_what_a_run_falls_short_of() -> None:
    result = good()
    result.on.cases[Case(1e-5, True, "rdma")].lost = 1
    result.on.cases[Case(1e-3, False, "rdma")].goodput_ratio = 0.51
    result.on.cases[Case(1e-2, False, "rdma")].dropped = 0
    result.on.last["load_store"].lost = 2
    result.on.last["load_store"].latencies[int(1e6 * RTO_S)] = 1
    result.on.last["rdma"].dropped = 0
    result.on.last["rdma"].latencies.clear()
    for case, figures in result.off.cases.items():
        if case.loss == 1e-2:
            figures.lost = 0
    short = "\n".join(judge(result, 21 * COUNT))
    assert "with retry 1 of 1,000,000 frames were lost above the links at 1e-05 (all links, rdma)" in short
    assert "the links carried 20,000,000 frames, fewer than 21,000,000" in short
    assert "links dropped nothing of 1,000,000 frames at 0.01 (one link, rdma): the case proves nothing" in short
    assert "goodput at 0.001 (one link) is 73.0% of the clean links', below 92%" in short
    assert "2 last frames were sent again end to end (load_store)" in short
    assert "no last frame was lost, so that nothing is shown of them (rdma)" in short
    assert "an access whose last frames were lost took 5.00 s (load_store)" in short
    assert "an access whose last frames were lost took 0.00 s (rdma)" in short
    assert "without retry nothing was lost at 0.01: the comparison proves nothing" in short
    assert short.count("\n") == 8


def test_where_no_loss_is_to_be_expected_none_has_to_happen() -> None:
    result = good()
    for semantics in SEMANTICS:
        result.on.cases[Case(1e-5, False, semantics)].exposed = 1000
        result.on.cases[Case(1e-5, False, semantics)].dropped = 0
    assert judge(result, COUNT) == []


def test_figures_of_several_cases() -> None:
    one, two = Figures(100, 50, 10, 1, 5, goodput_ratio=1.0), Figures(300, 150, 30, 3, 15, goodput_ratio=0.5)
    one.latencies.update({10: 99})
    two.latencies.update({1000: 1})
    both = together([one, two])
    assert (both.effective_loss, both.goodput_ratio) == (0.01, 0.75)
    found = both.to_json()
    assert (found["replays"], found["replays_per_loss"]) == (20, 0.5)
    assert (found["latency_us_p50"], found["latency_us_p99_9"], found["latency_us_max"]) == (10, 1000, 1000)
    assert found["frames_on_bad_links"] == 200
    assert together([]).to_json()["goodput_ratio"] is None


def test_a_probability_becomes_entries_for_data_and_control() -> None:
    entries = drop_entries([3], 0.25)
    assert [dict(item.match) for item in entries] == [{"control": c, "egress_port": 3} for c in (0, 1)]
    assert {dict(item.params)["probability"] for item in entries} == {1 << 30}
    assert [dict(item.match)["control"] for item in drop_entries([3], 0.25, control=False)] == [0]
    assert dict(drop_entries([1], 1.0)[0].params)["probability"] == 2**32 - 1


def test_what_can_be_asked_for() -> None:
    assert given(()) == (COUNT, 1)
    assert given(("--count", "5000", "--seed", "7")) == (5000, 7)
    with pytest.raises(LaunchError, match="--count 10: not a whole number from 1,000 to 1,000,000,000"):
        given(("--count", "10"))
    with pytest.raises(LaunchError, match="needs 3 GPUs or more, all in one tenant; here are 2"):
        check(describe(parse_topo("planes,2,2"), "planes"))
