"""Cut and restore the cables of a running fabric, and say to the microsecond when.

A cable is cut at the GPU's end: its interface goes down, so that the switch's loses its carrier, as it does when a real
cable is pulled. The interface flags are set by one system call (SIOCSIFFLAGS); the carrier is lost while it runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from topologies.namespace import network_of

_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1
_IFREQ: Final = struct.Struct("16sh22x")


@dataclass(frozen=True)
class Change:
    """When a cable was cut or restored: nanoseconds of CLOCK_REALTIME, before the system call and after it."""

    before_ns: int
    after_ns: int


class Cable:
    """The cable of one GPU to the switch of one plane. Restored when it is closed.

    `pid` is a process in the GPU's network namespace, `iface` the interface there. Raises OSError.
    """

    def __init__(self, gpu: int, plane: int, pid: int, iface: str) -> None:
        self.gpu = gpu
        self.plane = plane
        self._iface = iface.encode()
        with network_of(pid):
            self._control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def cut(self) -> Change:
        """Take the carrier away."""
        return self._set(up=False)

    def restore(self) -> Change:
        """Give the carrier back."""
        return self._set(up=True)

    @property
    def is_up(self) -> bool:
        """Whether the GPU's interface is up."""
        return bool(self._flags() & _IFF_UP)

    def _flags(self) -> int:
        answer = fcntl.ioctl(self._control, _SIOCGIFFLAGS, _IFREQ.pack(self._iface, 0))
        return int(_IFREQ.unpack(answer)[1])

    def _set(self, *, up: bool) -> Change:
        flags = self._flags()
        request = _IFREQ.pack(self._iface, flags | _IFF_UP if up else flags & ~_IFF_UP)
        before = time.time_ns()
        fcntl.ioctl(self._control, _SIOCSIFFLAGS, request)
        return Change(before, time.time_ns())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # the GPU's namespace may be gone
            self.restore()
        self._control.close()


@contextlib.contextmanager
def all_cables(places: Iterator[tuple[int, int, int, str]]) -> Iterator[list[Cable]]:
    """Open many cables, given as the arguments of `Cable`, and restore them all in the end."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Cable(*place)) for place in places]
