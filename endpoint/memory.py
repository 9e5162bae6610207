"""A GPU's memory as others see it: regions, each registered under a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

MAX_KEY: Final = 0xFFFF
BARRIER_KEY: Final = MAX_KEY
SCRATCH_KEY: Final = MAX_KEY - 1
FIRST_RESERVED_KEY: Final = SCRATCH_KEY
"""From here on keys are the endpoint's own: of the regions that barriers and collectives use."""
ADDRESS_SPACE: Final = 1 << 64


class Region:
    """A piece of memory that holders of its key may access, at addresses `base` to `base + len(region) - 1`.

    `array` is the memory itself as bytes (NumPy, uint8); it may be read and written at any time. Remote accesses are
    atomic with respect to each other, and an aligned 8-byte word is never seen half written by `u64`.
    """

    __slots__ = ("array", "base", "end", "key", "view", "watchers")

    def __init__(self, array: npt.NDArray[np.uint8], key: int, base: int) -> None:
        self.array = array
        self.key = key
        self.base = base
        self.end = base + array.nbytes
        self.view = memoryview(array)  # type: ignore[arg-type]  # numpy arrays have the buffer protocol
        self.watchers = 0
        """How many threads wait for remote writes to the region."""

    def __len__(self) -> int:
        return self.end - self.base

    @property
    def u64(self) -> npt.NDArray[np.uint64]:
        """The memory as little-endian 8-byte words, the unit of atomics. Raises ValueError when its size is not a
        multiple."""
        return self.array.view("<u8")

    def __repr__(self) -> str:
        return f"Region(key={self.key:#x}, base={self.base:#x}, size={len(self)})"


class Memory:
    """The regions of one GPU, by key."""

    def __init__(self) -> None:
        self._regions: dict[int, Region] = {}

    def register(self, source: npt.NDArray[Any] | bytearray | int, key: int, base: int = 0) -> Region:
        """Make memory accessible under a key and return its region.

        `source` is an array (its own memory is used: C-contiguous and writable, any type), a bytearray, or a size in
        bytes of fresh zeros. Raises ValueError for anything else, for a key in use or out of range, and for a range
        of addresses beyond 64 bits.
        """
        if not 0 <= key <= MAX_KEY:
            raise ValueError(f"key {key} is out of range, 0 to {MAX_KEY}")
        if key in self._regions:
            raise ValueError(f"key {key:#x} is in use by {self._regions[key]}; unregister it first or choose another")
        array = _bytes_of(source)
        if not 0 <= base <= ADDRESS_SPACE - array.nbytes:
            raise ValueError(f"base {base:#x} and {array.nbytes} bytes do not lie within 64-bit addresses")
        region = Region(array, key, base)
        self._regions[key] = region
        return region

    def unregister(self, key: int) -> None:
        """Forget a region: accesses with its key are refused from now on. Raises KeyError when there is none."""
        if key not in self._regions:
            raise KeyError(f"no region has the key {key:#x}; registered are {[hex(k) for k in self._regions]}")
        del self._regions[key]

    def get(self, key: int) -> Region | None:
        """Return the region with a key, or None."""
        return self._regions.get(key)

    def __iter__(self) -> Iterator[Region]:
        return iter(tuple(self._regions.values()))


def _bytes_of(source: npt.NDArray[Any] | bytearray | int) -> npt.NDArray[np.uint8]:
    """Return the same memory as a flat array of bytes."""
    if isinstance(source, int):
        if source < 1:
            raise ValueError(f"a region needs at least one byte, not {source}")
        return np.zeros(source, np.uint8)
    array = np.frombuffer(source, np.uint8) if isinstance(source, bytearray) else np.asarray(source)
    if array.nbytes == 0:
        raise ValueError("a region needs at least one byte, this array is empty")
    if not array.flags.c_contiguous:
        raise ValueError("a region must be contiguous in memory; register a copy: np.ascontiguousarray(array)")
    if not array.flags.writeable:
        raise ValueError("a region must be writable; register a copy: array.copy()")
    return array.reshape(-1).view(np.uint8)
