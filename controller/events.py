"""Compute what a switch tells of its links: what is behind each port, and who is to hear of it.

Pure functions, like `controller.routes`. The data plane sends the events by itself (docs/pipeline.md); the controller
only says in advance in which words, and to whom: the endpoint ports of a tenant hear of each other, and a switch hears
of another one that has GPUs, and that it may have reached over this one.
"""

from __future__ import annotations

from typing import Final

import finsy as fy

from codec.fabric import Fabric, SwitchNode, SwitchPort
from codec.profile import KEEPALIVE_MS
from controller.entries import Entry, entry
from controller.links import MODES

NO_GROUP: Final = 0
FABRIC_GROUP: Final = 3
"""The fabric ports of a switch; groups 1 and 2 are those of ticks."""
FIRST_TENANT_GROUP: Final = 4
"""The endpoint ports of the first tenant on a switch; the other tenants' follow, in ascending order."""
PROBES_PER_S: Final = 1000
ANSWERS_PER_S: Final = 1000
"""Of one switch to one source: an event per millisecond."""
REPEATS_PER_S: Final = 1000 // KEEPALIVE_MS
"""Of one dead port."""
PROBE_BURST: Final = 100


def event_entries(fabric: Fabric, switch: SwitchNode) -> list[Entry]:
    """Return the entries that say what each port stands for in an EVENT, and to whom one is addressed there."""
    groups = _tenant_groups(fabric, switch)
    entries: list[Entry] = []
    for port in switch.ports:
        peer = neighbour(fabric, port)
        if port.role == "endpoint":
            group = groups[fabric.gpu(port.peer).tenant]
        else:
            group = FABRIC_GROUP if _is_transit_to(fabric, switch, port) else NO_GROUP
        entries += [
            entry(
                "link_events", {"port": port.port}, "tell_of_link", source=switch.id, plane=switch.plane, subject=peer,
                group=group,
            ),
            entry("event_listener", {"egress_port": port.port}, "address_to", dst=peer, link_mode=MODES[port.mode]),
        ]  # fmt: skip
    return entries


def event_groups(fabric: Fabric, switch: SwitchNode) -> list[fy.P4MulticastGroupEntry]:
    """Return the multicast groups of those that hear of a switch's links."""
    groups = _tenant_groups(fabric, switch)
    members: dict[int, list[int]] = {group: [] for group in groups.values()}
    for port in switch.ports:
        if port.role == "endpoint":
            members[groups[fabric.gpu(port.peer).tenant]].append(port.port)
        else:
            members.setdefault(FABRIC_GROUP, []).append(port.port)
    return [
        fy.P4MulticastGroupEntry(group, replicas=[(port, port) for port in ports])
        for group, ports in sorted(members.items())
    ]


def control_limits(fabric: Fabric, switch: SwitchNode) -> list[fy.P4MeterEntry]:
    """Return what bounds VC 7 on each port that it comes in on, with room for every event that other switches may owe.

    Over a fabric port that is an answer per millisecond to every GPU from every other switch, and a repeat per
    keepalive of every port that may be dead; all of one kind may come at once. Endpoints send probes alone.
    """
    others = [other for other in fabric.switches if other.id != switch.id]
    answers, ports = len(fabric.gpus) * len(others), sum(len(other.ports) for other in others)
    limits = []
    for port in switch.ports:
        rate, burst = PROBES_PER_S, PROBE_BURST
        if port.role == "fabric":
            rate += ANSWERS_PER_S * answers + REPEATS_PER_S * ports
            burst += answers + ports
        config = fy.P4MeterConfig(cir=rate, cburst=burst, pir=rate, pburst=burst)
        limits.append(fy.P4MeterEntry("control_rate_limit", index=port.port, config=config))
    return limits


def neighbour(fabric: Fabric, port: SwitchPort) -> int:
    """Return the id of who is on a port. A port has one GPU, so that one subject says all that is out of reach."""
    return fabric.gpu(port.peer).id if port.role == "endpoint" else fabric.switch(port.peer).id


def _tenant_groups(fabric: Fabric, switch: SwitchNode) -> dict[int, int]:
    tenants = {fabric.gpu(port.peer).tenant for port in switch.ports if port.role == "endpoint"}
    return {tenant: FIRST_TENANT_GROUP + index for index, tenant in enumerate(sorted(tenants))}


def _is_transit_to(fabric: Fabric, switch: SwitchNode, port: SwitchPort) -> bool:
    """Tell whether others may reach GPUs over this switch and a port: a leaf's GPUs, over a spine."""
    has_gpus = any(far.role == "endpoint" for far in fabric.switch(port.peer).ports)
    return has_gpus and any(other.role == "fabric" and other.peer != port.peer for other in switch.ports)
