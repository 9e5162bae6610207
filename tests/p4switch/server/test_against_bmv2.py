"""Action selectors beside BMv2's: after the same writes, the same frames get the same members."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from finsy.proto import p4r

from p4switch.build import build
from p4switch.dataplane import DataPlane
from p4switch.server import ServerOptions, serve
from ptf_tests.p4runtime import Names, P4RuntimeClient, canonical

from ..bmv2 import INSTALLED, bmv2, compile_for_bmv2
from .conftest import PROGRAMS

PROGRAM = PROGRAMS / "profiles.p4"
MEMBERS = range(1, 8)
DST = 5
FRAMES = 60

pytestmark = pytest.mark.skipif(not INSTALLED, reason="BMv2 is not installed")


def action(names: Names, value: int) -> p4r.Action:
    made = p4r.Action(action_id=names.find("actions", "mark").preamble.id)
    made.params.add(param_id=1, value=canonical(value))
    return made


def member(names: Names, number: int) -> p4r.Entity:
    entity = p4r.Entity()
    entity.action_profile_member.action_profile_id = names.find("action_profiles", "paths").preamble.id
    entity.action_profile_member.member_id = number
    entity.action_profile_member.action.CopyFrom(action(names, number))
    return entity


def group(names: Names, weights: dict[int, int]) -> p4r.Entity:
    entity = p4r.Entity()
    made = entity.action_profile_group
    made.action_profile_id, made.group_id, made.max_size = names.find("action_profiles", "paths").preamble.id, 1, 16
    for number, weight in weights.items():
        made.members.add(member_id=number, weight=weight)
    return entity


def one_shot(names: Names, values: Iterable[int]) -> p4r.TableEntry:
    entry: p4r.TableEntry = names.entry("third", {"hdr.ethernet.dst": DST + 1})
    for value in values:
        made = entry.action.action_profile_action_set.action_profile_actions.add(weight=1)
        made.action.CopyFrom(action(names, value))
    return entry


def frames(rng: random.Random) -> Iterable[bytes]:
    for _ in range(FRAMES):
        yield rng.choice((DST, DST + 1)).to_bytes(6, "big") + rng.randbytes(6) + b"\x12\x34"


def test_the_same_members_are_chosen(tmp_path: Path) -> None:
    program = build(PROGRAM)
    p4info, config = compile_for_bmv2(PROGRAM, tmp_path)
    names = Names(p4info)
    rng = random.Random(3)
    steps: list[list[tuple[str, list[Any]]]] = [  # what is written, one after the other; between them frames
        [
            ("INSERT", [member(names, number) for number in MEMBERS]),
            ("INSERT", [group(names, dict.fromkeys(MEMBERS, 1))]),
        ],
        [("INSERT", [by_group(names)])],
        [("MODIFY", [group(names, {3: 1, 5: 1})])],
        [("MODIFY", [group(names, {7: 1, 5: 1, 3: 1, 1: 1})])],
        [("MODIFY", [group(names, {2: 3, 4: 1})])],
        [("MODIFY", [group(names, {6: 1})])],
        [("DELETE", [by_group(names)]), ("DELETE", [group(names, {})])],
        [("DELETE", [member(names, 3), member(names, 1)]), ("INSERT", [member(names, 8), member(names, 9)])],
        [("INSERT", [group(names, {9: 1, 8: 2, 2: 1})]), ("INSERT", [by_group(names)])],
        [("DELETE", [by_group(names)]), ("DELETE", [group(names, {})])],
        [("DELETE", [member(names, number) for number in (2, 4, 5, 6, 7, 8, 9)])],
        [("INSERT", [one_shot(names, (11, 12, 13))])],
        [("MODIFY", [one_shot(names, (14, 12))])],
    ]
    with (
        DataPlane() as ours,
        serve(ours, ServerOptions(grpc_addr="127.0.0.1:0"), program) as server,
        P4RuntimeClient(f"127.0.0.1:{server.port}", 1, names) as client,
        bmv2(p4info, config, tmp_path) as theirs,
    ):
        chosen = set()
        for number, step in enumerate(steps):
            for kind, entities in step:
                for controller in (client, theirs.client):
                    controller.write(kind, entities)
            for frame in frames(rng):
                wanted = theirs.inject(1, frame)
                assert ours.inject(1, frame) == wanted, f"step {number}, frame {frame.hex()}"
                chosen |= {out[6:12] for _, out in wanted}
    assert len(chosen) > 10


def by_group(names: Names) -> p4r.TableEntry:
    entry: p4r.TableEntry = names.entry("third", {"hdr.ethernet.dst": DST})
    entry.action.action_profile_group_id = 1
    return entry
