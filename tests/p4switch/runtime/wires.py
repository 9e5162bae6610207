"""A network namespace with cables, for the thread that runs a test, and sockets at their far ends."""

from __future__ import annotations

import ctypes
import os
import select
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLONE_NEWNET = 0x40000000
ETH_P_ALL = 0x0003
SO_TIMESTAMPNS = 35
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextmanager
def own_namespace() -> Iterator[None]:
    """Run the calling thread, and what it starts, in a network namespace that ends with them."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _check(_libc.unshare(CLONE_NEWNET))
        yield
    finally:
        _check(_libc.setns(before, CLONE_NEWNET))
        os.close(before)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def cable(switch_end: str, far_end: str) -> None:
    """Make a cable, both ends up."""
    ip("link", "add", switch_end, "mtu", "4132", "type", "veth", "peer", "name", far_end, "mtu", "4132")
    for end in (switch_end, far_end):
        Path(f"/proc/sys/net/ipv6/conf/{end}/disable_ipv6").write_text("1")
        ip("link", "set", end, "up")


class FarEnd:
    """The far end of a cable: sends and receives frames."""

    def __init__(self, iface: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
        self._socket.setsockopt(263, 23, 1)  # SOL_PACKET, PACKET_IGNORE_OUTGOING
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.bind((iface, 0))

    def send(self, data: bytes) -> None:
        self._socket.send(data)

    def receive(self, timeout_s: float = 2.0) -> bytes | None:
        """The next frame, None when none comes."""
        received = self.receive_timed(timeout_s)
        return received[1] if received else None

    def receive_timed(self, timeout_s: float) -> tuple[float, bytes] | None:
        """The next frame and when it arrived, by the kernel: seconds."""
        ready, _, _ = select.select([self._socket], [], [], timeout_s)
        if not ready:
            return None
        data, ancillary, _, _ = self._socket.recvmsg(16384, 64)
        seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
        return seconds + nanoseconds * 1e-9, data

    def receive_all(self, n: int, timeout_s: float = 2.0) -> list[tuple[float, bytes]]:
        """Up to n frames with their times of arrival, until none comes for timeout_s."""
        frames: list[tuple[float, bytes]] = []
        while len(frames) < n and (received := self.receive_timed(timeout_s)) is not None:
            frames.append(received)
        return frames

    def close(self) -> None:
        self._socket.close()
