"""Run the conformance cases and write one record each: `make conformance`, or

    python -m ptf_tests.conformance [--target p4switch|bmv2] [--case CBFC-04 ...] [--quick] [--list] [--soak FRAMES]

Results are build/conformance/TARGET/records.json and records.csv. The exit status is 0 only if every case that was
asked for left a record, every record passed, and the cases that have to fail did.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from ptf_tests import run as packet_tests
from ptf_tests.conformance import soak
from ptf_tests.conformance.records import Journal, Record, exact, write_csv, write_json
from ptf_tests.conformance.settings import (
    JOURNAL,
    QUICK,
    SLOW_DEPTH,
    SLOW_PORT,
    SLOW_RATE,
    SWITCH_PID,
    THRIFT_PORT,
)
from ptf_tests.conformance.stations import Stations, Stuck
from ptf_tests.run import Bench, PtfResult, compile_program, list_tests
from topologies.errors import LaunchError
from topologies.namespace import run_isolated
from topologies.nodes import REPOSITORY, SWITCHES, Bmv2Switch, P4SwitchNode
from topologies.options import Options as FabricOptions
from topologies.progress import Progress as FabricProgress
from topologies.session import Artefacts, FabricSession

HERE: Final = Path(__file__).resolve().parent
CASES: Final = HERE / "cases"
MUST_FAIL: Final = HERE / "must_fail"
OUTPUT: Final = REPOSITORY / "build" / "conformance"
CONTROL_PLANE_S: Final = 30
SOAK_LEAST: Final = 5000
SOAK_MOST: Final = 100_000_000

HEADER_GROUPS: Final = {
    "E1": ("headers", "every field at its offset, CRC renewed, the rest intact"),
    "E2": ("forwarding", "static forwarding, unknown and reserved destinations by policy"),
    "E3": ("virtual_channels", "vc to credit VC, all values"),
    "E4": ("multipath", "entropy spreads evenly, same value same path, F = 0 ignores it"),
    "E5": ("hop_limit", "hop limit decremented, expiry dropped"),
    "E6": ("ecn", "ECN read, kept, CRC renewed"),
}
"""Groups of the forwarding header: the packet tests of these files in ptf_tests/cases/."""
CREDIT_CASES: Final = {
    "CBFC-01": ("counters.Sender",),
    "CBFC-02": ("counters.Receiver",),
    "CBFC-03": ("counters.LossesWrittenOff", "counters.OwnLossesAreTold"),
    "CBFC-04": ("backpressure.DrainedFully", "backpressure.DrainedByHalf", "backpressure.NotDrained"),
    "CBFC-05": ("channels.TheVcItself",),
    "CBFC-06": ("channels.MappedOnTheWayIn",),
    "CBFC-07": ("channels.MappedOnTheWayOut",),
    "CBFC-08": ("backpressure.LimitPerVc",),
    "CBFC-09": ("backpressure.LimitPerPort",),
    "CBFC-10": ("incast.Incast",),
    "CBFC-11": ("incast.IncastMixed",),
    "CBFC-12": ("round_trip.LongRoundTrip",),
}
"""The tests of each case of credits, in the folder cases/."""
RETRY_CASES: Final = {
    "LLR-01": ("retry.GoodFrames",),
    "LLR-02": ("retry.OneFrameLost",),
    "LLR-03": ("retry_flush.NoAcknowledgements", "retry_flush.FrozenAcknowledgements"),
    "LLR-04": ("retry.OneFrameBad",),
    "LLR-05": ("retry.OneFramePoisoned",),
    "LLR-06": ("retry_flush.FewOutstanding",),
    "LLR-07": ("retry_flow.LongWay", "retry_flow.HighestRate"),
    "LLR-08": ("retry_flush.ComesBack",),
    "LLR-09": ("retry_flow.EverySize",),
    "LLR-10": ("retry_flow.MixedWithoutErrors", "retry_flow.MixedWithErrors"),
    "LLR-wrap": ("retry_rules.Wrap",),
    "LLR-keep": ("retry_rules.KeptUntilAcknowledged",),
    "LLR-nack": ("retry_rules.NoAckAfterNack",),
    "LLR-duplicate": ("retry_rules.Duplicates",),
    "LLR-timer": ("retry_rules.ReplayTimer",),
    "LLR-loss": ("retry_flow.TwoPercentLost",),
    "LLR-profile": ("retry_rules.InvalidProfiles",),
    "LLR-ports": ("retry_rules.PortsApart",),
}
"""The tests of each case of link-layer retry, likewise."""
LINK_CASES: Final = {**CREDIT_CASES, **RETRY_CASES}
ALL: Final = (*LINK_CASES, *HEADER_GROUPS)


@dataclass(frozen=True)
class Options:
    """What to run, and on what."""

    target: str
    cases: tuple[str, ...] = ALL
    quick: bool = False
    """A few frame sizes only, and one switch for all tests in place of a fresh one for each."""
    program: Path = packet_tests.PROGRAM
    output: Path = OUTPUT
    soak: int = 0
    """Frames of a soak, which then runs instead of the cases."""
    seed: int = 1

    @property
    def run_dir(self) -> Path:
        """Where the records, the compiled program and logs go."""
        return self.output / self.target

    def packet_tests(self, folder: Path) -> packet_tests.Options:
        """Return the options with which ptf runs the tests of a folder."""
        return packet_tests.Options(
            self.target, tests=folder, program=self.program, run_dir=self.run_dir, verbose=False
        )  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- the switch


class _P4Switch(P4SwitchNode):
    """p4switch with one slow port; its clock comes from the tester."""

    def command(self) -> list[str]:
        slow = ("--port-rate", f"{SLOW_PORT}={SLOW_RATE}", "--port-depth", f"{SLOW_PORT}={SLOW_DEPTH}")
        return [*super().command(), *slow]


class _Bmv2(Bmv2Switch):
    """BMv2 with the same, set through Thrift once it serves."""

    def wait_ready(self, timeout_s: float = CONTROL_PLANE_S) -> None:
        super().wait_ready(timeout_s)
        done = subprocess.run(
            ["simple_switch_CLI", "--thrift-port", str(self.thrift_port)],
            input=f"set_queue_depth {SLOW_DEPTH} {SLOW_PORT}\nset_queue_rate {SLOW_RATE} {SLOW_PORT}\n",
            capture_output=True, text=True, check=False, timeout=CONTROL_PLANE_S,
        )  # fmt: skip
        if done.returncode or "Error" in done.stdout:
            self.fail(f"refused the slow port's queue ({(done.stderr or done.stdout).strip()[-200:]})")


_SWITCHES: Final = {"p4switch": _P4Switch, "bmv2": _Bmv2}


class ConformanceBench(Bench):
    """A switch with that slow port, and a cable on each port whose other end ptf holds."""

    def __init__(self, options: Options, artefacts: Artefacts) -> None:
        super().__init__(options.packet_tests(CASES), artefacts)
        node = _SWITCHES[options.target]
        self.switch = node("s1", device_id=packet_tests.DEVICE_ID, run_dir=options.run_dir)

    def start_switch(self) -> None:
        super().start_switch()
        assert self.switch.process is not None
        os.environ[SWITCH_PID] = str(self.switch.process.pid)
        if isinstance(self.switch, Bmv2Switch):
            os.environ[THRIFT_PORT] = str(self.switch.thrift_port)

    def start_anew(self) -> None:
        """Go on with a switch that knows nothing of what came before, on the same cables."""
        self.switch.stop_process()
        self.start_switch()


# -------------------------------------------------------------------------------------------------------------- the run


class Progress:
    """Shows each record as it is written, and keeps it."""

    def __init__(self, console: Console, journal: Journal) -> None:
        self._console = console
        self._journal = journal
        self._lock = threading.Lock()
        self.records: list[Record] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follow the journal until the block ends."""
        done = threading.Event()

        def follow() -> None:
            while not done.wait(0.1):
                self.take()

        thread = threading.Thread(target=follow, name="journal")
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self.take()

    def take(self) -> None:
        """Take what is new in the journal."""
        with self._lock:
            for record in self._journal.new():
                self.add(record)

    def add(self, record: Record) -> None:
        """Show and keep a record."""
        self.records.append(record)
        size = "" if record.frame_size is None else f"{record.frame_size:>5} B"
        shown = "; ".join(f"{name} {value}" for name, value in record.configuration.items())
        colour, verdict = ("green", "pass") if record.passed else ("red", "FAIL")
        self._console.print(f"[{colour}]{verdict}[/{colour}] {record.case:13} {size:8} {shown}", soft_wrap=True)
        if not record.passed:
            self._console.print(f"     [red]{record.failures()}[/red]", soft_wrap=True)


