"""Describe the bits of every header once, and pack and unpack any of them.

The field names and widths are those of p4src/headers.p4; tests/codec/test_layouts.py holds the two equal. Scapy's
layers (`codec.scapy_layers`) are made from these tables, and the fast builders of the endpoint (`codec.frames`) are
tested against them. All fields are big-endian.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from codec.constants import VC_COUNT, Kind, Next, ProbeOp

Value = int | Sequence[int]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a header.

    `bits` is the width of the whole field; a field of several equal parts (one per virtual channel) has `parts` > 1 and
    takes a sequence of that many integers, part 0 first on the wire.
    """

    name: str
    bits: int
    signed: bool = False
    parts: int = 1
    default: int = 0


@dataclass(frozen=True)
class Layout:
    """A header: named fields, most significant bit first."""

    name: str
    fields: tuple[Field, ...]
    bits: int = field(init=False)
    size: int = field(init=False)
    """Length in bytes."""

    def __post_init__(self) -> None:
        bits = sum(f.bits for f in self.fields)
        if bits % 8:
            raise ValueError(f"layout {self.name}: {bits} bits are not a whole number of bytes")
        object.__setattr__(self, "bits", bits)
        object.__setattr__(self, "size", bits // 8)

    def pack(self, **values: Value) -> bytes:
        """Return the header's bytes; a field that is not given takes its default.

        Raises ValueError for an unknown field or a value that does not fit.
        """
        unknown = values.keys() - {f.name for f in self.fields}
        if unknown:
            known = ", ".join(f.name for f in self.fields)
            raise ValueError(f"{self.name} has no field {', '.join(sorted(unknown))}; it has {known}")
        word = 0
        for f in self.fields:
            given = values.get(f.name, f.default)
            parts = (given,) * f.parts if isinstance(given, int) else tuple(given)
            if len(parts) != f.parts:
                raise ValueError(f"{self.name}.{f.name} takes {f.parts} values, got {len(parts)}")
            width = f.bits // f.parts
            for part in parts:
                low, high = (-(1 << width - 1), (1 << width - 1) - 1) if f.signed else (0, (1 << width) - 1)
                if not low <= part <= high:
                    raise ValueError(f"{self.name}.{f.name} = {part} does not fit: {low} to {high}")
                word = word << width | part & (1 << width) - 1
        return word.to_bytes(self.size, "big")

    def unpack(self, data: bytes | memoryview) -> dict[str, Value]:
        """Return the fields of the header that `data` begins with.

        Raises ValueError when `data` is too short.
        """
        if len(data) < self.size:
            raise ValueError(f"{self.name} takes {self.size} bytes, got {len(data)}")
        word = int.from_bytes(data[: self.size], "big")
        values: dict[str, Value] = {}
        left = self.bits
        for f in self.fields:
            width = f.bits // f.parts
            parts = []
            for _ in range(f.parts):
                left -= width
                part = word >> left & (1 << width) - 1
                parts.append(part - (1 << width) if f.signed and part >> width - 1 else part)
            values[f.name] = parts[0] if f.parts == 1 else tuple(parts)
        return values


LINK: Final = Layout(
    "link_t",
    (
        Field("kind", 4, default=Kind.DATA),
        Field("flags", 4),
        Field("seq", 20),
        Field("ack", 20),
        Field("session", 16),
        Field("crc", 32),
    ),
)

OEFH: Final = Layout(
    "oefh_t",
    (
        Field("version", 2),
        Field("vc", 3),
        Field("ecn", 2),
        Field("f", 1),
        Field("dst", 12),
        Field("src", 12),
        Field("next", 4, default=Next.LSU),
        Field("hops", 4, default=8),
        Field("entropy", 8),
    ),
)

LSU: Final = Layout(
    "lsu_t",
    (
        Field("opcode", 4, default=1),
        Field("status", 4),
        Field("length", 8),  # bytes - 1
        Field("incarnation", 16),
        Field("request", 32),
        Field("key", 16),
        Field("address", 64),
    ),
)

TMA: Final = Layout(
    "tma_t",
    (
        Field("opcode", 4, default=1),
        Field("flags", 4),
        Field("block", 8, default=11),  # log2 of the block size
        Field("incarnation", 16),
        Field("message", 32),
        Field("key", 16),
        Field("length", 16),
        Field("offset", 32),
        Field("total", 32),
        Field("address", 64),
    ),
)

EVENT: Final = Layout(
    "event_t",
    (
        Field("type", 8, default=1),
        Field("plane", 8),
        Field("subject", 16),
        Field("sequence", 16),
        Field("detail", 16),
        Field("timestamp", 48),  # microseconds
    ),
)

PROBE: Final = Layout(
    "probe_t",
    (
        Field("op", 8),
        Field("state", 8),
        Field("port", 16),
        Field("vc", 8),
        Field("zero", 24),
    ),
)

LINK_INIT: Final = Layout(
    "link_init_t",
    (
        Field("version", 8, default=1),
        Field("capabilities", 8),
        Field("own_epoch", 32),
        Field("peer_epoch", 32),
        Field("credit_size", 8, default=10),  # log2
        Field("packet_overhead", 8, signed=True),
        Field("max_frame", 16, default=4146),
        Field("lossless_vcs", 8),
        Field("outstanding_frames_max", 16, default=32),
        Field("credit_limit", 192, parts=VC_COUNT),
        Field("credits_in_use", 192, parts=VC_COUNT),
    ),
)

PROBE_CREDITS: Final = Layout(
    "probe_credits_t",
    (
        Field("own_epoch", 32),
        Field("peer_epoch", 32),
        Field("session", 16),
        Field("zero", 16),
        Field("sender_credits_consumed", 192, parts=VC_COUNT),
        Field("sender_credits_freed", 192, parts=VC_COUNT),
        Field("sender_credit_limit", 192, parts=VC_COUNT),
        Field("sender_credits_used_watermark", 192, parts=VC_COUNT),
        Field("receiver_credits_consumed", 192, parts=VC_COUNT),
        Field("receiver_credits_freed", 192, parts=VC_COUNT),
        Field("receiver_credits_in_use", 192, parts=VC_COUNT),
        Field("held_frames", 192, parts=VC_COUNT),
    ),
)

PROBE_RETRY: Final = Layout(
    "probe_retry_t",
    (
        Field("tx_state", 8),
        Field("rx_state", 8),
        Field("session", 16),
        Field("outstanding_frames_max", 16),
        Field("replays", 8),
        Field("zero", 8),
        Field("next_seq", 32),
        Field("unacknowledged_seq", 32),
        Field("replay_seq", 32),
        Field("outstanding_bytes", 32),
        Field("expected_seq", 32),
    ),
)

CREDIT_UPDATE: Final = Layout(
    "credit_update_t",
    (
        Field("zero", 24),
        Field("losses", 16),
        Field("vc_mask", 8, default=0xFF),
        Field("credits", 192, parts=VC_COUNT),
    ),
)

LLR_CONTROL: Final = Layout("llr_control_t", (Field("zero", 48),))

NOTICE: Final = Layout(
    "notice_t",
    (
        Field("type", 8, default=1),
        Field("state", 8),
        Field("port", 16),
    ),
)

LAYOUTS: Final[tuple[Layout, ...]] = (
    LINK, OEFH, LSU, TMA, EVENT, PROBE, PROBE_CREDITS, PROBE_RETRY, LINK_INIT, CREDIT_UPDATE, LLR_CONTROL, NOTICE,
)  # fmt: skip

BODY_OF_KIND: Final[Mapping[Kind, Layout]] = {
    Kind.DATA: OEFH,
    Kind.LLR_ACK: LLR_CONTROL,
    Kind.LLR_NACK: LLR_CONTROL,
    Kind.LLR_INIT: LINK_INIT,
    Kind.LLR_INIT_ECHO: LINK_INIT,
    Kind.CF_UPDATE: CREDIT_UPDATE,
    Kind.CC_UPDATE: CREDIT_UPDATE,
}

HEADER_OF_NEXT: Final[Mapping[Next, Layout]] = {Next.LSU: LSU, Next.TMA: TMA, Next.EVENT: EVENT, Next.PROBE: PROBE}

BODY_OF_PROBE: Final[Mapping[ProbeOp, Layout]] = {ProbeOp.CREDITS: PROBE_CREDITS, ProbeOp.RETRY: PROBE_RETRY}
"""What follows a PROBE, where anything does."""

CRC_OFFSET: Final = LINK.size - 4
"""Where the link header's crc begins; everything before and after it is covered."""


def link_crc(frame: bytes | memoryview) -> int:
    """Return the CRC-32 of a frame over everything but the link header's crc field.

    `frame` is a whole frame of at least 12 bytes.
    """
    return zlib.crc32(frame[LINK.size :], zlib.crc32(frame[:CRC_OFFSET]))


def end_to_end_crc(src: int, dst: int, transaction: bytes | memoryview) -> int:
    """Return the CRC-32 that ends an LSU or TMA frame.

    It covers 3 bytes of source and destination (12 bits each, source first), then `transaction`: header and data.
    """
    return zlib.crc32(transaction, zlib.crc32((src << 12 | dst).to_bytes(3, "big")))


def session_of(epoch: int, peer_epoch: int) -> int:
    """Return the link session (16 bits, never 0) that two 32-bit epochs make; it is the same on both sides."""
    mixed = epoch ^ peer_epoch
    return (mixed >> 16 ^ mixed & 0xFFFF) or 1


def credits_of(bytes_after_link_header: int, credit_size: int, packet_overhead: int = 0) -> int:
    """Return the credits that a frame takes: bytes after the link header plus overhead, over the size, rounded up.

    `credit_size` is in bytes; `packet_overhead` may be negative.
    """
    return -(-(bytes_after_link_header + packet_overhead) // credit_size)
