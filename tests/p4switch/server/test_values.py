"""Byte strings: the tables of valid and invalid encodings in P4Runtime 1.4, "Bytestrings"."""

from __future__ import annotations

import pytest

from p4switch.server import status
from p4switch.server.status import RequestError
from p4switch.server.values import decode_signed, decode_unsigned, encode_signed, encode_unsigned


@pytest.mark.parametrize(
    ("width", "data", "value"),
    [
        (8, b"\x63", 99),
        (16, b"\x00\x63", 99),
        (16, b"\x63", 99),
        (16, b"\x30\x64", 12388),
        (16, b"\x00\x30\x64", 12388),
        (12, b"\x00\x63", 99),
        (12, b"\x00\x00\x63", 99),
        (1, b"\x01", 1),
        (192, b"\xff" * 24, (1 << 192) - 1),
    ],
)
def test_unsigned(width: int, data: bytes, value: int) -> None:
    assert decode_unsigned(data, width, "x") == value
    assert encode_unsigned(value) == data.lstrip(b"\x00")


def test_zero_takes_one_byte() -> None:
    assert encode_unsigned(0) == b"\x00"
    assert encode_signed(0, 16) == b"\x00"
    assert decode_unsigned(b"\x00\x00", 8, "x") == 0


@pytest.mark.parametrize(
    ("width", "data"),
    [
        (8, b"\x01\x63"),
        (8, b""),
        (16, b"\x01\x00\x63"),
        (12, b"\x10\x63"),
        (12, b"\x01\x00\x63"),
        (12, b"\x00\x40\x63"),
    ],
)
def test_unsigned_refused(width: int, data: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        decode_unsigned(data, width, "match field 'x'")
    assert caught.value.code == status.INVALID_ARGUMENT
    assert "match field 'x'" in caught.value.message


@pytest.mark.parametrize(
    ("width", "data", "value", "shortest"),
    [
        (8, b"\x63", 99, True),
        (8, b"\x9d", -99, True),
        (8, b"\xff\x9d", -99, False),
        (12, b"\xfd\x1d", -739, True),
        (16, b"\x00\x00", 0, False),
        (8, b"\x80", -128, True),
        (9, b"\x00\xff", 255, True),
    ],
)
def test_signed(width: int, data: bytes, value: int, shortest: bool) -> None:
    pattern = decode_signed(data, width, "x")
    assert pattern == value % (1 << width)
    assert (encode_signed(pattern, width) == data) == shortest


@pytest.mark.parametrize(("width", "data"), [(8, b"\x00\x9d"), (12, b"\x8d\x1d"), (16, b"")])
def test_signed_refused(width: int, data: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        decode_signed(data, width, "x")
    assert caught.value.code == status.INVALID_ARGUMENT
