"""What bytes must be where: a pool of random bytes that all ranks make from the same seed, and comparison with it."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

_OFFSETS: Final = 1 << 16
Bytes = npt.NDArray[np.uint8]


class Pool:
    """Random bytes of which every message is a piece: cheap to make, and known to its receiver without being told."""

    def __init__(self, seed: int, longest: int) -> None:
        self._bytes: Bytes = np.random.default_rng(seed).integers(0, 256, _OFFSETS + longest, np.uint8)

    def piece(self, where: int, length: int) -> Bytes:
        """Return `length` bytes (at most `longest`) for any number."""
        offset = where % _OFFSETS
        return self._bytes[offset : offset + length]

    def message(self, src: int, dst: int, turn: int, block: int, length: int) -> Bytes:
        """Return the bytes of one message of an exchange; another message's, a late one's too, are others (1 -
        2^-16)."""
        mixed = (src * 0x9E3779B1 ^ dst * 0x85EBCA77 ^ turn * 0xC2B2AE3D ^ block * 0x27D4EB2F) & 0xFFFFFFFF
        return self.piece(mixed * 0x165667B1 >> 16, length)


def differing(got: bytes | bytearray | Bytes, expected: bytes | bytearray | memoryview | Bytes) -> int:
    """Return how many bytes of `got` are not as expected; both have the same length."""
    a = got if isinstance(got, np.ndarray) else np.frombuffer(got, np.uint8)
    b = expected if isinstance(expected, np.ndarray) else np.frombuffer(expected, np.uint8)
    if np.array_equal(a, b):
        return 0
    return int(np.count_nonzero(a != b))
