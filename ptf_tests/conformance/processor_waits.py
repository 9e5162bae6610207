"""How long threads have waited for a processor, as the kernel counts it: what a busy machine adds to a time."""

from __future__ import annotations

import time
from pathlib import Path


def waits(pid: int | str) -> dict[str, float]:
    """Return the seconds that each thread of a process has waited so far, by thread."""
    return {
        task.name: int((task / "schedstat").read_text().split()[1]) * 1e-9
        for task in Path(f"/proc/{pid}/task").iterdir()
    }


class WaitLog:
    """What the threads of a process have waited, looked at again and again."""

    def __init__(self, pid: int | str) -> None:
        self._pid = pid
        self._looks: list[tuple[float, dict[str, float]]] = []
        self.look()

    def look(self) -> None:
        """Take note of what the threads have waited by now."""
        self._looks.append((time.time(), waits(self._pid)))

    def most_between(self, begin: float, end: float) -> float:
        """Return how long the thread that waited longest did so between two times of the system's clock, in seconds.

        As far as the looks tell: from the last one before `begin` to the first one after `end`.
        """
        before = max(
            (look for look in self._looks if look[0] <= begin), default=self._looks[0], key=lambda look: look[0]
        )
        after = min((look for look in self._looks if look[0] >= end), default=self._looks[-1], key=lambda look: look[0])
        return max((total - before[1].get(thread, 0.0) for thread, total in after[1].items()), default=0.0)
