"""What a GPU does with frames that it must not believe and requests that it must refuse."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from scapy.packet import Packet, Raw

from codec import frames
from codec.constants import MAX_FRAME, Kind, LsuOpcode, LsuStatus, TmaOpcode
from codec.scapy_layers import LSU, OEFH, TMA, CreditUpdate, Event, Link, LinkInit, LlrControl
from endpoint import (
    Gpu,
)
from tests.endpoint.conftest import Wire, ip

Maker = Callable[..., Gpu]


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


def write(**fields: Any) -> Packet:
    tma: dict[str, Any] = {
        "opcode": "WRITE", "message": 1, "incarnation": 1, "key": 9, "address": 0, "total": 8, "data": b"12345678",
        **fields,
    }  # fmt: skip
    return Link() / OEFH(dst=2, src=1) / TMA(**tma)


def flipped(packet: Packet, at: int) -> bytes:
    frame = bytearray(bytes(packet))
    frame[at] ^= 0x10
    return bytes(frame)


def recrc(packet: bytes) -> bytes:
    """Return a packet's frame with a good link CRC, as a switch makes it."""
    return frames.frame(Kind.DATA, packet)


def event(dst: int = 2, src: int = 0xF01, **fields: Any) -> Packet:
    return Link() / OEFH(dst=dst, src=src, vc=7) / Event(**{"type": 1, "plane": 0, "subject": 1, **fields})


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
    ("drop_truncated", Link() / OEFH(dst=2, src=1, next=2) / Raw(bytes(31))),
    ("drop_bad_end_to_end_crc", recrc(flipped(write(), 40)[12:])),
    ("drop_wrong_destination", Link() / OEFH(dst=3, src=1) / TMA(opcode="WRITE", key=9, data=b"1")),
    ("drop_reserved_source", Link() / OEFH(dst=2, src=0xF01) / TMA(opcode="WRITE", key=9, data=b"1")),
    ("drop_reserved_vc", Link() / OEFH(dst=2, src=1, vc=7) / TMA(opcode="WRITE", key=9, data=b"1")),
    ("drop_unknown_opcode", write(opcode=8)),
    ("drop_unknown_opcode", write(opcode=14)),
    ("drop_unsupported_next", Link() / OEFH(dst=2, src=1, next=4) / Raw(bytes(8))),
    ("drop_forged_event", event(src=1)),
    ("drop_forged_event", event(src=0xEFF)),
    ("drop_forged_event", event(src=0xFFF)),
    ("drop_wrong_destination", event(dst=3)),
    ("drop_wrong_destination", event(dst=0xFFF)),
    ("drop_wrong_plane", event(plane=1)),
    ("drop_unknown_event", event(type=0)),
    ("drop_unknown_event", event(type=4)),
    ("drop_unknown_subject", event(subject=2)),
    ("drop_unknown_subject", event(subject=0xF02)),
    ("drop_unknown_subject", event(subject=0xFFFF)),
    ("drop_truncated", recrc(bytes(event())[12:-1])),
    ("drop_truncated", recrc(bytes(event())[12:18])),
    ("drop_unknown_version", Link() / OEFH(version=1, dst=2, src=0xF01, next="EVENT") / Event()),
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
    assert gpu.event_log() == []


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