def run_cases(options: Options, artefacts: Artefacts, console: Console) -> int:
    """Run the cases on one switch, write the records, and return the exit status."""
    started = time.monotonic()
    path = options.run_dir / "journal.jsonl"
    path.unlink(missing_ok=True)
    os.environ[JOURNAL] = str(path)
    os.environ.pop(QUICK, None)
    if options.quick:
        os.environ[QUICK] = "1"
    progress = Progress(console, Journal(path))
    tests = {test: case for case in options.cases if case in LINK_CASES for test in LINK_CASES[case]}
    alone = [{test: case} for test, case in tests.items()]
    with ConformanceBench(options, artefacts) as bench:
        with progress.watching():
            for some in [tests] if options.quick and tests else alone:
                _run_tests(bench, some, progress)
                bench.start_anew()  # no case depends on what another one left
        for group in (case for case in options.cases if case in HEADER_GROUPS):
            progress.add(_run_group(bench, options, group))
        noticed = _failures_are_noticed(bench, path)
        alive = bench.running()
    records = sorted(progress.records, key=lambda record: ALL.index(record.case))
    return _report(options, records, noticed and alive, time.monotonic() - started, console)


def run_soak(options: Options, console: Console) -> int:
    """Run the soak in a fabric of its own, write its record, and return the exit status."""
    where, rng = options.run_dir, random.Random(options.seed)
    given = FabricOptions(
        topo=soak.TOPO, target=options.target, links="managed", program=options.program, run_dir=where / "soak"
    )
    console.print(f"soak of {options.soak:,} frames on {options.target}, seed {options.seed}")
    with (
        FabricSession(given, FabricProgress(console), soak.SETTING) as session,
        Stations(session, rng) as stations,
    ):
        try:
            record = soak.Soak(session, stations, options.soak, rng).run(console)
        except Stuck as stuck:
            record = Record(soak.CASE, None, {"seed": options.seed}, (exact("ran to its end", 1, 0, ""),), str(stuck))
    write_json(where / "soak.json", [record], target=options.target, passed=record.passed, seed=options.seed)
    write_csv(where / "soak.csv", [record])
    for figure in record.figures:
        console.print(f"  {figure.name:<44} {figure.measured:>12,} {figure.unit}", soft_wrap=True)
    console.print(f"soak on {options.target}: {record.failures() or 'passed'}; {record.notes}", soft_wrap=True)
    console.print(str(where / "soak.json"), soft_wrap=True)
    return 0 if record.passed else 1


