"""Byte strings of P4Runtime: big-endian, shortest form when written, any length when read (1.4, "Bytestrings")."""

from __future__ import annotations

from p4switch.server.status import INVALID_ARGUMENT, RequestError

_SHOWN_BYTES = 16


def decode_unsigned(data: bytes, width: int, what: str) -> int:
    """Read an unsigned value of `width` bits; leading zero bytes are allowed, an empty string only for no bits at all:
    clients take a type without a width for a string, and BMv2 takes that, too.

    `what` names the value in the error: "match field 'hdr.ipv4.dst' of table 'ipv4_lpm'".
    """
    if not data and width:
        raise RequestError(INVALID_ARGUMENT, f"{what}: the value is an empty byte string; zero is written as 00")
    value = int.from_bytes(data, "big")
    if value >> width:
        raise RequestError(INVALID_ARGUMENT, f"{what}: value {show_bytes(data)} does not fit in {width} bits")
    return value


def encode_unsigned(value: int) -> bytes:
    """Write an unsigned value in its shortest form; zero takes one byte."""
    return value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")


def decode_signed(data: bytes, width: int, what: str) -> int:
    """Read a two's complement value of `width` bits and return its unsigned bit pattern."""
    if not data:
        raise RequestError(INVALID_ARGUMENT, f"{what}: the value is an empty byte string; zero is written as 00")
    value = int.from_bytes(data, "big", signed=True)
    if not -(1 << width - 1) <= value < 1 << width - 1:
        raise RequestError(INVALID_ARGUMENT, f"{what}: value {show_bytes(data)} does not fit in int<{width}>")
    return value & (1 << width) - 1


def encode_signed(pattern: int, width: int) -> bytes:
    """Write an unsigned bit pattern of an int<width> in the shortest two's complement form."""
    value = pattern - (1 << width) if pattern >> width - 1 else pattern
    magnitude = value if value >= 0 else ~value
    return value.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def show_bytes(data: bytes) -> str:
    """Show a byte string in a message: 0x and hexadecimal digits, shortened when long."""
    if len(data) > _SHOWN_BYTES:
        return f"0x{data[:_SHOWN_BYTES].hex()}... ({len(data)} bytes)"
    return f"0x{data.hex()}"
