"""Two GPUs back to back on a veth pair: accesses, refusals, restarts, and what malformed frames do."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.packet import Packet, Raw

from codec import frames
from codec.constants import MAX_FRAME, Kind, LsuOpcode, LsuStatus
from codec.scapy_layers import LSU, OEFH, TMA, CreditUpdate, Event, Link, LinkInit, LlrControl
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
    PortError,
)
from tests.endpoint.conftest import FAST, add_cable, ip

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
        (8, 0xFFFF, "key 0xffff is reserved for barriers"),
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
    assert 0.25 < time.monotonic() - start < 1.0
    assert a.counters()["timed_out_requests"] == 1


def test_long_access_to_a_silent_peer_fails_after_one_time_out(cable: tuple[str, str], gpus: Maker) -> None:
    a = gpus(1, {0: cable[0]}, options=EndpointOptions(timeout_s=0.3, window=8, linger_s=0))
    start = time.monotonic()
    with pytest.raises(LsuTimeout):
        a.store(9, 0, bytes(1 << 20))
    assert time.monotonic() - start < 1.5
    transfer = a.load_many_async(9, [(0, 8)] * 100)
    assert isinstance(transfer.exception(5), LsuTimeout)
    assert a.counters()["tx_frames"] < 500


def test_dead_interface_times_out_and_recovers(cable: tuple[str, str], gpus: Maker) -> None:
    a = gpus(1, {0: cable[0]}, options=EndpointOptions(timeout_s=0.3, linger_s=0))
    b = gpus(2, {0: cable[1]})
    b.register(8)
    ip(f"link set {cable[0]} down")
    with pytest.raises(LsuTimeout):
        a.load(2, 0, 8)
    assert a.counters()["tx_dropped_down"] > 0
    ip(f"link set {cable[0]} up")
    assert a.load(2, 0, 8) == bytes(8)


def test_start_while_the_cable_is_out(cable: tuple[str, str], gpus: Maker) -> None:
    ip(f"link set {cable[1]} down")
    a = gpus(0, {0: cable[0]})
    b = gpus(0xEFF, {0: cable[1]})
    b.register(8)
    ip(f"link set {cable[1]} up")
    assert a.load(0xEFF, 0, 8) == bytes(8)


def test_second_plane_takes_over(namespace: str, gpus: Maker) -> None:
    add_cable("ep0", "ep1")
    add_cable("ep2", "ep3")
    a = gpus(1, {0: "ep0", 1: "ep2"})
    b = gpus(2, {0: "ep1", 1: "ep3"})
    b.register(8)
    a.load_many(2, [(0, 8)] * 100)
    assert all(counters["tx_frames"] == 50 for counters in a.port_counters().values())
    ip("link set ep3 down")
    words = [a.atomic_add(2, 0, 1) for _ in range(10)]
    assert words == list(range(10))
    assert a.counters()["resent_requests"] >= 4


def test_ordered_takes_one_plane(namespace: str, gpus: Maker) -> None:
    add_cable("ep0", "ep1")
    add_cable("ep2", "ep3")
    a = gpus(1, {0: "ep0", 1: "ep2"}, options=EndpointOptions(ordered=True, linger_s=0))
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


def test_full_buffer_loses_frames_but_no_access(cable: tuple[str, str], gpus: Maker) -> None:
    """Requests that the target's socket has no room for are counted there and sent again."""
    a = gpus(1, {0: cable[0]}, options=EndpointOptions(window=512, linger_s=0))
    b = gpus(2, {0: cable[1]}, options=EndpointOptions(receive_buffer=1 << 15, linger_s=0))
    words = np.zeros(1, np.uint64)
    b.register(words)
    with b._engine.lock:  # b is busy with something else
        transfers = [a.atomic_add_async(2, 0, 1) for _ in range(500)]
        time.sleep(0.02)
    assert sorted(transfer.result() for transfer in transfers) == list(range(500))
    assert words[0] == 500
    lost = b.counters()["rx_dropped_full"]
    assert lost > 0
    assert a.counters()["resent_requests"] >= lost


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
    assert b.wait_until(region, lambda: bool(region.array[0]), timeout_s=2)
    assert time.monotonic() - start < 1.0
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


# ------------------------------------------------------------------------------------------------ ports that cannot be


