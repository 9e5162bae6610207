"""Checksums against zlib and published check values."""

from __future__ import annotations

import random
import time
import zlib

import pytest

from p4switch.dataplane import checksum


@pytest.mark.parametrize("kind", ["crc32", "crc32_portable"])
def test_crc32_is_zlibs(kind: str) -> None:
    rng = random.Random(1)
    for length in (*range(200), 255, 256, 257, 1024, 4096, 9000):
        data = rng.randbytes(length)
        assert checksum(kind, data) == zlib.crc32(data), length


def test_crc16_check_value() -> None:
    assert checksum("crc16", b"123456789") == 0xBB3D  # CRC-16/ARC
    assert checksum("crc16", b"") == 0


def test_internet_checksum() -> None:
    header = bytes.fromhex("4500003044224000800600008c7c19acae241e2b")
    assert checksum("csum16", header) == 0x442E  # the IPv4 header of RFC 1071's usual example
    assert checksum("csum16", b"\x01") == 0xFEFF  # an odd byte is the high half of a word
    assert checksum("csum16", b"\xff" * 70000) == 0


def test_internet_checksum_of_every_length() -> None:
    rng = random.Random(2)
    for length in (*range(100), 1023, 1024, 9001):
        data = rng.randbytes(length)
        padded = data + bytes(length % 2)
        total = sum(int.from_bytes(padded[i : i + 2], "big") for i in range(0, len(padded), 2))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        assert checksum("csum16", data) == total ^ 0xFFFF, length


def test_crc32_of_1_kb_is_fast() -> None:
    data = bytes(1 << 20)
    start = time.process_time()
    for _ in range(10):
        checksum("crc32", data)
    per_kb_ns = (time.process_time() - start) / (10 * 1024) * 1e9
    assert per_kb_ns < 600  # 50 ns with carry-less multiplication, 530 without
