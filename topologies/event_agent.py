"""Sense for a BMv2 switch what p4switch senses by itself: the time, and its ports' carriers.

    python -m topologies.event_agent IFACE [PORT@IFACE ...]

Sends 16-byte frames (a link header of zeros, then `notice_t`) out of IFACE, the far end of the switch's event port: a
tick each millisecond, and a port status for each port at the start and whenever its carrier changes. Ends with the
interface, or on SIGTERM. Ticks that were missed are not made up for, so that a switch that was stopped does not see a
time in which it did not listen.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from codec.constants import NoticeType
from codec.layouts import LINK, NOTICE

TICK_S: Final = 0.001
# linux/netlink.h, linux/rtnetlink.h, linux/if_link.h
RTMGRP_LINK: Final = 1
RTM_NEWLINK: Final = 16
RTM_DELLINK: Final = 17
RTM_GETLINK: Final = 18
NLM_F_DUMP_REQUEST: Final = 0x301
NLMSGHDR: Final = struct.Struct("=IHHII")  # length, type, flags, sequence, port id
IFINFOMSG: Final = struct.Struct("=BxHiII")  # family, type, index, flags, change
RTATTR: Final = struct.Struct("=HH")  # length, type
IFLA_IFNAME: Final = 3
IFF_UP: Final = 0x1
IFF_RUNNING: Final = 0x40
PR_SET_PDEATHSIG: Final = 1
PR_SET_TIMERSLACK: Final = 29


def notice(kind: NoticeType, *, state: int = 0, port: int = 0) -> bytes:
    """Return the frame by which the switch learns of this."""
    return bytes(LINK.size) + NOTICE.pack(type=kind, state=state, port=port)


def link_states(messages: bytes) -> Iterator[tuple[str, bool]]:
    """Give each interface that a batch of netlink messages is about, and whether it is up with a carrier."""
    at = 0
    while at + NLMSGHDR.size <= len(messages):
        length, kind, *_ = NLMSGHDR.unpack_from(messages, at)
        if kind in (RTM_NEWLINK, RTM_DELLINK):
            flags = IFINFOMSG.unpack_from(messages, at + NLMSGHDR.size)[3]
            up = kind == RTM_NEWLINK and flags & IFF_UP != 0 and flags & IFF_RUNNING != 0
            attribute, end = at + NLMSGHDR.size + IFINFOMSG.size, at + length
            while attribute + RTATTR.size <= end:
                size, name = RTATTR.unpack_from(messages, attribute)
                if name == IFLA_IFNAME:
                    yield messages[attribute + RTATTR.size : attribute + size].rstrip(b"\0").decode(), up
                attribute += max(size + 3 & ~3, RTATTR.size)
        at += max(length + 3 & ~3, NLMSGHDR.size)


class EventAgent:
    """Feeds the event port of one switch; `ports` are its ports' interfaces."""

    def __init__(self, iface: str, ports: Mapping[int, str]) -> None:
        self._port_of = {name: port for port, name in ports.items()}
        self._up: dict[int, bool] = {}
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self._socket.bind((iface, 0))
        self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._netlink.bind((0, RTMGRP_LINK))

    def run(self) -> None:
        """Send ticks and port states until the interface is gone."""
        size = NLMSGHDR.size + IFINFOMSG.size
        self._netlink.send(NLMSGHDR.pack(size, RTM_GETLINK, NLM_F_DUMP_REQUEST, 1, 0) + IFINFOMSG.pack(0, 0, 0, 0, 0))
        poll = select.poll()
        poll.register(self._netlink, select.POLLIN)
        tick = notice(NoticeType.TICK)
        due = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= due:
                self._send(tick)
                due = max(due + TICK_S, now)
            elif poll.poll(max(0.0, (due - now) * 1000)):
                for name, up in link_states(self._netlink.recv(1 << 16)):
                    self._link_is(name, up)

    def _link_is(self, name: str, up: bool) -> None:
        """Tell of a port whose carrier is not what was told last."""
        port = self._port_of.get(name)
        if port is not None and self._up.get(port) != up:
            self._up[port] = up
            self._send(notice(NoticeType.PORT_STATUS, state=int(up), port=port))

    def _send(self, frame: bytes) -> None:
        with contextlib.suppress(BlockingIOError):  # the switch does not listen: the next tick will do
            self._socket.send(frame)


def _end_with_parent() -> None:
    """Be killed with the process that started this one, whichever way that ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m topologies.event_agent", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("iface", metavar="IFACE", help="the far end of the switch's event port")
    parser.add_argument("ports", metavar="PORT@IFACE", nargs="*", help="a port of the switch whose carrier to watch")
    given = parser.parse_args(arguments)
    ports = {}
    for text in given.ports:
        number, at, name = text.partition("@")
        if not (at and name and number.isdigit()):
            parser.error(f"{text}: write PORT@IFACE, like 1@s1-eth1")
        ports[int(number)] = name
    _end_with_parent()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        EventAgent(given.iface, ports).run()
    except OSError as error:
        print(f"event agent on {given.iface}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