def test_port_errors(namespace: str, gpus: Maker) -> None:
    ip("link add ep0 type veth peer name ep1")
    with pytest.raises(PortError, match=r"interface nothing0: No such device; there are .*ep0"):
        gpus(1, {0: "nothing0"})
    with pytest.raises(PortError, match="ep0 has MTU 1500, the largest frame needs 4132: ip link set ep0 mtu 4132"):
        gpus(1, {0: "ep0"})
    ip("link set ep0 mtu 4132")
    gpus(1, {0: "ep0"})
    with pytest.raises(PortError, match="interface ep0 is in use by another endpoint"):
        gpus(2, {0: "ep0"})
    with pytest.raises(ConfigurationError, match="GPU id 3840 is out of range"):
        gpus(0xF00, {0: "ep1"})
    with pytest.raises(ConfigurationError, match="needs at least one port"):
        gpus(3, {})
    with pytest.raises(ConfigurationError, match="incarnation 65536 is out of range"):
        gpus(3, {0: "ep1"}, incarnation=65536)
    with pytest.raises(ConfigurationError, match="window = 1024 is out of range, 1 to 1023"):
        EndpointOptions(window=1024)


def test_failed_start_gives_ports_back(namespace: str, gpus: Maker) -> None:
    add_cable("ep0", "ep1")
    with pytest.raises(PortError):
        gpus(1, {0: "ep0", 1: "nothing0"})
    gpus(1, {0: "ep0"})


# ---------------------------------------------------------------------------------------------------- malformed frames


class Wire:
    """The other end of the GPU's cable, in the hands of a test."""

    def __init__(self, iface: str) -> None:
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(263, 23, 1)
        self.socket.bind((iface, 3))

    def send(self, packet: Packet | bytes) -> None:
        self.socket.send(bytes(packet))

    def receive(self, timeout_s: float = 2.0) -> Packet:
        self.socket.settimeout(timeout_s)
        return Link(self.socket.recv(9000))

    def silent(self) -> bool:
        try:
            self.receive(0.1)
        except TimeoutError:
            return True
        return False


@pytest.fixture
def wired(cable: tuple[str, str], gpus: Maker) -> Iterator[tuple[Wire, Gpu]]:
    """Return the wire to a GPU 2 that has 64 bytes of 0xAA under key 9."""
    wire = Wire(cable[0])
    gpu = gpus(2, {0: cable[1]})
    gpu.register(np.full(64, 0xAA, np.uint8), key=9)
    yield wire, gpu
    wire.socket.close()


@contextmanager
def counted(gpu: Gpu, reason: str, times: int = 1) -> Iterator[None]:
    """Hold that a counter, and no other drop counter, goes up by `times`, and memory stays as it is."""

    def drops() -> dict[str, int]:
        return {name: value for name, value in gpu.counters().items() if name.startswith(("drop_", "refused_"))}

    before = drops()
    yield
    deadline = time.monotonic() + 2
    while drops().get(reason, 0) < before.get(reason, 0) + times and time.monotonic() < deadline:
        time.sleep(0.002)
    after = drops()
    assert {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name)} == {
        reason: times
    }
    assert (gpu._memory.get(9).array == 0xAA).all()  # type: ignore[union-attr]


def store(**fields: Any) -> Packet:
    lsu: dict[str, Any] = {
        "opcode": "STORE",
        "request": 1,
        "incarnation": 1,
        "key": 9,
        "address": 0,
        "data": b"12345678",
        **fields,
    }
    return Link() / OEFH(dst=2, src=1) / LSU(**lsu)


def flipped(packet: Packet, at: int) -> bytes:
    frame = bytearray(bytes(packet))
    frame[at] ^= 0x10
    return bytes(frame)


def recrc(packet: bytes) -> bytes:
    """Return a packet's frame with a good link CRC, as a switch makes it."""
    return frames.frame(Kind.DATA, packet)


