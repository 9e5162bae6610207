"""Build and parse frames fast: what the endpoint does for every frame that it sends or receives.

Nothing here allocates more than it must or looks a name up twice; the layouts are those of `codec.layouts`, against
which tests/codec/test_frames.py holds every function. A *frame* is what is on the wire; a *packet* is a frame without
its link header: the OEFH and what follows. Packets are what a link layer takes and gives, so that a frame sent again on
another port, or under another LLR sequence, is the same packet.

`bench/endpoint.py` measures the cost: about 1 microsecond to build a frame and 2 to parse one.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple
from zlib import crc32

from codec.constants import HOPS, MAX_FRAME, MIN_FRAME, OEFH_VERSION, Kind, Next
from codec.layouts import EVENT, LINK, LSU, OEFH, TMA

Buffer = bytes | bytearray | memoryview

_LINK_WORD: Final = struct.Struct(">Q")  # the link header's kind, flags, seq, ack and session
_LINK: Final = struct.Struct(">QI")
_OEFH: Final = struct.Struct(">HI")  # version, vc, ecn, f and 8 bits of dst; then the rest
_LSU: Final = struct.Struct(">BBHIHQ")
_EVENT: Final = struct.Struct(">BBHHHHI")  # the 48 bits of the timestamp in two parts
_PACKET_LSU: Final = struct.Struct(">HIBBHIHQ")  # OEFH and LSU header in one
_LSU_HEADERS: Final = OEFH.size + LSU.size
_TMA: Final = struct.Struct(">BBHIHHIIQ")
_PACKET_TMA: Final = struct.Struct(">HIBBHIHHIIQ")  # OEFH and TMA header in one
_TMA_HEADERS: Final = OEFH.size + TMA.size

_KIND_SHIFT: Final = 60
_DATA_WORD: Final = int(Kind.DATA) << _KIND_SHIFT
_OPEN_PREFIX: Final = _LINK_WORD.pack(_DATA_WORD)
_OPEN_CRC: Final = crc32(_OPEN_PREFIX)
_KINDS: Final = frozenset(int(kind) for kind in Kind)
_LSU_NEXT: Final = int(Next.LSU)

TRUNCATED: Final = "truncated"
BAD_CRC: Final = "bad_crc"
ODD_BYTE_0: Final = "odd_byte_0"
HIGH_BYTE_12: Final = "high_byte_12"
UNKNOWN_KIND: Final = "unknown_kind"
OVERLONG: Final = "overlong"
UNKNOWN_VERSION: Final = "unknown_version"
BAD_END_TO_END_CRC: Final = "bad_end_to_end_crc"


class FrameError(ValueError):
    """A frame cannot be believed; `reason` is the name of its drop counter."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"frame dropped: {reason}")
        self.reason = reason


class LinkHeader(NamedTuple):
    """The link header of a frame whose CRC holds."""

    kind: int
    flags: int
    seq: int
    ack: int
    session: int


class Oefh(NamedTuple):
    """The forwarding header of a DATA frame."""

    vc: int
    ecn: int
    f: int
    dst: int
    src: int
    next: int
    hops: int
    entropy: int


class Event(NamedTuple):
    """An EVENT packet: what the OEFH says that matters to an endpoint, and the event.

    `timestamp` is in microseconds of the switch's clock.
    """

    dst: int
    src: int
    type: int
    plane: int
    subject: int
    sequence: int
    detail: int
    timestamp: int


class Lsu(NamedTuple):
    """A load/store packet: what the OEFH says that matters to an endpoint, the LSU header, the data.

    `length` is in bytes, 1 to 256. `data` is a view of the packet: copy what is to outlive it.
    """

    vc: int
    ecn: int
    f: int
    dst: int
    src: int
    entropy: int
    opcode: int
    status: int
    length: int
    incarnation: int
    request: int
    key: int
    address: int
    data: memoryview


class Tma(NamedTuple):
    """An RDMA packet: what the OEFH says that matters to an endpoint, the TMA header, the data.

    `block` is the log2 of the block size, `length` what the header says that `data` is, in bytes. `data` is a view of
    the packet: copy what is to outlive it.
    """

    vc: int
    ecn: int
    f: int
    dst: int
    src: int
    entropy: int
    opcode: int
    flags: int
    block: int
    incarnation: int
    message: int
    key: int
    length: int
    offset: int
    total: int
    address: int
    data: memoryview


