"""Routes from descriptions: shortest paths, groups over equal ones, tenants, port roles."""

from __future__ import annotations

import dataclasses
from collections import Counter

import networkx as nx
import pytest

from codec.fabric import Fabric, FabricError
from codec.profile import LinkProfile
from controller.entries import Entry, entry
from controller.links import clone_sessions, multicast_groups
from controller.routes import detours, entries_for, next_hops
from tests.fabric.ring import RingTopo
from topologies.describe import describe
from topologies.topos import FabricTopo, parse_topo


def fabric_of(topo: str) -> Fabric:
    return describe(parse_topo(topo), topo.split(",", maxsplit=1)[0])


def walk(fabric: Fabric, at: str, gpu_id: int, choice: int) -> list[str]:
    """Follow the entries from switch `at` to a GPU, taking slot `choice` mod size of each group."""
    tables = {s.name: {e.key: e for e in entries_for(fabric, s)} for s in fabric.switches}
    tenant = fabric.gpu(gpu_id).tenant
    path = [at]
    while True:
        table = tables[path[-1]]
        found = table[entry("forward", {"tenant": tenant, "dst": gpu_id}, "").key]
        params = dict(found.params)
        if found.action == "to_group":
            assert params["home"] == fabric.switch(fabric.gpu(gpu_id).ports[0].switch or "").id
            group = dict(table[entry("path_group", {"group": params["group_id"]}, "").key].params)
            params = {"port": group["ports"] >> 9 * (15 - choice % group["size"]) & 0x1FF}
        port = next(p for p in fabric.switch(path[-1]).ports if p.port == params["port"])
        path.append(port.peer)
        if port.role == "endpoint":
            return path
        assert len(path) < 10, f"loop: {path}"


def test_planes_reach_every_gpu_by_its_own_port() -> None:
    fabric = fabric_of("planes,5,2")
    for switch in fabric.switches:
        assert next_hops(fabric, switch) == {n: (n,) for n in range(1, 6)}
        entries = entries_for(fabric, switch)
        assert Counter(e.table for e in entries) == {
            "station": 1, "port_config": 5, "egress_config": 5, "source_guard": 5,
            "fabric_tenant": 5, "destination_tenant": 5, "forward": 5, "link_events": 5, "event_listener": 5,
        }  # fmt: skip
        assert entry("forward", {"tenant": 1, "dst": 3}, "to_port", port=3) in entries
        assert entry("port_config", {"ingress_port": 3}, "set_port", mode=0, role=1, tenant=1) in entries
        assert entry("source_guard", {"ingress_port": 3, "src": 3}, "allow") in entries
        assert entry("station", {"dst": switch.id}, "local") in entries


def test_leafspine_spreads_over_all_spines_and_no_gpu_is_a_transit() -> None:
    fabric = fabric_of("leafspine,gpus=6,leaves=3,spines=4")
    for gpu in fabric.gpus:
        home = gpu.ports[0].switch
        for leaf in ("leaf1", "leaf2", "leaf3"):
            paths = {tuple(walk(fabric, leaf, gpu.id, choice)) for choice in range(12)}
            if leaf == home:
                assert paths == {(leaf, gpu.name)}
            else:
                assert paths == {(leaf, f"spine{n}", home, gpu.name) for n in (1, 2, 3, 4)}
        assert walk(fabric, "spine2", gpu.id, 0) == ["spine2", home, gpu.name]


def test_groups_are_shared_by_destinations_with_the_same_ports() -> None:
    fabric = fabric_of("leafspine,gpus=8,leaves=4,spines=2")
    entries = entries_for(fabric, fabric.switch("leaf1"))
    groups = {dict(e.params)["group_id"] for e in entries if e.action == "to_group"}
    assert groups == {1}
    (group,) = (dict(e.params) for e in entries if e.table == "path_group")
    assert group == {"size": 2, "ports": 3 << 135 | 4 << 126}  # behind two GPUs


def test_more_paths_than_a_group_holds_are_refused() -> None:
    fabric = fabric_of("leafspine,gpus=2,leaves=2,spines=17")
    with pytest.raises(FabricError) as caught:
        entries_for(fabric, fabric.switch("leaf1"))
    assert "switch leaf1: 17 equal paths lead to GPU g2; at most 16 are possible" in str(caught.value)
    assert entries_for(fabric, fabric.switch("spine17"))