DROPPED: list[tuple[str, Packet | bytes]] = [
    ("drop_truncated", b"\x10" + bytes(13)),
    ("drop_bad_crc", flipped(store(), 20)),
    ("drop_bad_crc", bytes(store())[:-3]),
    ("drop_odd_byte_0", Link(flags=1) / OEFH(dst=2, src=1) / LSU(opcode="STORE", key=9, data=b"1")),
    ("drop_high_byte_12", Link() / OEFH(version=2, dst=2, src=1) / LSU(opcode="STORE", key=9, data=b"1")),
    ("drop_unknown_version", Link() / OEFH(version=1, dst=2, src=1) / LSU(opcode="STORE", key=9, data=b"1")),
    ("drop_unknown_kind", Link(kind=9) / Raw(bytes(20))),
    ("drop_unexpected_control", Link() / LlrControl()),
    ("drop_unexpected_control", Link() / LinkInit()),
    ("drop_unexpected_control", Link() / CreditUpdate()),
    ("drop_wrong_session", Link(session=5) / OEFH(dst=2, src=1) / LSU(opcode="STORE", key=9, data=b"1")),
    ("drop_poisoned", Link(flags="POISON") / OEFH(dst=2, src=1) / LSU(opcode="STORE", key=9, data=b"1")),
    ("drop_unknown_next", Link() / OEFH(dst=2, src=1, next=0) / Raw(bytes(30))),
    ("drop_unknown_next", Link() / OEFH(dst=2, src=1, next=15) / Raw(bytes(30))),
    ("drop_unsupported_next", Link() / OEFH(dst=2, src=1) / TMA(opcode="WRITE", key=9, data=b"1")),
    ("drop_unsupported_next", Link() / OEFH(dst=2, src=0xF01, vc=7) / Event()),
    ("drop_truncated", Link() / OEFH(dst=2, src=1, next=1) / Raw(bytes(21))),
    ("drop_truncated", Link() / OEFH(dst=2, src=1, next=1)),
    ("drop_bad_end_to_end_crc", recrc(flipped(store(), 40)[12:])),
    ("drop_bad_end_to_end_crc", store(crc=1)),
    ("drop_wrong_destination", Link() / OEFH(dst=3, src=1) / LSU(opcode="STORE", key=9, data=b"1")),
    ("drop_reserved_source", Link() / OEFH(dst=2, src=0xF01) / LSU(opcode="STORE", key=9, data=b"1")),
    ("drop_reserved_source", Link() / OEFH(dst=2, src=2) / LSU(opcode="STORE", key=9, data=b"1")),
    ("drop_reserved_vc", Link() / OEFH(dst=2, src=1, vc=7) / LSU(opcode="STORE", key=9, data=b"1")),
    ("drop_unknown_opcode", store(opcode=8)),
    ("drop_unknown_opcode", store(opcode=14)),
    ("drop_overlong", frames.frame(Kind.DATA, bytes(store())[12:] + bytes(MAX_FRAME - 30))),
]  # fmt: skip


def test_malformed_frames_are_dropped_and_counted(wired: tuple[Wire, Gpu]) -> None:
    wire, gpu = wired
    ip("link set ep0 mtu 9000")
    ip("link set ep1 mtu 9000")
    for reason, packet in DROPPED:
        with counted(gpu, reason):
            wire.send(packet)
    assert wire.silent()
    assert "requests" not in gpu.counters()


REFUSED: list[tuple[str, LsuStatus, dict[str, Any]]] = [
    ("bad_opcode", LsuStatus.BAD_OPCODE, {"opcode": 0}),
    ("bad_opcode", LsuStatus.BAD_OPCODE, {"opcode": 6}),
    ("bad_opcode", LsuStatus.BAD_OPCODE, {"opcode": 7, "data": b""}),
    ("bad_length", LsuStatus.BAD_LENGTH, {"length": 7}),
    ("bad_length", LsuStatus.BAD_LENGTH, {"length": 256}),
    ("bad_length", LsuStatus.BAD_LENGTH, {"data": b"", "length": 8}),
    ("bad_length", LsuStatus.BAD_LENGTH, {"opcode": "LOAD", "data": b"1"}),
    ("bad_length", LsuStatus.BAD_LENGTH, {"opcode": "ATOMIC_ADD", "length": 4, "data": b"1234"}),
    ("bad_length", LsuStatus.BAD_LENGTH, {"opcode": "ATOMIC_ADD", "length": 8, "data": bytes(16)}),
    ("bad_length", LsuStatus.BAD_LENGTH, {"opcode": "ATOMIC_CAS", "length": 8, "data": bytes(8)}),
    ("bad_key", LsuStatus.BAD_KEY, {"key": 10}),
    ("misaligned", LsuStatus.MISALIGNED, {"opcode": "ATOMIC_SWAP", "address": 4}),
    ("out_of_range", LsuStatus.OUT_OF_RANGE, {"address": 57}),
    ("out_of_range", LsuStatus.OUT_OF_RANGE, {"address": 2**64 - 8}),
    ("out_of_range", LsuStatus.OUT_OF_RANGE, {"address": 2**64 - 1}),
]  # fmt: skip


