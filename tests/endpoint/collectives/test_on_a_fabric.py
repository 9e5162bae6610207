"""Collectives of real GPUs through the real switch program, over two planes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from endpoint import CollectiveTimeout, EndpointOptions, Gpu, NotificationTimeout
from endpoint.collectives.mailbox import CHUNK_BYTES, SLOTS
from tests.endpoint.test_through_switch import Switch, switch  # noqa: F401  (a fixture)

Maker = Callable[..., Gpu]
GPUS = 4
OPTIONS = EndpointOptions(timeout_s=20, linger_s=0.05)


@pytest.fixture
def ranks(switch: Callable[..., Switch], gpus: Maker) -> list[Gpu]:  # noqa: F811
    """Four GPUs, each with a port on each of two switches."""
    ids = range(1, GPUS + 1)
    switch(dict.fromkeys(ids, 1))
    switch(dict.fromkeys(ids, 1), first_cable=10)
    return [gpus(gpu, {0: f"gpu{gpu}", 1: f"gpu{gpu + 10}"}, peers=ids, options=OPTIONS) for gpu in ids]


def on_all(ranks: Sequence[Any], work: Callable[[Any], Any]) -> list[Any]:
    """Run a program at every GPU, a thread each; return what they return, or raise."""
    results: list[Any] = [None] * len(ranks)

    def run(index: int) -> None:
        try:
            results[index] = work(ranks[index])
        except BaseException as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(len(ranks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a collective hangs"
    return results


def test_every_operation(ranks: list[Gpu]) -> None:
    def noise(rank: int, length: int = 50_000) -> np.ndarray:
        return np.random.default_rng(rank).standard_normal(length).astype(np.float32)

    def work(gpu: Gpu) -> bool:
        world, rank = gpu.group(), gpu.rank
        for length in (0, 3, 50_001, (SLOTS + 1) * CHUNK_BYTES // 4 * GPUS):
            whole = np.arange(length, dtype=np.int64)
            expected = whole * (1 + 2 + 3 + 4)
            for algorithm in ("direct", "ring"):
                assert (world.all_reduce(whole * (rank + 1), algorithm=algorithm) == expected).all()
                part = world.reduce_scatter(whole * (rank + 1), algorithm=algorithm)
                assert (part == np.array_split(expected, GPUS)[rank]).all()
                assert (world.all_gather(part, algorithm=algorithm) == expected).all()
            assert (world.broadcast(whole * (rank + 1), root=3) == whole * 3).all()
        sums = world.all_gather(world.all_reduce(noise(rank), algorithm="ring")[None])
        assert all(row.tobytes() == sums[0].tobytes() for row in sums)
        got = world.all_to_all([np.full((rank + 1) * to * 700, rank * 10 + to) for to in range(GPUS)])
        assert [part.tolist() for part in got] == [[src * 10 + rank] * ((src + 1) * rank * 700) for src in range(GPUS)]
        pair = gpu.group([1, 2] if gpu.id < 3 else [3, 4])
        pipeline = gpu.group([1, 4] if gpu.id in (1, 4) else [2, 3])
        assert pair.all_reduce(np.array([gpu.id])).tolist() == [3 if gpu.id < 3 else 7]
        other = pipeline.ids[1 - pipeline.rank]
        pipeline.send(other, noise(rank, 99))
        assert (pipeline.receive(other, np.empty(99, np.float32)) == noise(other - 1, 99)).all()
        world.barrier()
        return True

    assert on_all(ranks, work) == [True] * GPUS
    assert all(gpu.port_counters()[plane]["tx_frames"] > 500 for gpu in ranks for plane in (0, 1))


def test_notifications_of_collectives_are_not_the_programs(ranks: list[Gpu]) -> None:
    def work(gpu: Gpu) -> Any:
        if gpu.id == 1:
            gpu.group().send(2, np.ones(8))
            gpu.write(2, 0, b"for the program", notify=True)
        if gpu.id == 2:
            notification = gpu.wait_notification(timeout_s=20)
            assert (notification.key, notification.length) == (1, 15)
            with pytest.raises(NotificationTimeout):
                gpu.wait_notification(timeout_s=0.3)
            assert gpu.notifications == 0
            return gpu.group().receive(1, np.empty(8)).tolist()
        return None

    ranks[1].register(64)
    assert on_all(ranks, work)[1] == [1.0] * 8


def test_who_was_killed_is_named(ranks: list[Gpu]) -> None:
    on_all(ranks, lambda gpu: gpu.group().barrier())
    ranks[2].close()
    results = on_all(
        [gpu for gpu in ranks if gpu.id != 3], lambda gpu: gpu.group().all_reduce(np.ones(9), timeout_s=1.5)
    )
    for result in results:
        assert isinstance(result, CollectiveTimeout), result
        assert result.missing == (3,)
        assert "GPU 3 does not answer" in str(result)


def test_a_plane_that_dies_and_returns_changes_no_bit(
    switch: Callable[..., Switch],  # noqa: F811
    gpus: Maker,
) -> None:
    """One of two switches loses a GPU's port, and gets it back, while arrays of any size are combined."""
    ids = range(1, GPUS + 1)
    switch(dict.fromkeys(ids, 1))
    second = switch(dict.fromkeys(ids, 1), first_cable=10)
    quick = EndpointOptions(timeout_s=20, first_rto_s=0.05, min_rto_s=0.05, max_rto_s=0.2)
    members = [gpus(gpu, {0: f"gpu{gpu}", 1: f"gpu{gpu + 10}"}, peers=ids, options=quick) for gpu in ids]
    rounds = 12
    reached = threading.Barrier(2)

    def work(gpu: Gpu) -> list[bytes]:
        world, results = gpu.group(), []
        for number in range(rounds):
            values = np.random.default_rng([number, gpu.rank]).standard_normal(1000 + 9000 * (number % 3))
            results.append(world.all_reduce(values, algorithm=("direct", "ring")[number % 2]).tobytes())
            if gpu.id == 1 and number in (2, 7):
                reached.wait(60)
        return results

    def cut() -> None:
        reached.wait(60)
        second.plane.remove_port(3)
        reached.wait(60)
        second.plane.add_port(3, "sw13")

    cutter = threading.Thread(target=cut, daemon=True)
    cutter.start()
    results = on_all(members, work)
    cutter.join(60)
    for result in results:
        assert isinstance(result, list), result
        assert result == results[0]
    for number, got in enumerate(results[0]):
        length = 1000 + 9000 * (number % 3)
        arrays = [np.random.default_rng([number, rank]).standard_normal(length) for rank in range(GPUS)]
        np.testing.assert_allclose(np.frombuffer(got), sum(arrays), atol=1e-12)
    assert sum(gpu.counters().get("resent_blocks", 0) for gpu in members) > 0, "nothing was lost: it proves nothing"


