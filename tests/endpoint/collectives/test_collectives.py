"""Collectives against NumPy: any type, length and number of ranks, one after the other, in any order of arrival."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoint import CollectiveError, CollectiveMismatch, CollectiveTimeout, Group
from endpoint.collectives import group as group_module
from endpoint.collectives import mailbox
from endpoint.collectives.call import split
from tests.endpoint.collectives.fake import FakeFabric, FakeGpu

UFUNCS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
DTYPES = ["<f4", "<f8", "<f2", ">f4", "<c16", "i1", "<u2", "<i8", "?", "longdouble"]
SMALL_CHUNK = 64


@pytest.fixture(autouse=True, scope="module")
def small_chunks() -> Iterator[None]:
    """Cut messages into chunks of 64 bytes, so that short arrays take many."""
    with mock.patch.object(mailbox, "CHUNK_BYTES", SMALL_CHUNK), mock.patch.object(group_module, "DIRECT_BYTES", 256):
        yield


def values_of(dtype: str, shape: int | tuple[int, ...], seed: int) -> np.ndarray:
    """Return values that any order of operations may round differently, signs of zero and NaN among them."""
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind in "fc":
        array = (random.standard_normal(shape) * 10.0 ** random.integers(-3, 4, shape)).astype(kind)
        flat = array.reshape(-1)
        if seed % 3 == 0 and flat.size > 2:
            flat[:3] = [np.nan, -0.0, 0.0]
        return array
    return random.integers(0, 256, shape).astype(kind)


def in_order(arrays: Sequence[np.ndarray], order: Sequence[int], ufunc: np.ufunc) -> np.ndarray:
    result = arrays[order[0]].copy()
    for rank in order[1:]:
        ufunc(result, arrays[rank], out=result)
    return result


def reduced(arrays: Sequence[np.ndarray], operator: str, algorithm: str) -> np.ndarray:
    """What docs/collectives.md promises, operation by operation."""
    ufunc, ranks = UFUNCS[operator], len(arrays)
    if algorithm == "direct":
        return in_order(arrays, range(ranks), ufunc)
    parts = [split(array, ranks) for array in arrays]
    whole = []
    for segment in range(ranks):
        order = [(segment + 1 + step) % ranks for step in range(ranks)]
        result = parts[order[0]][segment].copy()
        for rank in order[1:]:
            result = ufunc(result, parts[rank][segment]).astype(result.dtype)
        whole.append(result)
    return np.concatenate(whole, dtype=arrays[0].dtype)


def same(got: Any, expected: np.ndarray) -> None:
    assert isinstance(got, np.ndarray), got
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    if got.dtype == np.longdouble:  # has bytes that belong to no value
        np.testing.assert_array_equal(got, expected)
    else:
        assert got.tobytes() == expected.tobytes()


shapes = st.one_of(
    st.integers(0, 12), st.integers(0, 300), st.tuples(st.integers(0, 9), st.integers(0, 5)), st.just(())
)
steps = st.fixed_dictionaries(
    {
        "operation": st.sampled_from(
            ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "barrier", "send"]
        ),
        "dtype": st.sampled_from(DTYPES),
        "operator": st.sampled_from(list(UFUNCS)),
        "algorithm": st.sampled_from([None, "direct", "ring"]),
        "shape": shapes,
        "seed": st.integers(0, 1000),
        "members": st.integers(0, 2**5 - 1),
    }
)


class Step:
    """One collective of a random program: what each rank gives, and what it must get."""

    def __init__(self, step: dict[str, Any], gpus: int) -> None:
        self.__dict__.update(step)
        chosen = [gpu for gpu in range(1, gpus + 1) if step["members"] >> gpu & 1]
        self.ids = chosen if len(chosen) > 1 else list(range(1, gpus + 1))
        self.step = step
        self.chooser = Random(step["seed"])

    def perform(self, group: Group) -> Any:
        s, rank, size = self.step, group.rank, group.size
        if s["operation"] in ("all_reduce", "reduce_scatter"):
            work = getattr(group, s["operation"])
            return work(self.array(rank), s["operator"], algorithm=s["algorithm"])
        if s["operation"] == "all_gather":
            return group.all_gather(self.rows(rank), algorithm=s["algorithm"])
        if s["operation"] == "all_to_all":
            return group.all_to_all([self.part(rank, to) for to in range(size)])
        if s["operation"] == "broadcast":
            root = self.ids[s["seed"] % size]
            given = self.array(rank) if group.ids[rank] == root else np.zeros_like(self.array(0))
            return group.broadcast(given, root)
        if s["operation"] == "send" and size > 1:
            if rank == 0:
                group.send(group.ids[-1], self.array(0))
            elif rank == size - 1:
                return group.receive(group.ids[0], np.zeros_like(self.array(0)))
            return None
        group.barrier()
        return None

    def check(self, results: list[Any]) -> None:
        s, size = self.step, len(self.ids)
        arrays = [self.array(rank) for rank in range(size)]
        if s["operation"] == "all_reduce":
            how = s["algorithm"] or ("direct" if size <= 2 or arrays[0].nbytes <= 256 else "ring")
            expected = reduced([array.reshape(-1) for array in arrays], s["operator"], how).reshape(arrays[0].shape)
            for result in results:
                same(result, expected)
        elif s["operation"] == "reduce_scatter":
            arrays = [np.atleast_1d(array) for array in arrays]
            how = s["algorithm"] or ("direct" if size <= 2 or arrays[0].nbytes <= 256 else "ring")
            parts = np.array_split(reduced(arrays, s["operator"], how), size)
            for result, part in zip(results, parts, strict=True):
                same(result, part)
        elif s["operation"] == "all_gather":
            rows = [self.rows(rank) for rank in range(size)]
            expected = np.concatenate(rows, dtype=rows[0].dtype)
            for result in results:
                same(result, expected)
        elif s["operation"] == "all_to_all":
            for rank, result in enumerate(results):
                assert isinstance(result, list), result
                for src, got in enumerate(result):
                    same(got, self.part(src, rank))
        elif s["operation"] == "broadcast":
            for result in results:
                same(result, arrays[s["seed"] % size])
        else:
            sent = s["operation"] == "send" and size > 1
            assert all(result is None for result in (results[:-1] if sent else results)), results
            if sent:
                same(results[-1], arrays[0])

    def array(self, rank: int) -> np.ndarray:
        return values_of(self.step["dtype"], self.step["shape"], self.step["seed"] + rank)

    def rows(self, rank: int) -> np.ndarray:
        """As many rows as the rank and the seed say."""
        return values_of(self.step["dtype"], ((self.step["seed"] * (rank + 1)) % 41, 3), self.step["seed"] + rank)

    def part(self, rank: int, to: int) -> np.ndarray:
        """Skewed: most go to one rank, and some get nothing."""
        rows = (self.step["seed"] * (rank + 1) * (to * to)) % 57
        return values_of(self.step["dtype"], (rows, 2), self.step["seed"] * 7 + rank * 31 + to)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=80, deadline=None)
@given(st.integers(1, 5), st.lists(steps, min_size=1, max_size=5), st.integers(0, 1000))
def test_any_program(gpus: int, program: list[dict[str, Any]], seed: int) -> None:
    """Random operations in a row, over random groups, without any barrier between them."""
    todo = [Step(step, gpus) for step in program]

    def work(gpu: FakeGpu) -> list[Any]:
        chooser = Random(seed + gpu.id)
        results = []
        with np.errstate(all="ignore"):
            for step in todo:
                time.sleep(chooser.choice([0, 0, 0.002]))
                results.append(step.perform(gpu_group(gpu, step.ids)) if gpu.id in step.ids else None)
        return results

    with FakeFabric(gpus, seed) as fabric, np.errstate(all="ignore"):
        results = fabric.run(work)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        for number, step in enumerate(todo):
            step.check([results[gpu - 1][number] for gpu in step.ids])  # type: ignore[index]


def gpu_group(gpu: FakeGpu, ids: Sequence[int]) -> Group:
    """As `Gpu.group`: the same one every time."""
    groups: dict[tuple[int, ...], Group] = gpu.__dict__.setdefault("groups", {})
    if tuple(ids) not in groups:
        groups[tuple(ids)] = gpu.group(ids)
    return groups[tuple(ids)]


def run_world(gpus: int, work: Callable[[Group], Any], **choices: Any) -> list[Any]:
    ids = choices.pop("ids", None)
    with FakeFabric(gpus, **choices) as fabric:
        return fabric.run(lambda gpu: work(gpu.group()), ids)


def test_given_arrays_are_not_changed_and_results_are_not_shared() -> None:
    def work(world: Group) -> list[bool]:
        given = np.arange(100.0)
        kept = given.copy()
        results = [
            world.all_reduce(given, algorithm="direct"), world.all_reduce(given, algorithm="ring"),
            world.reduce_scatter(given), world.all_gather(given), world.broadcast(given, root=1),
            *world.all_to_all(np.array_split(given, world.size)),
        ]  # fmt: skip
        shared = any(np.shares_memory(result, given) for result in results)
        return [shared, (given == kept).all() and all(result.flags.writeable for result in results)]

    for gpus in (1, 3):
        assert run_world(gpus, work) == [[False, True]] * gpus


def test_a_fast_rank_waits_for_a_slow_one() -> None:
    """Many messages to a rank that reads late: none overwrites another one."""

    def work(world: Group) -> Any:
        if world.rank == 0:
            for number in range(50):
                world.send(2, np.full(20, number, np.int32))
            return None
        got = []
        for number in range(50):
            time.sleep(0.001 * (number % 3))
            got.append(world.receive(1, np.empty(20, np.int32)))
        return [int(array[0]) for array in got if (array == array[0]).all()]

    assert run_world(2, work) == [None, list(range(50))]


def test_who_is_dead_is_named() -> None:
    began = time.monotonic()
    results = run_world(4, lambda world: world.all_reduce(np.ones(3), timeout_s=0.5), dead=[3], ids=[1, 2, 4])
    assert time.monotonic() - began < 10
    for result in results:
        assert isinstance(result, CollectiveTimeout)
        assert result.missing == (3,)
        assert str(result) == (
            "all_reduce(<f8 (3,), sum, direct) of GPUs 1, 2, 3, 4: nothing moved for 0.5 s; GPU 3 does not answer"
        )


def test_who_has_not_come_is_named() -> None:
    def work(world: Group) -> Any:
        world.barrier()
        if world.ids[world.rank] == 2:
            time.sleep(2.5)
            return None
        return world.all_reduce(np.ones(1000), algorithm="ring", timeout_s=0.5)

    results = run_world(3, work)
    for result in (results[0], results[2]):
        assert isinstance(result, CollectiveTimeout)
        assert result.missing == (2,)
        assert str(result).endswith(
            "nothing moved for 0.5 s; GPU 2 has not come: it has begun 1 collectives of this group, this is 2"
        )


def test_after_a_failure_no_collective_works() -> None:
    def work(world: Group) -> Any:
        with pytest.raises(CollectiveTimeout):
            world.barrier(timeout_s=0.3)
        with pytest.raises(CollectiveError, match="an earlier collective of GPU 1 failed, so that the GPUs are out of"):
            world.barrier()
        return True

    assert run_world(2, work, ids=[1]) == [True]


@pytest.mark.parametrize(
    "other",
    [
        lambda world: world.all_reduce(np.ones(5), timeout_s=1),
        lambda world: world.all_reduce(np.ones(4, np.float32), timeout_s=1),
        lambda world: world.all_reduce(np.ones((2, 2)), timeout_s=1),
        lambda world: world.all_reduce(np.ones(4), "max", timeout_s=1),
        lambda world: world.all_reduce(np.ones(4), algorithm="ring", timeout_s=1),
        lambda world: world.barrier(timeout_s=1),
        lambda world: world.broadcast(np.ones(4), root=1, timeout_s=1),
        lambda world: world.all_to_all([np.ones(2)] * 3, timeout_s=1),
    ],
    ids=["length", "type", "shape", "operator", "algorithm", "barrier", "broadcast", "all_to_all"],
)
def test_who_calls_something_else_is_told(other: Callable[[Group], Any]) -> None:
    """An error at somebody, an end in bounded time at everybody, and no wrong numbers at those that asked for them."""
    results = run_world(3, lambda world: other(world) if world.rank == 1 else world.all_reduce(np.ones(4), timeout_s=1))
    [mismatch, *_] = [result for result in results if isinstance(result, CollectiveMismatch)]
    assert "is in another call. All GPUs of a group call the same operations in the same order" in str(mismatch)
    assert all(isinstance(results[rank], CollectiveError) for rank in (0, 2)), results


def test_wrong_arguments_send_nothing_and_break_nothing() -> None:
    def work(world: Group) -> Any:
        for call, message in [
            (lambda: world.all_reduce([1], "mean"), "there is no operator 'mean'; choose sum, prod, min, max"),
            (lambda: world.all_reduce([1], algorithm="tree"), "there is no algorithm 'tree'; choose direct, ring"),
            (lambda: world.all_to_all([[1]]), "all_to_all takes a part for each of the 2 ranks, not 1"),
            (lambda: world.all_to_all([[1], [1.0]]), "the parts must agree in type and in shape"),
            (lambda: world.broadcast([1], root=9), "GPU 9 is not in the group; its GPUs are 1, 2"),
            (lambda: world.send(world.ids[world.rank], [1]), "cannot send to itself"),
            (lambda: world.barrier(timeout_s=0), "timeout_s = 0 must be above 0"),
        ]:
            with pytest.raises(ValueError) as caught:
                call()
            assert message in str(caught.value)
        for array, operator, message in [
            (np.array(["a", "b"]), "min", "min does not take arrays of type <U1"),
            (np.array([None]), "sum", "arrays of type object cannot be sent to other GPUs"),
            (np.array(["2026-01-01"], "datetime64[D]"), "sum", "sum does not take arrays of type datetime64[D]"),
        ]:
            with pytest.raises(TypeError) as refused:
                world.all_reduce(array, operator)
            assert message in str(refused.value)
        return int(world.all_reduce([world.rank + 1])[0])

    assert run_world(2, work) == [3, 3]


def test_a_second_thread_is_refused() -> None:
    def work(world: Group) -> Any:
        if world.rank == 1:
            time.sleep(0.3)
            world.barrier()
            return None
        thread = threading.Thread(target=world.barrier)
        thread.start()
        time.sleep(0.1)
        with pytest.raises(CollectiveError, match="another thread of GPU 1 is in a collective"):
            world.all_reduce([1])
        thread.join()
        return True

    assert run_world(2, work) == [True, None]


def test_no_more_groups_than_others_can_see() -> None:
    with FakeFabric(8) as fabric:
        gpu = fabric.gpus[1]
        groups = [[1, *(other for other in range(2, 9) if mask >> other & 1)] for mask in range(4, 4 + 4 * 65, 4)]
        for ids in groups[: mailbox.MAX_GROUPS]:
            gpu.mailboxes.announce(gpu.group(ids)._key, 1)
        with pytest.raises(ValueError, match="a GPU can be in 64 different groups, not in more"):
            gpu.group(groups[mailbox.MAX_GROUPS])
