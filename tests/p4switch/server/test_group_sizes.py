"""Sizes of groups and one shots, by the rules of P4Runtime 1.4 on max_size and on one-shot programming."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from finsy.proto import p4i, p4r

from p4switch.build import build
from p4switch.dataplane import DataPlane
from p4switch.server import ServerOptions, serve, status
from tests.p4switch.server.client import Client, WriteFailed, exact
from tests.p4switch.server.conftest import PROGRAMS

OK, INVALID, FULL = status.OK, status.INVALID_ARGUMENT, status.RESOURCE_EXHAUSTED
MEMBERS = range(1, 6)


@pytest.fixture
def client(dataplane: DataPlane) -> Iterator[Client]:
    program = build(PROGRAMS / "selectors.p4")
    with serve(dataplane, ServerOptions(grpc_addr="127.0.0.1:0"), program) as server:
        client = Client(server.port, p4info=program.p4info).become_primary()
        yield client
        client.close()


def profile(client: Client, name: str) -> p4i.ActionProfile:
    (found,) = [p for p in client.p4info.action_profiles if p.preamble.alias == name]
    return found


def code(write: Callable[[], Any]) -> int:
    try:
        write()
    except WriteFailed as failed:
        return failed.errors[0].canonical_code
    return OK


@pytest.mark.parametrize(
    ("name", "max_size", "weights", "wanted"),
    [
        # A limit in the P4Info: max_size is above 0 and not above it.
        ("by_weights", 4, (1, 3), OK),
        ("by_weights", 4, (2, 3), FULL),
        ("by_weights", 2, (1, 1), OK),
        ("by_weights", 2, (1, 2), FULL),
        ("by_weights", 0, (1,), INVALID),
        ("by_weights", 5, (1,), INVALID),
        ("by_weights", -1, (1,), INVALID),
        # Members are counted, whatever they weigh, which has a limit of its own.
        ("by_members", 3, (5, 5, 5), OK),
        ("by_members", 3, (1, 1, 1, 1), FULL),
        ("by_members", 2, (1, 1, 1), FULL),
        ("by_members", 3, (6,), INVALID),
        ("by_members", 3, (0,), INVALID),
        ("by_members", 0, (1,), INVALID),
        ("by_members", 4, (1,), INVALID),
    ],
)
def test_groups(client: Client, name: str, max_size: int, weights: tuple[int, ...], wanted: int) -> None:
    profile_id = profile(client, name).preamble.id
    action = client.action("set", 1).action
    for number in MEMBERS:
        client.insert(action_profile_member=p4r.ActionProfileMember(
            action_profile_id=profile_id, member_id=number, action=action))  # fmt: skip
    group = p4r.ActionProfileGroup(action_profile_id=profile_id, group_id=1, max_size=max_size)
    for number, weight in enumerate(weights, 1):
        group.members.add(member_id=number, weight=weight)
    assert code(lambda: client.insert(action_profile_group=group)) == wanted
    found = client.read(action_profile_group=p4r.ActionProfileGroup())
    assert found == ([group] if wanted == OK else [])
    if wanted == FULL:  # a group that grows is held to the same
        larger = p4r.ActionProfileGroup()
        larger.CopyFrom(group)
        del group.members[1:]
        client.insert(action_profile_group=group)
        assert code(lambda: client.modify(action_profile_group=larger)) == FULL
        assert client.read(action_profile_group=p4r.ActionProfileGroup()) == [group]


@pytest.mark.parametrize(
    ("table", "weights", "wanted"),
    [
        ("weighed", (1, 3), OK),
        ("weighed", (2, 3), INVALID),
        ("weighed", (1, 1, 1, 1, 1), INVALID),
        ("counted", (5, 5, 5), OK),
        ("counted", (1, 1, 1, 1), INVALID),
        ("counted", (6,), INVALID),
        ("counted", (0,), INVALID),
    ],
)
def test_one_shots(client: Client, table: str, weights: tuple[int, ...], wanted: int) -> None:
    """All have the same action: each counts for itself."""
    entry = client.entry(table, exact(1, 7))
    for weight in weights:
        shot = entry.action.action_profile_action_set.action_profile_actions.add(weight=weight)
        shot.action.CopyFrom(client.action("set", 1).action)
    assert code(lambda: client.insert(table_entry=entry)) == wanted
    assert client.read(table_entry=client.entry(table)) == ([entry] if wanted == OK else [])
