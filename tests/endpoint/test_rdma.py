"""RDMA between two GPUs back to back on veth pairs: writes, reads, notifications, fences, the choice of semantics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codec.profile import LinkProfile
from endpoint import (
    BadKey,
    ClosedError,
    ConfigurationError,
    EndpointOptions,
    FenceTimeout,
    Gpu,
    Notification,
    NotificationTimeout,
    OutOfRange,
    Semantics,
    TmaTimeout,
)
from tests.endpoint.conftest import FAST, PATIENT, add_cable, ip

Maker = Callable[..., Gpu]


@pytest.fixture
def pair(cable: tuple[str, str], gpus: Maker) -> tuple[Gpu, Gpu]:
    return (
        gpus(1, {0: cable[0]}, peers=[2], options=PATIENT),
        gpus(2, {0: cable[1]}, peers=[1], options=PATIENT),
    )


def noise(length: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, length, np.uint8)


@pytest.mark.parametrize("block_bytes", [256, 2048, 4096])
@pytest.mark.parametrize("managed", [False, True], ids=["open", "managed"])
def test_write_then_read(cable: tuple[str, str], gpus: Maker, block_bytes: int, managed: bool) -> None:
    options = replace(PATIENT, block_bytes=block_bytes)
    links = {0: LinkProfile()} if managed else {}
    a = gpus(1, {0: cable[0]}, options=options, managed=links)
    b = gpus(2, {0: cable[1]}, options=options, managed=links)
    size = 1 << 20
    region = b.register(size, key=7, base=1 << 40)
    for length in (1, 255, 256, 257, 4096, 4097, 100_000, size):
        data = noise(length, length)
        at = region.end - length
        a.write(2, at, data, key=7)
        assert region.array[size - length :].tobytes() == data.tobytes()
        assert a.read(2, at, length, key=7) == data.tobytes()
    assert a.counters().get("resent_blocks", 0) == 0
    assert b.counters()["messages"] == 8
    if managed:
        link = a._links[0]
        quarter = links[0].limits()[0] // 4  # in flight; and as much may be freed and not told of yet
        assert link.senders[0].used_watermark <= 2 * quarter  # type: ignore[attr-defined]
        assert b.port_counters()[0].get("drop_over_limit", 0) == 0


def test_arrays_are_filled_and_sent_without_copies(pair: tuple[Gpu, Gpu]) -> None:
    a, b = pair
    matrix = np.zeros((64, 64), np.float32)
    b.register(matrix)
    ours = np.arange(4096, dtype=np.float32).reshape(64, 64)
    a.write(2, 0, ours)
    assert (matrix == ours).all()
    back = np.empty((64, 64), np.float32)
    assert a.read(2, 0, into=back) is back
    assert (back == ours).all()
    row = bytearray(256)
    a.read(2, 256, into=row)
    assert np.frombuffer(row, np.float32).tolist() == ours[1].tolist()
    with pytest.raises(ValueError, match="contiguous in memory and writable"):
        a.read(2, 0, into=back[:, 1])
    with pytest.raises(ValueError, match="is not that of the array to fill, 256 bytes"):
        a.read(2, 0, 255, into=row)
    with pytest.raises(ValueError, match="needs a length, or an array"):
        a.read_async(2, 0)


def test_many_messages_at_once(pair: tuple[Gpu, Gpu]) -> None:
    """More than the window of messages; the call never waits."""
    a, b = pair
    region = b.register(3000 * 64)
    data = noise(3000 * 64)
    transfers = [a.write_async(2, 64 * number, data[64 * number : 64 * number + 64]) for number in range(3000)]
    for transfer in transfers:
        transfer.result()
    assert region.array.tobytes() == data.tobytes()
    reads = [a.read_async(2, 64 * number, 64) for number in range(3000)]
    assert b"".join(transfer.result() for transfer in reads) == data.tobytes()
    assert b.counters()["messages"] == 3000


def test_both_ways_and_both_semantics_at_once(pair: tuple[Gpu, Gpu]) -> None:
    regions = [gpu.register(1 << 20) for gpu in pair]
    data = noise(1 << 19)
    errors: list[BaseException] = []

    def bulk(gpu: Gpu, peer: int) -> None:
        for _ in range(4):
            gpu.write(peer, 0, data)
            assert gpu.read(peer, 0, len(data)) == data.tobytes()

    def words(gpu: Gpu, peer: int) -> None:
        assert [gpu.atomic_add(peer, 1 << 19, 1) for _ in range(300)] == list(range(300))

    def run(work: Callable[[Gpu, int], None], gpu: Gpu, peer: int) -> None:
        try:
            work(gpu, peer)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work, pair[n], 2 - n)) for n in (0, 1) for work in (bulk, words)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for region in regions:
        assert region.array[: 1 << 19].tobytes() == data.tobytes()
        assert region.u64[1 << 16] == 300


def test_notifications(pair: tuple[Gpu, Gpu]) -> None:
    a, b = pair
    b.register(1 << 16)
    region = b.register(1 << 16, key=5)
    a.write(2, 0, b"quiet")
    a.write(2, 64, noise(5000), key=5, notify=True)
    assert b.notifications == 1
    a.write(2, 10, b"", notify=True)  # nothing but the notification
    a.write(2, 20, b"x", notify=True)
    assert b.wait_notification(1, 1) == Notification(1, 1, 10, 0)
    assert b.wait_notification() == Notification(1, 5, 64, 5000)
    assert region.array[64:5064].tobytes() == noise(5000).tobytes()
    assert b.wait_notification(src=1) == (1, 1, 20, 1)
    assert b.notifications == 0
    with pytest.raises(NotificationTimeout, match=r"no notification from GPU 1 for key 0x5 in 0.05 s"):
        b.wait_notification(1, 5, timeout_s=0.05)


def test_waiting_for_notifications(pair: tuple[Gpu, Gpu]) -> None:
    """Several threads wait; each message is told of once."""
    a, b = pair
    b.register(4096)
    got: list[Notification] = []
    threads = [
        threading.Thread(target=lambda: got.extend(b.wait_notification(1, timeout_s=20) for _ in range(100)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for number in range(300):
        a.write(2, number, b"x", notify=True)
    for thread in threads:
        thread.join()
    assert sorted(notification.address for notification in got) == list(range(300))
    one = threading.Thread(target=lambda: got.append(b.wait_notification(key=1, timeout_s=20)))
    one.start()
    time.sleep(0.05)
    a.write(2, 7, b"x", notify=True)
    one.join()
    assert got[-1] == (1, 1, 7, 1)


def test_wait_until_sees_writes(pair: tuple[Gpu, Gpu]) -> None:
    a, b = pair
    region = b.register(1 << 16)
    transfer = a.write_async(2, 0, np.full(1 << 16, 7, np.uint8))
    assert b.wait_until(region, lambda: bool((region.array == 7).all()), timeout_s=10)
    transfer.result()


def test_refusals(pair: tuple[Gpu, Gpu]) -> None:
    a, b = pair
    region = b.register(np.zeros(5000, np.uint8), key=3)
    with pytest.raises(BadKey, match=r"WRITE of 5000 bytes at 0x0 of GPU 2 \(key 0x4\): no region with this key"):
        a.write(2, 0, bytes(5000), key=4)
    with pytest.raises(OutOfRange, match="READ of 5001 bytes at 0x0"):
        a.read(2, 0, 5001, key=3)
    with pytest.raises(OutOfRange):
        a.write(2, 1, b"x" * 5000, key=3, notify=True)
    assert not region.array.any()
    assert b.notifications == 0
    for wrong in (lambda: a.write(1, 0, b"x"), lambda: a.write(0xF00, 0, b"x"), lambda: a.write(2, 2**64 - 1, b"xy")):
        with pytest.raises(ValueError, match=r"own memory|no GPU id|64-bit addresses"):
            wrong()
    with pytest.raises(ValueError, match="at least one byte"):
        a.read(2, 0, 0)


def test_choice_of_semantics(pair: tuple[Gpu, Gpu]) -> None:
    a, b = pair
    b.register(1 << 16)
    limit = a.options.bulk_bytes

    def by(access: Callable[[], object]) -> Semantics:
        before = b.counters()
        access()
        after = b.counters()
        lsu = after.get("requests", 0) - before.get("requests", 0)
        tma = sum(after.get(name, 0) - before.get(name, 0) for name in ("messages", "reads"))
        assert bool(lsu) != bool(tma)
        return Semantics.LOAD_STORE if lsu else Semantics.RDMA

    assert by(lambda: a.put(2, 0, b"x")) == by(lambda: a.put(2, 0, bytes(limit - 1))) == "load_store"
    assert by(lambda: a.put(2, 0, bytes(limit))) == by(lambda: a.get(2, 0, limit)) == "rdma"
    assert (
        by(lambda: a.get(2, 0, limit - 1)) == by(lambda: a.get(2, 0, 1 << 14, semantics="load_store")) == "load_store"
    )
    assert by(lambda: a.put(2, 0, b"x", semantics=Semantics.RDMA)) == "rdma"
    data = noise(40000)
    for semantics in (None, *Semantics):
        a.put(2, 3, data, semantics=semantics)
        assert a.get(2, 3, len(data), semantics=semantics) == data.tobytes()
    with pytest.raises(ValueError, match="'rocket'"):
        a.put(2, 0, b"x", semantics="rocket")


def test_fence(cable: tuple[str, str], gpus: Maker) -> None:
    a, b = gpus(1, {0: cable[0]}), gpus(2, {0: cable[1]})
    region = b.register(1 << 20)
    a.fence()
    transfers = [a.write_async(2, 0, np.full(1 << 19, 1, np.uint8)), a.store_async(2, 1 << 19, b"\x01" * 2048)]
    a.fence(2)
    assert all(transfer.done() for transfer in transfers)
    assert region.array[: (1 << 19) + 2048].all()
    b.close()
    late = a.write_async(2, 0, b"x" * 5000, timeout_s=0.4)
    a.fence(3, timeout_s=0.01)  # of another GPU nothing is under way
    with pytest.raises(FenceTimeout, match=r"1 of 1 transfers were under way for 0.02 s"):
        a.fence(timeout_s=0.02)
    a.fence()
    assert isinstance(late.exception(0), TmaTimeout)


def test_a_dead_peer(cable: tuple[str, str], gpus: Maker) -> None:
    quick = EndpointOptions(timeout_s=0.3, linger_s=0)
    a = gpus(1, {0: cable[0]}, options=quick)
    start = time.monotonic()
    transfers = [a.write_async(2, 0, bytes(1 << 20)) for _ in range(10)] + [a.read_async(2, 0, 1 << 20)]
    assert all(isinstance(transfer.exception(20), TmaTimeout) for transfer in transfers)
    assert time.monotonic() - start < 10
    assert a.counters()["timed_out_messages"] == 11
    with pytest.raises(TmaTimeout, match=r"no progress in 0.1 s after 0 of 1 blocks; is GPU 2 running\?"):
        a.write(2, 0, b"x", timeout_s=0.1)


def test_close_ends_what_is_under_way(cable: tuple[str, str], gpus: Maker) -> None:
    a = gpus(1, {0: cable[0]}, options=replace(FAST, linger_s=0))
    transfers = [a.write_async(2, 0, bytes(1 << 20)) for _ in range(3)] + [a.read_async(2, 0, 10)]
    waiting: list[BaseException] = []

    def wait() -> None:
        try:
            a.wait_notification(timeout_s=30)
        except ClosedError as error:
            waiting.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    a.close()
    thread.join(10)
    assert waiting
    assert all(isinstance(transfer.exception(1), ClosedError) for transfer in transfers)
    with pytest.raises(ClosedError):
        a.write(2, 0, b"x")


@pytest.mark.parametrize("ordered", [False, True])
def test_planes(namespace: str, gpus: Maker, ordered: bool) -> None:
    """A message is spread over the planes; ordered, it takes one."""
    add_cable("pa0", "pa1")
    add_cable("pb0", "pb1")
    options = replace(PATIENT, ordered=ordered)
    a = gpus(1, {0: "pa0", 1: "pb0"}, options=options)
    b = gpus(2, {0: "pa1", 1: "pb1"}, options=options)
    region = b.register(1 << 20)
    data = noise(1 << 20)
    a.write(2, 0, data)
    assert region.array.tobytes() == data.tobytes()
    frames = [b.port_counters()[plane].get("rx_frames", 0) for plane in (0, 1)]
    assert sum(frames) == 512
    assert abs(frames[0] - frames[1]) == (512 if ordered else 0)
    assert a.counters().get("resent_blocks", 0) == 0


def test_a_plane_that_dies_in_mid_message(namespace: str, gpus: Maker) -> None:
    add_cable("pa0", "pa1")
    add_cable("pb0", "pb1")
    options = EndpointOptions(timeout_s=20, first_rto_s=0.02, min_rto_s=0.01, linger_s=0)
    a = gpus(1, {0: "pa0", 1: "pb0"}, options=options)
    b = gpus(2, {0: "pa1", 1: "pb1"}, options=options)
    region = b.register(1 << 22)
    data = noise(1 << 22)
    transfer = a.write_async(2, 0, data, notify=True)
    ip("link set pb1 down")
    transfer.result()
    assert region.array.tobytes() == data.tobytes()
    assert a.read(2, 0, 1 << 22) == data.tobytes()
    assert b.notifications == 1
    assert a.counters()["moved_requests"] > 0


def test_an_end_that_restarts(cable: tuple[str, str], gpus: Maker) -> None:
    a = gpus(1, {0: cable[0]})
    b = gpus(2, {0: cable[1]})
    region = b.register(1 << 16)
    a.write(2, 0, b"one" * 1000)
    a.close()
    a = gpus(1, {0: cable[0]}, incarnation=2)
    a.write(2, 0, b"two" * 1000)
    assert region.array[:3000].tobytes() == b"two" * 1000
    assert b.counters()["source_restarted"] == 1


def test_options() -> None:
    choices: list[dict[str, Any]] = [
        {"block_bytes": 1000},
        {"block_bytes": 128},
        {"block_bytes": 8192},
        {"bulk_bytes": -1},
        {"notifications": 0},
    ]
    for wrong in choices:
        with pytest.raises(ConfigurationError):
            EndpointOptions(**wrong)
