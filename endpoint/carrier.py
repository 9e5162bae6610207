"""Learns at once when an interface loses or gets back its carrier.

The kernel tells of it by netlink, but where both ends of a veth happen to have the same index (each in its own network
namespace) up to a second late. So a message only says that something has changed somewhere; the state itself is asked
for, which costs about 2 microseconds, on each message and from time to time. Asking also makes the kernel act upon what
it knows: until it does, an interface whose carrier has just come drops what is sent.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import socket
import struct
from typing import Final

_RTMGRP_LINK: Final = 1
_SIOCETHTOOL: Final = 0x8946
_ETHTOOL_GLINK: Final = 0xA
_IFREQ: Final = struct.Struct("16sP16x")
_MESSAGE_BYTES: Final = 1 << 16


class Carriers:
    """The carriers of a network namespace's interfaces."""

    def __init__(self) -> None:
        with contextlib.ExitStack() as undo:
            self._messages = undo.enter_context(
                socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
            )
            self._messages.bind((0, _RTMGRP_LINK))
            self._questions = undo.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            undo.pop_all()
        self._answer = array.array("I", (0, 0))

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when something has changed: call `drain`, then ask."""
        return self._messages.fileno()

    def drain(self) -> None:
        """Take all messages."""
        while True:
            try:
                self._messages.recv(_MESSAGE_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # some were lost, which does not matter: the state is asked for
                    raise

    def is_up(self, iface: str) -> bool:
        """Tell whether an interface is up and its cable leads somewhere. One that cannot tell counts as up."""
        self._answer[0] = _ETHTOOL_GLINK
        request = _IFREQ.pack(os.fsencode(iface)[:15], self._answer.buffer_info()[0])
        try:
            fcntl.ioctl(self._questions, _SIOCETHTOOL, request)
        except OSError as error:
            return error.errno == errno.EOPNOTSUPP
        return bool(self._answer[1])

    def close(self) -> None:
        """Ask no more."""
        self._messages.close()
        self._questions.close()
