"""The way of a request: spread or kept together, and another one when it is sent again."""

from __future__ import annotations

from collections import Counter

import pytest

from endpoint.paths import Paths


@pytest.mark.parametrize("planes", [1, 2, 3, 4, 8])
def test_spread_over_planes_and_paths(planes: int) -> None:
    paths = Paths(1, range(planes), ordered=False)
    ways = [paths.way(2, request, 0) for request in range(256 * 12)]
    counts = Counter(way.plane for way in ways)
    assert max(counts.values()) - min(counts.values()) <= 12
    assert {way.entropy for way in ways} == set(range(256))
    assert {way.f for way in ways} == {1}


def test_again_is_elsewhere() -> None:
    for ordered in (False, True):
        paths = Paths(1, [0, 1], ordered)
        assert [paths.way(2, 7, attempt).plane for attempt in range(4)] in ([1, 0, 1, 0], [0, 1, 0, 1])
    single = Paths(1, [0], ordered=False)
    assert len({single.way(2, 7, attempt).entropy for attempt in range(8)}) == 8


def test_a_path_may_be_tried_several_times() -> None:
    paths = Paths(1, [0, 1], ordered=False, tries=3)
    ways = [paths.way(2, 7, attempt) for attempt in range(9)]
    assert [way.plane for way in ways] == [1, 1, 1, 0, 0, 0, 1, 1, 1]
    assert len({way.entropy for way in ways}) == 3


def test_ordered_keeps_a_pair_together_and_pairs_apart() -> None:
    ways = {(src, dst): Paths(src, [0, 1], ordered=True).way(dst, 5, 0) for src in range(8) for dst in range(8)}
    for (src, dst), way in ways.items():
        assert way == Paths(src, [0, 1], ordered=True).way(dst, 99, 0)
        assert (way.f, way.entropy) == (0, 0)
    assert Counter(way.plane for (src, _), way in ways.items() if src == 3) == {0: 4, 1: 4}


def test_planes_may_have_any_numbers() -> None:
    assert {Paths(1, [7, 3], ordered=False).way(2, request, 0).plane for request in range(4)} == {3, 7}
    with pytest.raises(ValueError, match="at least one port"):
        Paths(1, [], ordered=False)