def open_frame(packet: bytes) -> bytes:
    """Return the DATA frame of a packet for an open port: session 0, no LLR."""
    return _OPEN_PREFIX + crc32(packet, _OPEN_CRC).to_bytes(4, "big") + packet


def frame(kind: int, body: bytes, *, flags: int = 0, seq: int = 0, ack: int = 0, session: int = 0) -> bytes:
    """Return a frame of any kind: link header with its CRC, then `body` (a packet, or a control body)."""
    prefix = _LINK_WORD.pack(kind << _KIND_SHIFT | flags << 56 | seq << 36 | ack << 16 | session)
    return prefix + crc32(body, crc32(prefix)).to_bytes(4, "big") + body


def open_packet(frame: memoryview) -> memoryview | None:
    """Return the packet of a sound DATA frame of an open port; None when the frame is anything else.

    The fast path of `parse_link`, which tells what the frame is instead.
    """
    if (
        MIN_FRAME <= len(frame) <= MAX_FRAME
        and frame[:8] == _OPEN_PREFIX
        and crc32(frame[12:], _OPEN_CRC) == int.from_bytes(frame[8:12], "big")
        and frame[12] < 0x80
    ):
        return frame[12:]
    return None


def parse_link(frame: memoryview) -> LinkHeader:
    """Return the link header of a frame; the body is `frame[12:]`.

    Raises FrameError when it is truncated or overlong, breaks the rules of bytes 0 and 12, has a bad CRC or an unknown
    kind; with several faults the reason is the first in the order of p4src/constants.p4, after its length.
    """
    if len(frame) < MIN_FRAME:
        raise FrameError(TRUNCATED)
    if len(frame) > MAX_FRAME:  # before the CRC: a receiver need not have room for all of it
        raise FrameError(OVERLONG)
    word, crc = _LINK.unpack_from(frame)
    if crc32(frame[LINK.size :], crc32(frame[:8])) != crc:
        raise FrameError(BAD_CRC)
    if frame[0] & 1:
        raise FrameError(ODD_BYTE_0)
    if frame[12] & 0x80:
        raise FrameError(HIGH_BYTE_12)
    kind = word >> _KIND_SHIFT
    if kind not in _KINDS:
        raise FrameError(UNKNOWN_KIND)
    return LinkHeader(kind, word >> 56 & 0xF, word >> 36 & 0xFFFFF, word >> 16 & 0xFFFFF, word & 0xFFFF)


def oefh(*, vc: int, dst: int, src: int, next: int = _LSU_NEXT, ecn: int = 0, f: int = 0, entropy: int = 0) -> bytes:
    """Return the 6 bytes of a fresh OEFH (hop limit 8)."""
    return _OEFH.pack(
        OEFH_VERSION << 14 | vc << 11 | ecn << 9 | f << 8 | dst >> 4,
        (dst & 0xF) << 28 | src << 16 | next << 12 | HOPS << 8 | entropy,
    )


def parse_oefh(packet: memoryview) -> Oefh:
    """Return the OEFH of a packet. Raises FrameError when it is truncated or of another version."""
    if len(packet) < OEFH.size:
        raise FrameError(TRUNCATED)
    high, low = _OEFH.unpack_from(packet)
    if high >> 14 != OEFH_VERSION:
        raise FrameError(UNKNOWN_VERSION)
    return Oefh(
        high >> 11 & 7,
        high >> 9 & 3,
        high >> 8 & 1,
        (high & 0xFF) << 4 | low >> 28,
        low >> 16 & 0xFFF,
        low >> 12 & 0xF,
        low >> 8 & 0xF,
        low & 0xFF,
    )


def parse_event(packet: memoryview) -> Event:
    """Return an EVENT packet's fields. `packet` begins with an OEFH whose `next` is EVENT, and may be longer.

    Raises FrameError when it is truncated or of another version.
    """
    header = parse_oefh(packet)
    if len(packet) < OEFH.size + EVENT.size:
        raise FrameError(TRUNCATED)
    kind, plane, subject, sequence, detail, high, low = _EVENT.unpack_from(packet, OEFH.size)
    return Event(header.dst, header.src, kind, plane, subject, sequence, detail, high << 32 | low)


