"""A check of the controller inside a fabric's namespaces: a ring that is cut, what it tells of it, and its routes then.

It is part of `tests.fabric.inside`, which runs it.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rich.console import Console

from codec.fabric import SwitchNode
from controller.__main__ import main as controller
from controller.event_history import FILE, LinkEvent, load
from controller.repl import shell_command
from controller.runstate import INSIDE
from tests.fabric.ring import RingTopo
from topologies.options import Options
from topologies.progress import Progress
from topologies.ranks import RankResult, traffic_phase
from topologies.session import FabricSession
from topologies.topos import TOPOS

_EDIT: Final = """\
te = TableEntry("forward")(action="to_port")
te.match["tenant"], te.match["dst"], te.action["port"] = "1", "2", "{port}"
te.modify()"""


def ring_cut(run_dir: Path, target: str, shell: Callable[[SwitchNode, str], str]) -> None:
    """Cut a ring between two switches: the routes go round the other way, and back when the cable is there again."""
    TOPOS["ring"] = RingTopo
    options = Options(topo="ring,4", target=target, run_dir=run_dir, timeout_s=40)
    with FabricSession(options, Progress(Console(highlight=False))) as session:
        os.environ[INSIDE] = "1"
        drift = ["drift", "--fabric", str(run_dir / "fabric.json")]
        traffic = traffic_phase("random", ("--count", "200"))
        assert _good(session.run(traffic))
        assert load(run_dir / FILE) == []
        (cut,) = session.fabric.switch("s1").port_to("s2")

        subprocess.run(["ip", "link", "set", cut.iface, "down"], check=True)
        _await(run_dir, {("s1", "LINK_DOWN"), ("s2", "LINK_DOWN"), ("s1", "ROUTES_CHANGED"), ("s2", "ROUTES_CHANGED")})
        assert controller(drift) == 0, "what the controller changes itself is no edit by hand"
        assert _good(session.run(traffic))
        counters = session.counters()
        assert counters["s1"][cut.port].tx_frames == session.counters()["s1"][cut.port].tx_frames
        assert "LINK_DOWN" in _in_the_shell(session, run_dir, "events")

        # A route that is edited meanwhile stays so, also when the cable is there again.
        down = len(load(run_dir / FILE))
        shell(session.fabric.switch("s1"), _EDIT.format(port=3))
        subprocess.run(["ip", "link", "set", cut.iface, "up"], check=True)
        _await(run_dir, {("s1", "LINK_UP"), ("s2", "LINK_UP"), ("s2", "ROUTES_CHANGED")}, down)
        assert controller(drift) == 1
        shell(session.fabric.switch("s1"), _EDIT.format(port=cut.port))
        assert controller(drift) == 0
        assert _good(session.run(traffic))
        assert session.counters()["s1"][cut.port].tx_frames > counters["s1"][cut.port].tx_frames


def _good(ranks: list[RankResult]) -> bool:
    return all(rank.status == 0 and rank.report["bytes_wrong"] == 0 for rank in ranks)


def _await(run_dir: Path, wanted: set[tuple[str, str]], after: int = 0) -> list[LinkEvent]:
    """Wait until the history has events of these switches and kinds beyond its first ones."""
    deadline = time.monotonic() + 20
    while True:
        events = load(run_dir / FILE)[after:]
        if wanted <= {(event.switch, event.what) for event in events}:
            return events
        assert time.monotonic() < deadline, f"not in the history: {wanted}; there is {events}"
        time.sleep(0.05)


def _in_the_shell(session: FabricSession, run_dir: Path, line: str) -> str:
    """Type a line in the shell that `make repl` opens; return what it shows."""
    done = subprocess.run(
        shell_command(session.fabric.switches[0], run_dir), input=f"{line}\nexit\n",
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
