"""Bring a fabric up inside its namespaces, and take it down again.

`FabricSession` is what the launcher, the tests and the benches use: enter it, run phases, read counters, leave it.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TextIO

import mininet.log
from mininet.net import Mininet

from codec.fabric import Fabric, SwitchNode
from codec.profile import AUTO, LinkProfile
from controller.credits import PortCredits
from controller.event_history import FILE as EVENTS_FILE
from controller.probing import ProbeFiles
from controller.reader import PortCounters, ReadError, SwitchReader
from controller.retry_files import RetryFiles
from controller.status import ControllerStatus, State
from topologies.describe import describe
from topologies.errors import LaunchError
from topologies.nodes import (
    REPOSITORY,
    SWITCHES,
    FabricLink,
    FabricSwitch,
    GpuHost,
    PortQueue,
    last_lines,
    project_python,
)
from topologies.options import Options
from topologies.progress import Progress, count
from topologies.ranks import Phase, RankResult, RankRunner
from topologies.topos import parse_topo

PROGRAM_TIMEOUT_S: Final = 60.0
"""Until all switches are programmed: compiling the program on first use included."""
STOP_S: Final = 3.0
CONTROLLER_LOG: Final = "controller.log"


@dataclass(frozen=True)
class Artefacts:
    """The compiled switch program: P4Info text, and what the target loads."""

    p4info: Path
    config: Path


@dataclass(frozen=True)
class LinkSetting:
    """By which profile managed links are run, and which ports are slowed down.

    By default links have credits, and retry while the controller finds that they lose frames. `slow` is every switch
    port to one of these GPUs, each with a queue of its own.
    """

    profile: LinkProfile = field(default_factory=lambda: LinkProfile(llr=AUTO))
    slow: frozenset[str] = frozenset()
    queue: PortQueue | None = None

    def queues_of(self, switch: SwitchNode) -> dict[int, PortQueue]:
        """Return the ports of a switch that are slowed down, each with its queue."""
        if self.queue is None:
            return {}
        return {port.port: self.queue for port in switch.ports if port.peer in self.slow}


AS_THEY_ARE: Final = LinkSetting()


class FabricSession:
    """A running fabric. Must be entered in namespaces of its own (`topologies.namespace`).

    Raises LaunchError, with the end of the log concerned, when a part does not come up.
    """

    def __init__(self, options: Options, progress: Progress, setting: LinkSetting = AS_THEY_ARE) -> None:
        self.options = options
        self.progress = progress
        self.run_dir = options.run_dir
        self.fabric_path = self.run_dir / "fabric.json"
        self.status_path = self.run_dir / "controller.json"
        self.logs = self.run_dir / "logs"
        self.topo = parse_topo(options.topo)
        self.setting = setting
        self.fabric = self._description()
        self.net: Mininet | None = None
        self.ranks: RankRunner | None = None
        self._controller: subprocess.Popen[bytes] | None = None
        self._open_logs: list[TextIO] = []

    def __enter__(self) -> Self:
        try:
            self._bring_up()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def switches(self) -> dict[str, FabricSwitch]:
        """The switch nodes by name."""
        return {switch.name: switch for switch in self.net.switches} if self.net is not None else {}

    def run(self, phase: Phase) -> list[RankResult]:
        """Run a phase on all GPUs; see `RankRunner.run`."""
        assert self.ranks is not None, "the session has not been entered"
        return self.ranks.run(phase, None if phase.script else self.options.timeout_s)

    def counters(self) -> dict[str, dict[int, PortCounters]]:
        """Return every switch's counters by switch and port; a switch that cannot be read is left out, and named."""
        read: dict[str, dict[int, PortCounters]] = {}
        for node in self.fabric.switches:
            with SwitchReader(node) as reader:
                try:
                    read[node.name] = reader.counters()
                except ReadError as error:
                    self.progress.warn(str(error))
        return read

    def credits(self) -> dict[str, dict[int, PortCredits]]:
        """Return the credits of every switch's managed ports, from registers or, on BMv2, from the controller's probes.

        Raises ReadError and NoAnswers.
        """
        if self.options.target == "bmv2":
            return ProbeFiles(self.run_dir).read()
        read = {}
        for node in self.fabric.switches:
            with SwitchReader(node) as reader:
                read[node.name] = reader.credits()
        return read

    def wait_programmed(self, timeout_s: float = PROGRAM_TIMEOUT_S) -> ControllerStatus:
        """Wait until the controller reports every switch as programmed, and return its report."""
        deadline = time.monotonic() + timeout_s
        while True:
            status = ControllerStatus.load(self.status_path)
            if status is not None and status.ready:
                return status
            if status is not None:
                for name, switch in status.switches.items():
                    if switch.state is State.FAILED:
                        self._controller_fault(f"The controller cannot program switch {name}: {switch.error}")
            for node in self.switches.values():
                if not node.running:
                    node.fail("has stopped while the controller was programming it")
            if self._controller is None or self._controller.poll() is not None:
                self._controller_fault("The controller has stopped.")
            if time.monotonic() > deadline:
                states = "no report yet" if status is None else ", ".join(
                    f"{name} {switch.state}" for name, switch in status.switches.items()
                )  # fmt: skip
                self._controller_fault(f"The switches are not programmed after {timeout_s:g} s ({states}).")
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop everything that the session started. What is left of cables and namespaces ends with the process."""
        if self.ranks is not None:
            self.ranks.stop()
        if self._controller is not None:
            _stop_process(self._controller)
            self._controller = None
        if self.net is not None:
            for switch in self.net.switches:  # all at once, then one by one
                if switch.running:
                    switch.process.terminate()
            for node in (*self.net.switches, *self.net.hosts):
                with contextlib.suppress(OSError):
                    node.stop()
            self.net = None
        for log in self._open_logs:
            log.close()
        self._open_logs.clear()

    def restart_switch(self, name: str) -> ControllerStatus:
        """Stop a switch's process, start it anew, and wait until the controller has programmed it again."""
        status = ControllerStatus.load(self.status_path)
        before = status.switches[name].boots if status is not None else 0
        self.switches[name].restart()
        deadline = time.monotonic() + PROGRAM_TIMEOUT_S
        while True:
            status = self.wait_programmed()
            if status.switches[name].boots > before:
                return status
            if time.monotonic() > deadline:
                self._controller_fault(f"The controller has not programmed {name} again.")
            time.sleep(0.01)

    def reconfigure(self, setting: LinkSetting) -> None:
        """Start all switches and the controller anew with another setting of the links; the cables stay."""
        self.stop_controller()
        self.setting = setting
        self.fabric = self._description()
        self.fabric.save(self.fabric_path)
        for switch in self.switches.values():
            switch.stop_process()
        self.status_path.unlink(missing_ok=True)
        self._start_switches()
        self.wait_programmed()

    def _description(self) -> Fabric:
        name = self.options.topo.partition(",")[0]
        return describe(
            self.topo, name, lambda switch: self.logs / f"{switch}.log", self.options.link_mode, self.setting.profile
        )

    def _start_switches(self) -> None:
        """Start all switches and the controller, and wait until the switches serve."""
        nodes = list(self.switches.values())
        for node in nodes:
            node.slow_down(self.setting.queues_of(self.fabric.switch(node.name)))
            node.start()
        self.start_controller()
        for node in nodes:
            node.wait_ready()

    def start_controller(self) -> None:
        """Start the controller's process."""
        artefacts = _artefacts(self.options)
        self._controller = self._spawn(
            [
                *(project_python(), "-m", "controller", "run", "--fabric", str(self.fabric_path)),
                *("--p4info", str(artefacts.p4info), "--config", str(artefacts.config)),
                *("--status", str(self.status_path)),
            ],
            CONTROLLER_LOG,
        )

    def stop_controller(self) -> None:
        """Stop the controller's process alone; the switches go on with what they hold."""
        if self._controller is not None:
            _stop_process(self._controller)
            self._controller = None

    def _bring_up(self) -> None:
        self._empty_run_dir()
        self.fabric.save(self.fabric_path)
        compiling = self._start_compiler()
        with self.progress.step("network") as step:
            self._build_network()
            cables = len(self.topo.links())
            parts = ((len(self.fabric.gpus), "GPU"), (len(self.fabric.switches), "switch"), (cables, "cable"))
            step.done(", ".join(count(*part) for part in parts))
        with self.progress.step("program") as step:
            self._await_compiler(compiling)
            step.done(f"{_shown(self.options.program)} compiled for {self.options.target}")
        with self.progress.step("switches") as step:
            self._start_switches()
            nodes = list(self.switches)
            names = " ".join(nodes[:8]) + (" ..." if len(nodes) > 8 else "")
            step.done(f"P4Runtime on {names}")
        with self.progress.step("controller") as step:
            status = self.wait_programmed()
            entries = sum(switch.entries for switch in status.switches.values())
            step.done(f"{count(len(status.switches), 'switch')} programmed, {entries:,} table entries")

    def _empty_run_dir(self) -> None:
        """Remove what an earlier run left, by name: the directory may be one that the user chose."""
        for name in ("logs", "results", "pcap", "incarnations", "program"):
            shutil.rmtree(self.run_dir / name, ignore_errors=True)
        for name in ("summary.json", "controller.json", "fabric.json", "cuts.json", EVENTS_FILE):
            (self.run_dir / name).unlink(missing_ok=True)
        RetryFiles(self.run_dir).forget()
        self.logs.mkdir(parents=True)

    def _build_network(self) -> None:
        mininet.log.setLogLevel("critical")
        logging.captureWarnings(True)
        # Mininet would raise system-wide limits, which would outlast the run; the fabric needs none of them.
        Mininet.inited = True
        self.net = Mininet(
            topo=self.topo,
            host=GpuHost,
            link=FabricLink,
            switch=lambda name, **params: SWITCHES[self.options.target](
                name,
                run_dir=self.run_dir,
                pcap=self.options.pcap,
                senses=True,
                **params,
            ),
            controller=None,
            build=False,
        )
        try:
            self.net.build()
        except (LaunchError, OSError):
            raise
        except Exception as error:  # Mininet raises nothing more precise
            raise LaunchError(f"Mininet cannot build the network: {error}") from error
        # Keep the switches' ports from being handed to a client as its own before they listen on them. Where /proc/sys
        # cannot be written, whoever probes a port still tells itself from a switch.
        ports = sorted(port for switch in self.net.switches for port in switch.ports_used())
        reserved = f"net.ipv4.ip_local_reserved_ports={','.join(map(str, ports))}"
        subprocess.run(["sysctl", "-qw", reserved], check=False, capture_output=True)
        hosts = {host.name: host for host in self.net.hosts}
        self.ranks = RankRunner(hosts, self.fabric_path, self.run_dir)

    def _start_compiler(self) -> subprocess.Popen[bytes]:
        artefacts = _artefacts(self.options)
        artefacts.config.parent.mkdir(parents=True, exist_ok=True)
        return self._spawn(compile_command(self.options.target, self.options.program, artefacts), "compile.log")

    def _await_compiler(self, compiling: subprocess.Popen[bytes]) -> None:
        if compiling.wait() != 0:
            log = self.logs / "compile.log"
            raise LaunchError(
                f"The switch program {_shown(self.options.program)} does not compile:",
                f"The whole output: {log}",
                last_lines(log, 30),
            )

    def _spawn(self, command: list[str], log_name: str) -> subprocess.Popen[bytes]:
        log = (self.logs / log_name).open("a")
        self._open_logs.append(log)
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=REPOSITORY
        )

    def _controller_fault(self, message: str) -> None:
        log = self.logs / CONTROLLER_LOG
        raise LaunchError(f"{message} The last lines of its log:", f"The whole log: {log}", last_lines(log))


def compile_command(target: str, program: Path, artefacts: Artefacts) -> list[str]:
    """Return the command that compiles a switch program for a target."""
    if target == "bmv2":
        return ["p4c-bm2-ss", "--arch", "v1model", "--p4runtime-files", str(artefacts.p4info),
                "-o", str(artefacts.config), str(program)]  # fmt: skip
    return [project_python(), "-m", "p4switch", "compile", str(program), "-o", str(artefacts.config.parent)]


def _artefacts(options: Options) -> Artefacts:
    directory = options.run_dir / "program"
    suffix = ".json" if options.target == "bmv2" else ".p4bin"
    stem = options.program.stem
    return Artefacts(directory / f"{stem}.p4info.txtpb", directory / f"{stem}{suffix}")


def _shown(path: Path) -> str:
    return str(path.relative_to(REPOSITORY)) if path.is_relative_to(REPOSITORY) else str(path)


def _stop_process(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
