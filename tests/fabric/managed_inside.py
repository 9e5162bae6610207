"""Checks of managed links inside a fabric's namespaces: what dies under load comes back with its credits right.

They are part of `tests.fabric.inside`, which runs them.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from controller.credits import LinkState, PortCredits
from controller.reader import ReadError, SwitchReader
from topologies.nodes import REPOSITORY, project_python
from topologies.options import Options
from topologies.progress import Progress
from topologies.session import FabricSession

KEEPALIVES = 3
"""So many keepalive periods after a link's return its credits are right again. Periods are counted in CF_UPDATEs that
the switch got from the peer: each period brings one."""
_UPDATES = "cbfc_num_cf_update_messages_rx"
READING = 1
"""CF_UPDATEs more, for the reading: the one that the last frame may bring about by itself."""

SERVER = """
import sys, time
from endpoint import Gpu
with Gpu.from_environment() as gpu:
    gpu.register(1 << 16)
    print("up", flush=True)
    sys.stdin.readline()
    until = time.monotonic() + 1  # the last credits come back with a keepalive
    while (used := sum(s.used for link in gpu._links.values() for s in link.senders)) and time.monotonic() < until:
        time.sleep(0.01)
    print(used, flush=True)
    sys.stdin.readline()
"""
WRITER = """
import json, queue, sys, threading, time
from endpoint import Gpu
from endpoint.errors import EndpointError
from endpoint.options import EndpointOptions
told = queue.SimpleQueue()
threading.Thread(target=lambda: [told.put(line) for line in sys.stdin], daemon=True).start()
def store():
    done = failed = since = 0
    while told.empty():
        data = gpu.id.to_bytes(1, "big") * 256
        try:
            gpu.store_many(1, [(gpu.id * 4096 + 256 * (n % 16), data) for n in range(64)])
            done += 64
            since += 64
        except EndpointError:
            failed, since = failed + 1, 0
            time.sleep(0.01)  # without a plane an access fails at once
    report = {"done": done, "failed": failed, "since_last_failure": since, "ended_at": time.monotonic()}
    told.get()
    print(json.dumps(report), flush=True)
    told.get()
with Gpu.from_environment(options=EndpointOptions(timeout_s=0.7, max_rto_s=0.3)) as gpu:
    gpu.register(1 << 16)
    print("up", flush=True)
    store()
    store()
    until = time.monotonic() + 1  # the last credits come back with a keepalive
    while (used := sum(s.used for link in gpu._links.values() for s in link.senders)) and time.monotonic() < until:
        time.sleep(0.01)
    print(used, flush=True)
    told.get()
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


@dataclass(frozen=True)
class Reading:
    """One look at s1: when it began, its ports' credits, and before and after those the CF_UPDATEs that came from each
    port's peer."""

    at: float
    credits: dict[int, PortCredits]
    updates_before: dict[int, int]
    updates_after: dict[int, int]

    def all(self, condition: Callable[[PortCredits], bool]) -> bool:
        """Tell whether a condition holds for every port."""
        return bool(self.credits) and all(map(condition, self.credits.values()))


class Watch:
    """Looks at s1 again and again, and keeps what it saw."""

    def __init__(self, session: FabricSession) -> None:
        self._session = session
        self.readings: list[Reading] = []

    def until(self, what: str, condition: Callable[[], bool], timeout_s: float = 10) -> None:
        """Look until a condition holds."""
        deadline = time.monotonic() + timeout_s
        with SwitchReader(self._session.fabric.switch("s1")) as reader:
            while not condition():
                self._look(reader)
                assert time.monotonic() < deadline, f"not so after {timeout_s:g} s: {what}; {self.readings[-1:]}"

    def now_all(self, condition: Callable[[PortCredits], bool], since: float = 0.0) -> Callable[[], bool]:
        """Return the condition that the newest look, one that began at `since` or later, shows something at every
        port."""

        def shown() -> bool:
            return bool(self.readings) and self.readings[-1].at >= since and self.readings[-1].all(condition)

        return shown

    def _look(self, reader: SwitchReader) -> None:
        try:
            at, before = time.monotonic(), reader.link_counter(_UPDATES)
            registers = self._session.options.target == "p4switch"
            credits = reader.credits() if registers else self._session.credits()["s1"]
            self.readings.append(Reading(at, credits, before, reader.link_counter(_UPDATES)))
        except ReadError:
            time.sleep(0.005)  # it has just been started


def ready(port: PortCredits) -> bool:
    """Whether data may be sent on the link."""
    return port.state is LinkState.READY


def nothing_in_use(port: PortCredits) -> bool:
    """Whether all credits of the link are free again, in both directions, and nothing is held for it."""
    return not any((*port.sender_credits_used, *port.receiver_credits_used, *port.held_frames))


def returned_at(readings: list[Reading]) -> float:
    """Return when the links were seen to be back for good: on a busy machine they may fall silent once more."""
    sessions = [{port: (one.state, one.session) for port, one in reading.credits.items()} for reading in readings]
    last = max((index for index, some in enumerate(sessions) if some != sessions[-1]), default=-1)
    return readings[last + 1].at


def periods_until_right(readings: list[Reading], since: float) -> int:
    """Return how many CF_UPDATEs a port's peer has sent, at most, from `since` to a look that still found credits in
    use there."""
    later = [reading for reading in readings if reading.at >= since]
    first = later[0].updates_after
    wrong = [
        reading.updates_before[port] - first[port]
        for reading in later[1:]
        for port, credits in reading.credits.items()
        if not nothing_in_use(credits)
    ]
    return max([0, *wrong])


def _under_load(run_dir: Path, target: str, harm: Callable[[FabricSession, Program], Program]) -> None:
    with managed_session(run_dir, target) as session:
        server = Program(session, "g1", SERVER)
        writers = [Program(session, gpu, WRITER) for gpu in ("g2", "g3")]
        watch = Watch(session)
        watch.until("all links are ready", watch.now_all(ready))
        time.sleep(0.5)
        epoch = session.credits()["s1"][1].own_epoch
        server = harm(session, server)
        watch = Watch(session)
        watch.until("all links are ready again", watch.now_all(ready))
        assert watch.readings[-1].credits[1].own_epoch != epoch, "a new session"

        # The load ends as the links are back: until its last access is over it uses credits.
        with ThreadPoolExecutor() as pool:
            for writer in writers:
                writer.tell()
            lines = [pool.submit(writer.line) for writer in writers]
            watch.until("the writers end", lambda: all(line.done() for line in lines))
            reports = [json.loads(line.result()) for line in lines]
        ended = max(report["ended_at"] for report in reports)
        watch.until("all credits are free", watch.now_all(nothing_in_use, ended))
        periods = periods_until_right(watch.readings, max(returned_at(watch.readings), ended))
        if target == "p4switch":  # BMv2 is asked by the controller's probes, whose answers may be two seconds old
            assert periods <= KEEPALIVES + READING, f"credits were wrong for {periods} keepalives"
        print(f"credits right after {periods} keepalives at most, {len(watch.readings)} readings", flush=True)

        # And the links carry as much as before.
        for writer in writers:
            writer.tell()
        time.sleep(1.5)
        for writer in writers:
            writer.tell()
        again = [json.loads(writer.line()) for writer in writers]
        for report in again:
            assert report["since_last_failure"] > 500, (reports, again)
        watch.until("all credits are free", watch.now_all(nothing_in_use, time.monotonic()))
        counters = session.counters()["s1"]
        assert not any(port.drops.get("over_limit") for port in counters.values())
        for program in (server, *writers):
            program.tell()
            assert program.line() == "0", "credits that a GPU has in use as a sender"
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
