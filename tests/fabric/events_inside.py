"""Checks of switch events inside a fabric's namespaces: a cable between switches that is cut, a link that replays.

They are part of `tests.fabric.inside`, which runs them.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from codec.profile import LinkProfile
from controller.event_history import FILE, LINK_DEGRADED
from controller.reader import PortCounters
from tests.fabric.managed_inside import SERVER, WRITER, Program
from topologies.faults import LinkFaults
from topologies.losses import control_frames
from topologies.options import Options
from topologies.progress import Progress
from topologies.session import FabricSession, LinkSetting

SPINE, LOST_LEAF, FAR_LEAF = "spine1", "leaf1", "leaf2"
"""The cable between the first two is cut; the third hears of it from the spine alone."""


def spine_cable_cut(run_dir: Path, target: str) -> None:
    """Cut a spine's cable to a leaf: the other leaf takes the other spine, and both again when the cable is back."""
    options = Options(topo="leafspine,4,2,2", target=target, links="managed", run_dir=run_dir, timeout_s=40)
    patient = LinkSetting(profile=LinkProfile(silence_ms=1000))  # a busy machine's pauses are no dead links
    with FabricSession(options, Progress(Console(stderr=True)), patient) as session:
        homes = {gpu.ports[0].switch: gpu.name for gpu in reversed(session.fabric.gpus)}
        assert homes[LOST_LEAF] == "g1", "what the writer stores to"
        server, writer = Program(session, "g1", SERVER), Program(session, homes[FAR_LEAF], WRITER)
        (uplink,) = (port.port for port in session.fabric.switch(FAR_LEAF).port_to(SPINE))
        (cut,) = session.fabric.switch(LOST_LEAF).port_to(SPINE)
        (lost,) = (port.port for port in session.fabric.switch(SPINE).port_to(LOST_LEAF))

        time.sleep(1)
        before = session.counters()
        subprocess.run(["ip", "link", "set", cut.iface, "down"], check=True)
        _wait(session, SPINE, lost, "links_lost", before)
        _wait(session, FAR_LEAF, uplink, "events_received", before)
        told = session.counters()
        time.sleep(1.5)
        writer.tell()
        report = json.loads(writer.line())
        assert report["since_last_failure"] > 500, ("over the other spine", report)
        during = session.counters()
        assert _data_frames(during, FAR_LEAF, uplink) - _data_frames(told, FAR_LEAF, uplink) < 64, (
            "nothing more goes to the spine that has lost the leaf"
        )

        subprocess.run(["ip", "link", "set", cut.iface, "up"], check=True)
        _wait(session, SPINE, lost, "links_restored", before)
        writer.tell()  # begin again
        time.sleep(1)
        writer.tell()
        again: dict[str, Any] = json.loads(writer.line())
        assert again["since_last_failure"] > 500, ("over both spines", again)
        for program in (server, writer):
            program.tell()
            assert program.line() == "0", "credits that a GPU has in use as a sender"
            program.end()


def link_degraded(run_dir: Path, target: str) -> None:
    """Where retry has much to do the switch says so, and sources take another plane, without any access that fails."""
    options = Options(topo="planes,2,2", target=target, links="managed", run_dir=run_dir, timeout_s=40)
    # A long timer: replays that only a busy machine asks for must not degrade the good link as well.
    often = LinkProfile(llr=True, degraded_replays=10, silence_ms=1000, replay_count_max=255, replay_timer_us=200_000)
    with FabricSession(options, Progress(Console(stderr=True)), LinkSetting(profile=often)) as session:
        server, writer = Program(session, "g1", SERVER), Program(session, "g2", WRITER)
        ports = {node.name: node.port_to("g1")[0].port for node in session.fabric.switches}
        faults = LinkFaults(session.fabric.switches)
        time.sleep(0.5)
        before = session.counters()
        faults.lose({"s1": [ports["s1"]]}, 0.05)
        _wait(session, "s1", ports["s1"], "links_degraded", before)
        time.sleep(0.3)  # what was under way when the source heard of it
        told = session.counters()
        time.sleep(1)
        during = session.counters()
        bad, good = (
            _data_frames(during, switch, port) - _data_frames(told, switch, port) for switch, port in ports.items()
        )
        assert good > 500 and bad < good / 20, (bad, good)
        faults.lose({}, 0)
        for _ in range(2):  # its two loads
            writer.tell()
            report = json.loads(writer.line())
            assert report["failed"] == 0 and report["done"] > 500, report
            writer.tell()
            time.sleep(0.5)
        assert (run_dir / FILE).read_text().count(LINK_DEGRADED) >= 1
        for program in (server, writer):
            program.tell()
            assert program.line() == "0", "credits that a GPU has in use as a sender"
            program.end()


def _data_frames(counters: Mapping[str, Mapping[int, PortCounters]], switch: str, port: int) -> int:
    """Return the frames that a switch has sent on a port, without those that it made itself or sent again."""
    cell = counters[switch][port]
    return cell.tx_frames - control_frames(cell)


def _wait(session: FabricSession, switch: str, port: int, counter: str, before: Mapping[str, Any]) -> None:
    """Wait until a counter of a port has moved."""
    deadline = time.monotonic() + 10
    while session.counters()[switch][port].link[counter] == before[switch][port].link[counter]:
        assert time.monotonic() < deadline, f"{counter} of port {port} of {switch} has not moved"
        time.sleep(0.02)
