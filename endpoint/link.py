"""The link layer of one port: everything that goes out or comes in passes through it.

The port is open: no bring-up, session 0, every virtual channel best effort. A managed port (bring-up, credits, retry)
is another object with the same methods.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

from codec.constants import Kind, LinkFlag
from codec.frames import FrameError, open_frame, open_packet, parse_link

UNEXPECTED_CONTROL: Final = "unexpected_control"
WRONG_SESSION: Final = "wrong_session"
POISONED: Final = "poisoned"


class FramePort(Protocol):
    """What a link needs of its port."""

    @property
    def backlogged(self) -> bool:
        """Whether frames wait for the interface to take more."""

    def send(self, frame: bytes) -> None:
        """Send a frame; one that cannot be sent is counted there."""


class LinkLayer(Protocol):
    """What a GPU needs of the link layer of each of its ports."""

    @property
    def is_up(self) -> bool:
        """Whether packets can be sent now, as far as the link itself knows."""

    @property
    def resets(self) -> int:
        """How often it went down or began anew: each time, what was under way on it may be lost."""

    @property
    def requests_per_destination(self) -> int | None:
        """Requests that one destination may have in flight on the link, or None where they need no credits."""

    def send(self, packet: bytes) -> None:
        """Send a packet (OEFH and what follows)."""

    def receive(self, frame: memoryview) -> memoryview | None:
        """Return the packet that a frame carries, or None when there is none to be believed; never raises.

        The work on a packet is ended by `respond`, before the next frame is given.
        """

    def respond(self, packet: bytes | None) -> None:
        """End the work on the packet that `receive` gave last, with a response to be sent or without."""

    def poll(self, now: float) -> float | None:
        """Do what the time asks for; return when to be called again at the latest, None: never."""

    def carrier(self, up: bool) -> None:
        """Take note of whether the cable leads somewhere; may be called as often as one likes."""

    def withdraw(self) -> None:
        """Forget the requests that wait to be sent: whoever made them sends them elsewhere."""

    def leave(self) -> None:
        """End the link, as nobody will be here to take what comes."""


class OpenLink:
    """An open port's link layer.

    `counters` gains `drop_<reason>` per frame that was discarded; the reasons are named as in p4src/constants.p4.
    """

    requests_per_destination: Final = None

    def __init__(self, port: FramePort, counters: Counter[str]) -> None:
        self._port = port
        self._counters = counters
        self.is_up = True
        self.resets = 0

    def send(self, packet: bytes) -> None:
        """Send a packet (OEFH and what follows) as a DATA frame."""
        self._port.send(open_frame(packet))

    def receive(self, frame: memoryview) -> memoryview | None:
        """Return the packet that a frame carries, or None when there is none to be believed; never raises."""
        packet = open_packet(frame)
        if packet is not None:
            return packet
        try:
            header = parse_link(frame)
        except FrameError as error:
            return self._drop(error.reason)
        if header.session:
            return self._drop(WRONG_SESSION)
        if header.flags & LinkFlag.POISON:
            return self._drop(POISONED)
        if header.kind != Kind.DATA:
            return self._drop(UNEXPECTED_CONTROL)
        return frame[12:]  # LLR's fields mean nothing on an open port

    def respond(self, packet: bytes | None) -> None:
        """Send the response to the packet that `receive` gave last, if there is one."""
        if packet is not None:
            self._port.send(open_frame(packet))

    def poll(self, now: float) -> None:
        """Do nothing: an open port has no clock."""

    def carrier(self, up: bool) -> None:
        """Take note of whether the cable leads somewhere: all that an open port knows of its link."""
        if self.is_up and not up:
            self.resets += 1
        self.is_up = up

    def withdraw(self) -> None:
        """Do nothing: nothing waits here."""

    def leave(self) -> None:
        """Do nothing: an open port has nothing to say."""

    def _drop(self, reason: str) -> memoryview | None:
        self._counters[f"drop_{reason}"] += 1
        return None
