"""Streams: continuous stores whose rates are measured and whose last bytes are compared; and a GPU that is slow."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from codec.profile import LinkProfile
from endpoint import ConfigurationError, EndpointOptions, Gpu
from endpoint.traffic.report import rounded_us
from endpoint.traffic.streams import FLOWS, HOT, Flow
from tests.endpoint.test_cli import fabric, run_both

assert fabric  # a fixture


def pairs(name: str, ranks: int, *, paced: bool) -> set[tuple[int, int]]:
    return {
        (rank, flow.rank) for rank in range(ranks) for flow in FLOWS[name](rank, ranks) if flow.paced is paced
    }  # fmt: skip


def test_who_sends_to_whom() -> None:
    assert pairs("incast", 4, paced=False) == {(1, 0), (2, 0), (3, 0)}
    assert pairs("all-to-all", 3, paced=False) == {(a, b) for a in range(3) for b in range(3) if a != b}
    assert pairs("neighbours", 4, paced=True) == {(1, 2), (2, 3), (3, 1)}
    assert pairs("hotspot", 4, paced=False) == pairs("incast", 4, paced=False)
    assert pairs("hotspot", 4, paced=True) == pairs("neighbours", 4, paced=True)
    assert FLOWS["neighbours"](1, 2) == []
    assert FLOWS["hotspot"](1, 2) == [Flow(HOT)]


@pytest.mark.parametrize(("seconds", "us"), [(1.23456e-4, 123), (0.0123456, 12300), (1.0, 1_000_000), (0.0, 0)])
def test_latencies_keep_three_digits(seconds: float, us: int) -> None:
    assert rounded_us(seconds) == us


def test_a_stream_is_measured_and_its_bytes_are_compared(fabric: Path) -> None:
    hot, source = run_both(
        fabric, "stream", "--flows", "incast", "--duration", "0.5", "--warm-up", "0.2", "--window", "64"
    )
    [flow] = source["flows"].values()
    assert 0 < flow["completed"] <= source["transactions"]
    assert (flow["bytes"], flow["seconds"], flow["given_up"]) == (flow["completed"] * 256, 0.5, 0)
    assert sum(source["latency_counts"]["1"].values()) == flow["completed"]
    assert source["latency_us_p50"] <= source["latency_us_p99"]
    assert (hot["flows"], hot["bytes_wrong"]) == ({}, 0)
    assert hot["bytes_verified"] == 256 * min(1024, source["transactions"])


def test_a_slow_gpu_answers_at_its_own_rate(fabric: Path) -> None:
    hot, source = run_both(
        fabric, "stream", "--flows", "incast", "--duration", "1", "--warm-up", "0.5", "--window", "64", "--rto", "3",
        "--slow-gpu", "g1", "--service-us", "2000",
    )  # fmt: skip
    assert hot["bytes_wrong"] == 0
    assert 350 < source["flows"]["1"]["completed"] <= 510, "500 a second, less what a busy machine takes"


def test_a_full_ring_of_a_slow_gpu_loses_frames_without_credits_and_none_with(
    cable: tuple[str, str], gpus: Callable[..., Gpu]
) -> None:
    ring = 96 * 1300 // 2  # the kernel gives twice what is asked for, and charges some 1,300 bytes for a small frame
    slow = EndpointOptions(timeout_s=20, linger_s=0, service_s=0.001, receive_buffer=ring)
    quick = EndpointOptions(timeout_s=20, linger_s=0, window=512, first_rto_s=1.0, min_rto_s=1.0)
    data = [(8 * (n % 64), bytes(8)) for n in range(512)]
    for managed, lossless in ((False, False), (True, True)):
        profile = LinkProfile(credit_limit=40, silence_ms=2000)
        links = {"managed": {0: profile}} if managed else {}
        target = gpus(1, {0: cable[0]}, peers=[2], options=slow, **links)
        source = gpus(2, {0: cable[1]}, peers=[1], options=quick, **links)
        target.register(4096)
        source.store_many(1, data)
        dropped = target.port_counters()[0].get("rx_dropped_full", 0)
        assert (dropped == 0) is lossless, dropped
        source.close()
        target.close()


def test_the_service_time_has_a_bound() -> None:
    with pytest.raises(ConfigurationError, match="service_s"):
        EndpointOptions(service_s=0.5)


def test_a_slow_gpu_makes_up_for_time_overslept(cable: tuple[str, str], gpus: Callable[..., Gpu]) -> None:
    target = gpus(1, {0: cable[0]}, options=EndpointOptions(linger_s=0, service_s=0.001))
    source = gpus(2, {0: cable[1]}, options=EndpointOptions(timeout_s=20, linger_s=0, first_rto_s=5, max_rto_s=5))
    target.register(8)
    started = time.monotonic()
    source.store_many(1, [(0, bytes(8))] * 300)
    assert time.monotonic() - started > 0.29, "no faster than its service time"
