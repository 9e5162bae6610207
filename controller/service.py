"""Run the controller: one agent per switch, and a status file for everybody else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import finsy as fy
import grpc

from codec.fabric import Fabric
from controller.agent import SwitchAgent
from controller.pipeline import Pipeline
from controller.plan import Plan
from controller.probing import PERIOD_S, ProbeFiles
from controller.status import ControllerStatus

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

    agents = {
        node.name: SwitchAgent(node, Plan.of(fabric, node), pipeline, publish, known.get(node.name))
        for node in fabric.switches
    }
    status.switches.update({name: agent.status for name, agent in agents.items()})
    publish()
    with contextlib.suppress(asyncio.CancelledError):
        async with asyncio.TaskGroup() as group:
            for agent in agents.values():
                group.create_task(agent.run())
            group.create_task(_probe(agents, fabric, ProbeFiles(status_path.parent)))
    log.info("stopped")


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