def test_bad_requests_are_refused(wired: tuple[Wire, Gpu]) -> None:
    wire, gpu = wired
    for number, (reason, status, fields) in enumerate(REFUSED, 100):
        request = Link(bytes(store(request=number, **fields)))
        with counted(gpu, f"refused_{reason}"):
            wire.send(request)
            nak = wire.receive()
        assert nak.crc_ok() and nak[LSU].crc_ok()
        assert (nak[OEFH].vc, nak[OEFH].dst, nak[OEFH].src) == (1, 1, 2)
        assert (nak[LSU].opcode, nak[LSU].status, nak[LSU].data) == (LsuOpcode.NAK, status, b"")
        echoed = ("request", "incarnation", "key", "address", "length")
        assert [nak[LSU].getfieldval(f) for f in echoed] == [request[LSU].getfieldval(f) for f in echoed]


def test_duplicate_is_answered_but_not_executed(wired: tuple[Wire, Gpu]) -> None:
    wire, gpu = wired
    add = store(opcode="ATOMIC_ADD", address=8, data=(1).to_bytes(8, "little"))
    for _ in range(3):
        wire.send(add)
        assert wire.receive()[LSU].data == b"\xaa" * 8
    assert gpu._memory.get(9).array[8] == 0xAB  # type: ignore[union-attr]
    assert gpu.counters()["duplicate_request"] == 2


def test_congestion_is_echoed(wired: tuple[Wire, Gpu]) -> None:
    wire, _ = wired
    wire.send(Link() / OEFH(dst=2, src=1, ecn=3, f=1) / LSU(opcode="LOAD", request=5, incarnation=1, key=9, length=16))
    response = wire.receive()
    assert (response[LSU].opcode, response[LSU].status, response[LSU].data) == (9, 8, b"\xaa" * 16)
    assert response[OEFH].f == 1


def test_noise_does_no_harm(wired: tuple[Wire, Gpu]) -> None:
    wire, gpu = wired
    noise = np.random.default_rng(3)
    for _ in range(500):
        wire.send(noise.integers(0, 256, int(noise.integers(14, 300)), np.uint8).tobytes())
    good = bytes(store(request=1))
    covered = [1, 2, 3, *range(6, len(good) - 12)]  # of the rest of the OEFH any value is good, hop limit and entropy
    for _ in range(500):  # single faults, with a link CRC that holds, as a faulty switch makes them
        bad = bytearray(good[12:])
        bad[noise.choice(covered)] ^= 1 << int(noise.integers(0, 8))
        wire.send(recrc(bytes(bad)))
    assert (gpu._memory.get(9).array == 0xAA).all()  # type: ignore[union-attr]
    wire.send(store(request=7))
    deadline = time.monotonic() + 2
    while gpu._memory.get(9).array[0] != 0x31 and time.monotonic() < deadline:  # type: ignore[union-attr]
        time.sleep(0.01)
    assert gpu._memory.get(9).array[:8].tobytes() == b"12345678"  # type: ignore[union-attr]


# --------------------------------------------------------------------------------------------------- what it costs


def test_import_is_light() -> None:
    """The endpoint starts without Scapy and whatever else is not needed to move packets."""
    script = "import sys, endpoint, endpoint.traffic.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True,
                          cwd=Path(__file__).parents[2])  # fmt: skip
    heavy = {"scapy", "rich", "grpc", "finsy", "networkx", "pyroute2", "asyncio"}
    assert heavy.isdisjoint(done.stdout.split())


def test_removed_interface_neither_spins_nor_hangs(cable: tuple[str, str], gpus: Maker) -> None:
    a = gpus(1, {0: cable[0]}, options=EndpointOptions(timeout_s=0.3, linger_s=0))
    ip(f"link delete {cable[0]}")
    with pytest.raises(LsuTimeout):
        a.load(2, 0, 8)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1
    assert a.counters()["tx_dropped_down"] > 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_failed_receive_thread_is_told(pair: tuple[Gpu, Gpu], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends the receive thread, callers learn of it instead of waiting for ever."""
    a, b = pair
    waiting = a.load_async(9, 0, 8)

    def fail(*_: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(a._engine, "_deliver", fail)
    with pytest.raises(LsuTimeout):
        b.load(1, 0, 8)
    with pytest.raises(ClosedError, match="GPU 1 is closed: out of luck"):
        a.load(2, 0, 8)
    assert isinstance(waiting.exception(1), ClosedError)
