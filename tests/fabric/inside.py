"""Checks that run inside a fabric's namespaces: `python -m tests.fabric.inside CHECK RUN_DIR TARGET`.

Each check brings a fabric up, does something to it, and raises AssertionError where the fabric fails to do what it
should. They run in a process of their own: what forks into namespaces must not have gRPC's threads in it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from codec.fabric import SwitchNode
from controller.entities import drift
from controller.reader import SwitchReader
from controller.repl import SHELL_PYTHON, election_id
from controller.routes import entries_for
from controller.status import ControllerStatus, State
from tests.fabric.bad_link_inside import bad_link_short
from tests.fabric.events_inside import link_degraded, spine_cable_cut
from tests.fabric.failover_inside import cables_cut, gpu_lost, switch_lost
from tests.fabric.impaired_inside import impaired
from tests.fabric.llr_auto_inside import llr_auto
from tests.fabric.managed_inside import endpoint_killed, switch_killed
from tests.fabric.retry_inside import bad_links
from tests.fabric.routes_inside import ring_cut
from topologies.namespace import run_isolated
from topologies.nodes import project_python
from topologies.options import Options
from topologies.progress import Progress
from topologies.ranks import RankResult, traffic_phase
from topologies.session import FabricSession

PING = traffic_phase("ping", ("--count", "30", "--timeout", "1"))


def session_of(run_dir: Path, target: str, topo: str = "planes,3,2") -> FabricSession:
    """Return a fabric that has not been entered yet."""
    options = Options(topo=topo, target=target, run_dir=run_dir, timeout_s=40)
    return FabricSession(options, Progress(Console(highlight=False)))


def shell(node: SwitchNode, commands: str) -> str:
    """Run commands in stock p4runtime-shell, as `make repl` would, and return what they print."""
    program = (
        "import p4runtime_sh.shell as sh\n"
        "from p4runtime_sh.shell import TableEntry, CounterEntry\n"
        f"sh.setup({node.device_id}, {node.grpc!r}, ({election_id()}), verbose=False)\n"
        f"{commands}\n"
        "sh.teardown()\n"
    )
    done = subprocess.run([SHELL_PYTHON, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def difference(session: FabricSession, name: str) -> list[str]:
    """Return how a switch's tables differ from what the controller installed, read from the switch."""
    node = session.fabric.switch(name)
    with SwitchReader(node) as reader:
        return drift(entries_for(session.fabric, node), reader.entries())


def until(condition: Callable[[ControllerStatus], bool], session: FabricSession, what: str) -> ControllerStatus:
    """Wait until the controller's report fulfils `condition`."""
    deadline = time.monotonic() + 20
    while True:
        status = ControllerStatus.load(session.status_path)
        if status is not None and condition(status):
            return status
        assert time.monotonic() < deadline, f"the controller does not report: {what}; its status is {status}"
        time.sleep(0.02)


def all_good(ranks: list[RankResult]) -> bool:
    """Tell whether a phase verified what it was to verify."""
    return all(rank.status == 0 and rank.report["bytes_wrong"] == 0 for rank in ranks)


def restart(run_dir: Path, target: str) -> None:
    """Restart switches, one gracefully and one by SIGKILL: they are programmed again, and traffic flows."""
    with session_of(run_dir, target) as session:
        assert all_good(session.run(PING))
        status = session.restart_switch("s1")
        assert [status.switches[name].boots for name in ("s1", "s2")] == [2, 1]
        assert difference(session, "s1") == []
        assert all_good(session.run(PING))
        counters = session.counters()
        assert 0 < counters["s1"][1].rx_frames < counters["s2"][1].rx_frames, "a new switch counts from 0"

        killed = session.switches["s2"].process
        assert killed is not None
        killed.kill()
        killed.wait()
        until(lambda s: s.switches["s2"].state is State.CONNECTING, session, "s2 is away")
        status = session.restart_switch("s2")
        assert status.switches["s2"].boots == 2
        assert all_good(session.run(PING))

        # A controller that finds its program but does not know that it was installed to the end, goes on with it:
        # what is missing is added, what is there stays, also where it differs.
        session.stop_controller()
        session.status_path.unlink()
        route = 'te = TableEntry("forward")(action="to_port")\nte.match["tenant"] = "1"\n'
        shell(
            session.fabric.switch("s1"),
            route + 'te.match["dst"] = "1"\nte.delete()\nte.match["dst"] = "2"\nte.action["port"] = "3"\nte.modify()',
        )
        session.start_controller()
        status = session.wait_programmed()
        [line] = difference(session, "s1")
        assert line.startswith("changed: forward(dst=2, tenant=1) -> to_port(port=3)"), line
        assert status.switches["s1"].drift == [line]


