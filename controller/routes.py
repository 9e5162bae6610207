"""Compute from the fabric description what every switch's tables are to hold.

Pure functions: a description in, entries out. Paths are the shortest ones between switches; where there are several,
a multi-path group spreads over all of them. GPUs are never on the way to somewhere else. Tables, actions and their
meaning are documented in docs/pipeline.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import networkx as nx

from codec.constants import NOBODY
from codec.fabric import Fabric, FabricError, SwitchNode
from controller.entries import Entry, entry
from controller.events import event_entries
from controller.links import MODES, Retrying, egress_entry, lanes, link_entries

ROLES: Final = {"endpoint": 1, "fabric": 2}
GROUP_MOST: Final = 16
"""Equal paths that a group holds."""
PORT_BITS: Final = 9
_FAR: Final = 1 << 30


Dead = Collection[tuple[str, int]]
"""Dead ports: name of the switch, number of the port."""


def entries_for(fabric: Fabric, switch: SwitchNode, dead: Dead = (), retrying: Retrying | None = None) -> list[Entry]:
    """Return everything that `switch` is to hold, in the order of installation.

    What others refer to comes first and `port_config` last: a port passes nothing until the rest is there. Dead links
    between switches change routes where the data plane has no healthy path among the planned ones (`detours`);
    `retrying` says which links retry (`links.link_entries`).
    """
    return [
        *_identity_entries(fabric, switch),
        *_forward_entries(fabric, switch, dead),
        *link_entries(fabric, switch, retrying or {}),
        *event_entries(fabric, switch),
        *_port_entries(fabric, switch),
    ]


def next_hops(fabric: Fabric, switch: SwitchNode) -> dict[int, tuple[int, ...]]:
    """Return for each GPU id that can be reached the ports of `switch` on the shortest paths to it, ascending.

    A GPU on one of the switch's own ports is reached by that port alone.
    """
    distance = _distances(fabric)
    homes_of = _homes(fabric)
    hops: dict[int, tuple[int, ...]] = {}
    for gpu_id, homes in homes_of.items():
        if switch.name in homes:
            hops[gpu_id] = tuple(sorted(homes[switch.name]))
        elif ports := _closer(switch, homes, distance):
            hops[gpu_id] = ports
    return hops


def detours(fabric: Fabric, switch: SwitchNode, dead: Dead) -> dict[int, tuple[int, ...]]:
    """Return for GPU ids whose planned ports do not do while links are dead the ports to take instead, ascending.

    A switch knows of its own dead ports, and a neighbour tells it which other switches it has lost; with that it
    skips paths by itself (docs/events.md). Left to the controller is what is lost further away, and where no planned
    path is left. A GPU that cannot be reached at all keeps its planned ports: the data plane tells its sources.

    Only switches with GPUs of their own go round. A spine that has lost a leaf does not send frames back up: those in
    front of it take other spines, and with paths that turn twice frames could wait for credits in a circle.
    """
    lost = _both_ends(fabric, dead)
    if not lost or not any(port.role == "endpoint" for port in switch.ports):
        return {}
    distance = _distances(fabric, lost)
    planned_distance = _distances(fabric)
    homes_of = _homes(fabric)
    instead: dict[int, tuple[int, ...]] = {}
    for gpu_id, planned in next_hops(fabric, switch).items():
        homes = homes_of[gpu_id]
        if switch.name in homes:
            continue
        left = min(planned_distance[switch.name].get(home, _FAR) for home in homes) - 1
        peers = {port.port: port.peer for port in switch.ports}
        good = {
            port
            for port in planned
            if (switch.name, port) not in lost and min(distance[peers[port]].get(home, _FAR) for home in homes) == left
        }
        skipped = {port for port in planned if (switch.name, port) in lost or left == 1}
        if good and good | skipped >= set(planned):
            continue
        ports = tuple(sorted(good)) or _closer(switch, homes, distance, lost)
        if ports:
            instead[gpu_id] = ports
    return instead


def _homes(fabric: Fabric) -> dict[int, dict[str, list[int]]]:
    """Return for each GPU id the switches that it is on, with its ports there."""
    attached: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for gpu in fabric.gpus:
        for port in gpu.ports:
            if port.switch is not None and port.switch_port is not None:
                attached[gpu.id][port.switch].append(port.switch_port)
    return attached


def _closer(
    switch: SwitchNode, homes: Iterable[str], distance: Mapping[str, Mapping[str, int]], lost: Dead = ()
) -> tuple[int, ...]:
    """Return the ports of a switch over which one of some switches is nearest, ascending; none without a way."""
    left = min(distance[switch.name].get(home, _FAR) for home in homes) - 1
    return tuple(
        sorted(
            port.port
            for port in switch.ports
            if port.role == "fabric"
            and (switch.name, port.port) not in lost
            and any(distance[port.peer].get(home) == left for home in homes)
        )
    )


def _distances(fabric: Fabric, lost: Dead = ()) -> dict[str, dict[str, int]]:
    """Return how many links lead from each switch to each other one that it reaches."""
    graph = nx.Graph()
    graph.add_nodes_from(switch.name for switch in fabric.switches)
    graph.add_edges_from(
        (switch.name, port.peer)
        for switch in fabric.switches
        for port in switch.ports
        if port.role == "fabric" and (switch.name, port.port) not in lost
    )
    return dict(nx.all_pairs_shortest_path_length(graph))


def _both_ends(fabric: Fabric, dead: Dead) -> set[tuple[str, int]]:
    """Return the ports of both ends of each link between switches one end of which is dead."""
    lost = set()
    for name, number in dead:
        port = next(port for port in fabric.switch(name).ports if port.port == number)
        if port.role == "fabric":
            far = next(
                other
                for other in fabric.switch(port.peer).ports
                if other.peer == name and number in (other.peer_port, number if other.peer_port is None else None)
                and port.peer_port in (other.port, None)
            )  # fmt: skip
            lost |= {(name, number), (port.peer, far.port)}
    return lost


def _identity_entries(fabric: Fabric, switch: SwitchNode) -> list[Entry]:
    """Return the switch's own id, and which GPU ids belong to whom: for frames from other switches and packet-outs."""
    entries = [entry("station", {"dst": switch.id}, "local")]
    for gpu in fabric.gpus:
        entries.append(entry("fabric_tenant", {"owner": gpu.id}, "set_tenant", tenant=gpu.tenant))
        entries.append(entry("destination_tenant", {"dst": gpu.id}, "belongs_to", tenant=gpu.tenant))
    return entries


