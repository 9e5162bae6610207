"""Measure all-reduce on whole fabrics: bus bandwidth by size, number of GPUs and algorithm.

It is the scenario `training` with a profile made for it, so that every byte is compared; comparing is not on the clock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.cable import REPOSITORY
from bench.plots import PLOTS, plot_all_reduce
from bench.report import Measurement, how_calm, size_name

GPUS: Final = (2, 4, 8)
SIZES: Final = tuple(1 << power for power in range(10, 23, 2))
"""1 KiB to 4 MiB."""
ALGORITHMS: Final = ("direct", "ring")
ITERATIONS: Final = 7
MOST_BYTES: Final = 64 << 20
"""What all GPUs together may send in one operation: software on one machine takes seconds for more."""


def measure() -> Iterator[Measurement]:
    """Yield the figures, and draw the plot. Raises RuntimeError when a fabric does not do its work."""
    yield how_calm()
    found = []
    for gpus in GPUS:
        topo = f"planes,{gpus},2"
        phases = _run(gpus, topo)
        for phase in phases:
            algorithm, size = phase["name"].split()
            figures = {"gpus": gpus, "algorithm": algorithm, "size": int(size), **phase}
            found.append(figures)
            yield Measurement(
                f"all-reduce of {size_name(int(size))}, {gpus} GPUs, {algorithm}", round(phase["bus_mb_s"], 2), "MB/s",
                note=f"bus; p50 {phase['time_us_p50'] / 1000:,.2f} ms",
            )  # fmt: skip
        ring = {int(p["name"].split()[1]): p["time_us_p50"] for p in phases if p["name"].startswith("ring")}
        direct = {int(p["name"].split()[1]): p["time_us_p50"] for p in phases if p["name"].startswith("direct")}
        slower = [size for size in direct if direct[size] > ring[size]]
        value = None if not slower else float(min(slower))
        yield Measurement(f"ring overtakes direct, {gpus} GPUs", value, "B", note="p50; the smallest size measured so")
    plot_all_reduce(PLOTS / "collectives.png", found)


def _run(gpus: int, topo: str) -> list[dict[str, Any]]:
    """Run the scenario on one fabric and return the figures of its phases."""
    phases = [
        f"  - {{name: {algorithm} {size}, parallel: data, bytes: {size}, algorithm: {algorithm}}}"
        for size in SIZES
        for algorithm in ALGORITHMS
        if size * gpus * (gpus - 1) <= MOST_BYTES
    ]
    with tempfile.TemporaryDirectory() as directory:
        profile = Path(directory) / "all-reduce.yaml"
        profile.write_text(
            "\n".join([f"layout: {{data: {gpus}}}", f"iterations: {ITERATIONS}", "phases:", *phases, ""])
        )
        run_dir = Path(directory) / "run"
        done = subprocess.run(
            [sys.executable, "-m", "topologies", "--no-prompt", "--run-dir", str(run_dir), "--topo", topo,
             "--scenario", "training", "--profile", str(profile)],
            cwd=REPOSITORY, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=400,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{topo}: {(done.stdout + done.stderr).strip()[-500:]}")
        figures: list[dict[str, Any]] = json.loads((run_dir / "summary.json").read_text())["training"]
        return figures
