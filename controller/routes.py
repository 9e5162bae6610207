"""Compute from the fabric description what every switch's tables are to hold.

Pure functions: a description in, entries out. Paths are the shortest ones between switches; where there are several,
a multi-path group spreads over all of them. GPUs are never on the way to somewhere else. Tables, actions and their
meaning are documented in docs/pipeline.md.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import networkx as nx

from codec.constants import NOBODY
from codec.fabric import Fabric, FabricError, SwitchNode
from controller.entries import Entry, entry
from controller.events import event_entries
from controller.links import MODES, egress_entry, lanes, link_entries

ROLES: Final = {"endpoint": 1, "fabric": 2}
GROUP_MOST: Final = 16
"""Equal paths that a group holds."""
PORT_BITS: Final = 9


def entries_for(fabric: Fabric, switch: SwitchNode) -> list[Entry]:
    """Return everything that `switch` is to hold, in the order of installation.

    What others refer to comes first and `port_config` last: a port passes nothing until the rest is there.
    """
    return [
        *_identity_entries(fabric, switch),
        *_forward_entries(fabric, switch),
        *link_entries(fabric, switch),
        *event_entries(fabric, switch),
        *_port_entries(fabric, switch),
    ]


def next_hops(fabric: Fabric, switch: SwitchNode) -> dict[int, tuple[int, ...]]:
    """Return for each GPU id that can be reached the ports of `switch` on the shortest paths to it, ascending.

    A GPU on one of the switch's own ports is reached by that port alone.
    """
    graph = _switch_graph(fabric)
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    attached: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for gpu in fabric.gpus:
        for port in gpu.ports:
            if port.switch is not None and port.switch_port is not None:
                attached[gpu.id][port.switch].append(port.switch_port)
    hops: dict[int, tuple[int, ...]] = {}
    for gpu_id, homes in attached.items():
        if switch.name in homes:
            hops[gpu_id] = tuple(sorted(homes[switch.name]))
            continue
        reachable = [distance[switch.name][home] for home in homes if home in distance[switch.name]]
        if not reachable:
            continue
        left = min(reachable) - 1
        ports = [
            port.port
            for port in switch.ports
            if port.role == "fabric" and any(distance[port.peer].get(home) == left for home in homes)
        ]
        hops[gpu_id] = tuple(sorted(ports))
    return hops


def _switch_graph(fabric: Fabric) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(switch.name for switch in fabric.switches)
    graph.add_edges_from(
        (switch.name, port.peer) for switch in fabric.switches for port in switch.ports if port.role == "fabric"
    )
    return graph


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


def _forward_entries(fabric: Fabric, switch: SwitchNode) -> list[Entry]:
    groups: dict[tuple[int, ...], int] = {}
    members: list[Entry] = []
    routes: list[Entry] = []
    for gpu_id, ports in sorted(next_hops(fabric, switch).items()):
        match = {"tenant": fabric.gpu(gpu_id).tenant, "dst": gpu_id}
        if len(ports) == 1:
            routes.append(entry("forward", match, "to_port", port=ports[0]))
            continue
        group = groups.get(ports)
        if group is None:
            if len(ports) > GROUP_MOST:
                raise FabricError([
                    f"switch {switch.name}: {len(ports)} equal paths lead to GPU {fabric.gpu(gpu_id).name}; at most "
                    f"{GROUP_MOST} are possible: join the switches by fewer links"
                ])  # fmt: skip
            group = groups[ports] = len(groups) + 1
            word = lanes((*ports, *(0,) * (GROUP_MOST - len(ports))), PORT_BITS)
            members.append(entry("path_group", {"group": group}, "set_members", size=len(ports), ports=word))
        routes.append(entry("forward", match, "to_group", group_id=group, home=_home(fabric, switch, gpu_id)))
    return members + routes


def _home(fabric: Fabric, switch: SwitchNode, gpu_id: int) -> int:
    """Return the id of the switch that a GPU is on in a switch's plane; nobody's where it is on several of them."""
    homes = {port.switch for port in fabric.gpu(gpu_id).ports if port.plane == switch.plane and port.switch is not None}
    return fabric.switch(homes.pop()).id if len(homes) == 1 else NOBODY