def _port_entries(fabric: Fabric, switch: SwitchNode) -> list[Entry]:
    guards: list[Entry] = []
    links: list[Entry] = []
    ports: list[Entry] = []
    for port in switch.ports:
        tenant = 0
        if port.role == "endpoint":
            gpu = fabric.gpu(port.peer)
            tenant = gpu.tenant
            guards.append(entry("source_guard", {"ingress_port": port.port, "src": gpu.id}, "allow"))
        links.append(egress_entry(fabric, port))
        settings = {"mode": MODES[port.mode], "role": ROLES[port.role], "tenant": tenant}
        ports.append(entry("port_config", {"ingress_port": port.port}, "set_port", **settings))
    return [*guards, *links, *ports]


def _forward_entries(fabric: Fabric, switch: SwitchNode, dead: Dead) -> list[Entry]:
    planned = next_hops(fabric, switch)
    instead = detours(fabric, switch, dead)
    # Planned groups first: their numbers stay as they are, whatever dies, so that a change of routes disturbs no other.
    groups: dict[tuple[int, ...], int] = {}
    members: list[Entry] = []
    for gpu_id, ports in (*sorted(planned.items()), *sorted(instead.items())):
        if len(ports) == 1 or ports in groups:
            continue
        if len(ports) > GROUP_MOST:
            raise FabricError([
                f"switch {switch.name}: {len(ports)} equal paths lead to GPU {fabric.gpu(gpu_id).name}; at most "
                f"{GROUP_MOST} are possible: join the switches by fewer links"
            ])  # fmt: skip
        groups[ports] = len(groups) + 1
        word = lanes((*ports, *(0,) * (GROUP_MOST - len(ports))), PORT_BITS)
        members.append(entry("path_group", {"group": groups[ports]}, "set_members", size=len(ports), ports=word))
    routes: list[Entry] = []
    for gpu_id, ports in sorted({**planned, **instead}.items()):
        match = {"tenant": fabric.gpu(gpu_id).tenant, "dst": gpu_id}
        if len(ports) == 1:
            routes.append(entry("forward", match, "to_port", port=ports[0]))
            continue
        routes.append(entry("forward", match, "to_group", group_id=groups[ports], home=_home(fabric, switch, gpu_id)))
    return members + routes


def _home(fabric: Fabric, switch: SwitchNode, gpu_id: int) -> int:
    """Return the id of the switch that a GPU is on in a switch's plane; nobody's where it is on several of them."""
    homes = {port.switch for port in fabric.gpu(gpu_id).ports if port.plane == switch.plane and port.switch is not None}
    return fabric.switch(homes.pop()).id if len(homes) == 1 else NOBODY
