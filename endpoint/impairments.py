"""A bad link, made at the endpoint: frames that it sends or receives are lost, corrupted, repeated or late.

Impairments stand between the link layer and the interface: what they do to a frame is what a bad cable would do, and
link-layer retry has to cope with it. None are there unless asked for.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Final, Self

from codec.constants import Kind
from endpoint.errors import ConfigurationError
from endpoint.port import Port

ACTIONS: Final = ("drop", "corrupt", "duplicate", "delay")
KINDS: Final = ("data", "control", "all")
DIRECTIONS: Final = ("tx", "rx", "both")
MAX_DELAY_US: Final = 10_000_000
_NEXT: Final = "next:"
_OTHER_KEYS: Final = ("kind", "direction", "us", "plane")
_BYTE_0_BIT: Final = 0
_BYTE_12_BIT: Final = 12 * 8 + 7
"""Bits that stay as they are: such frames would not reach a packet socket."""


@dataclass(frozen=True, slots=True)
class Impairment:
    """One thing that goes wrong. Raises ConfigurationError, which says what is valid."""

    action: str
    """`drop`, `corrupt` (one bit), `duplicate` or `delay`."""

    probability: float = 0.0
    """Of each frame, 0 to 1; or else `count`."""

    count: int = 0
    """So many frames from now on, and none after."""

    kind: str = "all"
    """`data` (DATA frames), `control` (all others) or `all`."""

    direction: str = "tx"
    """`tx`, `rx` or `both`."""

    delay_us: int = 1000
    """How late a delayed frame is, in microseconds; those behind it overtake it."""

    plane: int | None = None
    """None: every plane."""

    def __post_init__(self) -> None:
        for name, valid in (("action", ACTIONS), ("kind", KINDS), ("direction", DIRECTIONS)):
            if getattr(self, name) not in valid:
                raise ConfigurationError(f"impairment: {name} = {getattr(self, name)!r} is none of {', '.join(valid)}")
        if not 0 <= self.probability <= 1:
            raise ConfigurationError(f"impairment: probability {self.probability:g} is out of range, 0 to 1")
        if (self.probability > 0) == (self.count > 0):
            raise ConfigurationError("impairment: give a probability above 0, or a count of at least 1, and not both")
        if not 0 < self.delay_us <= MAX_DELAY_US:
            raise ConfigurationError(f"impairment: delay_us = {self.delay_us} is out of range, 1 to {MAX_DELAY_US}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Make an impairment of `ACTION=PROBABILITY` or `ACTION=next:COUNT`, followed by any of `,kind=data|control`,
        `,direction=tx|rx|both`, `,us=DELAY`, `,plane=N`."""
        action = how = None
        values: dict[str, int | str] = {}
        for part in text.split(","):
            key, equals, value = part.partition("=")
            if not equals or key not in (*ACTIONS, *_OTHER_KEYS):
                raise ConfigurationError(
                    f"impairment {text!r}: {part!r} is none of {', '.join(f'{name}=...' for name in ACTIONS)}, "
                    f"{', '.join(f'{name}=...' for name in _OTHER_KEYS)}"
                )
            if key in ACTIONS:
                if action:
                    raise ConfigurationError(f"impairment {text!r}: {action} and {key}; give each one of its own")
                action, how = key, value
            elif key in ("us", "plane"):
                values["delay_us" if key == "us" else key] = _whole(text, part, value)
            else:
                values[key] = value
        if action is None or how is None:
            raise ConfigurationError(f"impairment {text!r} does not say what goes wrong: {', '.join(ACTIONS)}")
        if how.startswith(_NEXT):
            return cls(action, count=_whole(text, f"{action}={how}", how.removeprefix(_NEXT)), **values)  # type: ignore[arg-type]
        try:
            probability = float(how)
        except ValueError:
            raise ConfigurationError(
                f"impairment {text!r}: {action}={how} is neither a probability, as {action}=0.01, nor a number of "
                f"frames, as {action}={_NEXT}3"
            ) from None
        return cls(action, probability, **values)  # type: ignore[arg-type]


def check_planes(impairments: Iterable[Impairment], planes: Iterable[int]) -> None:
    """Raise ConfigurationError where an impairment is of a plane that is not there."""
    there = sorted(planes)
    for one in impairments:
        if one.plane is not None and one.plane not in there:
            raise ConfigurationError(f"impairment: plane {one.plane} is none of {', '.join(map(str, there))}")


def _whole(text: str, part: str, value: str) -> int:
    if not value.isdecimal():
        raise ConfigurationError(f"impairment {text!r}: {part} needs a whole number")
    return int(value)


