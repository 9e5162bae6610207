"""Measure tables and loops of one switch: frames per second by entries, updates, updates under traffic, rounds.

The program is tables.p4. For each kind of table and number of entries, a sender offers frames that ask for all entries
in turn, as fast as it can; what reaches the far end is counted by the kernel. The entries of the lpm table have 17
prefix lengths, those of the ternary table 32 different masks; the range table is a list of ports' worth of ranges.
Updates go over P4Runtime. Rounds are counted by the program itself, in a switch without interfaces.

Everything happens in a network namespace of its own, also when run alone: `python -m bench.tables`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from finsy.proto import p4r

from bench.report import Measurement
from bench.switches import (
    HERE,
    SENDER_CPU,
    SWITCH_CPU,
    Target,
    cable,
    compile_tool,
    in_namespace,
    installed_targets,
    main,
    pin,
    process_of,
    received,
)
from p4switch.build import build
from p4switch.dataplane import DataPlane, SwitchOptions
from ptf_tests.p4runtime import Names, P4RuntimeClient, canonical

PORTS: Final = {1: "s1-eth1", 2: "s1-eth2"}
FAR_ENDS: Final = ("far1", "far2")
PROGRAM: Final = HERE / "tables.p4"
COUNTS: Final = {
    "exact": (10, 100, 1_000, 10_000, 100_000),
    "lpm": (10, 100, 1_000, 10_000, 100_000),
    "ternary": (10, 100, 1_000, 10_000, 100_000),
    "range": (10, 100, 1_000),
}
"""Entries by kind of table."""
BMV2_MOST: Final = 10_000
"""Entries that BMv2 gets at most; filling it takes long."""
KINDS: Final = {"exact": 1, "lpm": 2, "ternary": 3, "range": 4, "recirculate": 5, "clone": 6}
"""What tables.p4 makes of the first byte behind the Ethernet header."""
NUMBER_OFFSET: Final = 18
FRAME_BYTES: Final = 64
BATCH: Final = 10_000
"""Entries per Write."""
WARM_UP_S: Final = 0.2
WINDOW_S: Final = 0.6
ROUNDS: Final = 3
UPDATE_RATE: Final = 50_000
"""Frames per second that flow while the tables change."""
UPDATE_S: Final = 4.0
INSIDE: Final = (1, 100)
"""Frames that go round at once."""
LOOP_PORT: Final = 400
"""Where clones of egress go round: a port without an interface."""


def measure() -> Iterator[Measurement]:
    """Yield the figures. Raises RuntimeError when they cannot be taken."""
    yield from in_namespace("tables", timeout_s=600)


# ---------------------------------------------------------------------------------------------------------- the switch


def entry(names: Names, kind: str, number: int) -> p4r.TableEntry:
    """Build the entry of a table that frames with this number ask for."""
    info = names.find("tables", f"{kind}_table")
    ids = {field.name.rpartition(".")[2]: field.id for field in info.match_fields}
    made = p4r.TableEntry(table_id=info.preamble.id)
    match = made.match.add(field_id=ids["number"])
    if kind == "exact":
        match.exact.value = canonical(number)
    elif kind == "lpm":
        match.lpm.value, match.lpm.prefix_len = canonical(number << 32), 32 + number % 17
    elif kind == "ternary":
        match.ternary.value, match.ternary.mask = canonical(number << 32), canonical(-1 << number % 16 & (1 << 64) - 1)
        if number // 16 % 2:
            made.match.add(field_id=ids["class"]).ternary.CopyFrom(p4r.FieldMatch.Ternary(value=b"\0", mask=b"\x0f"))
        made.priority = 1 + number % 1000
    else:
        match.range.low, match.range.high = canonical(number), canonical(number)
        made.priority = 1
    action = names.find("actions", "to_port")
    made.action.action.action_id = action.preamble.id
    made.action.action.params.add(param_id=1, value=canonical(2))
    return made


def write(client: P4RuntimeClient, kind: str, entries: Sequence[p4r.TableEntry]) -> float:
    """Write entries; return the seconds that it took."""
    start = time.perf_counter()
    for first in range(0, len(entries), BATCH):
        client.write(kind, entries[first : first + BATCH])
    return time.perf_counter() - start


# ----------------------------------------------------------------------------------------------------------- the frames


def frame(kind: str) -> bytes:
    """Build a frame that asks for entry 0 of a table, or goes round."""
    head = bytes.fromhex("020000000002 020000000001 88b5") + bytes((KINDS[kind], 0, 0, 0)) + bytes(8)
    return head.ljust(FRAME_BYTES, b"\0")


@contextmanager
def sender(load: Path, kind: str, seconds: float, count: int, rate: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """Offer frames that ask for the first `count` entries; as fast as it goes, or so many per second."""
    command = [str(load), FAR_ENDS[0], str(seconds), str(NUMBER_OFFSET), str(count), *([str(rate)] if rate else [])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(frame(kind))
        process.stdin.close()
        yield process


def rate_of(load: Path, kind: str, count: int) -> float:
    """Return frames per second that the switch forwards by a table with so many entries."""
    with sender(load, kind, WARM_UP_S + WINDOW_S + 0.1, count) as process:
        pin(process.pid, SENDER_CPU)
        time.sleep(WARM_UP_S)
        start, before = time.monotonic(), received(FAR_ENDS[1])
        time.sleep(WINDOW_S)
        forwarded, elapsed = received(FAR_ENDS[1]) - before, time.monotonic() - start
        process.wait()
    if not forwarded:
        raise RuntimeError(f"no frame came through by the {kind} table")
    return forwarded / elapsed


def by_entries(load: Path, target: Target) -> Iterator[Measurement]:
    """Measure frames per second against entries."""
    for kind, counts in COUNTS.items():
        rates: dict[int, float] = {}
        wanted = [n for n in counts if target.name == "p4switch" or n <= BMV2_MOST]
        with target.running(PORTS) as (switch, client):
            if target.name == "p4switch":
                pin(process_of(switch), SWITCH_CPU)
            there = 0
            for count in wanted:
                write(client, "INSERT", [entry(target.names, kind, n) for n in range(there, count)])
                there = count
                rates[count] = max(rate_of(load, kind, count) for _ in range(ROUNDS))  # what else runs only takes away
        for count, rate in rates.items():
            yield Measurement(f"{target.name}, {kind}, {count:,} entries", round(rate), "frames/s")
        if target.name == "p4switch" and kind != "range":
            ratio = round(rates[1_000] / rates[10], 2)
            yield Measurement(f"{kind}, 1,000 : 10 entries", ratio, "x", 0.8, note="a scan would be near 0.05")


# ---------------------------------------------------------------------------------------------------------- the updates


def updates(target: Target) -> Iterator[Measurement]:
    """Measure updates without traffic."""
    for kind in ("exact", "lpm", "ternary"):
        entries = [entry(target.names, kind, n) for n in range(BATCH)]
        with target.running(PORTS) as (_, client):
            seconds = {what: write(client, what, entries) for what in ("INSERT", "MODIFY", "DELETE")}
            single = time.perf_counter()
            for one in entries[:500]:
                client.write("INSERT", [one])
            single = 500 / (time.perf_counter() - single)
        bound = 1.0 if target.name == "p4switch" else None
        note = ", ".join(f"{what.lower()} {round(BATCH / spent):,}/s" for what, spent in seconds.items())
        yield Measurement(
            f"{target.name}, {kind}, a Write of {BATCH:,} inserts", round(seconds["INSERT"], 3), "s", bound, False, note
        )
        yield Measurement(f"{target.name}, {kind}, Writes of one insert", round(single), "updates/s")


def under_traffic(load: Path, target: Target) -> Iterator[Measurement]:
    """Change a table all the time while frames flow by it, whose own entries stay."""
    for kind in ("exact", "lpm", "ternary"):
        kept = [entry(target.names, kind, n) for n in range(1_000)]
        changing = [entry(target.names, kind, n) for n in range(1_000, 1_000 + BATCH)]
        inserts: list[float] = []
        with target.running(PORTS) as (_, client):
            write(client, "INSERT", kept)
            before = received(FAR_ENDS[1])
            with sender(load, kind, UPDATE_S, len(kept), UPDATE_RATE) as process:
                while process.poll() is None:
                    inserts.append(write(client, "INSERT", changing))
                    write(client, "DELETE", changing)
                assert process.stdout is not None
                sent = int(process.stdout.read())
            deadline = time.monotonic() + 2
            while received(FAR_ENDS[1]) - before < sent and time.monotonic() < deadline:
                time.sleep(0.01)
            lost = sent - (received(FAR_ENDS[1]) - before)
        note = f"of {sent:,} at {UPDATE_RATE:,}/s, while {len(inserts)} times {BATCH:,} entries came and went"
        yield Measurement(f"{target.name}, {kind}, frames lost while updating", lost, "frames", 0, False, note)
        longest = round(max(inserts), 3)
        yield Measurement(f"{target.name}, {kind}, the longest Write meanwhile", longest, "s", 1.0, False)


# ----------------------------------------------------------------------------------------------------------- the rounds


def rounds() -> Iterator[Measurement]:
    """Let frames go round inside p4switch; count the rounds."""
    program = build(PROGRAM)
    (counter,) = program.p4info.counters
    for kind, what in (("recirculate", "recirculations"), ("clone", "rounds of egress clones")):
        for inside in INSIDE:
            with DataPlane(SwitchOptions(cpu_port=510), program.runtime) as switch:
                switch.load(program.library)
                switch.set_clone_session(1, [(LOOP_PORT, 0)])
                switch.start()
                for _ in range(inside):
                    switch.packet_out(frame(kind), 1)
                time.sleep(WARM_UP_S)
                start, before = time.monotonic(), switch.counter_read(counter.preamble.id, 0)[0]
                time.sleep(WINDOW_S)
                count = switch.counter_read(counter.preamble.id, 0)[0] - before
                per_second = count / (time.monotonic() - start)
            note = f"{inside} frame{'s' if inside > 1 else ''} going round"
            yield Measurement(f"p4switch, {what}", round(per_second), "rounds/s", note=note)


def _inside() -> Iterator[Measurement]:
    for near, far in zip(PORTS.values(), FAR_ENDS, strict=True):
        cable(near, far)
    targets = installed_targets(PROGRAM)
    with tempfile.TemporaryDirectory() as directory:
        load = compile_tool(HERE / "load.c", Path(directory) / "load")
        for target in targets:
            yield from by_entries(load, target)
            yield from updates(target)
        yield from under_traffic(load, targets[0])
    yield from rounds()


if __name__ == "__main__":
    sys.exit(main("tables", _inside))
