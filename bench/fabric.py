"""Time the start of a whole fabric, and weigh its processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.report import Measurement

REPOSITORY: Final = Path(__file__).resolve().parent.parent
TOPO: Final = "planes,8,2"

# Every GPU joins the fabric, meets the others at a barrier, and stays; the memory is read while all are there.
RANK_SCRIPT: Final = """
import os, pathlib, time
from endpoint import Gpu
with Gpu.from_environment() as gpu:
    gpu.barrier()
    pathlib.Path(os.environ["MARKS"], str(gpu.id)).touch()
    time.sleep(60)
"""


def measure() -> Iterator[Measurement]:
    """Yield the time from `make run` to the first verified byte, and the memory per switch and per GPU."""
    with tempfile.TemporaryDirectory() as directory:
        run_dir = Path(directory) / "run"
        yield _first_byte(run_dir)
        yield from _memory(run_dir, Path(directory))


def _first_byte(run_dir: Path) -> Measurement:
    """Run make as a user does; a first run fills the compiler's cache."""
    environment = {**os.environ, "RUN_DIR": str(run_dir), "TOPO": TOPO, "SCENARIO": "ping"}
    for name in ("ETHLINK_STARTED", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"):  # what make tells a make below it
        environment.pop(name, None)
    for _ in range(2):
        done = subprocess.run(
            ["make", "--no-print-directory", "run"], cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"make run failed: {(done.stdout + done.stderr).strip()[-500:]}")
    summary = json.loads((run_dir / "summary.json").read_text())
    seconds = summary["first_verified_s"]
    note = f"{TOPO}, installed, program cached"
    return Measurement("make run to the first verified byte", seconds, "s", 10.0, at_least=False, note=note)


def _memory(run_dir: Path, scratch: Path) -> Iterator[Measurement]:
    marks = scratch / "marks"
    marks.mkdir()
    script = scratch / "rank.py"
    script.write_text(RANK_SCRIPT)
    launcher = subprocess.Popen(
        [sys.executable, "-m", "topologies", "--run-dir", str(run_dir), "--topo", TOPO, "--script", str(script)],
        cwd=REPOSITORY, env={**os.environ, "MARKS": str(marks)}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while len(list(marks.iterdir())) < 8:
            if launcher.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the fabric did not come up; try `make run`")
            time.sleep(0.05)
        switches = _resident(("-m", "p4switch", "run"))
        gpus = _resident((str(script),))
        controller = _resident(("-m", "controller", "run"))
    finally:
        launcher.terminate()
        launcher.wait()
    yield Measurement("memory per switch", max(switches, default=None), "MB", note="proportional set size, 8 ports")
    yield Measurement("memory per GPU", max(gpus, default=None), "MB", note="proportional set size, 2 ports")
    yield Measurement("memory of the controller", max(controller, default=None), "MB", note="2 switches")


def _resident(words: tuple[str, ...]) -> list[float]:
    """Return the proportional set sizes, in MB, of the Python processes whose command lines hold `words` in a row."""
    sizes = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = path.joinpath("cmdline").read_text().split("\0")
            if "python" not in command[0]:
                continue
            runs = [tuple(command[n : n + len(words)]) for n in range(len(command))]
            if words in runs and "topologies" not in command:
                lines = path.joinpath("smaps_rollup").read_text().splitlines()
                sizes.append(next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024)
        except (OSError, StopIteration):
            continue  # it ended meanwhile
    return sizes
