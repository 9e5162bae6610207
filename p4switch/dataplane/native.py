"""The runtime library through cffi, and values as the 64-bit words that it takes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import cffi

from p4switch.toolchain import RUNTIME, runtime_library


@cache
def ffi() -> cffi.FFI:
    result = cffi.FFI()
    for header in ("p4program.h", "control.h"):
        text = (RUNTIME / header).read_text()
        result.cdef(text[text.index("/* cdef begin */") : text.index("/* cdef end */")])
    return result


@cache
def open_library(library: Path) -> Any:
    return ffi().dlopen(str(library), os.RTLD_NOW | os.RTLD_GLOBAL)


@cache
def drop_reasons() -> tuple[str, ...]:
    """The names of enum sw_drop, in its order: no_program, too_long, ..."""
    names = ffi().typeof("enum sw_drop").elements
    return tuple(
        names[i].removeprefix("SW_DROP_").lower() for i in range(len(names) - 1)
    )  # the last one is their number


def checksum(kind: str, data: bytes) -> int:
    """Compute what programs compute: kind is crc32, crc16, csum16, or crc32_portable (without carry-less
    multiplication)."""
    kinds = ("crc32", "crc16", "csum16", "crc32_portable")
    return int(open_library(runtime_library()).sw_checksum(kinds.index(kind), data, len(data)))


def word_count(width: int) -> int:
    return max((width + 63) // 64, 1)


_WORD = (1 << 64) - 1


def split(value: int, words: int) -> list[int]:
    return [value >> 64 * i & _WORD for i in range(words)]


def join(words: Sequence[int], at: int, n: int) -> int:
    if n == 1:
        return words[at]
    return sum(words[at + i] << 64 * i for i in range(n))
