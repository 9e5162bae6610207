"""Two GPUs back to back on a veth pair: accesses, refusals, time-outs, barriers, restarts, the end."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from endpoint import (
    BadKey,
    BarrierTimeout,
    ClosedError,
    ConfigurationError,
    EndpointOptions,
    Gpu,
    LsuTimeout,
    Misaligned,
    OutOfRange,
)
from tests.endpoint.conftest import FAST, PATIENT, add_cable, ip, settle

Maker = Callable[..., Gpu]


@pytest.fixture
def pair(cable: tuple[str, str], gpus: Maker) -> tuple[Gpu, Gpu]:
    return gpus(1, {0: cable[0]}, peers=[2]), gpus(2, {0: cable[1]}, peers=[1])


def test_store_then_load(pair: tuple[Gpu, Gpu]) -> None:
    a, b = pair
    region = b.register(4096, key=7)
    for length in (1, 2, 255, 256, 257, 1000, 4096):
        data = np.random.default_rng(length).integers(0, 256, length, np.uint8)
        a.store(2, 4096 - length, data, key=7)
        assert region.array[4096 - length :].tobytes() == data.tobytes()
        assert a.load(2, 4096 - length, length, key=7) == data.tobytes()


def test_arrays_are_shared_not_copied(pair: tuple[Gpu, Gpu]) -> None:
    a, b = pair
    matrix = np.zeros((4, 8), np.float32)
    b.register(matrix, base=0x1000)
    a.store(2, 0x1000 + 4 * 8, np.arange(8, dtype=np.float32))
    assert matrix[1].tolist() == list(range(8))
    matrix[3, 7] = 2.5
    assert np.frombuffer(a.load(2, 0x1000 + 4 * 31, 4), np.float32) == 2.5


def test_many(pair: tuple[Gpu, Gpu]) -> None:
    a, b = pair
    region = b.register(1 << 16)
    data = np.random.default_rng(1).integers(0, 256, 1 << 16, np.uint8)
    a.store_many(2, [(offset, data[offset : offset + 100]) for offset in range(0, 1 << 16, 100)])
    assert region.array.tobytes() == data.tobytes()
    places = [(0, 300), (5, 1), (1000, 256), (64, 1000)]
    assert a.load_many(2, places) == [data[at : at + length].tobytes() for at, length in places]
    assert a.load_many(2, []) == []


def test_both_ways_at_once(pair: tuple[Gpu, Gpu]) -> None:
    """Each serves the other while it waits itself."""
    regions = [gpu.register(1 << 15) for gpu in pair]
    errors: list[BaseException] = []

    def work(gpu: Gpu, peer: int) -> None:
        try:
            for offset in range(0, 1 << 15, 512):
                gpu.store(peer, offset, bytes([gpu.id]) * 512)
                assert gpu.load(peer, offset, 512) == bytes([gpu.id]) * 512
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=args) for args in ((pair[0], 2), (pair[1], 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert (regions[0].array == 2).all() and (regions[1].array == 1).all()


def test_atomics(pair: tuple[Gpu, Gpu]) -> None:
    a, b = pair
    words = np.zeros(4, np.uint64)
    b.register(words)
    assert a.atomic_add(2, 8, 5) == 0
    assert a.atomic_add(2, 8, -6) == 5
    assert words[1] == 2**64 - 1
    assert a.swap(2, 8, 17) == 2**64 - 1
    assert a.compare_and_swap(2, 8, 16, 1) == 17
    assert words[1] == 17
    assert a.compare_and_swap(2, 8, 17, 2**64 - 2) == 17
    assert words.tolist() == [0, 2**64 - 2, 0, 0]


def test_atomics_from_many_threads_add_up(pair: tuple[Gpu, Gpu]) -> None:
    a, b = pair
    words = np.zeros(1, np.uint64)
    b.register(words)
    seen: list[int] = []
    threads = [
        threading.Thread(target=lambda: seen.extend(a.atomic_add(2, 0, 1) for _ in range(100))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(400))
    assert words[0] == 400


def test_refusals(pair: tuple[Gpu, Gpu]) -> None:
    a, b = pair
    region = b.register(64, key=3, base=0x100)
    with pytest.raises(BadKey, match=r"LOAD of 8 bytes at 0x100 of GPU 2 \(key 0x4\): no region with this key"):
        a.load(2, 0x100, 8, key=4)
    for address in (0xFF, 0x100 + 57, 0, 2**64 - 8):
        with pytest.raises(OutOfRange):
            a.store(2, address, b"x" * 8, key=3)
    with pytest.raises(OutOfRange, match="ATOMIC_ADD of 8 bytes at 0x140"):
        a.atomic_add(2, 0x140, 1, key=3)
    with pytest.raises(Misaligned):
        a.swap(2, 0x101, 1, key=3)
    with pytest.raises(OutOfRange) as caught:  # a long store fails as a whole, with the piece that was refused
        a.store(2, 0x100, bytes(1000), key=3)
    assert caught.value.length == 256
    assert not region.array.any()
    b.unregister(region)
    with pytest.raises(BadKey):
        a.load(2, 0x100, 1, key=3)
    assert b.counters()["refused_bad_key"] == 2


def test_wrong_arguments_never_reach_the_wire(pair: tuple[Gpu, Gpu]) -> None:
    a, _ = pair
    sent = a.counters().get("tx_frames", 0)
    for wrong, message in (
        (lambda: a.load(1, 0, 8), "GPU 1 accesses its own memory directly"),
        (lambda: a.load(0xF01, 0, 8), "destination 3841 is no GPU id"),
        (lambda: a.load(2, 0, 0), "at least one byte"),
        (lambda: a.load(2, -1, 8), "do not lie within 64-bit addresses"),
        (lambda: a.load(2, 2**64 - 4, 8), "do not lie within 64-bit addresses"),
        (lambda: a.load(2, 0, 8, key=65536), "key 65536 is out of range"),
        (lambda: a.atomic_add(2, 0, 2**64), "does not fit 8 bytes"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
    assert a.counters().get("tx_frames", 0) == sent


def test_regions_are_checked(pair: tuple[Gpu, Gpu]) -> None:
    a, _ = pair
    region = a.register(8)
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    for source, key, message in (
        (8, 1, "key 0x1 is in use by Region"),
        (8, 0xFFFF, "key 0xffff is reserved for barriers and collectives; choose one from 0 to 0xfffd"),
        (8, 0xFFFE, "key 0xfffe is reserved"),
        (8, -1, "key -1 is out of range"),
        (0, 2, "at least one byte"),
        (np.zeros((4, 4))[:, 1], 2, "must be contiguous"),
        (frozen, 2, "must be writable"),
    ):
        with pytest.raises(ValueError, match=message):
            a.register(source, key)
    with pytest.raises(ValueError, match="do not lie within 64-bit addresses"):
        a.register(8, 2, base=2**64 - 4)
    a.unregister(region)
    with pytest.raises(KeyError, match="is not registered"):
        a.unregister(region)
    a.register(8)


def test_silent_peer_times_out(cable: tuple[str, str], gpus: Maker) -> None:
    a = gpus(1, {0: cable[0]}, options=EndpointOptions(timeout_s=0.3, linger_s=0))
    start = time.monotonic()
    with pytest.raises(LsuTimeout, match=r"no answer in 0\.\d s after \d tries; is GPU 9 running\?"):
        a.load(9, 0, 8)
    assert 0.25 < time.monotonic() - start < 3
    assert a.counters()["timed_out_requests"] == 1


def test_long_access_to_a_silent_peer_fails_after_one_time_out(cable: tuple[str, str], gpus: Maker) -> None:
    a = gpus(1, {0: cable[0]}, options=EndpointOptions(timeout_s=0.3, window=8, linger_s=0))
    start = time.monotonic()
    with pytest.raises(LsuTimeout):
        a.store(9, 0, bytes(1 << 20))
    assert time.monotonic() - start < 5
    transfer = a.load_many_async(9, [(0, 8)] * 100)
    assert isinstance(transfer.exception(5), LsuTimeout)
    assert a.counters()["tx_frames"] < 500


def test_second_plane_takes_over(namespace: str, gpus: Maker) -> None:
    add_cable("ep0", "ep1")
    add_cable("ep2", "ep3")
    a = gpus(1, {0: "ep0", 1: "ep2"}, options=replace(PATIENT, first_rto_s=0.5, min_rto_s=0.5))
    b = gpus(2, {0: "ep1", 1: "ep3"})
    b.register(8)
    a.load_many(2, [(0, 8)] * 100)
    assert all(counters["tx_frames"] >= 50 for counters in a.port_counters().values())
    ip("link set ep3 down")
    words = [a.atomic_add(2, 0, 1) for _ in range(10)]
    assert words == list(range(10))
    assert "resent_requests" not in a.counters(), "no time-out was needed"
    ip("link set ep3 up")
    assert settle(lambda: a._failover._reachability.planes_to(2) == (0, 1))
    before = a.port_counters()[1]["tx_frames"]
    a.load_many(2, [(0, 8)] * 100)
    assert a.port_counters()[1]["tx_frames"] == before + 50


def test_ordered_takes_one_plane(namespace: str, gpus: Maker) -> None:
    add_cable("ep0", "ep1")
    add_cable("ep2", "ep3")
    a = gpus(1, {0: "ep0", 1: "ep2"}, options=replace(PATIENT, ordered=True))
    b = gpus(2, {0: "ep1", 1: "ep3"})
    b.register(8)
    a.load_many(2, [(0, 8)] * 100)
    assert sorted(counters.get("tx_frames", 0) for counters in a.port_counters().values()) == [0, 100]


def test_window_of_one_and_largest(cable: tuple[str, str], gpus: Maker) -> None:
    a = gpus(1, {0: cable[0]}, options=EndpointOptions(window=1, linger_s=0))
    b = gpus(2, {0: cable[1]}, options=EndpointOptions(window=1023, linger_s=0))
    a.register(1 << 15)
    b.register(1 << 15)
    for gpu, peer in ((a, 2), (b, 1)):
        gpu.store_many(peer, [(8 * n, n.to_bytes(8, "little")) for n in range(4096)])
        assert gpu.load(peer, 0, 1 << 15) == b"".join(n.to_bytes(8, "little") for n in range(4096))


def test_barrier(cable: tuple[str, str], gpus: Maker) -> None:
    a = gpus(1, {0: cable[0]}, peers=[1, 2])
    assert (a.rank, tuple(a.ranks)) == (0, (1, 2))
    with pytest.raises(BarrierTimeout, match="GPU 2 did not answer in"):
        a.barrier(timeout_s=0.2)
    a.close()
    a = gpus(1, {0: cable[0]}, peers=[2], incarnation=2)
    b = gpus(2, {0: cable[1]}, peers=[1])
    with pytest.raises(BarrierTimeout, match="nothing came from GPU 2 in"):
        a.barrier(timeout_s=0.2)
    order: list[str] = []

    def late() -> None:
        time.sleep(0.1)
        order.append("b comes")
        b.barrier()

    thread = threading.Thread(target=late)
    thread.start()
    a._barrier._passed = 0  # as the failed one above counted: b has not
    a.barrier()
    order.append("a is through")
    thread.join()
    assert order == ["b comes", "a is through"]


def test_wait_until_sees_remote_writes(pair: tuple[Gpu, Gpu]) -> None:
    a, b = pair
    region = b.register(16)
    assert not b.wait_until(region, lambda: bool(region.array[0]), timeout_s=0.05)
    timer = threading.Timer(0.05, lambda: a.store(2, 0, b"\1"))
    timer.start()
    start = time.monotonic()
    assert b.wait_until(region, lambda: bool(region.array[0]), timeout_s=20)
    assert time.monotonic() - start < 10
    timer.join()


def test_restart_with_a_new_incarnation(cable: tuple[str, str], gpus: Maker) -> None:
    b = gpus(2, {0: cable[1]})
    words = np.zeros(1, np.uint64)
    b.register(words)
    for incarnation in (0xFFFE, 0xFFFF, 0, 1):
        with Gpu(1, {0: cable[0]}, incarnation=incarnation, options=FAST) as a:
            a.atomic_add(2, 0, 1)
    assert words[0] == 4
    assert b.counters()["source_restarted"] == 3
    with Gpu(1, {0: cable[0]}, incarnation=0, options=EndpointOptions(timeout_s=0.2, linger_s=0)) as old:  # noqa: SIM117
        with pytest.raises(LsuTimeout):
            old.atomic_add(2, 0, 1)
    assert words[0] == 4
    assert b.counters()["stale_incarnation"] >= 1


def test_close_ends_what_is_under_way(cable: tuple[str, str], gpus: Maker) -> None:
    a = gpus(1, {0: cable[0]})
    transfer = a.load_async(9, 0, 8)
    assert not transfer.wait(0.01)
    with pytest.raises(TimeoutError, match="1 requests are unfinished"):
        transfer.result(0.01)
    a.close()
    assert isinstance(transfer.exception(1), ClosedError)
    with pytest.raises(ClosedError, match="GPU 1 is closed"):
        a.load(9, 0, 8)
    a.close()


def test_close_frees_a_caller_that_waits_for_room(cable: tuple[str, str], gpus: Maker) -> None:
    a = gpus(1, {0: cable[0]}, options=EndpointOptions(window=1, timeout_s=60, linger_s=0))
    a.load_async(9, 0, 8)
    caught: list[BaseException] = []

    def blocked() -> None:
        try:
            a.load(9, 0, 8)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=blocked)
    thread.start()
    time.sleep(0.05)
    a.close()
    thread.join(2)
    assert isinstance(caught[0], ClosedError)


def test_import_is_light() -> None:
    """The endpoint starts without Scapy and whatever else is not needed to move packets."""
    script = "import sys, endpoint, endpoint.traffic.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True,
                          cwd=Path(__file__).parents[2])  # fmt: skip
    heavy = {"scapy", "rich", "grpc", "finsy", "networkx", "pyroute2", "asyncio"}
    assert heavy.isdisjoint(done.stdout.split())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_failed_receive_thread_is_told(pair: tuple[Gpu, Gpu], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends the receive thread, callers learn of it instead of waiting for ever."""
    a, b = pair
    waiting = a.load_async(9, 0, 8)

    def fail(*_: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(a._engine, "_deliver", fail)
    b.load_async(1, 0, 8)
    a._engine._thread.join(10)
    with pytest.raises(ClosedError, match="GPU 1 is closed: out of luck"):
        a.load(2, 0, 8)
    assert isinstance(waiting.exception(1), ClosedError)


def test_options_are_checked() -> None:
    for wrong, message in (
        ({"min_rto_s": 0.0}, "0 < min_rto_s <= first_rto_s <= max_rto_s does not hold"),
        ({"first_rto_s": 5.0}, "does not hold"),
        ({"timeout_s": 0.0}, "timeout_s and receive_buffer must be above 0"),
        ({"linger_s": -1.0}, "linger_s at least 0"),
        ({"unreachable_s": -1.0}, "unreachable_s = -1 is out of range: at least 0"),
        ({"lossless_rto_s": 0.0}, "lossless_rto_s = 0 is out of range: above 0"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            EndpointOptions(**wrong)  # type: ignore[arg-type]
