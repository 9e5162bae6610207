"""A port: raw sockets on an interface of the GPU, one for EVENT frames and one for all others.

What a switch tells of a dead link must not wait behind data: a busy GPU may have hundreds of frames to take first.

Facts of Linux that shape it: an AF_PACKET socket sees the frames that it sent itself unless told otherwise; it is
charged some 1,300 bytes of its buffer for even the smallest frame, so that the default buffer takes 256; a frame in
which bytes 12 and 13 look like a VLAN tag loses them on the way, which EthLink's rule for byte 12 excludes for its
own frames.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
from collections import Counter, deque
from typing import Final

from codec.constants import MAX_FRAME, MTU
from endpoint.errors import PortError
from endpoint.event_filter import attach

_ETH_P_ALL: Final = 3
_SOL_PACKET: Final = 263
_PACKET_IGNORE_OUTGOING: Final = 23
_PACKET_STATISTICS: Final = 6
_TPACKET_STATS: Final = struct.Struct("II")  # packets, drops since the last reading
_SO_RCVBUFFORCE: Final = 33
_SIOCGIFMTU: Final = 0x8921
_IFREQ: Final = struct.Struct("16si20x")
_BACKLOG: Final = 4096
"""Frames that wait in the port when the interface takes no more; the rest is dropped and counted, as in a full
queue."""
_GONE: Final = frozenset({errno.ENETDOWN, errno.ENXIO, errno.ENODEV, errno.ENETUNREACH})


class Port:
    """One interface, exclusively, without blocking.

    `counters` gains: `rx_frames`, `rx_bytes`, `rx_dropped_full` (the socket's buffer had no room), `tx_frames`,
    `tx_bytes`, `tx_dropped_backlog`, `tx_dropped_down`, `tx_dropped_error`. Raises PortError when the interface
    cannot be used as a port.
    """

    def __init__(self, iface: str, receive_buffer: int, counters: Counter[str]) -> None:
        self.iface = iface
        self.counters = counters
        self._backlog: deque[bytes] = deque()
        with contextlib.ExitStack() as undo:
            self._guard = undo.enter_context(_claim(iface))
            self._socket = undo.enter_context(_packet_socket(iface))
            _check_mtu(self._socket, iface)
            self._events = undo.enter_context(_packet_socket(iface))
            for raw, events in ((self._socket, False), (self._events, True)):
                attach(raw, events=events)
                raw.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
                try:
                    raw.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, receive_buffer)
                except PermissionError:  # a raw socket without CAP_NET_ADMIN: the system's limit must do
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
                raw.setblocking(False)
                _bind(raw, iface)
            undo.pop_all()
        self.event_waits = True
        """To be set when the last of `filenos` is readable: no frame of data costs a look at the other socket."""
        self._buffer = bytearray(MAX_FRAME + 1)  # one more, so that an overlong frame shows
        self._view = memoryview(self._buffer)

    def fileno(self) -> int:
        """Return the socket's descriptor, for polling."""
        return self._socket.fileno()

    def filenos(self) -> tuple[int, ...]:
        """Return the descriptors that become readable when there is something to receive; the last one for events."""
        return self._socket.fileno(), self._events.fileno()

    @property
    def backlogged(self) -> bool:
        """Whether frames wait for the interface to take more: poll for writing, then call `flush`."""
        return bool(self._backlog)

    def receive(self) -> memoryview | None:
        """Return the next frame, valid until the next call, or None when there is none; EVENT frames come first, where
        `event_waits` says that there are some."""
        length = 0
        if self.event_waits:
            length = self._receive(self._events)
            self.event_waits = length > 0
        if not length:
            length = self._receive(self._socket)
        if not length:
            return None
        self.counters["rx_frames"] += 1
        self.counters["rx_bytes"] += length
        return self._view[:length]

    def send(self, frame: bytes) -> None:
        """Send a frame, or keep it until the interface takes more. What cannot be sent is dropped and counted."""
        if self._backlog:
            self._keep(frame)
            return
        try:
            self._socket.send(frame)
        except BlockingIOError:
            self._keep(frame)
        except OSError as error:
            self._lost(error)
        else:
            self.counters["tx_frames"] += 1
            self.counters["tx_bytes"] += len(frame)

    def flush(self) -> None:
        """Send what waits, as far as the interface takes it."""
        backlog = self._backlog
        while backlog:
            try:
                self._socket.send(backlog[0])
            except BlockingIOError:
                return
            except OSError as error:
                self._lost(error)
            else:
                self.counters["tx_frames"] += 1
                self.counters["tx_bytes"] += len(backlog[0])
            backlog.popleft()

    def count_lost(self) -> None:
        """Add to the counters what the kernel dropped for want of room in the socket's buffer since the last call."""
        for raw in (self._socket, self._events):
            lost = _TPACKET_STATS.unpack(raw.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _TPACKET_STATS.size))[1]
            if lost:
                self.counters["rx_dropped_full"] += lost

    def close(self) -> None:
        """Give the interface back."""
        self._view.release()
        self._events.close()
        self._socket.close()
        self._guard.close()

    def _receive(self, raw: socket.socket) -> int:
        """Take the next frame of a socket into the buffer; return its length, 0: there is none."""
        try:
            return raw.recv_into(self._buffer)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno in _GONE:  # told once when the interface goes down
                return 0
            raise

    def _keep(self, frame: bytes) -> None:
        if len(self._backlog) < _BACKLOG:
            self._backlog.append(frame)
        else:
            self.counters["tx_dropped_backlog"] += 1

    def _lost(self, error: OSError) -> None:
        """Count a frame that could not be sent; its request goes out again, on the next plane."""
        self.counters["tx_dropped_down" if error.errno in _GONE else "tx_dropped_error"] += 1


def _claim(iface: str) -> socket.socket:
    """Return what keeps other endpoints of this network namespace off the interface while it is open.

    Two processes on one port would each see the other's frames and answer the same requests.
    """
    guard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        guard.bind(f"\0ethlink-port-{iface}")
    except OSError as error:
        guard.close()
        if error.errno == errno.EADDRINUSE:
            raise PortError(f"interface {iface} is in use by another endpoint; stop it first") from error
        raise PortError(f"interface {iface} cannot be claimed: {error.strerror}") from error
    return guard


def _packet_socket(iface: str) -> socket.socket:
    try:
        # Protocol 0: no frames until the socket is bound, or it would see those of every interface.
        return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    except PermissionError as error:
        raise PortError(f"interface {iface} needs a raw socket: run as root, or with CAP_NET_RAW") from error
    except OSError as error:
        raise PortError(f"interface {iface}: no raw socket: {error.strerror}") from error


def _check_mtu(sock: socket.socket, iface: str) -> None:
    try:
        answer = fcntl.ioctl(sock, _SIOCGIFMTU, _IFREQ.pack(os.fsencode(iface)[:15], 0))
    except OSError as error:
        there = ", ".join(name for _, name in socket.if_nameindex())
        raise PortError(f"interface {iface}: {error.strerror}; there are {there}") from error
    mtu = _IFREQ.unpack(answer)[1]
    if mtu < MTU:
        raise PortError(
            f"interface {iface} has MTU {mtu}, the largest frame needs {MTU}: ip link set {iface} mtu {MTU}"
        )


def _bind(sock: socket.socket, iface: str) -> None:
    try:
        sock.bind((iface, _ETH_P_ALL))
    except OSError as error:
        raise PortError(f"interface {iface} cannot be bound: {error.strerror}") from error