def test_who_starts_late_is_waited_for(switch: Callable[..., Switch], gpus: Maker) -> None:  # noqa: F811
    ids = range(1, 4)
    switch(dict.fromkeys(ids, 1))
    first = [gpus(gpu, {0: f"gpu{gpu}"}, peers=ids, options=OPTIONS) for gpu in (1, 2)]

    def work(gpu: Gpu | None) -> list[float]:
        if gpu is None:
            time.sleep(1.5)
            gpu = gpus(3, {0: "gpu3"}, peers=ids, options=OPTIONS)
        result = gpu.group().all_reduce(np.ones(20_000))
        return [float(result.min()), float(result.max())]

    assert on_all([*first, None], work) == [[3.0, 3.0]] * 3


def test_groups_of_a_gpu(ranks: list[Gpu]) -> None:
    gpu = ranks[0]
    assert gpu.group([4, 1]) is gpu.group((1, 4))
    assert (gpu.group([4, 1]).ids, gpu.group([4, 1]).rank, gpu.group().size) == ((1, 4), 0, 4)
    with pytest.raises(ValueError, match="GPU 9 is not of this tenant; its GPUs are 1, 2, 3, 4"):
        gpu.group([1, 9])
    for wrong in ([1, 1, 2], [2, 3], []):
        with pytest.raises(ValueError, match="names each of its GPUs once, and GPU 1 among them"):
            gpu.group(wrong)
