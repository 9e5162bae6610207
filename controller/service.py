"""Run the controller: one agent per switch, and a status file for everybody else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import finsy as fy
import grpc

from codec.fabric import Fabric
from controller.agent import SwitchAgent
from controller.event_history import FILE, ROUTES_CHANGED, LinkEvent, append
from controller.pipeline import Pipeline
from controller.plan import Plan
from controller.probing import PERIOD_S, ProbeFiles
from controller.routes import entries_for
from controller.status import ControllerStatus

SETTLE_S: Final = 0.5
"""From a change of links to that of routes: a cable that is only touched changes none."""

log = logging.getLogger(__name__)


async def serve(fabric: Fabric, pipeline: Pipeline, status_path: Path) -> None:
    """Program all switches of `fabric` and look after them until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    main_task = asyncio.current_task()
    assert main_task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, main_task.cancel)

    before = ControllerStatus.load(status_path)
    known = {name: switch.cookie for name, switch in before.switches.items()} if before is not None else {}
    status = ControllerStatus(os.getpid(), {})
    was_ready = False

    def publish() -> None:
        nonlocal was_ready
        status.save(status_path)
        if status.ready and not was_ready:
            log.info("the fabric is programmed: %d switches", len(status.switches))
        was_ready = status.ready

    history = status_path.with_name(FILE)
    links_changed = asyncio.Event()

    def note(events: list[LinkEvent]) -> None:
        try:
            append(history, events)
        except OSError as error:
            log.warning("%s: not written: %s", history, error.strerror)
        links_changed.set()

    agents = {
        node.name: SwitchAgent(node, Plan.of(fabric, node), pipeline, publish, note, known.get(node.name))
        for node in fabric.switches
    }
    status.switches.update({name: agent.status for name, agent in agents.items()})
    publish()
    with contextlib.suppress(asyncio.CancelledError):
        async with asyncio.TaskGroup() as group:
            for agent in agents.values():
                group.create_task(agent.run())
            group.create_task(_probe(agents, fabric, ProbeFiles(status_path.parent)))
            group.create_task(_reconcile(agents, fabric, links_changed, note))
    log.info("stopped")


async def _reconcile(
    agents: Mapping[str, SwitchAgent],
    fabric: Fabric,
    changed: asyncio.Event,
    note: Callable[[list[LinkEvent]], None],
) -> None:
    """Let the routes follow the links between switches, some time after the data plane has done what it can."""
    followed: frozenset[tuple[str, int]] = frozenset()
    while True:
        await changed.wait()
        changed.clear()
        await asyncio.sleep(SETTLE_S)
        dead = frozenset[tuple[str, int]]().union(*(agent.dead_ports for agent in agents.values()))
        if dead == followed:
            continue
        counts = {name: await agent.follow(entries_for(fabric, agent.node, dead)) for name, agent in agents.items()}
        for name, count in counts.items():
            if count:
                log.info("%s: %d entries changed, as links between switches have", name, count)
                note([LinkEvent(time.time(), name, 0, "", ROUTES_CHANGED, count)])
        if None in counts.values():
            changed.set()  # somebody else is in charge of a switch, or it is away: later
        else:
            followed = dead


async def _probe(agents: Mapping[str, SwitchAgent], fabric: Fabric, files: ProbeFiles) -> None:
    """Probe the managed ports of all switches for as long as somebody looks."""
    if not fabric.gpus:
        return
    source = fabric.gpus[0].id  # of a frame by packet-out: an id that the switches know
    while True:
        await asyncio.sleep(PERIOD_S)
        if not files.wanted():
            continue
        for name, agent in agents.items():
            try:
                await agent.send_probes(source)
            except (fy.P4ClientError, grpc.aio.AioRpcError, RuntimeError, ValueError) as error:
                log.warning("%s: no probes: %s", name, error)
        await asyncio.sleep(PERIOD_S / 4)
        files.publish({name: dict(agent.credits) for name, agent in agents.items()})
