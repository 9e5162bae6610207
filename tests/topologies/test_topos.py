"""Topologies and the descriptions derived from them; what is refused, and with which words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from codec.fabric import Fabric
from topologies.describe import describe
from topologies.errors import TopologyError
from topologies.topos import TOPOS, LeafSpine, Planes, parse_topo

REPOSITORY = Path(__file__).resolve().parents[2]


def described(text: str) -> Fabric:
    return describe(parse_topo(text), text.split(",", maxsplit=1)[0])


def test_planes_gives_every_gpu_one_port_on_every_switch() -> None:
    fabric = described("planes,8,2")
    assert [gpu.id for gpu in fabric.gpus] == list(range(1, 9))
    assert [(s.name, s.id, s.plane, s.device_id) for s in fabric.switches] == [("s1", 0xF01, 0, 1), ("s2", 0xF02, 1, 2)]
    for gpu in fabric.gpus:
        assert [(p.plane, p.iface, p.switch, p.switch_port) for p in gpu.ports] == [
            (0, f"{gpu.name}-eth0", "s1", gpu.id), (1, f"{gpu.name}-eth1", "s2", gpu.id),
        ]  # fmt: skip
    for switch in fabric.switches:
        assert [(p.port, p.iface, p.role, p.peer) for p in switch.ports] == [
            (n, f"{switch.name}-eth{n}", "endpoint", f"g{n}") for n in range(1, 9)
        ]


def test_leafspine_links_every_leaf_to_every_spine_once() -> None:
    fabric = described("leafspine,gpus=7,leaves=3,spines=2")
    assert [len([p for p in fabric.switch(f"leaf{n}").ports if p.role == "endpoint"]) for n in (1, 2, 3)] == [3, 2, 2]
    for leaf in ("leaf1", "leaf2", "leaf3"):
        uplinks = [p for p in fabric.switch(leaf).ports if p.role == "fabric"]
        assert [p.peer for p in uplinks] == ["spine1", "spine2"]
        for port in uplinks:
            back = next(p for p in fabric.switch(port.peer).ports if p.port == port.peer_port)
            assert (back.peer, back.peer_port) == (leaf, port.port)
    assert {p.plane for gpu in fabric.gpus for p in gpu.ports} == {0}


@pytest.mark.parametrize("topo", ["planes,6,1,3", "leafspine,6,2,1,3"])
def test_tenants_are_runs_of_neighbours(topo: str) -> None:
    assert [gpu.tenant for gpu in described(topo).gpus] == [1, 1, 2, 2, 3, 3]


def test_addresses_are_unique_and_logs_are_where_they_are_asked_to_be() -> None:
    fabric = describe(parse_topo("leafspine,8,4,4"), "leafspine", lambda name: f"/tmp/{name}.txt")
    assert len({s.grpc for s in fabric.switches}) == 8
    assert fabric.switch("spine2").log == "/tmp/spine2.txt"


def test_a_description_survives_its_file(tmp_path: Path) -> None:
    fabric = described("leafspine,5,2,2,2")
    fabric.save(tmp_path / "fabric.json")
    assert Fabric.load(tmp_path / "fabric.json") == fabric


@pytest.mark.parametrize("name", list(TOPOS))
def test_defaults_make_a_fabric(name: str) -> None:
    assert len(described(name).gpus) == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("planes,0,2", "TOPO=planes,0,2: gpus is 0, but must be 1 to 503 (one switch port each)."),
        ("planes,504,2", "TOPO=planes,504,2: gpus is 504, but must be 1 to 503 (one switch port each)."),
        ("planes,8,0", "TOPO=planes,8,0: planes is 0, but must be 1 to 16 (one switch each)."),
        ("planes,8,17", "TOPO=planes,8,17: planes is 17, but must be 1 to 16 (one switch each)."),
        ("planes,4,2,5", "TOPO=planes,4,2,5: tenants is 5, but must be 1 to 4 (at least one GPU each)."),
        ("planes,4,2,1,1", "TOPO=planes,4,2,1,1: planes takes at most 3 numbers."),
        ("planes,eight", "TOPO=planes,eight: gpus must be a whole number, not 'eight'."),
        ("planes,-1", "TOPO=planes,-1: gpus must be a whole number, not '-1'."),
        ("planes,", "TOPO=planes,: gpus must be a whole number, not ''."),
        ("planes,²", "TOPO=planes,²: gpus must be a whole number, not '²'."),
        ("planes,leaves=2", "TOPO=planes,leaves=2: planes has no parameter 'leaves'; it has gpus, planes, tenants."),
        ("planes,8,gpus=4", "TOPO=planes,8,gpus=4: gpus is given twice."),
        ("ring,8", "TOPO=ring,8: no topology is called 'ring'."),
        ("", "TOPO=: no topology is called ''."),
        ("leafspine,2,3,1",
         "TOPO=leafspine,2,3,1: leaves is 3, but must be 1 to 2 (at least one GPU each, one port of each spine)."),
        ("leafspine,1000,2,4",
         "TOPO=leafspine,1000,2,4: GPUs per leaf + spines is 504, but must be 2 to 503 (the ports of a leaf)."),
        ("leafspine,400,200,100",
         "TOPO=leafspine,400,200,100: leaves + spines is 300, but must be 2 to 254 (switch ids end there)."),
    ],
)  # fmt: skip
def test_malformed_topologies_are_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        parse_topo(text)
    first, hint = str(caught.value).split("\n")
    assert first == message
    assert hint.startswith(("Write it as: TOPO=", "Choose one of: planes,"))


def test_classes_can_be_used_without_the_parser() -> None:
    assert len(Planes(gpus=3, planes=2).links()) == 6
    with pytest.raises(TopologyError, match="spines is 0"):
        LeafSpine(gpus=3, spines=0)


def test_mininet_finds_the_parts_in_the_custom_file() -> None:
    """Load the file as `mn --custom` does: executed, by Debian's Python, away from the repository."""
    program = (
        "import sys; customs = {}; path = sys.argv[1]\n"
        "exec(compile(open(path).read(), path, 'exec'), customs, customs)\n"
        "print(*(sorted(customs[name]) for name in ('topos', 'switches', 'hosts', 'links')))"
    )
    path = REPOSITORY / "topologies" / "custom.py"
    done = subprocess.run(
        ["/usr/bin/python3", "-c", program, str(path)], capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.stderr == ""
    assert done.stdout == "['leafspine', 'planes'] ['bmv2', 'p4switch'] ['gpu'] ['ethlink']\n"
    assert sys.executable  # this very test runs in the project's environment, not in Debian's
