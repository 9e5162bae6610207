"""Watch a running fabric: credits, held frames and frames in the switches, some times a second."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from controller.credits import PortCredits
from controller.probing import NoAnswers, ProbeFiles
from controller.reader import ReadError, SwitchReader
from topologies.losses import control_frames, frames_inside
from topologies.session import FabricSession

PERIOD_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Sample:
    """One look: seconds since the start, and by switch the credits of each port, frames in less frames out, frames
    dropped for want of room so far, and the control frames that each port has sent, read at `counted_at` (monotonic
    clock, s)."""

    at_s: float
    credits: Mapping[str, Mapping[int, PortCredits]]
    inside: Mapping[str, int]
    dropped: Mapping[str, int] = field(default_factory=dict)
    control: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    counted_at: float = 0.0


class Monitor:
    """Take samples in a thread for as long as it is entered. One reader per switch stays open meanwhile."""

    def __init__(self, session: FabricSession, period_s: float = PERIOD_S) -> None:
        self.samples: list[Sample] = []
        self._nodes = session.fabric.switches
        self._probes = ProbeFiles(session.run_dir) if session.options.target == "bmv2" else None
        self._period_s = period_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        started = time.monotonic()
        with contextlib.ExitStack() as stack:
            readers = {node.name: stack.enter_context(SwitchReader(node)) for node in self._nodes}
            while not self._stop.wait(self._period_s):
                with contextlib.suppress(ReadError, NoAnswers):  # a gap in the plot, no reason to end the run
                    at_s = time.monotonic() - started
                    if self._probes is not None:
                        credits: Mapping[str, Mapping[int, PortCredits]] = self._probes.read()
                    else:
                        credits = {name: reader.credits() for name, reader in readers.items()}
                    counted_at = time.monotonic()
                    counters = {name: reader.counters() for name, reader in readers.items()}
                    inside = {name: frames_inside(ports.values()) for name, ports in counters.items()}
                    control = {
                        name: {n: control_frames(p) for n, p in ports.items()} for name, ports in counters.items()
                    }
                    dropped = {
                        name: sum(p.drops.get("no_room", 0) for p in ports.values()) for name, ports in counters.items()
                    }
                    self.samples.append(Sample(at_s, credits, inside, dropped, control, counted_at))


def peak_share(samples: Sequence[Sample], own_limits: Sequence[int]) -> float:
    """Return the greatest share of a receive buffer that was ever in use, of any port and VC.

    What a switch filled at its peers it has as watermarks, which miss nothing; what its own buffers held (of
    `own_limits` per VC) is as sampled.
    """
    peak = 0.0
    for sample in samples:
        for port in (port for ports in sample.credits.values() for port in ports.values()):
            theirs = zip(port.sender_credits_used_watermark, port.sender_credit_limit, strict=True)
            own = zip(port.receiver_credits_used, own_limits, strict=True)
            peak = max([peak, *(used / limit for used, limit in (*theirs, *own) if limit)])
    return peak
