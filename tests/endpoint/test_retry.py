"""Link-layer retry on a real cable between two GPUs: the link loses frames, and nothing above it notices."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codec.profile import LinkProfile
from endpoint import Gpu, Impairment
from endpoint.llr import ReceiveState, TransmitState
from endpoint.traffic import patterns
from endpoint.traffic.patterns import Parameters, Run
from endpoint.traffic.progress import Progress
from endpoint.traffic.report import Report
from tests.endpoint.conftest import PATIENT, settle

Maker = Callable[..., Gpu]
RETRIED = LinkProfile(llr=True, silence_ms=5000)
"""A busy machine may stop a process for longer than the usual silence; a new session is another test's."""
PATIENTLY = replace(PATIENT, lossless_rto_s=20, impairments=())


def pair(cable: tuple[str, str], gpus: Maker, profile: LinkProfile = RETRIED, **changes: Any) -> tuple[Gpu, Gpu]:
    options = replace(PATIENTLY, **changes)
    ends = [
        gpus(number, {0: cable[number - 1]}, peers=[3 - number], managed={0: profile}, options=options)
        for number in (1, 2)
    ]
    deadline = time.monotonic() + 5
    while not all(end._links[0].is_up for end in ends):
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return ends[0], ends[1]


def arrivals(gpu: Gpu) -> list[int]:
    """Return a list that gets the number of every request that comes to a GPU from now on, as its link gives them."""
    numbers: list[int] = []
    handle = gpu._engine._target.handle

    def note(request: Any) -> bytes | None:
        numbers.append(request.request)
        return handle(request)

    gpu._engine._target.handle = note  # type: ignore[method-assign]
    return numbers


def loss(probability: float) -> Impairment:
    return Impairment("drop", probability, direction="both")


@pytest.mark.parametrize(("probability", "count"), [(1e-3, 6000), (1e-2, 3000), (1e-1, 1000)])
def test_loss_is_not_noticed(cable: tuple[str, str], gpus: Maker, probability: float, count: int) -> None:
    """Data and control alike are lost, both ways; every add happens once, in order, and none is sent again."""
    a, b = pair(cable, gpus)
    words = np.zeros(1, np.uint64)
    b.register(words)
    numbers = arrivals(b)
    for gpu in (a, b):
        gpu.impair(loss(probability / 2))  # as sender and as receiver: that makes `probability` each way
    before = [transfer.result() for transfer in [a.atomic_add_async(2, 0, 1) for _ in range(count)]]
    assert before == list(range(count))
    assert words[0] == count
    assert numbers == list(range(1, count + 1))
    for gpu in (a, b):
        counters = gpu.counters()
        assert counters["impaired_tx_drop"] + counters["impaired_rx_drop"] > 0
        assert counters["llr_tx_replay"] > 0
        assert not {"resent_requests", "duplicate_request", "late_response", "llr_flushes"} & counters.keys()
        assert counters["link_ups"] == 1


def test_without_retry_the_same_cable_loses(cable: tuple[str, str], gpus: Maker) -> None:
    """So that the test above proves something."""
    a, b = pair(cable, gpus, replace(RETRIED, llr=False), first_rto_s=0.05, min_rto_s=0.05, lossless_rto_s=0.05)
    words = np.zeros(1, np.uint64)
    b.register(words)
    numbers = arrivals(b)
    for gpu in (a, b):
        gpu.impair(loss(5e-3))
    before = sorted(transfer.result() for transfer in [a.atomic_add_async(2, 0, 1) for _ in range(2000)])
    assert before == list(range(2000))
    assert a.counters()["resent_requests"] > 5
    assert numbers != sorted(numbers)
    assert "llr_tx_ok" not in a.counters()


EVERYTHING = (
    Impairment("drop", 0.01, direction="both"),
    Impairment("corrupt", 0.01, direction="both"),
    Impairment("duplicate", 0.01, direction="both"),
    Impairment("delay", 0.01, direction="both", delay_us=2000),
)


