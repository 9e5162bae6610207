"""How many frames per second a switch forwards between two cables, beside others: what several benches compare.

In one run, in turn, on the same cables: the plain AF_PACKET forwarder of forwarder.c, p4switch with a program and its
tables filled, and, where it is installed, BMv2's simple_switch_grpc with the same program and tables. A sender offers
frames as fast as it can; what reaches the far end is counted by the kernel. Sender and switch have a core each, but for
BMv2, whose many threads may use all. Ratios compare rates taken right after each other, so that what else the machine
does matters little; the median over the rounds is reported.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    pin,
    process_of,
    received,
)
from ptf_tests.p4runtime import Names, P4RuntimeClient

SWITCH_ENDS: Final = ("s1-eth1", "s1-eth2")
FAR_ENDS: Final = ("g1-eth0", "g2-eth0")
SIZES: Final = {64: "64 B", 1500: "1,500 B"}
ROUNDS: Final = 3
WARM_UP_S: Final = 0.3
WINDOW_S: Final = 1.0
BATCH: Final = 1000
"""Entities per Write."""
FORWARDER_RATIO: Final = 0.8
BMV2_RATIO: Final = 15.0

Rates = dict[tuple[str, int], list[float]]
"""Figures of the rounds, by contestant's name and frame size."""


def lay_cables() -> None:
    """Make the two cables that the contestants stand between."""
    for near, far in zip(SWITCH_ENDS, FAR_ENDS, strict=True):
        cable(near, far)


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


class P4Contestant:
    """A P4 target with a program, filled over P4Runtime with what `entities` gives for its P4Info."""

    def __init__(self, target: Target, entities: Callable[[Names], Iterable[Any]]) -> None:
        self._target, self._entities = target, entities
        self.name, self.one_core = target.name, target.one_core
        self.entries = 0

    @contextmanager
    def running(self) -> Iterator[int]:
        """Run it with tables filled; give its process id."""
        with self._target.running(dict(enumerate(SWITCH_ENDS, 1))) as (switch, client):
            self.entries = _fill(client, list(self._entities(self._target.names)))
            yield process_of(switch)


def _fill(client: P4RuntimeClient, entities: list[Any]) -> int:
    for first in range(0, len(entities), BATCH):
        client.write("INSERT", entities[first : first + BATCH])
    return len(entities)


Contestant = Forwarder | P4Contestant


def rate(pid: int, load: Path, frame: bytes) -> tuple[float, float]:
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


def race(
    load: Path,
    contestants: Iterable[Contestant],
    frame: Callable[[int], bytes],
    after: Callable[[Contestant], None] = lambda contestant: None,
) -> tuple[Rates, Rates]:
    """Run all contestants in turn, in each round; return frames per second, and us of processor time per frame.

    `after` is called while a contestant still runs, in the last round.
    """
    rates: Rates = {}
    costs: Rates = {}
    for turn in range(ROUNDS):
        for contestant in contestants:
            with contestant.running() as pid:
                if contestant.one_core:
                    pin(pid, SWITCH_CPU)
                for size in SIZES:
                    per_second, cost = rate(pid, load, frame(size))
                    rates.setdefault((contestant.name, size), []).append(per_second)
                    costs.setdefault((contestant.name, size), []).append(cost)
                if turn == ROUNDS - 1:
                    after(contestant)
    return rates, costs


def ratios(what: str, rates: Mapping[str, list[float]]) -> Iterator[Measurement]:
    """Compare p4switch with the others, round by round: `rates` of the forwarder, p4switch and, if there, BMv2.

    Against BMv2 the target is 15 times, or 0.8 of the forwarder where that is less.
    """
    names = list(rates)
    own = rates[names[1]]

    def ratio(other: str) -> float:
        return round(statistics.median(a / b for a, b in zip(own, rates[other], strict=True)), 2)

    for name in names[2:]:
        bound = FORWARDER_RATIO * statistics.median(a / b for a, b in zip(rates[names[0]], rates[name], strict=True))
        yield Measurement(f"p4switch : {name}, {what}", ratio(name), "x", round(min(BMV2_RATIO, bound), 1))
    if len(names) == 2:
        yield Measurement(f"p4switch : BMv2, {what}", None, "x", note="simple_switch_grpc is not installed")
    yield Measurement(f"p4switch : forwarder, {what}", ratio(names[0]), "x", FORWARDER_RATIO)
