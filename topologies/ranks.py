"""Run one program on every GPU at once, as MPI runs ranks, and gather what each reports."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from codec.fabric import Fabric
from topologies.errors import LaunchError
from topologies.nodes import REPOSITORY, GpuHost, last_lines, project_python

GRACE_S: Final = 10.0
"""How long the others may go on after the first rank has failed: they may be about to report why."""
STOP_S: Final = 3.0


@dataclass(frozen=True)
class Phase:
    """One program for all ranks: its name, and Python's arguments. `script` ranks may print, and report no results."""

    name: str
    arguments: tuple[str, ...]
    script: bool = False


@dataclass
class RankResult:
    """What became of one rank: exit status (negative: the signal), its report, and its log."""

    gpu: str
    status: int
    log: Path
    report: dict[str, Any] = field(default_factory=dict)


def traffic_phase(scenario: str, extra: Sequence[str] = ()) -> Phase:
    """Return the phase that runs one pattern of the traffic command."""
    return Phase(scenario, ("-m", "endpoint", scenario, *extra))


def training_phase(profile: Path) -> Phase:
    """Return the phase that runs a training profile."""
    return Phase("training", ("-m", "endpoint", "profile", str(profile)))


def script_phase(script: Path) -> Phase:
    """Return the phase that runs a user's program."""
    return Phase(script.name, (str(script),), script=True)


class RankRunner:
    """Start ranks in the hosts' namespaces; at most one phase runs at a time."""

    def __init__(self, hosts: dict[str, GpuHost], fabric_path: Path, run_dir: Path) -> None:
        self.hosts = hosts
        self.fabric_path = fabric_path
        self.run_dir = run_dir
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, phase: Phase, timeout_s: float | None) -> list[RankResult]:
        """Run `phase` on every GPU and wait for all; the first rank may draw a progress bar on the terminal.

        A rank that fails gives the others a few seconds before they are stopped. Raises LaunchError when a program of
        the project's own overruns `timeout_s` (None: no limit).
        """
        fabric = Fabric.load(self.fabric_path)
        results_dir = self.run_dir / "results"
        logs_dir = self.run_dir / "logs"
        results_dir.mkdir(parents=True, exist_ok=True)
        logs_dir.mkdir(parents=True, exist_ok=True)
        ranks: dict[str, RankResult] = {}
        printers: list[threading.Thread] = []
        first = min(fabric.gpus, key=lambda gpu: gpu.id).name
        try:
            for gpu in fabric.gpus:
                report = results_dir / f"{phase.name}-{gpu.name}.json"
                report.unlink(missing_ok=True)
                log = logs_dir / f"{phase.name}-{gpu.name}.log"
                show = phase.script or (gpu.name == first and sys.stdout.isatty())
                command = [project_python(), *phase.arguments]
                if not phase.script:
                    command += ["--json", str(report)]
                self._running[gpu.name] = process = self._start(gpu.name, gpu.id, command, log, phase.script, show)
                ranks[gpu.name] = RankResult(gpu.name, 0, log)
                if process.stdout is not None:
                    printer = threading.Thread(target=_print_lines, args=(gpu.name, process.stdout, log), daemon=True)
                    printer.start()
                    printers.append(printer)
            self._wait(phase, ranks, timeout_s)
        finally:
            self.stop()
            for printer in printers:
                printer.join(STOP_S)
        for name, rank in ranks.items():
            rank.report = _read_report(results_dir / f"{phase.name}-{name}.json")
        return list(ranks.values())

    def stop(self) -> None:
        """Stop every rank that still runs, and wait for them."""
        for process in self._running.values():
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + STOP_S
        for process in self._running.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()

    def environment(self, gpu_id: int) -> dict[str, str]:
        """Return the environment of a rank."""
        venv_bin = str(Path(project_python()).parent)
        return {
            **os.environ,
            "ETHLINK_FABRIC": str(self.fabric_path),
            "ETHLINK_GPU": str(gpu_id),
            "PATH": f"{venv_bin}:{os.environ.get('PATH', '')}",
            "PYTHONUNBUFFERED": "1",
        }

    def prepare_shells(self) -> None:
        """Give the GPUs' own shells a rank's environment, so that `g1 python my.py` at the prompt is one."""
        for gpu in Fabric.load(self.fabric_path).gpus:
            environment = self.environment(gpu.id)
            names = ("ETHLINK_FABRIC", "ETHLINK_GPU", "PATH")
            self.hosts[gpu.name].cmd("export", *(f"{name}={shlex.quote(environment[name])}" for name in names))

    def _start(
        self, gpu: str, gpu_id: int, command: list[str], log: Path, script: bool, show: bool
    ) -> subprocess.Popen[bytes]:
        output: int | IO[bytes]
        with log.open("wb") as log_file:
            if script:
                output = subprocess.PIPE
            elif show:
                output = sys.stdout.fileno()
            else:
                output = log_file
            return subprocess.Popen(
                ["nsenter", f"--net=/proc/{self.hosts[gpu].pid}/ns/net", "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if script else log_file,
                env=self.environment(gpu_id),
                cwd=REPOSITORY if not script else os.getcwd(),
                start_new_session=True,
            )

    def _wait(self, phase: Phase, ranks: dict[str, RankResult], timeout_s: float | None) -> None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        grace: float | None = None
        waiting = set(ranks)
        while waiting:
            for name in sorted(waiting):
                status = self._running[name].poll()
                if status is None:
                    continue
                waiting.discard(name)
                ranks[name].status = status
                if status and grace is None:
                    grace = time.monotonic() + GRACE_S
            now = time.monotonic()
            if grace is not None and now > grace:
                for name in waiting:
                    ranks[name].status = -signal.SIGTERM
                return
            if deadline is not None and now > deadline:
                stuck = ", ".join(sorted(waiting))
                log = ranks[min(waiting)].log
                raise LaunchError(
                    f"{phase.name} did not end within {timeout_s:g} s on {stuck}. The last lines of one log:",
                    f"The logs: {log.parent}",
                    last_lines(log),
                )
            time.sleep(0.01)


def _print_lines(name: str, stream: IO[bytes], log: Path) -> None:
    """Copy a script's output to its log and, with the GPU's name in front, to the terminal."""
    with log.open("ab") as copy:
        for line in stream:
            copy.write(line)
            text = line.decode(errors="replace").rstrip("\n")
            sys.stdout.write(f"{name} | {text}\n")
            sys.stdout.flush()


def _read_report(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
