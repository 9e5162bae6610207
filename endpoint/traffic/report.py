"""What one rank found out, as people read it and as programs do."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from codec.files import write_whole

WRONG_EXAMPLES = 8


@dataclass
class Report:
    """One rank's results. Latencies are in microseconds, rates per second of `duration_s`.

    `transactions` counts accesses that succeeded; `bytes_moved` what they carried; `bytes_verified` and `bytes_wrong`
    what was compared with what it must be; `frames_lost` requests and messages that were given up;
    `frames_retransmitted` requests and blocks that were sent again. `first_verified_at` is in seconds of Unix time.
    `per_peer` holds latencies per peer where they are taken so, `latency_counts` how many accesses of a peer took how
    many microseconds. Streams report per destination: `flows` what completed in the time that counts (`first_s` to
    `last_s` of the monotonic clock). `failover` is what `endpoint.traffic.endure` finds out, `phases` what a training
    profile does (see `endpoint.training.phases`). `ok` is true only when everything was done and no byte was wrong.
    """

    pattern: str
    gpu: int
    rank: int
    ranks: int
    ok: bool = False
    error: str | None = None
    transactions: int = 0
    bytes_moved: int = 0
    bytes_verified: int = 0
    bytes_wrong: int = 0
    frames_lost: int = 0
    frames_retransmitted: int = 0
    latency_us_p50: float | None = None
    latency_us_p99: float | None = None
    duration_s: float = 0.0
    transactions_per_s: float = 0.0
    goodput_mbit_s: float = 0.0
    first_verified_at: float | None = None
    wrong: list[str] = field(default_factory=list)
    per_peer: dict[str, dict[str, float]] = field(default_factory=dict)
    flows: dict[str, dict[str, float | int | bool]] = field(default_factory=dict)
    latency_counts: dict[str, dict[str, int]] = field(default_factory=dict)
    phases: list[dict[str, Any]] = field(default_factory=list)
    failover: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, float | int | str | None] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    ports: dict[str, dict[str, int]] = field(default_factory=dict)

    def verified(self, length: int, wrong: int, what: str) -> None:
        """Count bytes that were compared; `what` says which, for the first few that were wrong."""
        self.bytes_verified += length - wrong
        if self.first_verified_at is None and wrong < length:
            self.first_verified_at = time.time()
        if wrong:
            self.bytes_wrong += wrong
            if len(self.wrong) < WRONG_EXAMPLES:
                self.wrong.append(f"{wrong} of {length} bytes wrong: {what}")

    def take_latencies(self, seconds: Sequence[float]) -> None:
        """Set the percentiles from the latencies of single accesses, in seconds."""
        if seconds:
            ordered = sorted(seconds)
            self.latency_us_p50 = round(percentile(ordered, 50) * 1e6, 1)
            self.latency_us_p99 = round(percentile(ordered, 99) * 1e6, 1)

    def finish(self, duration_s: float, counters: dict[str, int], ports: dict[int, dict[str, int]]) -> None:
        """Set what follows from the duration of the traffic and the endpoint's counters."""
        self.duration_s = round(duration_s, 6)
        if duration_s > 0:
            self.transactions_per_s = round(self.transactions / duration_s, 1)
            self.goodput_mbit_s = round(self.bytes_moved * 8 / duration_s / 1e6, 3)
        self.counters = counters
        self.ports = {str(plane): values for plane, values in ports.items()}
        self.frames_lost = counters.get("timed_out_requests", 0) + counters.get("timed_out_messages", 0)
        self.frames_retransmitted = counters.get("resent_requests", 0) + counters.get("resent_blocks", 0)
        self.ok = self.error is None and self.bytes_wrong == 0

    def save(self, path: Path) -> None:
        """Write the report as JSON; a reader sees all of it or nothing."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(asdict(self), indent=1) + "\n")

    def __str__(self) -> str:
        parts = [
            f"GPU {self.gpu}, {self.pattern}: {self.transactions:,} transactions in {self.duration_s:.2f} s",
            f"{self.bytes_verified:,} bytes verified",
            f"{self.bytes_wrong:,} wrong",
        ]
        if self.frames_retransmitted or self.frames_lost:
            parts.append(f"{self.frames_retransmitted:,} frames sent again, {self.frames_lost:,} lost")
        if self.latency_us_p50 is not None:
            parts.append(f"round trip p50 {self.latency_us_p50:,.0f} us, p99 {self.latency_us_p99:,.0f} us")
        lines = [", ".join(parts), *self.wrong]
        if self.error:
            lines.append(f"error: {self.error}")
        return "\n".join(lines)


def rounded_us(seconds: float) -> int:
    """Return a latency in microseconds, rounded to three digits: few enough values to count."""
    return int(float(f"{seconds * 1e6:.3g}"))


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile of an ascending sequence that is not empty."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
