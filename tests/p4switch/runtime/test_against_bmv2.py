"""The traffic manager against BMv2's: the same program and random frames on both, the same frames must come out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from p4switch.build import build
from p4switch.dataplane import DataPlane

from ..bmv2 import INSTALLED, bmv2, compile_for_bmv2

PROGRAM = Path(__file__).with_name("traffic.p4")
PORTS = range(1, 9)
GROUPS = {1: [(2, 7), (3, 7)], 2: [(4, 9)], 3: [(5, 0)]}
SESSIONS = {1: [(5, 0)], 2: [(6, 0)], 3: [(7, 0)], 4: GROUPS[1]}
FRAMES = 1000

pytestmark = pytest.mark.skipif(not INSTALLED, reason="BMv2 is not installed")


def random_frame(rng: random.Random) -> bytes:
    if rng.random() < 0.05:
        return rng.randbytes(rng.choice((1, 14, 15)))  # a parser error
    ingress, egress = (rng.getrandbits(8) & rng.getrandbits(8) for _ in range(2))
    port = rng.choice((1, 2, 3, 4, 8, 8, 99, 511))
    payload = rng.randbytes(rng.choice((0, 1, 3, 20, 60)))
    return bytes((ingress, egress, rng.randrange(6), rng.randrange(6))) + port.to_bytes(2, "big") + bytes(10) + payload


def test_random_frames(tmp_path: Path) -> None:
    rng = random.Random(7)
    outputs = 0
    with bmv2(*compile_for_bmv2(PROGRAM, tmp_path), tmp_path) as theirs, DataPlane() as ours:
        ours.load(build(PROGRAM).library)
        for switch in (ours, theirs):
            for group, replicas in GROUPS.items():
                switch.set_multicast_group(group, replicas)
            for session, replicas in SESSIONS.items():
                switch.set_clone_session(session, replicas)
        for _ in range(FRAMES):
            data, port = random_frame(rng), rng.choice(PORTS)
            wanted, got = sorted(theirs.inject(port, data)), sorted(ours.inject(port, data))
            assert got == wanted, f"frame {data.hex()} on port {port}"
            outputs += len(got)
    assert outputs > FRAMES
