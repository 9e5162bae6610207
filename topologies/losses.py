"""Count what a fabric lost, from what entered its cables and what was counted in and out.

Every DATA frame that a switch took in must have left it, be held in it, or have been dropped under a name. What is
missing overflowed a queue, which BMv2 counts nowhere. What arrived on a port's interface and is not in the
switch's own count overflowed its receive ring.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from codec.fabric import Fabric
from controller.credits import ACK_COUNTERS, INIT_COUNTERS, UPDATE_COUNTERS
from controller.reader import PortCounters
from topologies.ranks import RankResult
from topologies.session import FabricSession

_READINGS: Final = 30
_BETWEEN_S: Final = 0.05
_NET_DEV: Final = Path("/proc/net/dev")
_CONTROL: Final = (*UPDATE_COUNTERS, *INIT_COUNTERS, *ACK_COUNTERS)
_CONTROL_RX: Final = (*(name for name in _CONTROL if "_rx" in name), "events_received")
_CONTROL_TX: Final = (*(name for name in _CONTROL if "_tx" in name), "events_sent")
_ENDPOINT_QUEUES: Final = ("tx_dropped_backlog", "tx_dropped_held", "tx_dropped_error", "rx_dropped_full")


@dataclass(frozen=True)
class Losses:
    """Frames lost: in switches' queues, in switches' receive rings, in endpoints' buffers; requests given up.

    `no_room` counts best-effort frames that found their share of a queue full, `over_limit` frames that a receiver
    refused because its sender had no credit for them.
    """

    switch_queues: int = 0
    switch_rings: int = 0
    endpoint_buffers: int = 0
    no_room: int = 0
    over_limit: int = 0
    given_up: int = 0

    @property
    def for_want_of_room(self) -> int:
        """Frames that a full queue, ring or buffer dropped."""
        return self.switch_queues + self.no_room + self.switch_rings + self.endpoint_buffers + self.over_limit

    @property
    def total(self) -> int:
        """All of them."""
        return self.for_want_of_room + self.given_up


@dataclass(frozen=True)
class Snapshot:
    """The counters of all switches, what they hold, and the frames that had come in on their interfaces, read before
    the counters and after them: control frames come at any time."""

    counters: Mapping[str, Mapping[int, PortCounters]]
    arrived_before: Mapping[str, int]
    arrived_after: Mapping[str, int]
    held: Mapping[str, int]

    @classmethod
    def take(cls, session: FabricSession) -> Self:
        """Read it all, until two readings agree on the DATA frames and on what has come in and was not taken yet: a
        busy switch is behind, and a control frame may pass between two counters."""
        last: object = None
        held: dict[str, int] = {}
        for _ in range(_READINGS):
            credits = session.credits()
            held = {name: sum(sum(port.held_frames) for port in ports.values()) for name, ports in credits.items()}
            arrived = arrived_frames(_NET_DEV.read_text())
            counters = session.counters()
            inside = {name: [_in_and_out(port) for port in ports.values()] for name, ports in counters.items()}
            waiting = {
                port.iface: arrived.get(port.iface, 0) - counters[node.name][port.port].rx_frames
                for node in session.fabric.switches
                for port in node.ports
            }
            if (held, inside, waiting) == last:
                break
            last = held, inside, waiting
            time.sleep(_BETWEEN_S)
        return cls(counters, arrived, arrived_frames(_NET_DEV.read_text()), held)


def arrived_frames(net_dev: str) -> dict[str, int]:
    """Return the frames received per interface, from the text of /proc/net/dev, which is the process's namespace's."""
    lines = (line.partition(":") for line in net_dev.splitlines() if ":" in line)
    return {name.strip(): int(values.split()[1]) for name, _, values in lines}


def losses(fabric: Fabric, before: Snapshot, after: Snapshot, ranks: Sequence[RankResult]) -> Losses:
    """Return what was lost between two snapshots at which nothing was under way, and what the ranks report."""
    queues = rings = 0
    named: Counter[str] = Counter()
    for node in fabric.switches:
        missing = before.held.get(node.name, 0) - after.held.get(node.name, 0)
        for port in node.ports:
            old, new = before.counters[node.name][port.port], after.counters[node.name][port.port]
            arrived = after.arrived_before.get(port.iface, 0) - before.arrived_after.get(port.iface, 0)
            rings += max(0, arrived - (new.rx_frames - old.rx_frames))
            missing += _data_in(new) - _data_in(old) - (_data_out(new) - _data_out(old))
            named.update(new.drops)
            named.subtract(old.drops)
        queues += max(0, missing)
    reports = [rank.report for rank in ranks]
    return Losses(
        switch_queues=queues,
        switch_rings=rings,
        endpoint_buffers=sum(_dropped(report) for report in reports),
        no_room=named["no_room"],
        over_limit=named["over_limit"] + sum(port_sum(report, ("drop_over_limit",)) for report in reports),
        given_up=sum(int(report.get("frames_lost", 0)) for report in reports),
    )


def frames_inside(ports: Iterable[PortCounters]) -> int:
    """Return the DATA frames that came into a switch and have not left it: those it holds and those it lost."""
    return sum(_data_in(port) - _data_out(port) for port in ports)


def frames_carried(
    fabric: Fabric, before: Snapshot, after: Snapshot, only: Mapping[str, Container[int]] | None = None
) -> int:
    """Return the DATA frames that the links have carried between two snapshots, each once per link, those that a link
    lost included, and what it sent again not. `only` names the ports that count, by switch; None: all."""
    carried = 0
    for node in fabric.switches:
        for port in node.ports:
            if only is not None and port.port not in only[node.name]:
                continue
            old, new = before.counters[node.name][port.port], after.counters[node.name][port.port]
            carried += _data_in(new) - _data_in(old)
            if port.role == "endpoint":  # the other end of a cable between switches is counted as it comes in
                carried += _data_out(new) - _data_out(old)
    return carried


def counted(before: Snapshot, after: Snapshot, name: str) -> int:
    """Return by how much a counter of links has grown over all switches' ports."""
    return sum(
        port.link.get(name, 0) - before.counters[switch][number].link.get(name, 0)
        for switch, ports in after.counters.items()
        for number, port in ports.items()
    )


