"""Run the packet tests: cables, a switch, the program, stock `ptf` - and leave nothing behind.

    python -m ptf_tests.run [--target p4switch|bmv2] [--filter TEXT ...] [--list] [--tests DIR] [--program FILE]

Everything lives in network and process namespaces of its own, which the kernel clears away with the last process on
every way out. The exit status is 0 only if at least one test ran, all passed, and the must-fail check failed as it has
to, which proves that a failure is noticed. Logs are under build/ptf/TARGET/.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ptf_tests.p4runtime import Names, P4RuntimeClient, P4RuntimeError
from topologies.errors import LaunchError
from topologies.namespace import run_isolated
from topologies.nodes import REPOSITORY, SWITCHES, FabricIntf, FabricLink, FabricSwitch, PortQueue, last_lines
from topologies.options import TOOLS
from topologies.session import Artefacts, compile_command

PROGRAM: Final = REPOSITORY / "p4src" / "ethlink.p4"
TESTS: Final = REPOSITORY / "ptf_tests"
CASES: Final = TESTS / "cases"
MUST_FAIL: Final = TESTS / "must_fail"
OUTPUT: Final = REPOSITORY / "build" / "ptf"
DEVICE_ID: Final = 1
SLOW_PORT: Final = 9
"""A data port that sends 20 small frames per second, to see what waits in a port's queue."""
SLOW_QUEUE: Final = PortQueue(frames_per_s=20, frame_bytes=48, depth=64)
PORTS: Final = (*range(1, 9), SLOW_PORT, 507)
"""Data ports, and the port on which the switch is told what its target senses: a cable plays the target here."""
TEST_TIMEOUT_S: Final = 60
RUN_TIMEOUT_S: Final = 600
SOCKET_RECV_BYTES: Final = 9216  # ptf's default of 4,096 cuts the largest frames


@dataclass(frozen=True)
class Options:
    """What to run, and on what."""

    target: str
    """A key of `topologies.nodes.SWITCHES`."""
    filters: tuple[str, ...] = ()
    """Run the tests whose name contains one of these; none: all."""
    tests: Path = CASES
    """Folder with the tests."""
    program: Path = PROGRAM
    """The switch program; another one than p4src/ethlink.p4 to see which tests notice a change to it."""
    run_dir: Path = OUTPUT
    """Where the compiled program, logs and reports go."""
    verbose: bool = False
    """Print ptf's report also when all tests pass."""


def compile_program(options: Options) -> Artefacts:
    """Compile the switch program for its target; raise LaunchError with the compiler's words, warnings included."""
    target, program = options.target, options.program
    suffix = ".json" if target == "bmv2" else ".p4bin"
    folder = options.run_dir
    artefacts = Artefacts(folder / f"{program.stem}.p4info.txtpb", folder / f"{program.stem}{suffix}")
    command = compile_command(target, program, artefacts)
    missing = [tool for tool in (*TOOLS[target], command[0]) if shutil.which(tool) is None]
    if missing:
        raise LaunchError(f"the packet tests on {target} need {', '.join(missing)}, which is not on the PATH.")
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    said = (done.stdout + done.stderr).strip()
    if done.returncode or "warning" in said:
        what = "does not compile" if done.returncode else "compiles with warnings, and should not"
        raise LaunchError(f"{program} {what} for {target}:\n{said}")
    return artefacts


@dataclass(frozen=True)
class PtfResult:
    """How a run of ptf ended: its exit status, and its whole output."""

    status: int
    report: str

    def number(self, pattern: str) -> int:
        """Return the number that a line of the report gives, 0 without such a line."""
        found = re.search(pattern, self.report, re.MULTILINE)
        return int(found[1]) if found else 0

    @property
    def ran(self) -> int:
        """How many tests ran."""
        return self.number(r"^Ran (\d+) tests?")

    @property
    def failures(self) -> int:
        """How many tests failed by their own checks, 0 if any ended by an error instead."""
        return self.number(r"^FAILED \(failures=(\d+)\)$")


class Bench:
    """A switch with a cable on each port whose other end ptf holds."""

    def __init__(self, options: Options, artefacts: Artefacts) -> None:
        self.artefacts = artefacts
        self.run_dir = options.run_dir
        self.switch: FabricSwitch = SWITCHES[options.target]("s1", device_id=DEVICE_ID, run_dir=options.run_dir)
        self.switch.queues[SLOW_PORT] = SLOW_QUEUE
        self.interfaces = {port: f"ptf{port}" for port in PORTS}

    def __enter__(self) -> Self:
        self.switch.log_path.unlink(missing_ok=True)
        for port, name in self.interfaces.items():
            FabricLink.makeIntfPair(name, f"s1-eth{port}", deleteIntfs=False)
            FabricIntf(f"s1-eth{port}", node=self.switch, port=port)
        self.start_switch()
        return self

    def start_switch(self) -> None:
        """Start the switch, which remembers nothing of an earlier start, and push the program."""
        try:
            self.switch.start()
            self.switch.wait_ready()
            with P4RuntimeClient(self.switch.grpc, DEVICE_ID, Names.load(self.artefacts.p4info.read_text())) as client:
                client.set_pipeline(self.artefacts.config.read_bytes())
        except P4RuntimeError as error:
            shown = last_lines(self.switch.log_path)
            self.switch.stop_process()
            raise LaunchError(
                f"the switch did not take the program: {error}. The last lines of its log:",
                f"The whole log: {self.switch.log_path}",
                shown,
            ) from None
        except BaseException:
            self.switch.stop_process()
            raise

    def __exit__(self, *_exc: object) -> None:
        self.switch.stop_process()

    def ptf(self, folder: Path, tests: Sequence[str]) -> PtfResult:
        """Run stock ptf on tests of a folder; its report is kept in the run's directory."""
        params = f"grpc='{self.switch.grpc}';device_id={DEVICE_ID};p4info='{self.artefacts.p4info}'"
        command = [
            *_ptf_command(folder),
            *(word for port, name in self.interfaces.items() for word in ("-i", f"{port}@{name}")),
            *(
                "--test-params",
                params,
                "--log-file",
                str(self.run_dir / f"{folder.name}.log"),
                "--test-case-timeout",
                str(TEST_TIMEOUT_S),
            ),
            *("--socket-recv-size", str(SOCKET_RECV_BYTES), "--qlen", "20000", "-q", *tests),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, cwd=REPOSITORY, timeout=RUN_TIMEOUT_S
            )
        except subprocess.TimeoutExpired as error:
            said = b"".join(part for part in (error.stderr, error.stdout) if part).decode(errors="replace")
            raise LaunchError(f"ptf did not end within {RUN_TIMEOUT_S} s; so far it said:\n{said}") from None
        report = done.stderr + done.stdout
        (self.run_dir / f"{folder.name}.txt").write_text(report)
        return PtfResult(done.returncode, report)

    def running(self) -> bool:
        """Tell whether the switch outlived the tests; show the end of its log if not."""
        if self.switch.running:
            return True
        print(f"the switch has died; the last lines of {self.switch.log_path}:", file=sys.stderr)
        print("\n".join(last_lines(self.switch.log_path)), file=sys.stderr)
        return False


