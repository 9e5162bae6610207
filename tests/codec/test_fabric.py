"""The fabric description: round trip through JSON, and one clear message for each kind of fault."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.fabric import Fabric, FabricError, GpuNode, GpuPort, SwitchNode, SwitchPort


def two_planes() -> dict[str, Any]:
    """Two GPUs, two switches, each GPU with one port on each, and a link between the switches."""
    return {
        "topology": "planes",
        "tenants": {"1": "default"},
        "gpus": [
            {
                "id": g,
                "name": f"g{g}",
                "tenant": 1,
                "incarnation": 1,
                "ports": [
                    {"plane": p, "iface": f"g{g}-eth{p}", "switch": f"s{p + 1}", "switch_port": g} for p in range(2)
                ],
            }
            for g in (1, 2)
        ],
        "switches": [
            {
                "id": 0xF01 + p,
                "name": f"s{p + 1}",
                "plane": p,
                "device_id": p + 1,
                "grpc": f"127.0.0.1:{50051 + p}",
                "log": f"s{p + 1}.log",
                "ports": [
                    *(
                        {"port": g, "iface": f"s{p + 1}-eth{g}", "role": "endpoint", "peer": f"g{g}", "mode": "open"}
                        for g in (1, 2)
                    ),
                    {"port": 9, "iface": f"s{p + 1}-eth9", "role": "fabric", "peer": f"s{2 - p}"},
                ],
            }
            for p in range(2)
        ],
    }


def test_round_trip(tmp_path: Path) -> None:
    fabric = Fabric.from_json(two_planes())
    fabric.save(tmp_path / "fabric.json")
    again = Fabric.load(tmp_path / "fabric.json")
    assert again == fabric
    assert [p.name for p in tmp_path.iterdir()] == ["fabric.json"]
    assert fabric.gpu(2) is fabric.gpu("g2")
    assert fabric.gpu("g1").ports[1] == GpuPort(plane=1, iface="g1-eth1", switch="s2", switch_port=1)
    assert fabric.switch("s2").port_to("s1") == [
        SwitchPort(port=9, iface="s2-eth9", role="fabric", peer="s1", mode="open")
    ]
    assert [gpu.id for gpu in fabric.tenant_gpus(1)] == [1, 2]


def test_back_to_back_without_switches() -> None:
    fabric = Fabric(
        topology="back-to-back",
        gpus=tuple(GpuNode(id=i, name=f"g{i}", ports=(GpuPort(0, f"g{i}-eth0"),)) for i in (1, 2)),
    )
    assert Fabric.from_json(json.loads(json.dumps(fabric.to_json()))) == fabric


def test_unknown_node_is_named() -> None:
    fabric = Fabric.from_json(two_planes())
    with pytest.raises(KeyError, match=r"no GPU 7 in the fabric; there are g1 \(id 1\), g2 \(id 2\)"):
        fabric.gpu(7)
    with pytest.raises(KeyError, match=r"no switch 'g1' in the fabric; there are s1, s2"):
        fabric.switch("g1")


Edit = Callable[[dict[str, Any]], Any]

FAULTS: list[tuple[str, Edit, str]] = [
    ("duplicate id", lambda d: d["gpus"][1].update(id=1), "id 1 is used more than once: g1, g2"),
    ("duplicate name", lambda d: d["gpus"][1].update(name="g1"), "the name 'g1' is used more than once"),
    ("path as name", lambda d: d["gpus"][1].update(name="../g2"), "'../g2' is no name: letters, digits"),
    ("empty name", lambda d: d["gpus"][1].update(name=""), "'' is no name"),
    ("long iface", lambda d: d["gpus"][0]["ports"][0].update(iface="x" * 16), "is no interface name: 1 to 15"),
    ("no iface", lambda d: d["gpus"][0]["ports"][0].update(iface=""), "g1: '' is no interface name"),
    ("gpu id range", lambda d: d["gpus"][0].update(id=0xF00), "GPU g1: id 3840 is out of range, 0 to 3839"),
    ("negative id", lambda d: d["gpus"][0].update(id=-1), "GPU g1: id -1 is out of range"),
    ("switch id range", lambda d: d["switches"][0].update(id=0xFFF), "s1: id 4095 is out of range, 3840 to 4094"),
    ("tenant", lambda d: d["gpus"][0].update(tenant=3), "GPU g1: tenant 3 is not declared; declared are 1"),
    ("tenant range", lambda d: d.update(tenants={"1": "a", "0": "b"}), "tenant 0: out of range, 1 to 65535"),
    ("tenant name", lambda d: d.update(tenants={"one": "a"}), "tenants: 'one': 'a' is not a number with a name"),
    ("incarnation", lambda d: d["gpus"][0].update(incarnation=65536), "incarnation 65536 is out of range"),
    ("no port", lambda d: d["gpus"][0].update(ports=[]), "GPU g1: has no port"),
    ("plane twice", lambda d: d["gpus"][0]["ports"][1].update(plane=0), "GPU g1: two ports on plane 0"),
    ("iface twice", lambda d: d["gpus"][0]["ports"][1].update(iface="g1-eth0"), "interface g1-eth0 is used twice"),
    ("plane", lambda d: d["gpus"][0]["ports"][1].update(plane=2), "on plane 2, but switch s2 is on plane 1"),
    ("unknown switch", lambda d: d["gpus"][0]["ports"][0].update(switch="s9"), "unknown switch 's9'; there are s1, s2"),
    ("wrong port", lambda d: d["gpus"][0]["ports"][0].update(switch_port=5), "switch s1 has no port 5 with peer g1"),
    ("port twice", lambda d: d["switches"][0]["ports"][1].update(port=1), "switch s1: port 1 is used twice"),
    ("port range", lambda d: d["switches"][0]["ports"][0].update(port=510), "port 510: out of range, 1 to 503"),
    ("port zero", lambda d: d["switches"][0]["ports"][0].update(port=0), "port 0: out of range, 1 to 503"),
    ("plane range", lambda d: (d["gpus"][0]["ports"][1].update(plane=256), d["switches"][1].update(plane=256)),
     "plane 256 is out of range, 0 to 255"),
    ("role", lambda d: d["switches"][0]["ports"][0].update(role="edge"), "'edge' is unknown; choose endpoint or"),
    ("mode", lambda d: d["switches"][0]["ports"][0].update(mode="auto"), "'auto' is unknown; choose open or managed"),
    ("peer gpu", lambda d: d["switches"][0]["ports"][0].update(peer="s2"), "peer 's2' is not a GPU of this fabric"),
    ("peer switch", lambda d: d["switches"][0]["ports"][2].update(peer="g1"), "'g1' is not a switch of this fabric"),
    ("not wired back", lambda d: d["switches"][0]["ports"][2].update(peer_port=3), "3 of s2 is not wired back to it"),
    ("no link back", lambda d: d["switches"][1]["ports"].pop(2), "none comes back: give peer_port"),
    ("same device", lambda d: d["switches"][1].update(device_id=1, grpc="127.0.0.1:50051"), "to more than one switch"),
    ("missing", lambda d: d["gpus"][0].pop("id"), "gpus[0] (g1): 'id' is missing"),
    ("type", lambda d: d["gpus"][0].update(id="one"), "gpus[0] (g1): id = 'one' is not of type int"),
    ("bool", lambda d: d["gpus"][0].update(id=True), "gpus[0] (g1): id = True is not of type int"),
    ("unknown member", lambda d: d["gpus"][0].update(color="red"), "unknown member 'color'; known are id, name, ports"),
    ("not an object", lambda d: d["gpus"].append(3), "gpus[2]: expected an object, got 3"),
    ("port member", lambda d: d["gpus"][0]["ports"][0].pop("iface"), "gpus[0] (g1).ports[0]: 'iface' is missing"),
    ("no gpus", lambda d: d.pop("gpus"), "top level: 'gpus' is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "message"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_fault_is_named(edit: Edit, message: str) -> None:
    data = copy.deepcopy(two_planes())
    edit(data)
    with pytest.raises(FabricError) as caught:
        Fabric.from_json(data)
    assert any(message in problem for problem in caught.value.problems), caught.value.problems


def test_every_fault_is_listed_at_once() -> None:
    data = two_planes()
    data["gpus"][0]["tenant"] = 9
    data["switches"][1]["id"] = 12
    with pytest.raises(FabricError) as caught:
        Fabric.from_json(data)
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not JSON: Expecting property name enclosed in double quotes at line 1 column 2"),
        (b"\xff\xfe", "cannot be read: not text"),
        (b"[]", "top level: expected an object, got []"),
    ],
)
def test_bad_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "fabric.json"
    path.write_bytes(content)
    with pytest.raises(FabricError) as caught:
        Fabric.load(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FabricError, match=r"nothing\.json: cannot be read: No such file or directory"):
        Fabric.load(tmp_path / "nothing.json")


def test_parallel_links_need_peer_ports() -> None:
    def switch(name: str, number: int, peer: str, ports: tuple[tuple[int, int | None], ...]) -> SwitchNode:
        return SwitchNode(
            id=number,
            name=name,
            device_id=number - 0xF00,
            ports=tuple(SwitchPort(p, f"{name}-eth{p}", "fabric", peer, peer_port=q) for p, q in ports),
        )

    Fabric("x", (), (switch("a", 0xF01, "b", ((1, 2), (2, 1))), switch("b", 0xF02, "a", ((1, 2), (2, 1)))))
    with pytest.raises(FabricError, match="several links join a and b"):
        Fabric("x", (), (switch("a", 0xF01, "b", ((1, None), (2, 1))), switch("b", 0xF02, "a", ((1, 2), (2, 1)))))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def places(data: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a JSON value."""
    found: list[tuple[Any, Any]] = []
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in pairs:
        found += [(data, key), *places(value)]
    return found


@given(st.data())
def test_no_description_does_more_than_raise(data: st.DataObject) -> None:
    """Any value anywhere: either the description is valid, or FabricError says what is wrong."""
    description = two_planes()
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(places(description)))
        container[key] = data.draw(JSON)
    try:
        fabric = Fabric.from_json(description)
    except FabricError as error:
        assert error.problems and all(error.problems)
    else:
        assert Fabric.from_json(json.loads(json.dumps(fabric.to_json()))) == fabric


@given(JSON)
def test_no_json_does_more_than_raise(value: Any) -> None:
    with pytest.raises(FabricError):
        Fabric.from_json(value)
