"""Switch nodes are started with the settings that each target needs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from topologies.nodes import Bmv2Switch, FabricSwitch, P4SwitchNode, PortQueue, grpc_address, last_lines


def bare(cls: type[FabricSwitch], tmp_path: Path, *, pcap: bool = False, senses: bool = False) -> FabricSwitch:
    """Make a node without its Mininet shell: what `command` looks at, no more."""
    node = cls.__new__(cls)
    node.name, node.device_id, node.grpc = "s2", 2, grpc_address(2)
    node.senses, node.queues = senses, {}
    node.pcap_dir = tmp_path / "pcap" if pcap else None
    loopback, first, second = (SimpleNamespace(name=name) for name in ("lo", "s2-eth1", "s2-eth7"))
    node.intfs = {7: second, 0: loopback, 1: first}
    return node


def pairs(command: list[str]) -> set[tuple[str, str]]:
    return set(pairwise(command))


def test_p4switch_gets_its_ports_address_and_cpu_port(tmp_path: Path) -> None:
    command = bare(P4SwitchNode, tmp_path, pcap=True).command()
    assert "--no-p4" in command
    assert pairs(command) >= {
        ("-i", "1@s2-eth1"), ("-i", "7@s2-eth7"), ("--grpc-addr", "127.0.0.1:50052"), ("--device-id", "2"),
        ("--cpu-port", "510"), ("--pcap", str(tmp_path / "pcap")),
    }  # fmt: skip
    assert not [word for word in command if "lo" in word.split("@")]


def test_a_switch_that_senses_has_a_clock_and_all_have_a_paced_hold_loop(tmp_path: Path) -> None:
    assert "--event-port" not in bare(P4SwitchNode, tmp_path).command()
    command = bare(P4SwitchNode, tmp_path, senses=True).command()
    assert pairs(command) >= {
        ("--event-port", "507"), ("--tick-us", "1000"), ("--port-rate", "509=20000"), ("--port-depth", "509=32768"),
    }  # fmt: skip


def test_a_port_is_slowed_down_in_bits_with_its_queue(tmp_path: Path) -> None:
    node = bare(P4SwitchNode, tmp_path, senses=True)
    node.queues = {7: PortQueue(frames_per_s=1000, frame_bytes=300, depth=320)}
    assert pairs(node.command()) >= {("--port-rate", "7=2400000bit"), ("--port-depth", "7=320")}


def test_a_port_with_a_slow_queue_does_not_slow_the_hold_loop_by_itself(tmp_path: Path) -> None:
    node = bare(Bmv2Switch, tmp_path, senses=True)
    node.queues[9] = PortQueue(frames_per_s=20, frame_bytes=48, depth=64)
    assert node.hold_pace == 20_000
    node.slow_down({9: PortQueue(frames_per_s=1000, frame_bytes=48, depth=64)})
    assert node.hold_pace == 5000
    node.slow_down({})
    assert node.hold_pace == 20_000


def test_bmv2_gets_a_thrift_port_of_its_own_and_its_target_options_last(tmp_path: Path) -> None:
    node = bare(Bmv2Switch, tmp_path)
    command = node.command()
    general, target = command[: command.index("--")], command[command.index("--") + 1 :]
    assert pairs(general) >= {("--thrift-port", "9091"), ("--device-id", "2"), ("-i", "7@s2-eth7")}
    assert pairs(target) == pairs(["--grpc-server-addr", "127.0.0.1:50052", "--cpu-port", "510", "--drop-port", "511"])
    assert "--priority-queues" not in command
    assert node.ports_used() == [50052, 9091]


def test_the_end_of_a_log_is_quoted_or_its_absence(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    assert last_lines(path) == ["(no log: No such file or directory)"]
    path.write_bytes(b"")
    assert last_lines(path) == ["(the log is empty)"]
    path.write_bytes(b"one\ntwo\n\xff\n")
    assert last_lines(path, 2) == ["two", "\ufffd"]


@pytest.mark.parametrize("device_id", [1, 250])
def test_addresses_follow_the_device_id(device_id: int) -> None:
    assert grpc_address(device_id) == f"127.0.0.1:{50050 + device_id}"