@pytest.mark.parametrize(
    "impairments",
    [(replace(one, probability=0.05),) for one in EVERYTHING[1:]] + [EVERYTHING],
    ids=["corruption", "repetition", "overtaking", "everything"],
)
def test_every_byte_is_right(cable: tuple[str, str], gpus: Maker, impairments: tuple[Impairment, ...]) -> None:
    ends = pair(cable, gpus)
    reports = [Report("random", gpu.id, gpu.rank, 2) for gpu in ends]
    for gpu in ends:
        gpu.impair(*impairments)

    def run(gpu: Gpu, report: Report) -> None:
        with Progress("random", 400, shown=False) as progress:
            patterns.random(Run(gpu, Parameters(count=400, size=1000, window=32, seed=7), report, progress))
            gpu.barrier()

    threads = [threading.Thread(target=run, args=one) for one in zip(ends, reports, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for gpu, report in zip(ends, reports, strict=True):
        assert (report.wrong, report.bytes_wrong, report.transactions) == ([], 0, 400)
        counters = gpu.counters()
        assert counters.get("llr_tx_replay", 0) > 0 or impairments[0].action == "duplicate", counters
        assert not {"resent_requests", "duplicate_request", "late_response", "llr_flushes"} & counters.keys()
        for one in impairments:
            assert counters[f"impaired_tx_{one.action}"] > 0


@pytest.mark.parametrize("loser", [0, 1], ids=["request", "response"])
def test_a_lost_last_frame_is_repaired_by_the_link(cable: tuple[str, str], gpus: Maker, loser: int) -> None:
    """Nothing comes after it that would show that it is missing."""
    ends = pair(cable, gpus)
    region = ends[1].register(8)
    ends[loser].impair(Impairment("drop", count=1, kind="data"))
    ends[0].store(2, 0, b"the last")
    assert region.array.tobytes() == b"the last"
    counters = ends[loser].counters()
    assert counters["impaired_tx_drop"] == 1
    assert counters["llr_tx_replay"] >= 1
    assert "resent_requests" not in ends[0].counters()
    assert "duplicate_request" not in ends[1].counters()


def test_states(cable: tuple[str, str], gpus: Maker) -> None:
    a = gpus(1, {0: cable[0]}, managed={0: RETRIED}, options=PATIENTLY)
    assert a.llr_states() == {0: (TransmitState.INIT, ReceiveState.OFF)}
    b = gpus(2, {0: cable[1]}, managed={0: RETRIED}, options=PATIENTLY)
    assert settle(lambda: a._links[0].is_up and b._links[0].is_up)
    assert a.llr_states() == b.llr_states() == {0: (TransmitState.ADVANCE, ReceiveState.SEND_ACKS)}
    a.close()
    b.close()
    a = gpus(1, {0: cable[0]}, options=PATIENTLY)
    assert a.llr_states() == {0: (TransmitState.OFF, ReceiveState.OFF)}


def test_bulk_over_a_bad_cable(cable: tuple[str, str], gpus: Maker) -> None:
    """RDMA rides on the same link layer: nothing of a message is sent again end to end."""
    a, b = pair(cable, gpus)
    region = b.register(1 << 18)
    data = np.random.default_rng(3).integers(0, 256, 1 << 18, np.uint8)
    for gpu in (a, b):
        gpu.impair(loss(5e-3))
    a.write(2, 0, data)
    assert region.array.tobytes() == data.tobytes()
    assert a.read(2, 0, 1 << 18) == data.tobytes()
    assert a.counters()["llr_tx_replay"] > 0
    assert not {name for gpu in (a, b) for name in gpu.counters() if "resent" in name or "duplicate_r" in name}


def test_gives_up_on_a_dead_cable_and_recovers(cable: tuple[str, str], gpus: Maker) -> None:
    """What was given up is sent again end to end, and happens once."""
    profile = replace(RETRIED, replay_count_max=3)
    a, b = pair(cable, gpus, profile, first_rto_s=0.1, min_rto_s=0.1, lossless_rto_s=0.1)
    words = np.zeros(1, np.uint64)
    b.register(words)
    assert a.atomic_add(2, 0, 1) == 0
    a.impair(Impairment("drop", 1.0, kind="data"))
    transfers = [a.atomic_add_async(2, 0, 1) for _ in range(20)]  # fewer than one destination may have in flight
    deadline = time.monotonic() + 10
    while a.port_counters()[0].get("llr_flushes", 0) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    a.impair()
    assert sorted(transfer.result() for transfer in transfers) == list(range(1, 21))
    assert words[0] == 21
    assert a.port_counters()[0]["link_ups"] >= 3


def test_an_end_that_restarts_on_a_bad_cable(cable: tuple[str, str], gpus: Maker) -> None:
    quick = {"first_rto_s": 0.1, "min_rto_s": 0.1, "lossless_rto_s": 0.1, "impairments": (loss(0.02),)}
    a, b = pair(cable, gpus, replace(RETRIED, silence_ms=100), **quick)
    words = np.zeros(1, np.uint64)
    b.register(words)
    transfers = [a.atomic_add_async(2, 0, 1) for _ in range(300)]
    assert sorted(transfer.result() for transfer in transfers) == list(range(300))
    b.close()
    b = gpus(2, {0: cable[1]}, managed={0: RETRIED}, incarnation=2, options=replace(PATIENTLY, **quick))  # type: ignore[arg-type]
    words = np.zeros(1, np.uint64)
    b.register(words)
    transfers = [a.atomic_add_async(2, 0, 1) for _ in range(300)]
    assert sorted(transfer.result() for transfer in transfers) == list(range(300))
    assert words[0] == 300
    assert a.port_counters()[0]["link_ups"] >= 2
