"""Checks of link-layer retry inside a fabric's namespaces: GPUs on bad links notice nothing, and credits stay right.

They are part of `tests.fabric.inside`, which runs them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from codec.profile import LinkProfile
from controller.credits import PortCredits
from controller.reader import CPU_PORT, PortCounters
from controller.repl import shell_command
from controller.runstate import INSIDE
from tests.fabric.managed_inside import SERVER, WRITER, Program, nothing_in_use, ready
from topologies.faults import LinkFaults
from topologies.nodes import REPOSITORY
from topologies.options import Options
from topologies.progress import Progress
from topologies.session import FabricSession, LinkSetting

LOSS = 0.01
Counters = dict[str, dict[int, PortCounters]]
PROFILE = LinkProfile(llr=True, outstanding_frames_max=16, replay_count_max=255, silence_ms=1000)
"""A busy machine may let a peer wait for its turn for a while: that is not what is tested here."""
PATIENT = WRITER.replace("timeout_s=0.7, max_rto_s=0.3", "timeout_s=8.0")


def bad_links(run_dir: Path, target: str) -> None:
    """Let every link lose one frame in a hundred, data and control alike, on one tier and between switches: no access
    fails, none is lost, and every credit is back."""
    _bad_links(run_dir / "one", target, "planes,3,1")
    _bad_links(run_dir / "two", target, "leafspine,gpus=3,leaves=2,spines=1")


def _bad_links(run_dir: Path, target: str, topo: str) -> None:
    options = Options(topo=topo, target=target, links="managed", run_dir=run_dir, timeout_s=40)
    with FabricSession(options, Progress(Console(highlight=False)), LinkSetting(profile=PROFILE)) as session:
        switches = session.fabric.switches
        server = Program(session, "g1", SERVER)
        writers = [Program(session, gpu, PATIENT) for gpu in ("g2", "g3")]
        _until("all links are ready", lambda: _all(session, ready))
        if len(switches) == 1:
            _shown(session, run_dir)
        faults = LinkFaults(switches)
        before = session.counters()
        faults.lose({node.name: [port.port for port in node.ports] for node in switches}, LOSS)
        _until("every link has lost frames and sent them again", lambda: _retried(_more(session, before)), 30)
        for writer in writers:
            writer.tell()
        reports = [json.loads(writer.line()) for writer in writers]
        faults.lose({}, 0)
        _until("all credits are free", lambda: _all(session, nothing_in_use))
        for name, ports in _more(session, before).items():
            for number, more in ports.items():
                wrong = ("link_ups", "llr_flushes", "llr_copies_lost", "losses_written_off")
                assert not any(more[what] for what in wrong), (name, number, more)
        for report in reports:
            assert report["failed"] == 0 and report["done"] > 300, reports
        for writer in writers:  # a second load, on good links
            writer.tell()
        time.sleep(0.3)
        for writer in writers:
            writer.tell()
        again = [json.loads(writer.line()) for writer in writers]
        assert all(report["failed"] == 0 for report in again), again
        _until("all credits are free", lambda: _all(session, nothing_in_use))
        for program in (server, *writers):
            program.tell()
            assert program.line() == "0", "credits that a GPU has in use as a sender"
            program.end()


def _shown(session: FabricSession, run_dir: Path) -> None:
    """Check what people see of it: `make watch ARGS=--llr`, and `llr` in the shell of `make repl`."""
    environment = {**os.environ, INSIDE: "1", "COLUMNS": "100"}
    command = [sys.executable, "-m", "controller", "watch", "--llr", "--fabric", str(run_dir / "fabric.json")]
    watch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=REPOSITORY)
    shell = subprocess.run(
        shell_command(session.fabric.switches[0], run_dir), input="llr\nexit\n",
        capture_output=True, text=True, timeout=60, check=False, env=environment,
    )  # fmt: skip
    watch.send_signal(signal.SIGINT)
    watched, _ = watch.communicate(timeout=30)
    probed = session.options.target == "bmv2"  # by the controller, which the shell has displaced
    for text, states in ((watched, True), (shell.stdout, not probed)):
        rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if "_" in line}
        assert rows["tx_state"] == (["advance"] if states else ["-"]) * 3, text
        assert rows["rx_state"] == (["send_acks"] if states else ["-"]) * 3, text
        assert rows["outstanding_frames_max"] == ["16"] * 3, text
        assert rows["outstanding_bytes_max"] == ["131072"] * 3, text
        assert rows["replay_timer_max"] == ["20000", "us"] * 3, text
        assert (rows["replay_count_max"], rows["flush_frame_action"]) == (["255"] * 3, ["block"] * 3), text
        assert rows["re_init_on_flush"] == ["true"] * 3, text
        assert all(int(count) > 0 for count in rows["llr_tx_init_ctl_os"] + rows["llr_rx_ok"]), text
        assert rows["llr_rx_expected_seq_poisoned"] == ["0"] * 3, text
        assert re.search(r"s1 1 +s1 2 +s1 3 *\n.*g1 +g2 +g3", text), text


def _more(session: FabricSession, before: Counters) -> dict[str, dict[int, dict[str, int]]]:
    """Return by how much every counter of every link has grown, by switch and port."""
    return {
        name: {
            number: {what: count - before[name][number].link[what] for what, count in port.link.items()}
            for number, port in ports.items()
            if number != CPU_PORT
        }
        for name, ports in session.counters().items()
    }


def _retried(more: dict[str, dict[int, dict[str, int]]]) -> bool:
    """Tell whether every port has lost frames and begun replays."""
    return all(
        port["link_fault_drops"] > 10 and port["llr_tx_replay"] > 5
        for ports in more.values()
        for port in ports.values()
    )


def _all(session: FabricSession, condition: Callable[[PortCredits], bool]) -> bool:
    """Tell whether a condition holds for every port of every switch."""
    ports = [port for some in session.credits().values() for port in some.values()]
    return bool(ports) and all(map(condition, ports))


def _until(what: str, condition: Callable[[], bool], timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not so after {timeout_s:g} s: {what}"
        time.sleep(0.02)