class _Fault:
    """An impairment at work on one direction of one port."""

    __slots__ = ("delay_s", "kind", "left", "name", "probability")

    def __init__(self, impairment: Impairment) -> None:
        self.name = impairment.action
        self.probability = impairment.probability
        self.left = impairment.count
        self.kind = impairment.kind
        self.delay_s = impairment.delay_us / 1e6

    def strikes(self, is_data: bool, chooser: Random) -> bool:
        if self.kind != "all" and (self.kind == "data") != is_data:
            return False
        if self.left:
            self.left -= 1
            return True
        return self.probability > 0 and chooser.random() < self.probability


class ImpairedPort(Port):
    """A port whose frames suffer. `seed` makes its choices repeatable.

    `counters` gains `impaired_{tx,rx}_{drop,corrupt,duplicate,delay}`. What the port sends late is sent, and what
    comes late is due, when `poll` says so.
    """

    def __init__(
        self,
        iface: str,
        receive_buffer: int,
        counters: Counter[str],
        plane: int,
        impairments: Iterable[Impairment],
        seed: int,
    ) -> None:
        super().__init__(iface, receive_buffer, counters)
        self._plane = plane
        self._chooser = Random(seed << 8 ^ plane)
        self._late_out: list[tuple[float, int, bytes]] = []
        self._late_in: list[tuple[float, int, bytes]] = []
        self._again: deque[bytes] = deque()
        self._serial = 0
        self.impair(impairments)

    def impair(self, impairments: Iterable[Impairment]) -> None:
        """Let these go wrong from now on, and nothing else."""
        here = [one for one in impairments if one.plane in (None, self._plane)]
        self._out = [_Fault(one) for one in here if one.direction != "rx"]
        self._in = [_Fault(one) for one in here if one.direction != "tx"]
        delays = [fault.delay_s for fault in self._out if fault.name == "delay"]
        self._shortest_delay_s = min(delays, default=math.inf)

    def send(self, frame: bytes) -> None:
        """Send a frame, or what becomes of it."""
        frame, copies, delay_s = self._suffer(frame, self._out, "tx")
        for _ in range(copies):
            if delay_s:
                self._serial += 1
                heapq.heappush(self._late_out, (time.monotonic() + delay_s, self._serial, frame))
            else:
                super().send(frame)

    def receive(self) -> memoryview | None:
        """Return the next frame, or what has become of it, valid until the next call; None when there is none."""
        if self._again:
            return memoryview(self._again.popleft())
        if self._late_in and self._late_in[0][0] <= time.monotonic():
            return memoryview(heapq.heappop(self._late_in)[2])
        while True:
            arrived = super().receive()
            if arrived is None or not self._in:
                return arrived
            frame, copies, delay_s = self._suffer(bytes(arrived), self._in, "rx")
            if delay_s:
                for _ in range(copies):
                    self._serial += 1
                    heapq.heappush(self._late_in, (time.monotonic() + delay_s, self._serial, frame))
            elif copies:
                self._again.extend([frame] * (copies - 1))
                return memoryview(frame)

    @property
    def has_arrivals(self) -> bool:
        """Whether `receive` has something that the interface knows nothing of."""
        return bool(self._again) or bool(self._late_in and self._late_in[0][0] <= time.monotonic())

    def poll(self, now: float) -> float:
        """Send what was late; return when to be called again at the latest."""
        late = self._late_out
        while late and late[0][0] <= now:
            super().send(heapq.heappop(late)[2])
        # What a caller sends meanwhile, without waking the engine, is due after the shortest delay.
        due = min(late[0][0] if late else math.inf, now + self._shortest_delay_s)
        return min(due, self._late_in[0][0]) if self._late_in else due

    def _suffer(self, frame: bytes, faults: list[_Fault], direction: str) -> tuple[bytes, int, float]:
        """Return what becomes of a frame: its bytes, how often it goes on, and how many seconds later."""
        copies, delay_s = 1, 0.0
        is_data = len(frame) > 0 and frame[0] >> 4 == Kind.DATA
        for fault in faults:
            if not fault.strikes(is_data, self._chooser):
                continue
            self.counters[f"impaired_{direction}_{fault.name}"] += 1
            if fault.name == "drop":
                return frame, 0, 0.0
            if fault.name == "corrupt":
                frame = self._corrupt(frame)
            elif fault.name == "duplicate":
                copies += 1
            else:
                delay_s += fault.delay_s
        return frame, copies, delay_s

    def _corrupt(self, frame: bytes) -> bytes:
        """Return the frame with one bit changed, and still a frame that an interface carries."""
        changed = bytearray(frame)
        while changed == frame:
            bit = self._chooser.randrange(8 * len(frame))
            if bit not in (_BYTE_0_BIT, _BYTE_12_BIT):
                changed[bit >> 3] ^= 1 << (bit & 7)
        return bytes(changed)
