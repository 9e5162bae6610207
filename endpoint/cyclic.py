"""Counters that start anew at 2^20: credits, and the sequences of link-layer retry.

Which of two such numbers is the newer one is decided by which way round is shorter, so what is compared must never be
2^19 apart.
"""

from __future__ import annotations

from typing import Final

BITS: Final = 20
MODULUS: Final = 1 << BITS
MASK: Final = MODULUS - 1
_HALF: Final = MODULUS >> 1


def after(number: int, steps: int) -> int:
    """Return the number so many steps after another one, or before it where `steps` is negative."""
    return number + steps & MASK


def steps(older: int, newer: int) -> int:
    """Return how many steps it takes from one number on to another, 0 to 2^20 - 1."""
    return newer - older & MASK


def distance(older: int, newer: int) -> int:
    """Return how far one number is ahead of another, the short way round: negative where it is behind."""
    return (newer - older + _HALF & MASK) - _HALF
