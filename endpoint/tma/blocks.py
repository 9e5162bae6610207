"""Which blocks of a message are placed, and how a bitmap says so."""

from __future__ import annotations

from typing import Final

from codec.constants import BLOCK_WINDOW

_REVERSED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_BITMAP_MAX: Final = BLOCK_WINDOW // 8


def bitmap_of(bits: int) -> bytes:
    """Return a bitmap as short as it can be: bit 0 of `bits` is the most significant bit of byte 0."""
    return bits.to_bytes(-(-bits.bit_length() // 8), "little").translate(_REVERSED)


def bits_of(bitmap: bytes | memoryview) -> int:
    """Return the bits of a bitmap of at most 128 bytes. Raises ValueError when it is longer."""
    if len(bitmap) > _BITMAP_MAX:
        raise ValueError(f"a bitmap has at most {_BITMAP_MAX} bytes, not {len(bitmap)}")
    return int.from_bytes(bytes(bitmap).translate(_REVERSED), "little")


def block_count(total: int, block: int) -> int:
    """Return how many blocks of 2^`block` bytes a message of `total` bytes has; an empty one has one, of no bytes."""
    return (total - 1 >> block) + 1 if total else 1


class Placed:
    """The blocks of a message that are placed: all below `lowest`, and some of the 1,024 from there on.

    Its size does not depend on the message's. `ahead` has a bit per block from `lowest` on; bit 0 is never set.
    """

    __slots__ = ("ahead", "lowest")

    def __init__(self) -> None:
        self.lowest = 0
        self.ahead = 0

    @property
    def count(self) -> int:
        """How many blocks are placed."""
        return self.lowest + self.ahead.bit_count()

    def __contains__(self, index: int) -> bool:
        distance = index - self.lowest
        return distance < 0 or self.ahead >> distance & 1 == 1

    def add(self, index: int) -> None:
        """Place a block, at most 1,023 after the lowest missing one."""
        distance = index - self.lowest
        if distance == 0 and not self.ahead:
            self.lowest += 1
        elif distance >= 0:
            self.ahead |= 1 << distance
            if distance == 0:
                self._advance()

    def merge(self, lowest: int, after: int) -> int:
        """Add what an ACK says: all blocks below `lowest`, and those whose bits are set, the first after it in bit 0.

        Returns how many of them are new here. An older ACK than one that came before adds nothing.
        """
        before = self.count
        ahead = after << 1
        step = lowest - self.lowest
        if step >= 0:
            self.ahead = self.ahead >> step | ahead
            self.lowest = lowest
        else:
            self.ahead |= ahead >> -step
        if self.ahead & 1:
            self._advance()
        return self.count - before

    def after_lowest(self) -> bytes:
        """Return the bitmap of an ACK: the blocks after the lowest missing one."""
        return bitmap_of(self.ahead >> 1) if self.ahead else b""

    def missing(self, end: int) -> list[int]:
        """Return the blocks below `end` that are not placed, ascending."""
        lowest, ahead = self.lowest, self.ahead
        return [index for index in range(lowest, end) if not ahead >> index - lowest & 1]

    def _advance(self) -> None:
        run = (~self.ahead & self.ahead + 1).bit_length() - 1
        self.lowest += run
        self.ahead >>= run
