"""The traffic manager against BMv2's: the same program and random frames on both, the same frames must come out."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from p4switch.build import build
from p4switch.dataplane import DataPlane

from .wires import FarEnd, cable, ip, own_namespace

TOOLS = ("p4c-bm2-ss", "simple_switch", "simple_switch_CLI")
PROGRAM = Path(__file__).with_name("traffic.p4")
PORTS = range(1, 9)
GROUPS = {1: [(2, 7), (3, 7)], 2: [(4, 9)], 3: [(5, 0)]}
SESSIONS = {1: [(5, 0)], 2: [(6, 0)], 3: [(7, 0)], 4: GROUPS[1]}  # 4: to multicast group 1
CLI = """
mc_mgrp_create 1
mc_mgrp_create 2
mc_mgrp_create 3
mc_node_create 7 2 3
mc_node_create 9 4
mc_node_create 0 5
mc_node_associate 1 0
mc_node_associate 2 1
mc_node_associate 3 2
mirroring_add 1 5
mirroring_add 2 6
mirroring_add 3 7
mirroring_add_mc 4 1
"""
FRAMES = 250
SHORTEST = 14  # what a veth carries

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(any(shutil.which(tool) is None for tool in TOOLS), reason="BMv2 is not installed"),
]


@contextmanager
def bmv2(folder: Path) -> Iterator[None]:
    config = folder / "traffic.json"
    subprocess.run(["p4c-bm2-ss", "--arch", "v1model", "-o", config, PROGRAM], check=True, capture_output=True)
    ports = [word for port in PORTS for word in ("-i", f"{port}@rt-p{port}")]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        thrift = str(probe.getsockname()[1])
    command = ["simple_switch", "--thrift-port", thrift, *ports, str(config)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(100):
                done = subprocess.run(
                    ["simple_switch_CLI", "--thrift-port", thrift],
                    input=CLI,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if "Associating node 2" in done.stdout:
                    break
                time.sleep(0.1)
            else:
                raise RuntimeError(f"BMv2 does not serve: {done.stdout}{done.stderr}")
            yield
        finally:
            process.kill()


def random_frame(rng: random.Random) -> bytes:
    if rng.random() < 0.05:
        return rng.randbytes(rng.choice((14, 15)))  # a parser error
    ingress, egress = (rng.getrandbits(8) & rng.getrandbits(8) for _ in range(2))
    port = rng.choice((1, 2, 3, 4, 8, 8, 99, 511))
    payload = rng.randbytes(rng.choice((0, 1, 3, 20, 60)))
    return bytes((ingress, egress, rng.randrange(6), rng.randrange(6))) + port.to_bytes(2, "big") + bytes(10) + payload


def test_random_frames(tmp_path: Path) -> None:
    rng = random.Random(7)
    outputs = 0
    with own_namespace(), DataPlane() as switch:
        ip("link", "set", "lo", "up")
        for port in PORTS:
            cable(f"rt-p{port}", f"rt-h{port}")
        ends = {port: FarEnd(f"rt-h{port}") for port in PORTS}
        switch.load(build(PROGRAM).library)
        for group, replicas in GROUPS.items():
            switch.set_multicast_group(group, replicas)
        for session, replicas in SESSIONS.items():
            switch.set_clone_session(session, replicas)
        with bmv2(tmp_path):
            for _ in range(FRAMES):
                data, port_in = random_frame(rng), rng.choice(PORTS)
                ours = sorted(
                    (p, out) for p, out in switch.inject(port_in, data) if p in PORTS and len(out) >= SHORTEST
                )
                ends[port_in].send(data)
                theirs = []
                for port, _ in ours:
                    received = ends[port].receive(2.0)
                    theirs.append((port, received))
                time.sleep(0.002)
                theirs += [(port, extra) for port, end in ends.items() if (extra := end.receive(0.0)) is not None]
                assert sorted(theirs, key=repr) == sorted(ours, key=repr), f"frame {data.hex()} on port {port_in}"
                outputs += len(ours)
        for end in ends.values():
            end.close()
    assert outputs > FRAMES
