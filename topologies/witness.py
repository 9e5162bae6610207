"""See every EVENT frame that reaches a GPU, with the kernel's time of its arrival, beside whatever the GPU does.

One thread reads raw sockets on all GPUs' interfaces; a socket filter lets only EVENT frames through. The kernel stamps
each frame as it arrives, so how late the thread gets to read it does not matter.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from codec.constants import EventType
from codec.frames import parse_event
from codec.layouts import EVENT, LINK, OEFH
from endpoint.event_filter import attach
from topologies.namespace import network_of

_SO_TIMESTAMPNS: Final = 35
_SO_RCVBUFFORCE: Final = 33
_SOL_PACKET: Final = 263
_PACKET_IGNORE_OUTGOING: Final = 23
_ETH_P_ALL: Final = 3
_RECEIVE_BUFFER: Final = 4 << 20
_TIMESPEC: Final = struct.Struct("qq")
_SNAP: Final = LINK.size + OEFH.size + EVENT.size


@dataclass(frozen=True)
class Seen:
    """An EVENT frame that arrived at a GPU: when (nanoseconds of CLOCK_REALTIME), where, and what it says."""

    at_ns: int
    gpu: int
    plane: int
    type: EventType
    subject: int
    sequence: int


def parse(data: bytes, at_ns: int, gpu: int) -> Seen | None:
    """Return what an EVENT frame says, or None for one that says nothing known."""
    try:
        event = parse_event(memoryview(data)[LINK.size :])
        return Seen(at_ns, gpu, event.plane, EventType(event.type), event.subject, event.sequence)
    except ValueError:
        return None


class Witness:
    """Watch interfaces for as long as it is entered; `seen` is what has come, in no order.

    `places` are (GPU id, process in its network namespace, interface). Raises OSError.
    """

    def __init__(self, places: Iterable[tuple[int, int, str]]) -> None:
        self.seen: list[Seen] = []
        self._gpus: dict[int, tuple[socket.socket, int]] = {}
        self._poller = select.poll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poller.register(self._wake, select.POLLIN)
        for gpu, pid, iface in places:
            raw = _socket(pid, iface)
            self._gpus[raw.fileno()] = raw, gpu
            self._poller.register(raw, select.POLLIN)
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        for raw, _ in self._gpus.values():
            raw.close()
        os.close(self._wake)

    def _run(self) -> None:
        while True:
            for descriptor, _ in self._poller.poll():
                if descriptor == self._wake:
                    return
                self._take(*self._gpus[descriptor])

    def _take(self, raw: socket.socket, gpu: int) -> None:
        while True:
            try:
                data, ancillary, _, _ = raw.recvmsg(_SNAP, 64)
            except BlockingIOError:
                return
            except OSError:  # the interface went down: it was cut, and comes back
                continue
            for level, kind, value in ancillary:
                if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                    seconds, nanoseconds = _TIMESPEC.unpack(value)
                    seen = parse(data, seconds * 1_000_000_000 + nanoseconds, gpu)
                    if seen is not None:
                        self.seen.append(seen)


def _socket(pid: int, iface: str) -> socket.socket:
    with network_of(pid):
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        attach(raw, events=True)
        raw.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        raw.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
        raw.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        raw.bind((iface, _ETH_P_ALL))
    raw.setblocking(False)
    return raw
