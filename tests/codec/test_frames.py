"""The fast builders and parsers equal the layouts, and no input makes them do anything but raise FrameError."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec import frames, layouts
from codec.constants import MAX_FRAME, Kind, Next
from codec.frames import FrameError
from codec.scapy_layers import LSU, OEFH, Link

IDS = st.integers(0, 0xFFF)
U8 = st.integers(0, 0xFF)
U16 = st.integers(0, 0xFFFF)
U20 = st.integers(0, 0xFFFFF)
U32 = st.integers(0, 0xFFFFFFFF)
U64 = st.integers(0, 0xFFFFFFFFFFFFFFFF)
NIBBLE = st.integers(0, 0xF)
BIT = st.integers(0, 1)


@given(st.sampled_from(list(Kind)), NIBBLE, U20, U20, U16, st.binary(min_size=6, max_size=80))
def test_frame_equals_layout(kind: Kind, flags: int, seq: int, ack: int, session: int, body: bytes) -> None:
    built = frames.frame(kind, body, flags=flags, seq=seq, ack=ack, session=session)
    header = layouts.LINK.pack(kind=kind, flags=flags, seq=seq, ack=ack, session=session)
    expected = layouts.LINK.pack(
        kind=kind, flags=flags, seq=seq, ack=ack, session=session, crc=layouts.link_crc(header + body)
    )
    assert built == expected + body
    if not flags & 1 and body[0] < 0x80:
        assert frames.parse_link(memoryview(built)) == (kind, flags, seq, ack, session)


@given(st.integers(0, 7), st.integers(0, 3), BIT, IDS, IDS, NIBBLE, U8)
def test_oefh_equals_layout(vc: int, ecn: int, f: int, dst: int, src: int, next_: int, entropy: int) -> None:
    built = frames.oefh(vc=vc, ecn=ecn, f=f, dst=dst, src=src, next=next_, entropy=entropy)
    assert built == layouts.OEFH.pack(vc=vc, ecn=ecn, f=f, dst=dst, src=src, next=next_, hops=8, entropy=entropy)
    assert frames.parse_oefh(memoryview(built)) == (vc, ecn, f, dst, src, next_, 8, entropy)


@given(
    st.integers(0, 3),
    BIT,
    IDS,
    IDS,
    U8,
    NIBBLE,
    NIBBLE,
    st.integers(1, 256),
    U16,
    U32,
    U16,
    U64,
    st.binary(max_size=256),
)
def test_lsu_packet_equals_layout(
    ecn: int, f: int, dst: int, src: int, entropy: int, opcode: int, status: int, length: int,
    incarnation: int, request: int, key: int, address: int, data: bytes,
) -> None:  # fmt: skip
    header = frames.oefh(vc=1, ecn=ecn, f=f, dst=dst, src=src, entropy=entropy)
    seed = frames.end_to_end_seed(src, dst)
    packet = frames.lsu_packet(header, seed, opcode, length, incarnation, request, key, address, data, status)
    transaction = layouts.LSU.pack(
        opcode=opcode, status=status, length=length - 1,
        incarnation=incarnation, request=request, key=key, address=address,
    ) + data  # fmt: skip
    assert packet == header + transaction + layouts.end_to_end_crc(src, dst, transaction).to_bytes(4, "big")
    assert frames.parse_lsu(memoryview(packet)) == (
        1, ecn, f, dst, src, entropy, opcode, status, length, incarnation, request, key, address, data,
    )  # fmt: skip
    frame = frames.open_frame(packet)
    assert frame == frames.frame(Kind.DATA, packet)
    assert frames.open_packet(memoryview(frame)) == packet
    moved = frames.parse_lsu(memoryview(frames.with_entropy(packet, entropy ^ 0xFF)))
    assert moved == frames.parse_lsu(memoryview(packet))._replace(entropy=entropy ^ 0xFF)


@given(IDS, IDS, U8, U8, U16, U16, U16, st.integers(0, 2**48 - 1), st.binary(max_size=8))
def test_event_equals_layout(
    dst: int, src: int, type_: int, plane: int, subject: int, sequence: int, detail: int, timestamp: int, more: bytes
) -> None:
    event = layouts.EVENT.pack(
        type=type_, plane=plane, subject=subject, sequence=sequence, detail=detail, timestamp=timestamp
    )
    packet = frames.oefh(vc=7, dst=dst, src=src, next=3) + event
    parsed = frames.parse_event(memoryview(packet + more))
    assert parsed == (dst, src, type_, plane, subject, sequence, detail, timestamp)
    for end in range(len(packet)):
        with pytest.raises(FrameError, match="truncated"):
            frames.parse_event(memoryview(packet[:end]))


@given(st.integers(0, 3), BIT, IDS, IDS, U8, NIBBLE, NIBBLE, U8, U16, U32, U16, U32, U32, U64, st.binary(max_size=4096))
def test_tma_packet_equals_layout(
    ecn: int, f: int, dst: int, src: int, entropy: int, opcode: int, flags: int, block: int, incarnation: int,
    message: int, key: int, offset: int, total: int, address: int, data: bytes,
) -> None:  # fmt: skip
    header = frames.oefh(vc=0, ecn=ecn, f=f, dst=dst, src=src, next=Next.TMA, entropy=entropy)
    seed = frames.end_to_end_seed(src, dst)
    packet = frames.tma_packet(
        header, seed, opcode, flags, block, incarnation, message, key, offset, total, address, data
    )
    transaction = layouts.TMA.pack(
        opcode=opcode, flags=flags, block=block, incarnation=incarnation, message=message, key=key, length=len(data),
        offset=offset, total=total, address=address,
    ) + data  # fmt: skip
    assert packet == header + transaction + layouts.end_to_end_crc(src, dst, transaction).to_bytes(4, "big")
    assert frames.parse_tma(memoryview(packet)) == (
        0, ecn, f, dst, src, entropy, opcode, flags, block, incarnation, message, key, len(data), offset, total,
        address, data,
    )  # fmt: skip


def test_scapy_agrees() -> None:
    built = Link() / OEFH(vc=0, dst=5, src=3) / LSU(opcode="STORE", incarnation=7, request=1, key=9, data=b"x" * 17)
    packet = frames.open_packet(memoryview(bytes(built)))
    assert packet is not None
    lsu = frames.parse_lsu(packet)
    assert (lsu.opcode, lsu.length, lsu.key, lsu.data) == (2, 17, 9, b"x" * 17)


GOOD = frames.open_frame(
    frames.lsu_packet(frames.oefh(vc=0, dst=5, src=3), frames.end_to_end_seed(3, 5), 2, 8, 7, 1, 9, 64, b"12345678")
)


def test_every_bit_error_is_seen() -> None:
    for bit in range(len(GOOD) * 8):
        bad = bytearray(GOOD)
        bad[bit // 8] ^= 0x80 >> bit % 8
        assert frames.open_packet(memoryview(bad)) is None
        with pytest.raises(FrameError, match="bad_crc"):
            frames.parse_link(memoryview(bad))


def test_every_bit_error_inside_a_switch_is_seen() -> None:
    """A switch renews the link CRC; the end-to-end CRC still covers ids, header and data."""
    packet = GOOD[12:]
    for bit in [*range(8, 32), *range(48, len(packet) * 8)]:  # not vc, ecn, f, next, hops, entropy
        bad = bytearray(packet)
        bad[bit // 8] ^= 0x80 >> bit % 8
        with pytest.raises(FrameError, match="bad_end_to_end_crc"):
            frames.parse_lsu(memoryview(bad))


def test_every_truncation_is_seen() -> None:
    for length in range(len(GOOD)):
        assert frames.open_packet(memoryview(GOOD[:length])) is None
        with pytest.raises(FrameError):
            frames.parse_link(memoryview(GOOD[:length]))
        with pytest.raises(FrameError):
            frames.parse_lsu(memoryview(GOOD[12:length]))
        with pytest.raises(FrameError):
            frames.parse_tma(memoryview(GOOD[12:length]))


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "truncated"),
        (GOOD[:17], "truncated"),
        (GOOD[:-1], "bad_crc"),
        (frames.frame(Kind.DATA, GOOD[12:], flags=1), "odd_byte_0"),
        (frames.frame(Kind.DATA, b"\x80" + GOOD[13:]), "high_byte_12"),
        (frames.frame(0, GOOD[12:]), "unknown_kind"),
        (frames.frame(8, GOOD[12:]), "unknown_kind"),
        (frames.frame(Kind.DATA, GOOD[12:] + bytes(MAX_FRAME)), "overlong"),
    ],
)
def test_reason_is_named(frame: bytes, reason: str) -> None:
    assert frames.open_packet(memoryview(frame)) is None
    with pytest.raises(FrameError) as caught:
        frames.parse_link(memoryview(frame))
    assert caught.value.reason == reason


def test_version_is_checked() -> None:
    packet = bytearray(GOOD[12:]) + bytes(10)  # long enough for all of them
    packet[0] |= 0x40
    for parse in (frames.parse_oefh, frames.parse_lsu, frames.parse_tma):
        with pytest.raises(FrameError, match="unknown_version"):
            parse(memoryview(packet))


@given(st.binary(max_size=120))
def test_noise_never_passes(noise: bytes) -> None:
    view = memoryview(noise)
    assert frames.open_packet(view) is None
    for parse in (frames.parse_link, frames.parse_lsu):
        with pytest.raises(FrameError):
            parse(view)


def test_oefh_that_is_cut_off() -> None:
    with pytest.raises(FrameError, match="truncated"):
        frames.parse_oefh(memoryview(GOOD[12:17]))
