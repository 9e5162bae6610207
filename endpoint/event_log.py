"""What became of the paths of a GPU and when, for measuring how long a failover takes."""

from __future__ import annotations

import time
from collections import deque
from typing import Final, NamedTuple

RECORDS_MOST: Final = 4096
"""The newest are kept."""


class EventRecord(NamedTuple):
    """One change of the ways to others; nanoseconds of CLOCK_MONOTONIC but where said otherwise."""

    arrived_ns: int
    """When the EVENT frame was taken from the port, or the own link's change was noticed."""
    arrived_real_ns: int
    """The same, of CLOCK_REALTIME."""
    what: str
    """LINK_DOWN, LINK_UP or LINK_DEGRADED, as a switch said; `own link down` or `own link up`; `lapsed`: open again as
    nothing repeated what had closed it."""
    plane: int
    subject: int | None
    """The GPU that it is about; None: everybody, as it is the own link."""
    switch: int | None
    """The id of the switch that said so."""
    sequence: int | None
    switch_us: int | None
    """Microseconds of the switch's clock."""
    moved: int
    """Unfinished requests, and blocks of messages, that were sent anew because of it."""
    moved_ns: int
    """When the last of them was sent; when the change had been taken note of, if there were none."""


class EventLog:
    """A ring of the newest records."""

    def __init__(self) -> None:
        self._records: deque[EventRecord] = deque(maxlen=RECORDS_MOST)

    def add(
        self,
        arrived: tuple[int, int],
        what: str,
        plane: int,
        subject: int | None,
        moved: int,
        switch: int | None = None,
        sequence: int | None = None,
        switch_us: int | None = None,
    ) -> None:
        """Keep a record of a change that arrived then (`arrival()`) and has been acted upon now."""
        moved_ns = time.monotonic_ns()
        self._records.append(EventRecord(*arrived, what, plane, subject, switch, sequence, switch_us, moved, moved_ns))

    def records(self) -> list[EventRecord]:
        """Return what is kept, oldest first."""
        return list(self._records)


def arrival() -> tuple[int, int]:
    """Return the time now: nanoseconds of CLOCK_MONOTONIC and of CLOCK_REALTIME."""
    return time.monotonic_ns(), time.time_ns()
