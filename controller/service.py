"""Run the controller: one agent per switch, and a status file for everybody else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from pathlib import Path
from typing import Final

import finsy as fy

from codec.fabric import Fabric, SwitchNode
from controller.agent import SwitchAgent
from controller.pipeline import Pipeline
from controller.routes import entries_for
from controller.status import ControllerStatus

POLL_S: Final = 0.02
"""How often a switch that does not listen yet is tried; gRPC's own retries start at a second."""

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
        node.name: SwitchAgent(node, entries_for(fabric, node), pipeline, publish, known.get(node.name))
        for node in fabric.switches
    }
    status.switches.update({name: agent.status for name, agent in agents.items()})
    publish()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*(_wait_for(agent.node) for agent in agents.values()))
        async with fy.Controller([agent.switch() for agent in agents.values()]):
            await asyncio.get_running_loop().create_future()
    log.info("stopped")


async def _wait_for(node: SwitchNode) -> None:
    """Wait until the switch accepts connections."""
    host, _, port = node.grpc.rpartition(":")
    tries = 0
    while True:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            if tries == 250:
                log.warning("%s: still nothing at %s", node.name, node.grpc)
            tries += 1
            await asyncio.sleep(POLL_S)
        else:
            writer.close()
            return
