"""Checks of managed links inside a fabric's namespaces: what dies under load comes back with its credits right.

They are part of `tests.fabric.inside`, which runs them.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from controller.credits import LinkState, PortCredits
from topologies.nodes import REPOSITORY, project_python
from topologies.options import Options
from topologies.progress import Progress
from topologies.session import FabricSession

KEEPALIVES_S = 3 * 0.010
READ_S = {"p4switch": 0.25, "bmv2": 1.0}
"""What reading may take on a busy machine, on top: registers, or probes that the controller sends, five a second."""

SERVER = """
import sys
from endpoint import Gpu
with Gpu.from_environment() as gpu:
    gpu.register(1 << 16)
    print("up", flush=True)
    sys.stdin.readline()
"""
WRITER = """
import json, sys, threading, time
from endpoint import Gpu
from endpoint.errors import EndpointError
from endpoint.options import EndpointOptions
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
done = failed = since = 0
with Gpu.from_environment(options=EndpointOptions(timeout_s=0.7, max_rto_s=0.3)) as gpu:
    gpu.register(1 << 16)
    print("up", flush=True)
    while not stop.is_set():
        data = gpu.id.to_bytes(1, "big") * 256
        try:
            gpu.store_many(1, [(gpu.id * 4096 + 256 * (n % 16), data) for n in range(64)])
            done += 64
            since += 64
        except EndpointError:
            failed, since = failed + 1, 0
            time.sleep(0.01)  # without a plane an access fails at once
    print(json.dumps({"done": done, "failed": failed, "since_last_failure": since}), flush=True)
    sys.stdin.readline()
"""


class Program:
    """A Python program as one GPU of the fabric."""

    def __init__(self, session: FabricSession, gpu: str, source: str) -> None:
        assert session.ranks is not None
        self.process = subprocess.Popen(
            ["nsenter", f"--net=/proc/{session.ranks.hosts[gpu].pid}/ns/net", "--", project_python(), "-c", source],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY,
            env=session.ranks.environment(session.fabric.gpu(gpu).id),
        )  # fmt: skip
        assert self.line() == "up"

    def line(self) -> str:
        """Wait for a line of its output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self) -> None:
        """Let it go on to its next step."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Let it end, and check that it does so well."""
        self.tell()
        assert self.process.wait(10) == 0

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()


def managed_session(run_dir: Path, target: str) -> FabricSession:
    """Return a fabric with managed links that has not been entered yet."""
    options = Options(topo="planes,3,1", target=target, links="managed", run_dir=run_dir, timeout_s=40)
    return FabricSession(options, Progress(Console(highlight=False)))


def await_ports(
    session: FabricSession, what: str, condition: Callable[[PortCredits], bool], timeout_s: float
) -> dict[int, PortCredits]:
    """Wait until a condition holds for every port of s1, and return the credits then."""
    deadline = time.monotonic() + timeout_s
    while True:
        ports = session.credits()["s1"]
        if ports and all(map(condition, ports.values())):
            return ports
        assert time.monotonic() < deadline, f"not so after {timeout_s:g} s: {what}; {ports}"


def ready(port: PortCredits) -> bool:
    """Whether data may be sent on the link."""
    return port.state is LinkState.READY


def nothing_in_use(port: PortCredits) -> bool:
    """Whether all credits of the link are free again, in both directions, and nothing is held for it."""
    return not any((*port.sender_credits_used, *port.receiver_credits_used, *port.held_frames))


def _under_load(run_dir: Path, target: str, harm: Callable[[FabricSession, Program], Program]) -> None:
    with managed_session(run_dir, target) as session:
        server = Program(session, "g1", SERVER)
        writers = [Program(session, gpu, WRITER) for gpu in ("g2", "g3")]
        await_ports(session, "all links are ready", ready, 10)
        time.sleep(0.5)
        epochs = {number: port.own_epoch for number, port in session.credits()["s1"].items()}
        server = harm(session, server)
        returned = await_ports(session, "all links are ready again", ready, 10)
        assert returned[1].own_epoch != epochs[1], "a new session"
        time.sleep(2.5)  # longer than an access may take: what failed, failed before
        for writer in writers:
            writer.tell()
        reports = [json.loads(writer.line()) for writer in writers]
        await_ports(session, "all credits are free", nothing_in_use, KEEPALIVES_S + READ_S[target])
        for report in reports:
            assert report["since_last_failure"] > 500, report
        counters = session.counters()["s1"]
        assert not any(port.drops.get("over_limit") for port in counters.values())
        for program in (server, *writers):
            program.end()


def endpoint_killed(run_dir: Path, target: str) -> None:
    """Kill a GPU that others store to, start it anew: the link comes back, and no credit is missing or too many."""

    def harm(session: FabricSession, server: Program) -> Program:
        server.kill()
        time.sleep(0.3)  # until the switch has noticed; the others go on
        return Program(session, "g1", SERVER)

    _under_load(run_dir, target, harm)


def switch_killed(run_dir: Path, target: str) -> None:
    """Kill the switch under load, start it anew: all links come back, with their credits."""

    def harm(session: FabricSession, server: Program) -> Program:
        process = session.switches["s1"].process
        assert process is not None
        process.kill()
        process.wait()
        session.restart_switch("s1")
        return server

    _under_load(run_dir, target, harm)
