"""When frames arrive on an interface, by the kernel's clock: a tester that is held up reads the same times later."""

from __future__ import annotations

import socket
import struct
from typing import Final, NamedTuple, Self

_ETH_P_ALL: Final = 3
_PACKET_OUTGOING: Final = 4
_SO_TIMESTAMPNS: Final = 35
_TIMESPEC: Final = struct.Struct("@qq")
_LARGEST: Final = 9216


class Arrival(NamedTuple):
    """A frame and when it came, in seconds."""

    at: float
    frame: bytes


class ArrivalTimes:
    """Listens on an interface beside its owner, from its making on."""

    def __init__(self, interface: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._socket.setblocking(False)
        self._socket.bind((interface, _ETH_P_ALL))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._socket.close()

    def take(self) -> list[Arrival]:
        """Return what has come since the last call."""
        arrivals: list[Arrival] = []
        while True:
            try:
                frame, told, _, address = self._socket.recvmsg(_LARGEST, socket.CMSG_SPACE(_TIMESPEC.size))
            except BlockingIOError:
                return arrivals
            if address[2] != _PACKET_OUTGOING:
                seconds, nanoseconds = _TIMESPEC.unpack(told[0][2])
                arrivals.append(Arrival(seconds + nanoseconds * 1e-9, frame))