def link_resets(before: Snapshot, after: Snapshot) -> int:
    """Return how often a switch saw a peer fall silent between two snapshots, or its updates go wrong."""
    return sum(counted(before, after, name) for name in ("silences", "wrong_cf_updates"))


def control_frames(port: PortCounters) -> int:
    """Return the frames that a switch has sent on a port and made by itself: control frames, and events."""
    return sum(port.link.get(name, 0) for name in _CONTROL_TX)


def _in_and_out(port: PortCounters) -> tuple[int, int]:
    return _data_in(port), _data_out(port)


def _data_in(port: PortCounters) -> int:
    """DATA frames that came in and were not refused under a name."""
    return port.rx_frames - sum(port.link.get(name, 0) for name in _CONTROL_RX) - sum(port.drops.values())


def _data_out(port: PortCounters) -> int:
    """DATA frames that left, each once, were dropped under a name on the way out, or turned into events."""
    names = ("stale_session", "link_fault_drops", "frames_turned_around")
    lost = sum(port.link.get(name, 0) for name in names)
    again = sum(port.link.get(name, 0) for name in ("llr_tx_replayed", "link_fault_duplicates"))
    return port.tx_frames - control_frames(port) - again + lost


def _dropped(report: Mapping[str, Any]) -> int:
    return port_sum(report, _ENDPOINT_QUEUES)


def port_sum(report: Mapping[str, Any], names: Sequence[str]) -> int:
    """Return the sum of counters of all ports that a rank reports."""
    return sum(int(port.get(name, 0)) for port in report.get("ports", {}).values() for name in names)