def edit(run_dir: Path, target: str) -> None:
    """Edit tables by hand beside the running controller: the effect is immediate, and nobody overwrites it."""
    route = 'te = TableEntry("forward")(action="to_port")\nte.match["tenant"] = "1"\nte.match["dst"] = "2"\n'
    with session_of(run_dir, target) as session:
        s1 = session.fabric.switch("s1")
        assert sent_to_2(session) == "out of port 2"
        shell(s1, route + "te.delete()")
        assert sent_to_2(session) == "no_route"
        gone = "missing: forward(dst=2, tenant=1) -> to_port(port=2)"
        assert difference(session, "s1") == [gone]

        # Trapped from now on, what has no route is shown to the controller as well.
        shell(s1, 'te = TableEntry("trap")(action="to_cpu")\nte.match["reason"] = "21"\nte.insert()')
        until(lambda s: s.switches["s1"].primary and len(s.switches["s1"].drift) == 2, session, "the trap")
        assert sent_to_2(session) == "no_route"
        log = session.logs / "controller.log"
        deadline = time.monotonic() + 5
        while "s1: packet-in: no_route, port 1, 40 bytes: 10 00 " not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        shell(s1, 'te = TableEntry("trap")(action="to_cpu")\nte.match["reason"] = "21"\nte.delete()')

        # The controller is in charge again, has noticed, and leaves it; also after a restart of its own.
        until(lambda s: s.switches["s1"].drift == [gone] and s.switches["s1"].primary, session, "the edit")
        session.stop_controller()
        session.start_controller()
        until(lambda s: s.switches["s1"].drift == [gone] and s.switches["s1"].boots == 0, session, "the edit, anew")
        assert sent_to_2(session) == "no_route"

        # A second shell after the first, and a change in place of a deletion.
        shell(s1, route + 'te.action["port"] = "2"\nte.insert()')
        assert sent_to_2(session) == "out of port 2"
        until(lambda s: not s.switches["s1"].drift, session, "no edit left")
        shell(s1, route + 'te.action["port"] = "3"\nte.modify()')
        assert sent_to_2(session) == "out of port 3"
        [line] = difference(session, "s1")
        assert line.startswith("changed: forward(dst=2, tenant=1) -> to_port(port=3)"), line
        until(lambda s: s.switches["s1"].drift == [line], session, "the change")

        # Only a new boot of the switch brings the controller's entries back.
        session.restart_switch("s1")
        assert difference(session, "s1") == []
        assert sent_to_2(session) == "out of port 2"
        assert all_good(session.run(PING))


def sent_to_2(session: FabricSession) -> str:
    """Send a frame from GPU 1 to GPU 2 on plane 0 and return what the switch did with it: where it went, or why not."""
    program = (
        "import socket\n"
        "from codec.scapy_layers import LSU, OEFH, Link\n"
        "frame = bytes(Link() / OEFH(src=1, dst=2) / LSU(opcode=1, length=7, request=1))\n"
        "port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n"
        "port.bind(('g1-eth0', 0)); port.send(frame)\n"
    )
    before = session.counters()["s1"]
    assert session.net is not None
    host = session.net["g1"]
    enter = ["nsenter", f"--net=/proc/{host.pid}/ns/net", "--"]
    subprocess.run([*enter, project_python(), "-c", program], check=True)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        after = session.counters()["s1"]
        for number, port in after.items():
            for reason, count in port.drops.items():
                if count != before[number].drops.get(reason, 0):
                    return reason
            if port.tx_frames != before[number].tx_frames:
                return f"out of port {number}"
    return "nothing"


def tenants(run_dir: Path, target: str) -> None:
    """Two tenants on two tiers: each reaches its own, and nothing crosses."""
    with session_of(run_dir, target, "leafspine,4,2,2,2") as session:
        ranks = session.run(PING)
        assert all_good(ranks)
        assert [rank.report["ranks"] for rank in ranks] == [2, 2, 2, 2]
        assert not any(port.drops for ports in session.counters().values() for port in ports.values())
        assert all_good(session.run(traffic_phase("random", ("--count", "200"))))


CHECKS: dict[str, Callable[[Path, str], None]] = {
    "restart": restart, "edit": edit, "tenants": tenants, "endpoint_killed": endpoint_killed,
    "switch_killed": switch_killed, "cables_cut": cables_cut, "switch_lost": switch_lost, "gpu_lost": gpu_lost,
    "spine_cable_cut": spine_cable_cut, "bad_links": bad_links, "bad_link_short": bad_link_short,
    "impaired": lambda run_dir, target: impaired(run_dir, target, shell),
    "ring_cut": lambda run_dir, target: ring_cut(run_dir, target, shell),
    "llr_auto": llr_auto, "link_degraded": link_degraded,
}  # fmt: skip


def main() -> int:
    """Run one check in namespaces of its own; its traceback goes to standard error."""
    name, run_dir, target = sys.argv[1:]
    check = CHECKS[name]

    def body() -> int:
        check(Path(run_dir), target)
        return 0

    Path(run_dir).mkdir(parents=True, exist_ok=True)
    return run_isolated(body)


if __name__ == "__main__":
    sys.exit(main())
