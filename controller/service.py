"""Run the controller: one agent per switch, and a status file for everybody else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import finsy as fy
import grpc

from codec.fabric import Fabric, SwitchNode
from controller.agent import SwitchAgent
from controller.entries import Entry
from controller.event_history import FILE, ROUTES_CHANGED, LinkEvent, append
from controller.link_retry import LinkRetry
from controller.links import Retrying
from controller.pipeline import Pipeline
from controller.plan import Plan
from controller.probing import PERIOD_S, ProbeFiles
from controller.retry_files import RetryFiles
from controller.routes import Dead, entries_for
from controller.status import ControllerStatus

SETTLE_S: Final = 0.5
"""From a change of links to that of routes: a cable that is only touched changes none."""

DECIDE_S: Final = 0.5
"""Between two looks at what links have lost."""
PATIENCE_S: Final = 5.0
"""So long decisions wait for switches that are away when the controller starts."""

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

    retry = LinkRetry(fabric)

    def agent_for(node: SwitchNode) -> SwitchAgent:
        def adopt(found: Sequence[Entry]) -> list[Entry]:
            retry.adopt(node.name, found)
            return entries_for(fabric, node, retrying=retry.retrying(node.name))

        counted = partial(retry.look, node.name)
        return SwitchAgent(node, Plan.of(fabric, node), pipeline, publish, note, counted, adopt, known.get(node.name))

    agents = {node.name: agent_for(node) for node in fabric.switches}
    status.switches.update({name: agent.status for name, agent in agents.items()})
    publish()
    with contextlib.suppress(asyncio.CancelledError):
        async with asyncio.TaskGroup() as group:
            for agent in agents.values():
                group.create_task(agent.run())
            group.create_task(_probe(agents, fabric, ProbeFiles(status_path.parent)))
            group.create_task(_reconcile(agents, fabric, retry, links_changed, note))
            group.create_task(_decide(retry, RetryFiles(status_path.parent), lambda: status.ready, note))
    log.info("stopped")


async def _reconcile(
    agents: Mapping[str, SwitchAgent],
    fabric: Fabric,
    retry: LinkRetry,
    changed: asyncio.Event,
    note: Callable[[list[LinkEvent]], None],
) -> None:
    """Let the tables follow the links: routes those between switches, some time after the data plane has done what it
    can, and profiles what was decided of retry."""
    followed: tuple[Dead, Mapping[str, Retrying]] = frozenset[tuple[str, int]](), {}
    while True:
        await changed.wait()
        changed.clear()
        await asyncio.sleep(SETTLE_S)
        dead = frozenset[tuple[str, int]]().union(*(agent.dead_ports for agent in agents.values()))
        wanted = dead, {name: retry.retrying(name) for name in agents}
        if wanted == followed:
            continue
        routes = dead != followed[0]
        counts = {
            name: await agent.follow(entries_for(fabric, agent.node, dead, wanted[1][name]))
            for name, agent in agents.items()
        }
        for name, count in counts.items():
            if count is not None:
                retry.written(name, wanted[1][name])
            if count:
                log.info("%s: %d entries changed, as links have", name, count)
                if routes:
                    note([LinkEvent(time.time(), name, 0, "", ROUTES_CHANGED, count)])
        if None in counts.values():
            changed.set()  # somebody else is in charge of a switch, or it is away: later
        else:
            followed = wanted


async def _decide(
    retry: LinkRetry, files: RetryFiles, ready: Callable[[], bool], note: Callable[[list[LinkEvent]], None]
) -> None:
    """Decide which links retry, and tell others of it, from when the switches' tables are known."""
    retry.remember(files.read() or ())
    deadline = time.monotonic() + PATIENCE_S
    while not ready() and time.monotonic() < deadline:
        await asyncio.sleep(DECIDE_S / 10)
    while True:
        events = retry.decide(files.modes(), time.time())
        for event in events:
            log.warning("%s: %s: port %d, %s: %s", event.switch, event.what, event.port, event.peer, event.why)
        if events:
            note(events)
        files.publish(retry.to_json())
        await asyncio.sleep(DECIDE_S)


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
