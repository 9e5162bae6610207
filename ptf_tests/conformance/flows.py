"""Traffic of the tester: numbered frames of any size, so that every loss, repetition and disorder shows.

Frames are RDMA writes; their message number holds the flow and a number within it.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from codec.constants import CRC_BYTES, HOPS, Next, TmaOpcode
from codec.frames import end_to_end_seed, oefh
from codec.layouts import OEFH, TMA

HEADERS: Final = OEFH.size + TMA.size + CRC_BYTES
SMALLEST: Final = HEADERS
_HOPS_BYTE: Final = 4
_MESSAGE: Final = slice(OEFH.size + 4, OEFH.size + 8)
_NUMBER_BITS: Final = 24
_NUMBERS: Final = (1 << _NUMBER_BITS) - 1
_CATCH_UP_S: Final = 0.02
"""How much of what is late by the tester's own fault it sends in one go."""


class Packets:
    """Makes the numbered packets of one flow; a packet is a frame without its link header."""

    def __init__(self, flow: int, src: int, dst: int, vc: int, size: int, f: int = 0) -> None:
        if size < SMALLEST:
            raise ValueError(f"no RDMA frame has {size} bytes after the link header; the smallest has {SMALLEST}")
        data = bytes(index & 0xFF for index in range(size - HEADERS))
        self._head = oefh(vc=vc, dst=dst, src=src, next=int(Next.TMA), f=f)
        self._seed = end_to_end_seed(src, dst)
        header = TMA.pack(opcode=int(TmaOpcode.WRITE), length=len(data), total=len(data))
        self._before = header[:4]
        self._after = header[8:] + data
        self._flow = flow << _NUMBER_BITS
        self.size = size
        self.vc = vc
        self.f = f

    def make(self, number: int, hops: int = HOPS) -> bytes:
        """Return the packet with this number, as it is after `HOPS - hops` switches."""
        message = (self._flow | number & _NUMBERS).to_bytes(4, "big")
        transaction = self._before + message + self._after
        head = self._head
        if hops != HOPS:
            head = head[:_HOPS_BYTE] + bytes([head[_HOPS_BYTE] & 0xF0 | hops]) + head[_HOPS_BYTE + 1 :]
        return head + transaction + crc32(transaction, self._seed).to_bytes(CRC_BYTES, "big")


def flow_of(packet: bytes) -> tuple[int, int]:
    """Return the flow and the number of a packet."""
    message = int.from_bytes(packet[_MESSAGE], "big")
    return message >> _NUMBER_BITS, message & _NUMBERS


@dataclass
class Flow:
    """Numbered packets at a pace, and what has become of them."""

    packets: Packets
    rate: float
    """Frames per second that are offered; they are sent as far as there is credit."""
    start: float
    most_outstanding: float = math.inf
    """Frames under way at which no other one is sent."""
    sent: int = 0
    received: int = 0
    wrong: int = 0
    """Arrived with other bytes than expected."""
    repeated: int = 0
    disordered: int = 0
    blocked: int = 0
    """Times that a frame that was due found no credit."""
    _missing: set[int] = field(default_factory=set)
    _newest: int = -1
    _next: float = 0.0

    def __post_init__(self) -> None:
        self._next = self.start

    def restart(self, now: float) -> None:
        """Let the next frame be due now; what was due earlier is forgotten."""
        self._next = now

    def due(self, now: float) -> bool:
        """Tell whether the next frame is due."""
        return self.rate > 0 and now >= self._next and self.outstanding < self.most_outstanding

    @property
    def next_due(self) -> float:
        """When the next frame is due, as far as time tells."""
        return self._next if self.outstanding < self.most_outstanding else math.inf

    def took(self, now: float) -> None:
        """Count the frame that was due as sent."""
        self.sent += 1
        self._next = max(self._next + 1 / self.rate, now - _CATCH_UP_S) if self.rate else math.inf

    def waits(self, now: float) -> None:
        """Count a frame that found no credit: what was due meanwhile is not made up for."""
        self.blocked += 1
        self._next = now + 1 / self.rate if self.rate else math.inf

    def arrived(self, number: int, packet: bytes) -> None:
        """Count a packet of this flow that has arrived after one switch."""
        if packet != self.packets.make(number, HOPS - 1):
            self.wrong += 1
        elif number > self._newest:
            self._missing.update(range(self._newest + 1, number))
            self._newest = number
            self.received += 1
        elif number in self._missing:
            self._missing.discard(number)
            self.disordered += 1
            self.received += 1
        else:
            self.repeated += 1

    @property
    def outstanding(self) -> int:
        """Frames sent that have not arrived (yet)."""
        return self.sent - self.received


def jain(values: Counter[int] | list[float]) -> float:
    """Return Jain's index of fairness: 1 when all are equal, 1/n when one has everything."""
    numbers = list(values.values()) if isinstance(values, Counter) else values
    squares = sum(value * value for value in numbers)
    return sum(numbers) ** 2 / (len(numbers) * squares) if squares else 0.0