REFUSED_MESSAGES: list[tuple[str, LsuStatus, dict[str, Any]]] = [
    ("bad_opcode", LsuStatus.BAD_OPCODE, {"opcode": 0}),
    ("bad_opcode", LsuStatus.BAD_OPCODE, {"opcode": 7}),
    ("bad_length", LsuStatus.BAD_LENGTH, {"block": 0}),
    ("bad_length", LsuStatus.BAD_LENGTH, {"block": 255}),
    ("bad_length", LsuStatus.BAD_LENGTH, {"offset": 2**32 - 2048}),
    ("bad_length", LsuStatus.BAD_LENGTH, {"total": 7}),
    ("bad_length", LsuStatus.BAD_LENGTH, {"data": b""}),
    ("bad_length", LsuStatus.BAD_LENGTH, {"opcode": "READ", "total": 0, "data": b""}),
    ("bad_length", LsuStatus.BAD_LENGTH, {"opcode": "READ"}),
    ("bad_key", LsuStatus.BAD_KEY, {"key": 10}),
    ("bad_key", LsuStatus.BAD_KEY, {"opcode": "READ", "key": 10, "data": b""}),
    ("out_of_range", LsuStatus.OUT_OF_RANGE, {"address": 57}),
    ("out_of_range", LsuStatus.OUT_OF_RANGE, {"address": 2**64 - 8}),
    ("out_of_range", LsuStatus.OUT_OF_RANGE, {"total": 2**32 - 1, "data": bytes(2048)}),
    ("out_of_range", LsuStatus.OUT_OF_RANGE, {"opcode": "READ", "total": 65, "data": b""}),
]  # fmt: skip


def test_bad_messages_are_refused(wired: tuple[Wire, Gpu]) -> None:
    wire, gpu = wired
    for number, (reason, status, fields) in enumerate(REFUSED_MESSAGES, 100):
        request = Link(bytes(write(message=number, **fields)))
        with counted(gpu, f"refused_{reason}"):
            wire.send(request)
            nak = wire.receive()
        assert nak.crc_ok() and nak[TMA].crc_ok()
        assert (nak[OEFH].vc, nak[OEFH].dst, nak[OEFH].src) == (1, 1, 2)
        assert (nak[TMA].opcode, nak[TMA].data) == (TmaOpcode.NAK, bytes((status,)))
        echoed = ("message", "incarnation", "key", "address", "total", "block", "offset")
        assert [nak[TMA].getfieldval(f) for f in echoed] == [request[TMA].getfieldval(f) for f in echoed]


def test_duplicate_is_answered_but_not_executed(wired: tuple[Wire, Gpu]) -> None:
    wire, gpu = wired
    add = store(opcode="ATOMIC_ADD", address=8, data=(1).to_bytes(8, "little"))
    for entropy in range(3):  # a request that is sent again takes another path, and so does its answer
        add[OEFH].entropy = entropy
        wire.send(add)
        answer = wire.receive()
        assert (answer[LSU].data, answer[OEFH].entropy) == (b"\xaa" * 8, entropy)
    assert gpu._memory.get(9).array[8] == 0xAB  # type: ignore[union-attr]
    assert gpu.counters()["duplicate_request"] == 2


def test_congestion_is_echoed(wired: tuple[Wire, Gpu]) -> None:
    wire, _ = wired
    wire.send(
        Link()
        / OEFH(dst=2, src=1, ecn=3, f=1, entropy=77)
        / LSU(opcode="LOAD", request=5, incarnation=1, key=9, length=16)
    )
    response = wire.receive()
    assert (response[LSU].opcode, response[LSU].status, response[LSU].data) == (9, 8, b"\xaa" * 16)
    assert (response[OEFH].f, response[OEFH].entropy) == (1, 77)


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
    good = bytes(write())
    covered = [1, 2, 3, *range(6, len(good) - 12)]
    for _ in range(500):
        bad = bytearray(good[12:])
        bad[noise.choice(covered)] ^= 1 << int(noise.integers(0, 8))
        wire.send(recrc(bytes(bad)))
    for _ in range(500):  # headers of any values, whose CRCs hold
        widths = {"opcode": 4, "flags": 4, "block": 8, "message": 32, "offset": 32, "total": 32}
        fields = {name: int(noise.integers(0, 1 << bits)) for name, bits in widths.items()}
        wire.send(write(**fields, key=10, data=noise.bytes(int(noise.integers(0, 200)))))
    assert (gpu._memory.get(9).array == 0xAA).all()  # type: ignore[union-attr]
    wire.send(store(request=7))
    deadline = time.monotonic() + 2
    while gpu._memory.get(9).array[0] != 0x31 and time.monotonic() < deadline:  # type: ignore[union-attr]
        time.sleep(0.01)
    assert gpu._memory.get(9).array[:8].tobytes() == b"12345678"  # type: ignore[union-attr]
