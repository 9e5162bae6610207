"""Measure one switch between two cables: frames per second, and the round trip of a load.

In one run, in turn, on the same cables: the plain AF_PACKET forwarder of forwarder.c, p4switch with ethlink.p4 and its
tables filled, and, where it is installed, BMv2's simple_switch_grpc with the same program and tables. A sender offers
frames as fast as it can; what reaches the far end is counted by the kernel. Sender and switch have a core each, but for
BMv2, whose many threads may use all. Ratios compare rates taken right after each
other, so that what else the machine does matters little; the median over the rounds is reported.

Everything happens in a network namespace of its own, also when run alone: `python -m bench.packet_rate`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.report import Measurement
from bench.switches import (
    HERE,
    SENDER_CPU,
    SWITCH_CPU,
    Target,
    cable,
    compile_tool,
    cpu_s,
    in_namespace,
    installed_targets,
    main,
    pin,
    process_of,
    received,
    write_frame,
)
from endpoint import Gpu
from ptf_tests.p4runtime import Names
from topologies.nodes import REPOSITORY

SWITCH_ENDS: Final = ("s1-eth1", "s1-eth2")
FAR_ENDS: Final = ("g1-eth0", "g2-eth0")
SIZES: Final = {64: "64 B", 1500: "1,500 B"}
ROUNDS: Final = 3
WARM_UP_S: Final = 0.3
WINDOW_S: Final = 1.0
LOADS: Final = 2000
LOAD_BYTES: Final = 8
TENANT: Final = 1
IDS: Final = 2000
"""Endpoint ids that stand in the tables: as many source guards per port, routes and owners."""
BATCH: Final = 2000
"""Entries per Write."""
FORWARDER_RATIO: Final = 0.8
BMV2_RATIO: Final = 15.0


def measure() -> Iterator[Measurement]:
    """Yield the figures. Raises RuntimeError when they cannot be taken."""
    yield from in_namespace("packet_rate")


# ----------------------------------------------------------------------------------------------------- the contestants


class Forwarder:
    """The plain forwarder in C."""

    name = "plain forwarder"
    one_core = True

    def __init__(self, tools: Path) -> None:
        self._binary = compile_tool(HERE / "forwarder.c", tools / "forwarder")

    @contextmanager
    def running(self) -> Iterator[int]:
        """Run it; give its process id."""
        process = subprocess.Popen([self._binary, *SWITCH_ENDS], stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError("the plain forwarder did not start")
            yield process.pid
        finally:
            process.kill()
            process.wait()


class P4Target:
    """A P4 target with ethlink.p4, filled over P4Runtime."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.name, self.one_core = target.name, target.one_core
        self.entries = 0

    @contextmanager
    def running(self) -> Iterator[int]:
        """Run it with tables filled; give its process id."""
        with self._target.running(dict(enumerate(SWITCH_ENDS, 1))) as (switch, client):
            entries = list(_entries(self._target.names))
            for first in range(0, len(entries), BATCH):
                client.write("INSERT", entries[first : first + BATCH])
            self.entries = len(entries)
            yield process_of(switch)


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


# ------------------------------------------------------------------------------------------------------- the measuring


def _rate(pid: int, load: Path, frame: bytes) -> tuple[float, float]:
    """Offer frames; return those that arrive per second, and the switch's processor time per frame in us."""
    seconds = WARM_UP_S + WINDOW_S + 0.1
    with subprocess.Popen([load, FAR_ENDS[0], str(seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sender:
        assert sender.stdin is not None
        pin(sender.pid, SENDER_CPU)
        sender.stdin.write(frame)
        sender.stdin.close()
        time.sleep(WARM_UP_S)
        start, before, cpu = time.monotonic(), received(FAR_ENDS[1]), cpu_s(pid)
        time.sleep(WINDOW_S)
        count, cpu = received(FAR_ENDS[1]) - before, cpu_s(pid) - cpu
        elapsed = time.monotonic() - start
        sender.wait()
    if not count:
        raise RuntimeError("no frame came through the switch")
    return count / elapsed, cpu / count * 1e6


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


def _measure(load: Path, forwarder: Forwarder, targets: list[P4Target]) -> Iterator[Measurement]:
    contestants: list[Forwarder | P4Target] = [forwarder, *targets]
    rates: dict[tuple[str, int], list[float]] = {}
    costs: dict[tuple[str, int], list[float]] = {}
    trips: dict[str, float] = {}
    for turn in range(ROUNDS):
        for contestant in contestants:
            with contestant.running() as pid:
                if contestant.one_core:
                    pin(pid, SWITCH_CPU)
                for size in SIZES:
                    rate, cost = _rate(pid, load, write_frame(size))
                    rates.setdefault((contestant.name, size), []).append(rate)
                    costs.setdefault((contestant.name, size), []).append(cost)
                if turn == ROUNDS - 1:
                    trips[contestant.name] = _round_trip_us()
    for size, shown in SIZES.items():
        for contestant in contestants:
            key = contestant.name, size
            rate = statistics.median(rates[key])
            note = f"{statistics.median(costs[key]):.2f} us of processor time per frame"
            yield Measurement(f"{contestant.name}, {shown}", round(rate), "frames/s", note=note)
        yield from _ratios(shown, {c.name: rates[c.name, size] for c in contestants})
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


def _ratios(size: str, rates: dict[str, list[float]]) -> Iterator[Measurement]:
    """Compare p4switch with the others, round by round.

    Against BMv2 the target is 15 times, or 0.8 of the forwarder where that is less.
    """
    names = list(rates)
    own = rates[names[1]]

    def ratio(other: str) -> float:
        return round(statistics.median(a / b for a, b in zip(own, rates[other], strict=True)), 2)

    for name in names[2:]:
        bound = FORWARDER_RATIO * statistics.median(a / b for a, b in zip(rates[names[0]], rates[name], strict=True))
        yield Measurement(f"p4switch : {name}, {size}", ratio(name), "x", round(min(BMV2_RATIO, bound), 1))
    if len(names) == 2:
        yield Measurement(f"p4switch : BMv2, {size}", None, "x", note="simple_switch_grpc is not installed")
    yield Measurement(f"p4switch : forwarder, {size}", ratio(names[0]), "x", FORWARDER_RATIO)


def _inside() -> Iterator[Measurement]:
    for near, far in zip(SWITCH_ENDS, FAR_ENDS, strict=True):
        cable(near, far)
    targets = [P4Target(target) for target in installed_targets()]
    with tempfile.TemporaryDirectory() as directory:
        load = compile_tool(HERE / "load.c", Path(directory) / "load")
        yield from _measure(load, Forwarder(Path(directory)), targets)


if __name__ == "__main__":
    if "peer" in sys.argv[1:]:
        _peer()
    else:
        sys.exit(main("packet_rate", _inside))
