"""Look after one switch: connect, push the program, install its entries once per boot, and watch.

The switch belongs to whoever edits it last. The controller installs when a switch has no program (it has just
started), not when it becomes the primary client: after somebody else's session it compares, and shows what differs,
but leaves it. finsy calls the ready handler on every promotion and demotion; `_ready` is written for that.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final, cast

import finsy as fy
import grpc
from finsy.proto import p4r_grpc

from codec.fabric import SwitchNode
from controller import link_health, retries
from controller.credits import PortCredits, parse_answer, probe
from controller.entities import drift, from_p4, to_p4
from controller.entries import Entry
from controller.event_history import LINK_UP, LinkEvent
from controller.link_watch import COUNTERS, PERIOD_S, LinkWatch
from controller.links import managed_ports
from controller.packets import PROBE_REASON, describe_packet_in
from controller.pipeline import Pipeline, push, read_cookie
from controller.plan import Plan
from controller.status import State, SwitchStatus

ELECTION_ID: Final = 10
"""Low, so that any tool that asks for a higher one becomes the primary client."""
BATCH: Final = 5000
"""Updates per Write: well below gRPC's 4 MB message."""
PACKET_QUEUE: Final = 1024
PACKET_LINES_PER_S: Final = 20
"""A flood of packet-ins must not fill the disk with log lines; what is not logged is counted."""
RETRY_S: Final = 2.0
"""Pause before a failed installation is tried again."""
RECONNECT_S: Final = 0.02
"""Pause between attempts to connect to a switch that is away."""
PATIENCE_S: Final = 5.0

Replication = fy.P4CloneSessionEntry | fy.P4MulticastGroupEntry
_ALL_GROUPS: Final = fy.P4MulticastGroupEntry()

RpcError = (fy.P4ClientError, grpc.aio.AioRpcError)

log = logging.getLogger(__name__)


