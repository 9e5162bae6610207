"""Measure one GPU: the codec alone, then two GPUs back to back, a process each, on a cable in a namespace of their own.

`python -m bench.endpoint` measures in the namespace that it is started in and prints JSON; `measure` starts it in a new
one.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from bench.cable import ENDS, REPOSITORY, add_cable
from bench.report import Measurement
from codec import frames
from codec.profile import LinkProfile
from endpoint import EndpointOptions, Gpu
from endpoint.traffic.report import percentile

ROUND_TRIPS: Final = 3000
ACCESSES: Final = 20_000
CODEC_ROUNDS: Final = 50_000
STARTS: Final = 3
REGION: Final = 1 << 20
OPEN: Final = "open link"
LINKS: Final[dict[str, dict[int, LinkProfile]]] = {
    OPEN: {}, "credits": {0: LinkProfile()}, "credits and retry": {0: LinkProfile(llr=True)},
}  # fmt: skip


def measure() -> Iterator[Measurement]:
    """Yield the figures. Raises RuntimeError when they cannot be taken."""
    command = ["unshare", "--net", sys.executable, "-m", "bench.endpoint"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise RuntimeError(f"the measuring process failed, it needs root: {done.stderr.strip()[-500:]}")
    for row in json.loads(done.stdout):
        yield Measurement(**row)


def _codec() -> Iterator[Measurement]:
    header = frames.oefh(vc=0, dst=2, src=1, f=1)
    seed = frames.end_to_end_seed(1, 2)
    for size in (8, 256):
        data = bytes(size)

        def build(data: bytes = data, size: int = size) -> bytes:
            return frames.open_frame(frames.lsu_packet(header, seed, 2, size, 1, 1, 1, 0, data))

        view = memoryview(build())

        def parse(view: memoryview = view) -> object:
            packet = frames.open_packet(view)
            return packet is not None and frames.parse_lsu(packet)

        note = "link header, OEFH, LSU, both CRCs"
        yield Measurement(f"build a frame, {size} B", _microseconds(build), "us", 8.0, at_least=False, note=note)
        yield Measurement(f"parse a frame, {size} B", _microseconds(parse), "us", 8.0, at_least=False, note=note)


def _microseconds(work: Callable[[], object]) -> float:
    """Return the processor time of one call."""
    start = time.process_time()
    for _ in range(CODEC_ROUNDS):
        work()
    return round((time.process_time() - start) / CODEC_ROUNDS * 1e6, 3)


def _start_up() -> Measurement:
    best = float("inf")
    for _ in range(STARTS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import endpoint"], check=True, cwd=REPOSITORY)
        best = min(best, time.perf_counter() - start)
    return Measurement("start of a GPU's process", round(best, 3), "s", 0.5, at_least=False, note="best of 3")


def _peer(link: str) -> None:
    """Be the GPU whose memory is accessed, until the other one has done."""
    with Gpu(2, {0: ENDS[1]}, peers=[1], managed=LINKS[link]) as gpu:
        gpu.register(REGION)
        gpu.barrier()
        gpu.barrier(timeout_s=120)


def _traffic() -> Iterator[Measurement]:
    options = EndpointOptions()
    with Gpu(1, {0: ENDS[0]}, peers=[2], options=options) as gpu:
        gpu.barrier()
        for size in (8, 256):
            trips = []
            for _ in range(ROUND_TRIPS):
                start = time.perf_counter()
                gpu.load(2, 0, size)
                trips.append(time.perf_counter() - start)
            trips.sort()
            for percent in (50, 99):
                value = round(percentile(trips, percent) * 1e6, 1)
                yield Measurement(f"load of {size} B, round trip p{percent}", value, "us", note="no switch between")
        places = [(n * 256 % REGION, 256) for n in range(ACCESSES)]
        data = bytes(256)
        note = f"window {options.window}, one source, no switch between"
        before = _cpu_s()
        for name, work in (
            ("stores of 256 B", lambda: gpu.store_many(2, [(address, data) for address, _ in places])),
            ("loads of 256 B", lambda: gpu.load_many(2, places)),
        ):
            start = time.perf_counter()
            work()
            rate = round(ACCESSES / (time.perf_counter() - start))
            yield Measurement(name, rate, "1/s", note=note)
        cpu = (_cpu_s() - before) / (2 * ACCESSES) * 1e6
        yield Measurement("processor time per access at the source", round(cpu, 1), "us", note=note)
        yield Measurement("memory of a GPU's process", round(_resident_mb(), 1), "MB", note="resident, 1 port")
        gpu.barrier()


def _managed(link: str) -> Iterator[Measurement]:
    """Measure what credits cost, or credits and retry, on a good link."""
    with Gpu(1, {0: ENDS[0]}, peers=[2], managed=LINKS[link]) as gpu:
        gpu.barrier()
        pieces = [(n * 256 % REGION, bytes(256)) for n in range(ACCESSES)]
        before, start = _cpu_s(), time.perf_counter()
        gpu.store_many(2, pieces)
        rate = round(ACCESSES / (time.perf_counter() - start))
        cpu = (_cpu_s() - before) / ACCESSES * 1e6
        replays = gpu.port_counters()[0].get("llr_tx_replay", 0)
        note = f"{link}, no switch between" + (f", {replays} replays" if "retry" in link else "")
        yield Measurement("stores of 256 B", rate, "1/s", note=note)
        yield Measurement("processor time per store at the source", round(cpu, 1), "us", note=note)
        gpu.barrier()


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> int:
    """Measure in this namespace and print JSON."""
    if "peer" in sys.argv[1:]:
        _peer(sys.argv[-1])
        return 0
    add_cable()
    rows = [*_codec(), _start_up()]
    for link in LINKS:
        with subprocess.Popen([sys.executable, "-m", "bench.endpoint", "peer", link], cwd=REPOSITORY) as peer:
            try:
                rows += _traffic() if link == OPEN else _managed(link)
                peer.wait(10)
            finally:
                peer.kill()
    print(json.dumps([asdict(row) for row in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
