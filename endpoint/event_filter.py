"""Socket filters that tell EVENT frames from all others, in the kernel."""

from __future__ import annotations

import ctypes
import socket
import struct
from typing import Final

from codec.constants import Kind, Next
from codec.layouts import LINK

_SO_ATTACH_FILTER: Final = 26
_NEXT_BYTE: Final = LINK.size + 4
_ALL: Final = 0xFFFF


def _program(event: int, other: int) -> bytes:
    """Return a filter that passes so many bytes of a frame that is an EVENT, and of any other one."""
    return b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in (
            (0x80, 0, 0, 0),  # load the length: what is loaded beyond it would drop the frame
            (0x35, 0, 7, _NEXT_BYTE + 1),  # at least so long: next, else the last instruction
            (0x30, 0, 0, 0),  # load byte 0
            (0x54, 0, 0, 0xF0),  # and 0xF0
            (0x15, 0, 4, int(Kind.DATA) << 4),
            (0x30, 0, 0, _NEXT_BYTE),
            (0x54, 0, 0, 0xF0),
            (0x15, 0, 1, int(Next.EVENT) << 4),
            (0x06, 0, 0, event),
            (0x06, 0, 0, other),
        )
    )


_EVENTS: Final = _program(_ALL, 0)
_OTHERS: Final = _program(0, _ALL)


def attach(raw: socket.socket, *, events: bool) -> None:
    """Let a packet socket, before it is bound, see only EVENT frames, or only the others."""
    program = _EVENTS if events else _OTHERS
    code = ctypes.create_string_buffer(program)
    raw.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(program) // 8, ctypes.addressof(code)))
