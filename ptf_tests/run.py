"""Run the packet tests: cables, a switch, the program, stock `ptf` - and leave nothing behind.

    python -m ptf_tests.run [--target p4switch|bmv2] [--filter TEXT ...] [--list]

Everything lives in network and process namespaces of its own, which the kernel clears away with the last process on
every way out. The exit status is 0 only if at least one test ran, all passed, and the must-fail check failed as it has
to, which proves that a failure is noticed. Logs are under build/ptf/.
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
from typing import Final

from ptf_tests.p4runtime import Names, P4RuntimeClient, P4RuntimeError
from topologies.errors import LaunchError
from topologies.namespace import run_isolated
from topologies.nodes import REPOSITORY, SWITCHES, FabricIntf, FabricLink, FabricSwitch, last_lines, project_python

PROGRAM: Final = REPOSITORY / "p4src" / "ethlink.p4"
TESTS: Final = REPOSITORY / "ptf_tests"
OUTPUT: Final = REPOSITORY / "build" / "ptf"
DEVICE_ID: Final = 1
PORTS: Final = (*range(1, 9), 507)
"""Data ports, and the port on which the switch is told what its target senses: a cable plays the target here."""
TEST_TIMEOUT_S: Final = 60
SOCKET_RECV_BYTES: Final = 9216  # ptf's default of 4,096 cuts the largest frames


@dataclass(frozen=True)
class Options:
    """What to run, and on what."""

    target: str
    """A key of `topologies.nodes.SWITCHES`."""
    filters: tuple[str, ...] = ()
    """Run the tests whose name contains one of these; none: all."""
    suite: str = "cases"
    """Folder of ptf_tests/ with the tests."""
    verbose: bool = False


def compile_program(target: str) -> tuple[Path, Path]:
    """Compile the switch program for a target; return the paths of its P4Info (text) and of what the target loads.

    Raises LaunchError with the compiler's words.
    """
    folder = REPOSITORY / "build" / target
    folder.mkdir(parents=True, exist_ok=True)
    p4info = folder / "ethlink.p4info.txtpb"
    if target == "bmv2":
        config = folder / "ethlink.json"
        command = ["p4c-bm2-ss", "--std", "p4-16", "--p4runtime-files", str(p4info), "-o", str(config), str(PROGRAM)]
        hint = "The bmv2 target needs p4c-bm2-ss and simple_switch_grpc on the PATH; p4switch needs neither."
    else:
        config = folder / "ethlink.p4bin"
        command = [project_python(), "-m", "p4switch", "compile", str(PROGRAM), "-o", str(folder)]
        hint = ""
    if shutil.which(command[0]) is None:
        raise LaunchError(f"{command[0]} is not installed.", hint)
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    said = (done.stdout + done.stderr).strip()
    if done.returncode:
        raise LaunchError(f"cannot compile {PROGRAM.relative_to(REPOSITORY)} for {target}:\n{said}")
    if "warning" in said:
        raise LaunchError(f"the compiler warns about {PROGRAM.relative_to(REPOSITORY)}:\n{said}")
    return p4info, config


class Bench:
    """A switch with a cable on each port whose other end ptf holds."""

    def __init__(self, target: str, p4info: Path, config: Path) -> None:
        self.p4info = p4info
        self.config = config
        self.switch: FabricSwitch = SWITCHES[target]("s1", device_id=DEVICE_ID, run_dir=OUTPUT)
        self.interfaces = {port: f"ptf{port}" for port in PORTS}

    def __enter__(self) -> Bench:
        self.switch.log_path.unlink(missing_ok=True)
        for port, name in self.interfaces.items():
            FabricLink.makeIntfPair(name, f"s1-eth{port}", deleteIntfs=False)
            FabricIntf(f"s1-eth{port}", node=self.switch, port=port)
        try:
            self.switch.start()
            self.switch.wait_ready()
            with P4RuntimeClient(self.switch.grpc, DEVICE_ID, Names.load(self.p4info.read_text())) as client:
                client.set_pipeline(self.config.read_bytes())
        except P4RuntimeError as error:
            self._show_log()
            raise LaunchError(f"the switch did not take the program: {error}") from None
        except BaseException:
            self.switch.stop_process()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.switch.stop_process()

    def _show_log(self) -> None:
        print("\n".join(last_lines(self.switch.log_path)), file=sys.stderr)

    def ptf(self, folder: Path, tests: Sequence[str], log: Path) -> subprocess.CompletedProcess[str]:
        """Run stock ptf on a folder of tests."""
        params = f"grpc='{self.switch.grpc}';device_id={DEVICE_ID};p4info='{self.p4info}'"
        command = [
            *_ptf_command(folder),
            *(word for port, name in self.interfaces.items() for word in ("-i", f"{port}@{name}")),
            *("--test-params", params, "--log-file", str(log), "--test-case-timeout", str(TEST_TIMEOUT_S)),
            *("--socket-recv-size", str(SOCKET_RECV_BYTES), "--qlen", "20000", "-q", *tests),
        ]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)

    def running(self) -> bool:
        """Tell whether the switch outlived the tests; show the end of its log if not."""
        if self.switch.running:
            return True
        print(f"the switch has died; the last lines of {self.switch.log_path}:", file=sys.stderr)
        self._show_log()
        return False


def _ptf_command(folder: Path) -> list[str]:
    ptf = Path(sys.prefix) / "bin" / "ptf"
    if not ptf.exists():
        raise LaunchError(f"{ptf} is missing.", "Install the test dependencies: pip install -e .[test]")
    return [sys.executable, str(ptf), "--pypath", str(REPOSITORY), "--test-dir", str(folder)]


def list_tests(options: Options) -> list[str]:
    """Return the names of the tests to run, `file.Class`; raise LaunchError if there are none."""
    folder = TESTS / options.suite
    log = OUTPUT / "list.log"
    command = [*_ptf_command(folder), "--log-file", str(log), "--list-test-names"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    if done.returncode:
        raise LaunchError(f"ptf cannot load the tests in {folder}:\n{(done.stdout + done.stderr).strip()}")
    names = sorted(line for line in done.stdout.splitlines() if re.fullmatch(r"\w+\.\w+", line))
    chosen = [name for name in names if not options.filters or any(part in name for part in options.filters)]
    if not chosen:
        raise LaunchError(f"no test in {folder} matches {' or '.join(options.filters)!r}; there are {', '.join(names)}")
    return chosen


def run_tests(options: Options, p4info: Path, config: Path) -> int:
    """Run the tests and the must-fail check on one switch; return the exit status."""
    tests = list_tests(options)
    started = time.monotonic()
    with Bench(options.target, p4info, config) as bench:
        done = bench.ptf(TESTS / options.suite, tests, OUTPUT / "ptf.log")
        report = done.stderr + done.stdout
        (OUTPUT / "report.txt").write_text(report)
        ran = re.search(r"^Ran (\d+) tests?", report, re.MULTILINE)
        count = int(ran[1]) if ran else 0
        passed = done.returncode == 0 and count == len(tests)
        if not passed or options.verbose:
            print(report)
        alive = bench.running()
        noticed = alive and _failure_is_noticed(bench)
    seconds = time.monotonic() - started
    verdict = "passed" if passed and noticed else "FAILED"
    print(f"packet tests on {options.target}: {count} of {len(tests)} ran, {verdict}, {seconds:.1f} s ({OUTPUT})")
    return 0 if passed and noticed else 1


def _failure_is_noticed(bench: Bench) -> bool:
    """Run the tests that must fail: one that passes, or a ptf that exits with 0, shows that failures go unnoticed."""
    done = bench.ptf(TESTS / "must_fail", ["all"], OUTPUT / "must_fail.log")
    report = done.stderr + done.stdout
    ran = re.search(r"^Ran (\d+) tests?", report, re.MULTILINE)
    failed = re.search(r"^FAILED \(failures=(\d+)\)", report, re.MULTILINE)
    noticed = done.returncode != 0 and ran is not None and failed is not None and ran[1] == failed[1]
    if not noticed:
        print(f"the must-fail check did not fail as it has to (exit status {done.returncode}):\n{report}")
    return noticed


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
    parser.add_argument("--list", action="store_true", help="print the tests' names and stop")
    parser.add_argument("--verbose", action="store_true", help="print ptf's report also when all tests pass")
    given = parser.parse_args(arguments)
    if given.target not in SWITCHES:
        parser.error(f"P4_TARGET={given.target} is none of {', '.join(sorted(SWITCHES))}")
    options = Options(target=given.target, filters=tuple(given.filter), verbose=given.verbose)
    try:
        OUTPUT.mkdir(parents=True, exist_ok=True)
        if given.list:
            print("\n".join(list_tests(options)))
            return 0
        if os.geteuid() != 0:
            raise LaunchError("the packet tests need root, for cables and raw sockets.", "Run them with sudo.")
        p4info, config = compile_program(options.target)
        return run_isolated(lambda: _guarded(options, p4info, config))
    except (LaunchError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def _guarded(options: Options, p4info: Path, config: Path) -> int:
    """Run the tests inside the namespaces, where an error has to become an exit status."""
    try:
        return run_tests(options, p4info, config)
    except (LaunchError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
