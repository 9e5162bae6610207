"""Measure one switch with ethlink.p4 between two cables: frames per second, and the round trip of a load.

Compared as bench/rates.py says, with the plain forwarder and, where it is installed, BMv2.

Everything happens in a network namespace of its own, also when run alone: `python -m bench.packet_rate`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.rates import (
    FAR_ENDS,
    FORWARDER_RATIO,
    SIZES,
    Contestant,
    Forwarder,
    P4Contestant,
    lay_cables,
    race,
    ratios,
)
from bench.report import Measurement
from bench.switches import HERE, compile_tool, in_namespace, installed_targets, main, write_frame
from endpoint import Gpu
from ptf_tests.p4runtime import Names
from topologies.nodes import REPOSITORY

LOADS: Final = 2000
LOAD_BYTES: Final = 8
TENANT: Final = 1
IDS: Final = 2000
"""Endpoint ids that stand in the tables: as many source guards per port, routes and owners."""


def measure() -> Iterator[Measurement]:
    """Yield the figures. Raises RuntimeError when they cannot be taken."""
    yield from in_namespace("packet_rate")


def _entries(names: Names) -> Iterator[Any]:
    """Fill the tables of a switch with thousands of endpoints, of which 1 and 2 are there."""
    for dst in range(1, IDS + 1):
        yield names.entry("forward", {"tenant": TENANT, "dst": dst}, "to_port", port=1 if dst == 1 else 2)
        yield names.entry("destination_tenant", {"dst": dst}, "belongs_to", tenant=TENANT)
        for port in (1, 2):
            yield names.entry("source_guard", {"ingress_port": port, "src": dst}, "allow")
    for port in range(1, 33):
        yield names.entry("egress_config", {"egress_port": port}, "set_link", mode=0)
        yield names.entry("port_config", {"ingress_port": port}, "set_port", mode=0, role=1, tenant=TENANT)


def _round_trip_us() -> float:
    """Return the median round trip of a load by GPU 1 from GPU 2, a process of its own."""
    with subprocess.Popen([sys.executable, "-m", "bench.packet_rate", "peer"], cwd=REPOSITORY) as peer:
        try:
            with Gpu(1, {0: FAR_ENDS[0]}, peers=[2]) as gpu:
                gpu.barrier(timeout_s=30)
                trips = []
                for _ in range(LOADS):
                    start = time.perf_counter()
                    gpu.load(2, 0, LOAD_BYTES)
                    trips.append(time.perf_counter() - start)
                gpu.barrier(timeout_s=30)
            peer.wait(10)
        finally:
            peer.kill()
    return statistics.median(trips) * 1e6


def _peer() -> None:
    """Be GPU 2 until GPU 1 has done."""
    with Gpu(2, {0: FAR_ENDS[1]}, peers=[1]) as gpu:
        gpu.register(4096)
        gpu.barrier(timeout_s=30)
        gpu.barrier(timeout_s=120)


def _measure(load: Path, forwarder: Forwarder, targets: list[P4Contestant]) -> Iterator[Measurement]:
    contestants: list[Contestant] = [forwarder, *targets]
    trips: dict[str, float] = {}

    def time_trips(contestant: Contestant) -> None:
        trips[contestant.name] = _round_trip_us()

    rates, costs = race(load, contestants, write_frame, time_trips)
    for size, shown in SIZES.items():
        for contestant in contestants:
            key = contestant.name, size
            note = f"{statistics.median(costs[key]):.2f} us of processor time per frame"
            yield Measurement(
                f"{contestant.name}, {shown}", round(statistics.median(rates[key])), "frames/s", note=note
            )
        yield from ratios(shown, {c.name: rates[c.name, size] for c in contestants})
        cost = statistics.median(costs[forwarder.name, size]) / statistics.median(costs[targets[0].name, size])
        note = "per frame, forwarder's : p4switch's; what else runs matters less"
        yield Measurement(f"the same by processor time, {shown}", round(cost, 2), "x", FORWARDER_RATIO, note=note)
    for name, trip in trips.items():
        yield Measurement(f"load of {LOAD_BYTES} B through {name}", round(trip, 1), "us", note="round trip, p50")
    p4switch = targets[0]
    ratio = trips[p4switch.name] / trips[forwarder.name]
    yield Measurement(
        "round trip, p4switch : forwarder", round(ratio, 2), "x", note=f"{p4switch.entries} table entries"
    )


def _inside() -> Iterator[Measurement]:
    lay_cables()
    targets = [P4Contestant(target, _entries) for target in installed_targets()]
    with tempfile.TemporaryDirectory() as directory:
        load = compile_tool(HERE / "load.c", Path(directory) / "load")
        yield from _measure(load, Forwarder(Path(directory)), targets)


if __name__ == "__main__":
    if "peer" in sys.argv[1:]:
        _peer()
    else:
        sys.exit(main("packet_rate", _inside))
