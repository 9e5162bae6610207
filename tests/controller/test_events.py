"""Who hears of which port, in which words; and that the limit on VC 7 has room for all of it."""

from __future__ import annotations

import dataclasses

from codec.fabric import Fabric
from controller.entries import entry
from controller.events import control_limits, event_entries, event_groups
from controller.plan import Plan
from topologies.describe import describe
from topologies.topos import parse_topo


def fabric_of(topo: str, mode: str = "open") -> Fabric:
    return describe(parse_topo(topo), topo.split(",", maxsplit=1)[0], mode=mode)


def groups_of(fabric: Fabric, name: str) -> dict[int, object]:
    return {group.multicast_group_id: group.replicas for group in event_groups(fabric, fabric.switch(name))}


def test_the_endpoint_ports_of_a_tenant_hear_of_each_other() -> None:
    fabric = fabric_of("planes,4,2", mode="managed")
    gpus = tuple(dataclasses.replace(gpu, tenant=7 if gpu.id in (2, 4) else 1) for gpu in fabric.gpus)
    fabric = dataclasses.replace(fabric, gpus=gpus, tenants={1: "default", 7: "other"})
    switch = fabric.switches[1]
    assert groups_of(fabric, switch.name) == {4: [(1, 1), (3, 3)], 5: [(2, 2), (4, 4)]}
    entries = event_entries(fabric, switch)
    said = {"source": switch.id, "plane": 1}
    assert entry("link_events", {"port": 3}, "tell_of_link", **said, subject=3, group=4) in entries
    assert entry("link_events", {"port": 4}, "tell_of_link", **said, subject=4, group=5) in entries
    assert entry("event_listener", {"egress_port": 4}, "address_to", dst=4, link_mode=1) in entries


def test_leaves_hear_of_each_other_from_the_spines_and_spines_of_nobody() -> None:
    fabric = fabric_of("leafspine,gpus=4,leaves=2,spines=3")
    spine, leaf, other = (fabric.switch(name) for name in ("spine1", "leaf1", "leaf2"))
    (port,) = spine.port_to("leaf2")
    assert sorted(groups_of(fabric, "spine1")) == [3]
    assert entry(
        "link_events", {"port": port.port}, "tell_of_link", source=spine.id, plane=0, subject=other.id, group=3
    ) in event_entries(fabric, spine)
    assert entry(
        "event_listener", {"egress_port": port.port}, "address_to", dst=other.id, link_mode=0
    ) in event_entries(fabric, spine)
    for uplink in (p for p in leaf.ports if p.role == "fabric"):
        (said,) = (e for e in event_entries(fabric, leaf) if e.key == ("link_events", (("port", uplink.port),)))
        assert dict(said.params)["group"] == 0
        assert dict(said.params)["subject"] == fabric.switch(uplink.peer).id


def test_a_switch_with_one_neighbour_tells_it_nothing_of_itself() -> None:
    fabric = fabric_of("leafspine,gpus=2,leaves=1,spines=1")
    (said,) = (e for e in event_entries(fabric, fabric.switch("spine1")) if e.table == "link_events")
    assert dict(said.params)["group"] == 0


def test_control_limits_leave_room_for_what_is_owed() -> None:
    fabric = fabric_of("leafspine,gpus=8,leaves=2,spines=2")
    leaf = fabric.switch("leaf1")
    limits = {limit.index: limit.config for limit in control_limits(fabric, leaf)}
    assert limits.keys() == {port.port for port in leaf.ports}
    for port in leaf.ports:
        config = limits[port.port]
        assert config is not None
        if port.role == "endpoint":
            assert (config.cir, config.cburst) == (1000, 100)
        else:  # 3 other switches, with 6, 2 and 2 ports; 8 GPUs
            assert (config.cir, config.cburst) == (1000 + 24 * 1000 + 10 * 100, 100 + 24 + 10)
        assert (config.pir, config.pburst) == (config.cir, config.cburst)


def test_the_plan_ends_with_the_keepalive() -> None:
    fabric = fabric_of("planes,3,1")
    plan = Plan.of(fabric, fabric.switches[0])
    assert [group.multicast_group_id for group in plan.groups] == [4, 1]
    assert {meter.meter_id for meter in plan.meters} == {"packet_in_rate", "control_rate_limit"}
