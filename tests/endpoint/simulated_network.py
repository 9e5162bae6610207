"""A network between a source and a target in which hypothesis chooses every misdeed, and the time that passes in it."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class Fate:
    """What the network does with one packet: how many copies arrive, and when."""

    delays: tuple[float, ...]


GOOD = Fate((0.001,))
"""What happens to the packets after those whose fate was chosen."""
FATES = st.one_of(
    st.just(GOOD),
    st.just(Fate(())),
    st.builds(Fate, st.lists(st.floats(0.0005, 0.4), min_size=0, max_size=3).map(tuple)),
)


class SimulatedNetwork(ABC):
    """Packets in flight, each with its fate; `run` lets time pass. Who meets over it says what they do."""

    def __init__(self, fates: Sequence[Fate]) -> None:
        self.now = 0.0
        self.fates = fates
        """Of the next packets, in their order; then all is well."""
        self.sent = 0
        self._serial = 0
        self.in_flight: list[tuple[float, int, bool, int, bytes]] = []

    def send(self, packet: bytes, to_target: bool, plane: int) -> None:
        fate, *self.fates = self.fates or [GOOD]
        self.sent += 1
        for delay in fate.delays:
            self._serial += 1  # of equal times the one that was sent first
            heapq.heappush(self.in_flight, (self.now + delay, self._serial, to_target, plane, packet))

    def cut(self, plane: int) -> None:
        """Lose all that is on its way over a plane."""
        self.in_flight = [item for item in self.in_flight if item[3] != plane]
        heapq.heapify(self.in_flight)

    def run(self, until: Callable[[], bool] = lambda: False, limit: float = 1000.0) -> None:
        """Let time pass until a condition holds or nothing is left to happen."""
        limit += self.now
        while not until() and self.now < limit:
            due = self.expire()
            coming = self.in_flight[0][0] if self.in_flight else None
            moments = [moment for moment in (due, coming) if moment is not None]
            if not moments:
                return
            self.now = max(self.now, min(moments))
            while self.in_flight and self.in_flight[0][0] <= self.now:
                _, _, to_target, plane, packet = heapq.heappop(self.in_flight)
                self.deliver(packet, to_target, plane)

    @abstractmethod
    def expire(self) -> float | None:
        """Do what is due at the source; return when the next of it is."""

    @abstractmethod
    def deliver(self, packet: bytes, to_target: bool, plane: int) -> None:
        """Give a packet to the target, or an answer to the source."""
