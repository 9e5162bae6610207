"""Measure RDMA against load/store, by size: two GPUs back to back, a process each, in a namespace of their own.

`python -m bench.rdma` measures in the namespace that it is started in and prints JSON; `measure` starts it in a new
one. The two ways are measured in turns, so that what else the machine does falls on both.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from bench.cable import ENDS, REPOSITORY, add_cable
from bench.plots import PLOTS, plot_rdma
from bench.report import Measurement, how_calm, size_name
from endpoint import EndpointOptions, Gpu
from endpoint.traffic.report import percentile

GOODPUT_SIZES: Final = tuple(1 << power for power in range(6, 27, 2))
"""64 B to 64 MiB."""
LATENCY_SIZES: Final = (8, 64, 256, 257, 288, 320, 384, 448, 512, 640, 768, 1024, 1536, 2048, 4096, 8192, 16384)
TRIPS: Final = 400
BYTES: Final = 8 << 20
"""What a goodput is measured over, where messages are shorter."""
MESSAGES: Final = 4000
"""At most so many of them."""
REGION: Final = 64 << 20


def measure() -> Iterator[Measurement]:
    """Yield the figures, and draw the plot. Raises RuntimeError when they cannot be taken."""
    command = ["unshare", "--net", sys.executable, "-m", "bench.rdma"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise RuntimeError(f"the measuring process failed, it needs root: {done.stderr.strip()[-500:]}")
    found = json.loads(done.stdout)
    plot_rdma(PLOTS / "rdma.png", found["goodput"], found["latency"], found["overtakes"])
    for row in found["rows"]:
        yield Measurement(**row)


def goodput(gpu: Gpu, size: int) -> float:
    """Return MB/s of writes of a size, as many under way as the window takes."""
    data = bytes(size)
    count = max(1, min(MESSAGES, BYTES // size))
    places = max(1, REGION // size)
    under_way: deque[Any] = deque()
    start = time.perf_counter()
    for number in range(count):
        under_way.append(gpu.write_async(2, number % places * size, data))
        if len(under_way) > 512:
            under_way.popleft().result()
    for transfer in under_way:
        transfer.result()
    return count * size / (time.perf_counter() - start) / 1e6


def latencies(gpu: Gpu, size: int) -> dict[str, float]:
    """Return the medians of one access at a time, in microseconds, each way in turn."""
    data = bytes(size)
    ways: dict[str, Callable[[], object]] = {
        "store": lambda: gpu.store(2, 0, data), "write": lambda: gpu.write(2, 0, data),
        "load": lambda: gpu.load(2, 0, size), "read": lambda: gpu.read(2, 0, size),
    }  # fmt: skip
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(TRIPS):
        for way, access in ways.items():
            start = time.perf_counter()
            access()
            taken[way].append(time.perf_counter() - start)
    figures = {}
    for way, times in taken.items():
        times.sort()
        figures[way] = round(percentile(times, 50) * 1e6, 1)
        figures[f"{way}_p99"] = round(percentile(times, 99) * 1e6, 1)
    return figures


def overtakes(sizes: Sequence[int], one: Sequence[float], other: Sequence[float]) -> int | None:
    """Return the smallest size from which on `other` is never slower than `one`; None if there is none."""
    found = None
    for size, slow, fast in zip(sizes, one, other, strict=True):
        if fast > slow:
            found = None
        elif found is None:
            found = size
    return found


def _rows(by_goodput: dict[int, float], by_latency: dict[int, dict[str, float]]) -> Iterator[Measurement]:
    yield how_calm()
    block = EndpointOptions().block_bytes
    for size, rate in by_goodput.items():
        yield Measurement(f"writes of {size_name(size)}, goodput", round(rate, 2), "MB/s", note=f"blocks of {block} B")
    for size in (8, 256, 4096):
        for way in ("load", "read"):
            for figure, title in ((way, "p50"), (f"{way}_p99", "p99")):
                yield Measurement(f"{way} of {size} B, {title}", by_latency[size][figure], "us")
    found = _overtakes(by_latency)
    for new, old in (("write", "store"), ("read", "load")):
        yield Measurement(f"RDMA {new} overtakes {old} from", found[new], "B", note="medians, one at a time")


def _overtakes(by_latency: dict[int, dict[str, float]]) -> dict[str, int | None]:
    sizes = list(by_latency)
    return {
        new: overtakes(sizes, [by_latency[s][old] for s in sizes], [by_latency[s][new] for s in sizes])
        for old, new in (("store", "write"), ("load", "read"))
    }


def _peer() -> None:
    """Be the GPU whose memory is accessed, until the other one has done."""
    with Gpu(2, {0: ENDS[1]}, peers=[1]) as gpu:
        gpu.register(REGION)
        gpu.barrier()
        gpu.barrier(timeout_s=300)


def main() -> int:
    """Measure in this namespace and print JSON."""
    if "peer" in sys.argv[1:]:
        _peer()
        return 0
    add_cable()
    with subprocess.Popen([sys.executable, "-m", "bench.rdma", "peer"], cwd=REPOSITORY) as peer:
        try:
            with Gpu(1, {0: ENDS[0]}, peers=[2]) as gpu:
                gpu.barrier()
                by_latency = {size: latencies(gpu, size) for size in LATENCY_SIZES}
                by_goodput = {size: goodput(gpu, size) for size in GOODPUT_SIZES}
                rows = [asdict(row) for row in _rows(by_goodput, by_latency)]
                gpu.barrier()
            peer.wait(10)
        finally:
            peer.kill()
    print(
        json.dumps(
            {
                "rows": rows, "goodput": list(by_goodput.items()), "latency": list(by_latency.items()),
                "overtakes": _overtakes(by_latency),
            }
        )
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