def _ptf_command(folder: Path) -> list[str]:
    ptf = Path(sys.prefix) / "bin" / "ptf"
    if not ptf.exists():
        raise LaunchError(f"{ptf} is missing.", "Install the test dependencies: pip install -e .[test]")
    return [sys.executable, str(ptf), "--pypath", str(REPOSITORY), "--test-dir", str(folder)]


def list_tests(options: Options) -> list[str]:
    """Return the names of the tests to run, `file.Class`; raise LaunchError if there are none."""
    command = [*_ptf_command(options.tests), "--log-file", str(options.run_dir / "list.log"), "--list-test-names"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    if done.returncode:
        raise LaunchError(f"ptf cannot load the tests:\n{(done.stdout + done.stderr).strip()}")
    names = sorted(line for line in done.stdout.splitlines() if re.fullmatch(r"\w+\.\w+", line))
    chosen = [name for name in names if not options.filters or any(part in name for part in options.filters)]
    if not chosen:
        raise LaunchError(f"no test's name contains {' or '.join(options.filters)}; there are {', '.join(names)}.")
    return chosen


def run_tests(options: Options, artefacts: Artefacts) -> int:
    """Run the tests and the must-fail check on one switch; return the exit status."""
    tests = list_tests(options)
    started = time.monotonic()
    with Bench(options, artefacts) as bench:
        result = bench.ptf(options.tests, tests)
        passed = result.status == 0 and result.ran == len(tests)
        if not passed or options.verbose:
            print(result.report)
        passed = bench.running() and passed and _failure_is_noticed(bench)
    seconds = time.monotonic() - started
    verdict = "passed" if passed else "FAILED"
    print(
        f"packet tests on {options.target}: {result.ran} of {len(tests)} ran, {verdict}, {seconds:.1f} s"
        f" (logs: {options.run_dir})"
    )
    return 0 if passed else 1


def _failure_is_noticed(bench: Bench) -> bool:
    """Run the tests that must fail: if one passes, or ptf exits with 0, failures would go unnoticed."""
    result = bench.ptf(MUST_FAIL, ["all"])
    if result.status != 0 and result.ran == result.failures > 0:
        return True
    print(f"the must-fail check did not fail as it has to (exit status {result.status}):\n{result.report}")
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m ptf_tests.run", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--target",
        choices=sorted(SWITCHES),
        default=os.environ.get("P4_TARGET", "p4switch"),
        help="the switch to test (default: the environment's P4_TARGET, else p4switch)",
    )
    parser.add_argument(
        "--filter", action="append", default=[], metavar="TEXT", help="run tests whose name contains TEXT"
    )
    parser.add_argument("--tests", type=Path, default=CASES, metavar="DIR", help="run the tests of another folder")
    parser.add_argument("--program", type=Path, default=PROGRAM, metavar="FILE", help="test another switch program")
    parser.add_argument("--run-dir", type=Path, metavar="DIR", help="where logs and reports go (build/ptf/TARGET)")
    parser.add_argument("--list", action="store_true", help="print the tests' names and stop")
    parser.add_argument("--verbose", action="store_true", help="print ptf's report also when all tests pass")
    given = parser.parse_args(arguments)
    if given.target not in SWITCHES:
        parser.error(f"P4_TARGET={given.target} is none of {', '.join(sorted(SWITCHES))}")
    options = Options(
        target=given.target,
        filters=tuple(given.filter),
        tests=given.tests.absolute(),
        program=given.program.absolute(),
        run_dir=(given.run_dir or OUTPUT / given.target).absolute(),
        verbose=given.verbose,
    )
    try:
        options.run_dir.mkdir(parents=True, exist_ok=True)
        if given.list:
            print("\n".join(list_tests(options)))
            return 0
        if os.geteuid() != 0:
            raise LaunchError("the packet tests need root, for cables and raw sockets.", "Run them with sudo.")
        artefacts = compile_program(options)
        return run_isolated(lambda: _guarded(options, artefacts))
    except (LaunchError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def _guarded(options: Options, artefacts: Artefacts) -> int:
    """Run the tests inside the namespaces, where an error has to become an exit status."""
    try:
        return run_tests(options, artefacts)
    except (LaunchError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