def _run_tests(bench: ConformanceBench, tests: dict[str, str], progress: Progress) -> None:
    """Run tests, given with the case of each.

    A test that ends without a failed record of its case though it failed gets one.
    """
    progress.take()
    before = len(progress.records)
    result = bench.ptf(CASES, list(tests))
    whole = result.ran == len(tests) and bench.running()
    progress.take()
    failed = set(re.findall(r"^(?:FAIL|ERROR): (\S+)", result.report, re.MULTILINE))
    for test, case in tests.items():
        written = [record for record in progress.records[before:] if record.case == case]
        wrong = test in failed or not whole or not written or (result.status and not failed)
        if wrong and all(record.passed for record in written):
            ran = exact("test ran to its end", 1, 0, "")
            progress.add(Record(case, None, {"test": test}, (ran,), _end_of(result, test)))


def _run_group(bench: Bench, options: Options, group: str) -> Record:
    """Run the packet tests of a header group and make its record."""
    module, policy = HEADER_GROUPS[group]
    tests = [
        name for name in list_tests(options.packet_tests(packet_tests.CASES)) if name.startswith(f"{module}.")
    ]  # fmt: skip
    result = bench.ptf(packet_tests.CASES, tests)
    failed = len(set(re.findall(r"^(?:FAIL|ERROR): (\S+)", result.report, re.MULTILINE)))
    passed = result.ran - failed
    if result.status and not failed:
        passed = 0
    notes = f"{policy}; packet tests {', '.join(tests)}" + (f"\n{_end_of(result)}" if result.status else "")
    return Record(
        group,
        None,
        {"tests": f"ptf_tests/cases/{module}.py"},
        (exact("tests passed", max(1, len(tests)), passed, "tests"),),
        notes,
    )


