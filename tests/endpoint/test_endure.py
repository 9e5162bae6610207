"""Traffic that shows whether each access took effect once; and endpoints that know no better than RoCE's."""

from __future__ import annotations

from pathlib import Path

import pytest

from endpoint import ConfigurationError, EndpointOptions
from tests.endpoint.test_cli import fabric, run_both

assert fabric  # a fixture


def test_all_kinds_take_effect_once_and_their_times_are_kept(fabric: Path) -> None:
    reports = run_both(fabric, "endure", "--duration", "1.5", "--rate", "400", "--size", "64", "--window", "16")
    for mine, other in zip(reports, reversed(reports), strict=True):
        found = mine["failover"]
        assert (found["bytes_lost"], found["bytes_doubled"], mine["bytes_wrong"]) == (0, 0, 0)
        assert 100 < mine["transactions"] <= 650, "a pace of 400 per second"
        assert mine["bytes_verified"] > 64 * 20
        assert mine["counters"]["tma_responses"] > 0
        for dst, began, ended in found["slow"]:
            assert dst == other["gpu"]
            assert 1_000_000 <= ended - began < 30_000_000_000
        assert isinstance(found["events"], list)


def test_only_what_can_be_is_accepted() -> None:
    with pytest.raises(ConfigurationError, match="tries_per_path = 0"):
        EndpointOptions(tries_per_path=0)