def test_tenants_follow_the_gpu() -> None:
    fabric = fabric_of("planes,4,1,2")
    entries = entries_for(fabric, fabric.switches[0])
    routes = {e.match for e in entries if e.table == "forward"}
    assert routes == {(("dst", n), ("tenant", 1 if n <= 2 else 2)) for n in range(1, 5)}
    assert entry("destination_tenant", {"dst": 4}, "belongs_to", tenant=2) in entries
    assert entry("port_config", {"ingress_port": 4}, "set_port", mode=0, role=1, tenant=2) in entries


def test_fabric_ports_have_the_fabric_role_and_no_tenant() -> None:
    fabric = fabric_of("leafspine,2,2,1")
    entries = entries_for(fabric, fabric.switch("spine1"))
    assert entry("port_config", {"ingress_port": 1}, "set_port", mode=0, role=2, tenant=0) in entries
    assert not [e for e in entries if e.table == "source_guard"]


def test_keys_are_unique_on_every_switch() -> None:
    for topo in ("planes,7,3,3", "leafspine,9,3,2,2"):
        fabric = fabric_of(topo)
        for switch in fabric.switches:
            keys = Counter(e.key for e in entries_for(fabric, switch))
            assert max(keys.values()) == 1


def test_an_unreachable_gpu_has_no_route_and_no_error() -> None:
    fabric = fabric_of("planes,2,2")
    lonely = dataclasses.replace(fabric.gpus[1], ports=fabric.gpus[1].ports[:1])
    s2 = dataclasses.replace(fabric.switch("s2"), ports=fabric.switch("s2").ports[:1])
    fabric = dataclasses.replace(fabric, gpus=(fabric.gpus[0], lonely), switches=(fabric.switch("s1"), s2))
    assert next_hops(fabric, s2) == {1: (1,)}


def test_long_ways_round_are_not_taken() -> None:
    """On a random graph every next hop is one step closer, and every such link is used."""
    graph = nx.connected_watts_strogatz_graph(8, 4, 0.5, seed=3)

    class Random(FabricTopo):
        def build(self) -> None:
            names = [self.add_fabric_switch(f"s{n + 1}", 0) for n in graph.nodes]
            for name in names:
                self.addLink(self.add_gpu(), name, port1=0)
            for a, b in graph.edges:
                self.addLink(names[a], names[b])

    fabric = describe(Random(), "random")
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    for number, switch in enumerate(fabric.switches):
        for gpu_id, ports in next_hops(fabric, switch).items():
            peers = {p.port: p.peer for p in switch.ports}
            home = gpu_id - 1
            if home == number:
                assert [peers[p] for p in ports] == [f"g{gpu_id}"]
            else:
                closer = {f"s{n + 1}" for n in graph[number] if distance[n][home] == distance[number][home] - 1}
                assert {peers[p] for p in ports} == closer


@pytest.mark.parametrize("value", [Entry("forward", (("dst", 1), ("tenant", 2)), "to_port", (("port", 3),))])
def test_an_entry_prints_as_what_it_does(value: Entry) -> None:
    assert str(value) == "forward(dst=1, tenant=2) -> to_port(port=3)"


def test_managed_ports_get_their_profile() -> None:
    profile = LinkProfile(
        lossless_vcs=(0, 1), credit_limit=(40, 48, 0, 0, 0, 0, 0, 0), packet_overhead=-2, stall_ms=500
    )
    fabric = describe(parse_topo("planes,2,1"), "planes", mode="managed", profile=profile)
    (switch,) = fabric.switches
    entries = entries_for(fabric, switch)
    limits = 40 << 168 | 48 << 144
    assert [e for e in entries if e.table == "link_profile"][1] == entry(
        "link_profile", {"port": 2}, "set_profile", lossless_vcs=3, vc_map=0x053977, credit_size=10,
        packet_overhead=0xFE, credit_limit=limits, update_threshold=10 << 168 | 12 << 144, silence=100, stall=500,
        generation=0,
    )  # fmt: skip
    assert next(e for e in entries if e.table == "link_announcement") == entry(
        "link_announcement", {"egress_port": 1}, "announce", capabilities=2, credit_size=10, packet_overhead=0xFE,
        max_frame=4146, lossless_vcs=3, outstanding_frames_max=0, credit_limit=limits,
    )  # fmt: skip
    assert entry("egress_config", {"egress_port": 1}, "set_managed_link", vc_map=0x053977, ecn_threshold=32) in entries
    assert entry("port_config", {"ingress_port": 1}, "set_port", mode=1, role=1, tenant=1) in entries
    assert not [e for e in entries if e.table == "llr_profile"]
    loops = [(port, [port]) for port in (505, 508, 504, 509)]
    pairs = [(513, [(508, 1), (1, 2)]), (514, [(508, 1), (2, 2)]), (1017, [(508, 1), (505, 1)])]
    found = [(s.session_id, s.replicas) for s in clone_sessions(switch)]
    assert found == [(1, [1]), (2, [2]), *loops, *pairs]
    replicas = [(1, 1), (2, 2)]
    assert [(g.multicast_group_id, g.replicas) for g in multicast_groups(switch)] == [(2, replicas), (1, replicas)]