def _end_of(result: PtfResult, test: str = "") -> str:
    """Return the end of ptf's report, from a test's failure on; without one, from the first on."""
    report = result.report.strip()
    start = re.search(rf"^(FAIL|ERROR): {re.escape(test)}", report, re.MULTILINE)
    return report[start.start() if start else 0 :][-2000:]


def _failures_are_noticed(bench: Bench, journal: Path) -> bool:
    """Run the cases that have to fail: if one passes, or its record does, failures would go unnoticed."""
    journal.unlink(missing_ok=True)
    result = bench.ptf(MUST_FAIL, ["all"])
    records = Journal(journal).new()
    if result.status and result.ran == result.failures == len(records) > 0 and not any(r.passed for r in records):
        return True
    print(f"the cases that have to fail did not (exit status {result.status}):\n{result.report}", file=sys.stderr)
    return False


def _report(options: Options, records: Sequence[Record], sound: bool, seconds: float, console: Console) -> int:
    """Write the records and the verdict; return the exit status."""
    missing = [case for case in options.cases if not any(record.case == case for record in records)]
    failed = [record for record in records if not record.passed]
    passed = sound and not missing and not failed
    where = options.run_dir
    about = {"target": options.target, "passed": passed, "cases": list(options.cases), "duration_s": round(seconds, 1)}
    write_json(where / "records.json", records, **about)
    write_csv(where / "records.csv", records)
    for case in missing:
        console.print(f"[red]no record of {case}[/red]")
    console.print(
        f"conformance on {options.target}: {len(records) - len(failed)} of {len(records)} records passed, "
        f"{len(options.cases)} cases, {'passed' if passed else 'FAILED'}, {seconds:.0f} s"
    )
    console.print(f"{where / 'records.json'}\n{where / 'records.csv'}", soft_wrap=True)
    return 0 if passed else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m ptf_tests.conformance", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument(
        "--target",
        default=os.environ.get("P4_TARGET", "p4switch"),
        help="the switch to test: p4switch or bmv2 (default: the environment's P4_TARGET, else p4switch)",
    )
    parser.add_argument(
        "--case", action="append", default=[], metavar="CASE", help="run this case only; may be repeated (see --list)"
    )
    parser.add_argument("--quick", action="store_true", help="a few frame sizes, and one switch for all cases")
    parser.add_argument(
        "--soak", type=int, default=0, metavar="FRAMES", help="run a soak of so many frames instead, such as 1000000"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the soak's random choices (1)")
    parser.add_argument("--program", type=Path, default=packet_tests.PROGRAM, metavar="FILE", help="another program")
    parser.add_argument(
        "--output", type=Path, default=OUTPUT, metavar="DIR", help="where results go (build/conformance)"
    )
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    given = parser.parse_args(arguments)
    if given.list:
        print("\n".join(ALL))
        return 0
    if given.target not in SWITCHES:
        parser.error(f"P4_TARGET={given.target} is none of {', '.join(sorted(SWITCHES))}")
    unknown = [case for case in given.case if case not in ALL]
    if unknown:
        parser.error(f"there is no case {', '.join(unknown)}; there are {', '.join(ALL)}")
    cases = tuple(case for case in ALL if not given.case or case in given.case)
    if given.soak and not SOAK_LEAST <= given.soak <= SOAK_MOST:
        parser.error(f"--soak {given.soak} is out of range: {SOAK_LEAST:,} to {SOAK_MOST:,} frames")
    options = Options(
        given.target, cases, given.quick, given.program.absolute(), given.output.absolute(), given.soak, given.seed
    )
    try:
        options.run_dir.mkdir(parents=True, exist_ok=True)
        if os.geteuid() != 0:
            raise LaunchError("the conformance cases need root, for cables and raw sockets.", "Run them with sudo.")
        if options.soak:
            return run_isolated(_guarded(lambda: run_soak(options, Console(highlight=False))))
        artefacts = compile_program(options.packet_tests(CASES))
        return run_isolated(_guarded(lambda: run_cases(options, artefacts, Console(highlight=False))))
    except (LaunchError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def _guarded(run: Callable[[], int]) -> Callable[[], int]:
    """Return a run as it happens inside the namespaces, where an error has to become an exit status."""

    def body() -> int:
        try:
            return run()
        except (LaunchError, OSError) as error:
            print(error, file=sys.stderr)
            return 1

    return body
