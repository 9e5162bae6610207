"""The measures of a failover run: which frames and records belong to a cut, what its times are, what falls short."""

from __future__ import annotations

from typing import Any

import pytest

from codec.constants import EventType
from codec.fabric import Fabric
from topologies.describe import describe
from topologies.errors import LaunchError
from topologies.failover import CUTS, Cut, Side, Times, check, figures_of, given, judge, times_of
from topologies.options import Options
from topologies.topos import parse_topo
from topologies.witness import Seen

CUT = Cut(gpu=2, plane=1, before_ns=1_000_000, after_ns=1_050_000, restored_ns=9_000_000)


def fabric(topo: str) -> Fabric:
    return describe(parse_topo(topo), topo)


def seen(at_us: int, gpu: int, subject: int = 2, plane: int = 1, kind: EventType = EventType.LINK_DOWN) -> Seen:
    return Seen(1_000_000 + at_us * 1000, gpu, plane, kind, subject, 7)


def record(at_us: int, moved_after_us: int, **said: Any) -> dict[str, Any]:
    """What `Gpu.event_log` says of an event that arrived so long after the cut; its monotonic clock is elsewhere."""
    arrived = 5_000_000 + at_us * 1000
    return {
        "arrived_ns": arrived, "arrived_real_ns": 1_000_000 + at_us * 1000, "moved_ns": arrived + moved_after_us * 1000,
        "what": "LINK_DOWN", "plane": 1, "subject": 2, "moved": 3, **said,
    }  # fmt: skip


def test_times_of_a_cut_are_of_its_own_frames_records_and_accesses() -> None:
    frames = [
        seen(-5, 1), seen(3, 1, subject=4), seen(4, 1, plane=0), seen(5, 1, kind=EventType.LINK_UP),  # others
        seen(200, 1), seen(150, 3), seen(10_000, 3), seen(160, 3),
    ]  # fmt: skip
    reports: dict[int, dict[str, Any]] = {
        1: {
            "events": [record(-70, 0), record(-50, 0, what="LINK_UP"), record(210, 90), record(5000, 1)],
            "slow": [[2, 900_000, 3_000_000], [3, 900_000, 8_000_000], [2, 0, 500_000]],
        },
        2: {"events": [record(30, 20, what="own link down", subject=None)], "slow": [[3, 2_000_000, 2_500_000]]},
        3: {"events": [record(170, 400)]},
    }
    times = times_of(CUT, frames, reports)
    assert times == Times(event_us=150, notified_us=200, moved_us=570, unfinished=9, stall_us=2100)


def test_what_was_not_seen_is_not_made_up() -> None:
    assert times_of(CUT, [], {1: {}, 2: {}}) == Times()
    one_of_two = times_of(CUT, [seen(100, 1)], {1: {"events": [record(110, 1)]}, 2: {}, 3: {}})
    assert (one_of_two.event_us, one_of_two.notified_us, one_of_two.moved_us) == (100, None, None)


def test_a_path_that_was_closed_still_has_nothing_to_move() -> None:
    reports: dict[int, dict[str, Any]] = {
        1: {"events": [record(-70, 0)]},
        2: {"events": [record(30, 20, what="own link down", subject=None)]},
    }
    assert times_of(CUT, [], reports).moved_us == 50


def side(stall_us: float, lost: int = 0, moved_us: float = 900.0, cuts: int = 60) -> Side:
    times = [Times(400.0, 450.0, moved_us, 2, stall_us)] * cuts
    return Side([CUT] * cuts, times, lost, 0, 0.7)


def test_the_ratio_is_that_of_the_longest_accesses() -> None:
    figures = figures_of(side(2_000), side(469_000, cuts=20))
    assert figures["speedup_over_timeouts"] == 234.5
    assert (figures["cuts"], figures["event_us_p50"], figures["moved_us_p99"]) == (60, 400, 900)
    assert figures["carrier_us_p50"] == 50
    assert judge(figures, 60) == []
    assert figures_of(side(0), side(469_000))["speedup_over_timeouts"] == 469, "nothing shorter than 1 ms is kept"


@pytest.mark.parametrize(
    ("notified", "cuts", "word"),
    [
        (side(2_000, lost=8), 60, "bytes_lost is 8"),
        (side(2_000), 61, "only 60 of 61 cuts"),
        (side(2_000, moved_us=5_100), 60, "5,100 us, above 5,000"),
        (Side([CUT], [Times(moved_us=1.0)], 0, 0, 0.7), 1, "no EVENT frame was seen after 1 cuts"),
        (Side([CUT], [Times(event_us=1.0)], 0, 0, 0.7), 1, "not every GPU had moved"),
    ],
)
def test_the_verdict_names_each_shortfall(notified: Side, cuts: int, word: str) -> None:
    [line] = judge(figures_of(notified, side(469_000)), cuts)
    assert word in line


def test_it_needs_somewhere_to_move_to() -> None:
    check(fabric("planes,3,2"))
    for topo in ("planes,8,1", "planes,2,2", "planes,4,2,2", "leafspine,8,2,2"):
        with pytest.raises(LaunchError, match="SCENARIO=failover needs 3 GPUs or more"):
            check(fabric(topo))


def test_the_number_of_cuts_can_be_given() -> None:
    assert given(()) == (CUTS, 1)
    assert given(("--seed", "5", "--count", "12")) == (12, 5)
    with pytest.raises(LaunchError, match="--count many"):
        given(("--count", "many"))
    assert Options(scenario="failover").link_mode == "managed"
    assert Options(scenario="failover", links="open").link_mode == "open"