def test_ports_that_retry_get_their_settings() -> None:
    profile = LinkProfile(
        llr=True, outstanding_frames_max=16, outstanding_bytes_max=5000, replay_timer_us=4000, replay_count_max=3,
        flush_action="best_effort", re_init_on_flush=False, degraded_replays=50,
    )  # fmt: skip
    fabric = describe(parse_topo("planes,2,1"), "planes", mode="managed", profile=profile)
    entries = entries_for(fabric, fabric.switches[0])
    assert [e for e in entries if e.table == "llr_profile"][1] == entry(
        "llr_profile", {"port": 2}, "set_retry", outstanding_frames_max=16, outstanding_bytes_max=5000,
        replay_timer=4000, replay_count_max=3, flush_action=2, re_init_on_flush=0,
        degraded_replays=50,
    )  # fmt: skip
    said = [dict(e.params) for e in entries if e.table == "link_announcement"]
    assert [(one["capabilities"], one["outstanding_frames_max"]) for one in said] == [(3, 16), (3, 16)]


def test_open_ports_have_copies_for_link_faults_and_hear_the_keepalive() -> None:
    (switch,) = fabric_of("planes,2,1").switches
    assert [s.session_id for s in clone_sessions(switch)] == [1, 2, 505]
    assert [(g.multicast_group_id, g.replicas) for g in multicast_groups(switch)] == [(1, [(1, 1), (2, 2)])]


def test_a_ring_that_is_cut_is_gone_round_the_other_way() -> None:
    fabric = describe(RingTopo(), "ring")
    s1, s3, s4 = (fabric.switch(name) for name in ("s1", "s3", "s4"))
    assert next_hops(fabric, s1) == {1: (3,), 2: (1,), 3: (1,), 4: (2,), 5: (2,)}
    for dead in ([("s1", 1)], [("s2", 2)], [("s1", 1), ("s2", 2)]):
        assert detours(fabric, s1, dead) == {2: (2,), 3: (2,)}
        assert detours(fabric, s3, dead) == {1: (1,)}  # planned over s2, which has lost s1
        assert detours(fabric, s4, dead) == {}
    old, new = set(entries_for(fabric, s1)), set(entries_for(fabric, s1, [("s2", 2)]))
    assert {dict(item.match)["dst"] for item in new - old} == {2, 3}
    assert {item.table for item in old ^ new} == {"forward"}


def test_a_switch_that_is_cut_off_keeps_its_routes() -> None:
    fabric = describe(RingTopo(gpus=3), "ring")
    dead = [("s1", 1), ("s1", 2)]
    assert detours(fabric, fabric.switch("s1"), dead) == {}
    assert detours(fabric, fabric.switch("s2"), dead) == {}  # to GPU 1 there is none


def test_what_the_data_plane_skips_by_itself_changes_no_route() -> None:
    fabric = fabric_of("leafspine,gpus=6,leaves=3,spines=4")
    leaf = fabric.switch("leaf1")
    spine_port = next(port.port for port in fabric.switch("spine2").ports if port.peer == "leaf3")
    for dead in ([("leaf1", leaf.ports[-1].port)], [("spine2", spine_port)]):
        for switch in fabric.switches:
            assert entries_for(fabric, switch, dead) == entries_for(fabric, switch)


def test_a_dead_endpoint_port_changes_no_route() -> None:
    fabric = fabric_of("leafspine,gpus=6,leaves=3,spines=4")
    for switch in fabric.switches:
        assert entries_for(fabric, switch, [("leaf1", 1)]) == entries_for(fabric, switch)
