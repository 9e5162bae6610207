"""Time the compiler on the project's own switch program: without its cache, and with it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.report import Measurement

REPOSITORY: Final = Path(__file__).resolve().parent.parent
PROGRAM: Final = REPOSITORY / "p4src" / "ethlink.p4"
ROUNDS: Final = 5
COLD_ROUNDS: Final = 3

# Builds in a fresh interpreter, so that nothing is warm but the cache, and times the call alone: the interpreter's own
# start is not the compiler's.
SCRIPT: Final = """
import sys, time
from pathlib import Path
started = time.perf_counter()
from p4switch.build import build, runtime_library
cache = Path(sys.argv[2])
if sys.argv[3] == "runtime":
    runtime_library(cache)
else:
    build(Path(sys.argv[1]), cache_dir=cache)
print(time.perf_counter() - started)
"""


def measure() -> Iterator[Measurement]:
    """Yield the times to build ethlink.p4 cold and cached, and those of p4c-bm2-ss where it is installed."""
    with tempfile.TemporaryDirectory() as directory:
        caches = [Path(directory) / f"cache{n}" for n in range(COLD_ROUNDS)]
        runtime = min(_seconds(cache, "runtime") for cache in caches)
        yield Measurement("p4switch's runtime", runtime, "s", note=f"once per machine; best of {COLD_ROUNDS}")
        cold = min(_seconds(cache, "program") for cache in caches)
        note = f"front end, C, cc -O2; best of {COLD_ROUNDS}"
        yield Measurement("p4switch, nothing cached of the program", cold, "s", 2.0, at_least=False, note=note)
        cached = min(_seconds(caches[0], "program") for _ in range(ROUNDS))
        yield Measurement("p4switch, cached", cached, "s", 0.1, at_least=False, note=f"best of {ROUNDS}")
        p4c = shutil.which("p4c-bm2-ss")
        if p4c is None:
            yield Measurement("p4c-bm2-ss", None, "s", note="not installed")
            return
        started = time.perf_counter()
        subprocess.run(
            [p4c, "--arch", "v1model", "-o", f"{directory}/ethlink.json", str(PROGRAM)], check=True, capture_output=True
        )
        yield Measurement("p4c-bm2-ss", time.perf_counter() - started, "s", note="to BMv2's JSON")


def _seconds(cache: Path, what: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(PROGRAM), str(cache), what], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{PROGRAM} does not build: {done.stderr.strip()[-500:]}")
    return float(done.stdout)