def with_entropy(packet: bytes, entropy: int) -> bytes:
    """Return a packet with another entropy: it takes another path, and is the same to its receiver."""
    return packet[:5] + entropy.to_bytes(1, "big") + packet[6:]


def end_to_end_seed(src: int, dst: int) -> int:
    """Return what the end-to-end CRC of every packet from `src` to `dst` starts from."""
    return crc32((src << 12 | dst).to_bytes(3, "big"))


def lsu_packet(
    oefh: bytes,
    seed: int,
    opcode: int,
    length: int,
    incarnation: int,
    request: int,
    key: int,
    address: int,
    data: Buffer = b"",
    status: int = 0,
) -> bytes:
    """Return a load/store packet.

    `oefh` is what `oefh()` gave and `seed` what `end_to_end_seed()` gave for the same ids; `length` is in bytes (1 to
    256). Raises struct.error for a value that does not fit its field.
    """
    transaction = _LSU.pack(opcode << 4 | status, length - 1, incarnation, request, key, address) + data
    return oefh + transaction + crc32(transaction, seed).to_bytes(4, "big")


def parse_lsu(packet: memoryview) -> Lsu:
    """Return a load/store packet's fields, once its end-to-end CRC holds.

    `packet` begins with an OEFH whose `next` is LSU. Raises FrameError when it is truncated, corrupt or of another
    version.
    """
    end = len(packet) - 4
    if end < _LSU_HEADERS:
        raise FrameError(TRUNCATED)
    high, low, code, length, incarnation, request, key, address = _PACKET_LSU.unpack_from(packet)
    if high >> 14 != OEFH_VERSION:
        raise FrameError(UNKNOWN_VERSION)
    dst = (high & 0xFF) << 4 | low >> 28
    src = low >> 16 & 0xFFF
    seed = crc32((src << 12 | dst).to_bytes(3, "big"))
    if crc32(packet[6:end], seed) != int.from_bytes(packet[end:], "big"):
        raise FrameError(BAD_END_TO_END_CRC)
    return Lsu(
        high >> 11 & 7,
        high >> 9 & 3,
        high >> 8 & 1,
        dst,
        src,
        low & 0xFF,
        code >> 4,
        code & 0xF,
        length + 1,
        incarnation,
        request,
        key,
        address,
        packet[24:end],
    )


def tma_packet(
    oefh: bytes,
    seed: int,
    opcode: int,
    flags: int,
    block: int,
    incarnation: int,
    message: int,
    key: int,
    offset: int,
    total: int,
    address: int,
    data: Buffer = b"",
) -> bytes:
    """Return an RDMA packet.

    `oefh` is what `oefh()` gave (with `next` TMA) and `seed` what `end_to_end_seed()` gave for the same ids; `data` has
    at most 4,096 bytes. Raises struct.error for a value that does not fit its field.
    """
    header = _TMA.pack(opcode << 4 | flags, block, incarnation, message, key, len(data), offset, total, address)
    return b"".join((oefh, header, data, crc32(data, crc32(header, seed)).to_bytes(4, "big")))


def parse_tma(packet: memoryview) -> Tma:
    """Return an RDMA packet's fields, once its end-to-end CRC holds.

    `packet` begins with an OEFH whose `next` is TMA. Raises FrameError when it is truncated, corrupt or of another
    version.
    """
    end = len(packet) - 4
    if end < _TMA_HEADERS:
        raise FrameError(TRUNCATED)
    high, low, code, block, incarnation, message, key, length, offset, total, address = _PACKET_TMA.unpack_from(packet)
    if high >> 14 != OEFH_VERSION:
        raise FrameError(UNKNOWN_VERSION)
    dst = (high & 0xFF) << 4 | low >> 28
    src = low >> 16 & 0xFFF
    if crc32(packet[6:end], end_to_end_seed(src, dst)) != int.from_bytes(packet[end:], "big"):
        raise FrameError(BAD_END_TO_END_CRC)
    return Tma(
        high >> 11 & 7,
        high >> 9 & 3,
        high >> 8 & 1,
        dst,
        src,
        low & 0xFF,
        code >> 4,
        code & 0xF,
        block,
        incarnation,
        message,
        key,
        length,
        offset,
        total,
        address,
        packet[_TMA_HEADERS:end],
    )