class SwitchAgent:
    """Keep one switch programmed.

    `changed` is called after every change of `status`, `link_changes` with what became of links, `counted` with the
    counters of links by port and the time, in seconds since 1970. `adopt` is given what a switch holds that an earlier
    controller programmed, and returns what is planned then. `known_cookie` is the push that it completed, so that a
    restarted controller does not install again over edits by hand.
    """

    def __init__(
        self,
        node: SwitchNode,
        plan: Plan,
        pipeline: Pipeline,
        changed: Callable[[], None],
        link_changes: Callable[[list[LinkEvent]], None],
        counted: Callable[[Mapping[int, Mapping[str, int]], float], None],
        adopt: Callable[[Sequence[Entry]], Sequence[Entry]],
        known_cookie: int | None = None,
    ) -> None:
        self.node = node
        self.plan = plan
        self.pipeline = pipeline
        self.status = SwitchStatus(cookie=known_cookie)
        self.credits: dict[int, PortCredits] = {}
        """What the managed ports answered to the last probes, by port."""
        self._retries: dict[int, retries.PortRetry] = {}
        self._changed = changed
        self._link_changes = link_changes
        self._counted = counted
        self._adopt = adopt
        self._links = LinkWatch(node)
        self._down = asyncio.Event()
        self._connected: fy.Switch | None = None

    async def run(self) -> None:
        """Look after the switch for good; every connection is a new finsy switch.

        finsy's own loop would do it too, but waits 10 s after a connection that lasted less than 2 s, which is what a
        switch that is restarted twice looks like.
        """
        while True:
            await self._wait_for_listener()
            self._down = asyncio.Event()
            try:
                async with self._switch() as switch:
                    self._connected = switch
                    await self._down.wait()
                    log.warning("%s: the connection to %s is gone; waiting for it", self.node.name, self.node.grpc)
            except fy.P4ClientError as error:
                if error.code != fy.GRPCStatusCode.UNAVAILABLE:
                    log.error("%s: %s", self.node.name, error)
            except RuntimeError as error:  # finsy's answer to a stream that ends or arbitrates against the rules
                log.error("%s: %s", self.node.name, error)
            self._connected = None
            self.credits.clear()
            self._set(state=State.CONNECTING, primary=False)
            await asyncio.sleep(RECONNECT_S)

    @property
    def dead_ports(self) -> frozenset[tuple[str, int]]:
        """The ports to other switches that are dead: name of the switch, number of the port."""
        return frozenset(
            (self.node.name, port.port)
            for port in self.node.ports
            if port.role == "fabric" and port.port in self._links.dead
        )

    async def follow(self, entries: Sequence[Entry]) -> int | None:
        """Change what other entries are planned now; return how many, None when the switch cannot be written to.

        What was edited by hand is left as it is.
        """
        old = {item.key: item for item in self.plan.entries}
        new = {item.key: item for item in entries}
        if old == new:
            return 0
        switch = self._connected
        if switch is None or not self.status.primary or self.status.state is not State.PROGRAMMED:
            return None
        try:
            have = {item.key: item for item in await self._read(switch)}
            added = [item for key, item in new.items() if key not in old and key not in have]
            changed = [
                item for key, item in new.items() if key in old and item != old[key] and have.get(key) == old[key]
            ]
            gone = [item for key, item in old.items() if key not in new and have.get(key) == item]
            last = [item for item in changed if item.table == "link_profile"]  # may bring the link up by all others
            await switch.insert([to_p4(item) for item in added])  # groups, before routes refer to them
            await switch.modify([to_p4(item) for item in changed if item not in last])
            await switch.delete([to_p4(item) for item in gone])
            await switch.modify([to_p4(item) for item in last])
            self.plan = dataclasses.replace(self.plan, entries=tuple(entries))
            await self._show_drift(switch)
        except RpcError as error:
            log.warning("%s: entries not changed: %s", self.node.name, error)
            return None
        return len(added) + len(changed) + len(gone)

    async def send_probes(self, source_id: int) -> None:
        """Ask the switch for credits and retries of its managed ports; the answers come into `credits`."""
        switch = self._connected
        if switch is None or not self.status.primary or self.status.state is not State.PROGRAMMED:
            return
        for port in managed_ports(self.node):
            for question in (retries.probe, probe):
                packet = fy.P4PacketOut(question(port.port, self.node.id, source_id), egress_port=0, padding=0)
                await switch.write([packet])

    def _take_answer(self, payload: bytes) -> bool:
        """Keep what a probe's answer says; tell whether it is one.

        Of a port's two probes that for credits is the second.
        """
        retry = retries.parse_answer(payload)
        if retry is not None:
            self._retries[retry[0]] = retry[1]
            return True
        answer = parse_answer(payload)
        if answer is None:
            return False
        self.credits[answer.port] = dataclasses.replace(answer, retry=self._retries.get(answer.port))
        return True

    async def _wait_for_listener(self) -> None:
        """Wait until the switch accepts connections: gRPC's own retries start at a second."""
        host, _, port = self.node.grpc.rpartition(":")
        started = time.monotonic()
        warned = False
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
                # While nobody listens on loopback, TCP may connect a probe to itself, when its port is the one asked.
                itself = writer.get_extra_info("sockname") == writer.get_extra_info("peername")
                writer.close()
                if itself:
                    raise ConnectionRefusedError
            except OSError:
                if not warned and time.monotonic() - started > PATIENCE_S:
                    log.warning("%s: still nothing at %s", self.node.name, self.node.grpc)
                    warned = True
                await asyncio.sleep(RECONNECT_S)
            else:
                return

    def _switch(self) -> fy.Switch:
        options = fy.SwitchOptions(
            p4info=self.pipeline.p4info_path,
            device_id=self.node.device_id,
            initial_election_id=ELECTION_ID,
            ready_handler=self._ready,
        )
        switch = fy.Switch(self.node.name, self.node.grpc, options)
        switch.ee.on(fy.SwitchEvent.CHANNEL_UP, self._channel_up)
        switch.ee.on(fy.SwitchEvent.CHANNEL_DOWN, self._channel_down)
        return switch

    def _channel_up(self, switch: fy.Switch) -> None:
        switch.create_task(self._log_packets(switch), background=True, name="packets")
        switch.create_task(self._watch_links(switch), background=True, name="links")

    def _channel_down(self, _switch: fy.Switch) -> None:
        self._down.set()

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            setattr(self.status, name, value)
        self._changed()

    async def _ready(self, switch: fy.Switch) -> None:
        self._set(primary=switch.is_primary)
        if not switch.is_primary:
            log.info("%s: another client is in charge (election id %d)", self.node.name, switch.primary_id)
            if self.status.state is not State.PROGRAMMED:
                # Met while another client is in charge: nothing to do until it leaves, but do not keep others waiting
                # for a switch that was programmed before.
                try:
                    await self._watch_only(switch)
                except RpcError as error:
                    log.info("%s: cannot be read: %s", self.node.name, error)
            return
        while True:
            try:
                await self._bring_up(switch)
                return
            except RpcError as error:
                code = error.code if isinstance(error, fy.P4ClientError) else error.code()
                if code in (fy.GRPCStatusCode.PERMISSION_DENIED, grpc.StatusCode.PERMISSION_DENIED):
                    return  # no longer primary; this handler runs again on the next change
                if code in (fy.GRPCStatusCode.UNAVAILABLE, grpc.StatusCode.UNAVAILABLE):
                    return  # the switch is gone; finsy reconnects
                message = str(error) if isinstance(error, fy.P4ClientError) else error.details()
                log.error("%s: %s", self.node.name, message)
                self._set(state=State.FAILED, error=message or str(code))
            except (LookupError, ValueError) as error:  # finsy's answer to a name that P4Info does not have
                message = f"the program {self.pipeline.config_path.name} is not one for this controller: {error}"
                log.error("%s: %s", self.node.name, message)
                self._set(state=State.FAILED, error=message)
            await asyncio.sleep(RETRY_S)

    async def _bring_up(self, switch: fy.Switch) -> None:
        async with grpc.aio.insecure_channel(self.node.grpc) as channel:
            stub = p4r_grpc.P4RuntimeStub(channel)
            cookie = await read_cookie(stub, self.node.device_id)
            if cookie is not None and cookie == self.status.cookie:
                await self._take_over(switch)
                return
            if cookie is not None and self.status.cookie is not None and not self.pipeline.made(cookie):
                line = (
                    f"changed: the pipeline (its cookie is {cookie:#x}; the controller pushed {self.status.cookie:#x})"
                )
                log.warning("%s: %s; left as it is", self.node.name, line)
                self._set(state=State.PROGRAMMED, drift=[line], error="")
                return
            self._set(state=State.PROGRAMMING, error="")
            started = time.monotonic()
            if cookie is None or not self.pipeline.made(cookie):
                cookie = self.pipeline.new_cookie()
                await push(stub, self.node.device_id, switch.election_id, self.pipeline, cookie)
        # Entries that are there already are left alone: an interrupted installation goes on where it stopped.
        found = await self._read(switch)
        have = {item.key for item in found}
        missing = [item for item in self.plan.entries if item.key not in have]
        await self._replicate(switch, self.plan.sessions)
        for start in range(0, len(missing), BATCH):
            await switch.insert([to_p4(item) for item in missing[start : start + BATCH]])
        await switch.modify(self.plan.meters)
        await self._replicate(switch, self.plan.groups)
        took = time.monotonic() - started
        log.info("%s: program and %d entries installed in %.2f s", self.node.name, len(missing), took)
        self._set(cookie=cookie, boots=self.status.boots + 1)
        self._report_drift(drift(self.plan.entries, [*found, *missing]))

    async def _replicate(self, switch: fy.Switch, wanted: Sequence[Replication]) -> None:
        """Install clone sessions or groups that are not there yet: an interrupted installation goes on."""
        if not wanted:
            return
        empty: Replication = fy.P4CloneSessionEntry() if isinstance(wanted[0], fy.P4CloneSessionEntry) else _ALL_GROUPS
        found = cast(AsyncIterator[Replication], switch.read(empty))
        have = {_replication_id(item) async for item in found}
        await switch.insert([item for item in wanted if _replication_id(item) not in have])

    async def _watch_only(self, switch: fy.Switch) -> None:
        async with grpc.aio.insecure_channel(self.node.grpc) as channel:
            cookie = await read_cookie(p4r_grpc.P4RuntimeStub(channel), self.node.device_id)
        if cookie is not None and cookie == self.status.cookie:
            await self._take_over(switch)

    async def _take_over(self, switch: fy.Switch) -> None:
        """Go on with a switch that is programmed already, perhaps by an earlier controller."""
        found = await self._read(switch)
        self.plan = dataclasses.replace(self.plan, entries=tuple(self._adopt(found)))
        self._report_drift(drift(self.plan.entries, found))

    async def _read(self, switch: fy.Switch) -> list[Entry]:
        # finsy's stubs miss that this is an asynchronous generator.
        found = cast(AsyncIterator[fy.P4TableEntry], switch.read(fy.P4TableEntry()))
        return [from_p4(item) async for item in found if not item.is_const]

    async def _show_drift(self, switch: fy.Switch) -> None:
        self._report_drift(drift(self.plan.entries, await self._read(switch)))

    def _report_drift(self, lines: list[str]) -> None:
        """Enter the differences in the status, which counts the switch as programmed; log them when they are new."""
        if lines != self.status.drift:
            for line in lines:
                log.warning("%s: edited by hand, left as it is: %s", self.node.name, line)
            if not lines:
                log.info("%s: holds again what the controller installed", self.node.name)
        self._set(state=State.PROGRAMMED, entries=len(self.plan.entries), drift=lines, error="")

    async def _watch_links(self, switch: fy.Switch) -> None:
        """Look at the counters of links for as long as the connection lasts."""
        names = dict.fromkeys((*COUNTERS, *link_health.COUNTERS))
        wanted = [fy.P4CounterEntry(name, index=port.port) for port in self.node.ports for name in names]
        while wanted:
            await asyncio.sleep(PERIOD_S)
            if self.status.state is not State.PROGRAMMED:
                continue
            counts: dict[int, dict[str, int]] = {port.port: {} for port in self.node.ports}
            try:
                async for cell in cast(AsyncIterator[fy.P4CounterEntry], switch.read(wanted)):
                    counts[cast(int, cell.index)][cell.counter_id] = cell.packet_count
            except (*RpcError, LookupError, ValueError):  # it is going away, or somebody has put in another program
                continue
            self._counted(counts, time.time())
            events = self._links.update(counts, time.time())
            for event in events:
                level = logging.INFO if event.what == LINK_UP else logging.WARNING
                log.log(level, "%s: %s: port %d, %s", event.switch, event.what, event.port, event.peer)
            if events:
                self._link_changes(events)

    async def _log_packets(self, switch: fy.Switch) -> None:
        window, lines, quiet = 0, 0, 0
        async for packet in switch.read_packets(queue_size=PACKET_QUEUE):
            if packet.metadata.get("reason") == PROBE_REASON and self._take_answer(packet.payload):
                continue
            second = int(time.monotonic())
            if second != window:
                if quiet:
                    log.warning("%s: %d more packet-ins", self.node.name, quiet)
                window, lines, quiet = second, 0, 0
            if lines >= PACKET_LINES_PER_S:
                quiet += 1
                continue
            lines += 1
            log.info("%s: packet-in: %s", self.node.name, describe_packet_in(packet))


def _replication_id(item: Replication) -> int:
    return item.session_id if isinstance(item, fy.P4CloneSessionEntry) else item.multicast_group_id
