"""How busy the machine's processors are, over time."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

_STAT: Final = Path("/proc/stat")
_PERIOD_S: Final = 0.1


class Sample(NamedTuple):
    """Processor time of the whole machine so far, in the kernel's ticks, at a time in nanoseconds of CLOCK_REALTIME."""

    at_ns: int
    total: int
    idle: int


class ProcessorWatch:
    """Notes ten times per second, in a thread, how much the machine has worked."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="processors", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.samples.append(_sample())

    def busy_share(self, from_ns: int, to_ns: int) -> float:
        """Return the share of the processors' time that was not idle between two times (CLOCK_REALTIME), 0 to 1."""
        return busy_share(self.samples, from_ns, to_ns)

    def _run(self) -> None:
        while True:
            self.samples.append(_sample())
            if self._stop.wait(_PERIOD_S):
                return


def busy_share(samples: list[Sample], from_ns: int, to_ns: int) -> float:
    """Return the share of busy time between the last sample before and the first one after two times; 0 without any."""
    if not samples:
        return 0.0
    times = [sample.at_ns for sample in samples]
    first = samples[max(0, bisect_right(times, from_ns) - 1)]
    last = samples[min(len(samples) - 1, bisect_left(times, to_ns))]
    total = last.total - first.total
    return 1 - (last.idle - first.idle) / total if total > 0 else 0.0


def _sample() -> Sample:
    # user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user already (proc(5))
    values = [int(word) for word in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
    return Sample(time.time_ns(), sum(values), values[3] + values[4])
