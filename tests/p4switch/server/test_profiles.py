"""Action profiles over gRPC: members shared by entries, and what a packet then meets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from finsy.proto import p4r

from p4switch.build import BuildResult, build
from p4switch.dataplane import DataPlane
from p4switch.server import P4RuntimeServer, ServerOptions, serve, status
from tests.p4switch.server.client import Client, WriteFailed, exact, lpm
from tests.p4switch.server.conftest import PROGRAMS


@pytest.fixture(scope="module")
def profiles_program() -> BuildResult:
    return build(PROGRAMS / "profiles.p4")


@pytest.fixture
def profiles_server(dataplane: DataPlane, profiles_program: BuildResult) -> Iterator[P4RuntimeServer]:
    with serve(dataplane, ServerOptions(grpc_addr="127.0.0.1:0"), profiles_program) as server:
        yield server


@pytest.fixture
def client(profiles_server: P4RuntimeServer, profiles_program: BuildResult) -> Iterator[Client]:
    client = Client(profiles_server.port, p4info=profiles_program.p4info).become_primary()
    yield client
    client.close()


def failure(action: Callable[[], Any]) -> p4r.Error:
    with pytest.raises(WriteFailed) as caught:
        action()
    (error,) = caught.value.errors
    return error


def member(client: Client, number: int, action: str | None = None, *args: int, profile: str = "shared") -> Any:
    (info,) = [p for p in client.p4info.action_profiles if p.preamble.alias == profile]
    message = p4r.ActionProfileMember(action_profile_id=info.preamble.id, member_id=number)
    if action is not None:
        message.action.CopyFrom(client.action(action, *args).action)
    return message


def refer(number: int) -> p4r.TableAction:
    return p4r.TableAction(action_profile_member_id=number)


def seen(client: Client, dataplane: DataPlane) -> int:
    """Send a frame and return the source address that the program gave it."""
    dataplane.packet_out(bytes.fromhex("00000000000a00000000000b1234") + bytes(46), 1)
    return int.from_bytes(client.next("packet").payload[6:12], "big")


def test_members(client: Client) -> None:
    first = member(client, 1, "mark", 77)
    client.insert(action_profile_member=first)
    client.insert(action_profile_member=member(client, 2, "deny"))
    assert client.read(action_profile_member=member(client, 1)) == [first]
    assert len(client.read(action_profile_member=p4r.ActionProfileMember())) == 2
    assert failure(lambda: client.insert(action_profile_member=first)).canonical_code == status.ALREADY_EXISTS
    changed = member(client, 1, "mark", 78)
    client.modify(action_profile_member=changed)
    assert client.read(action_profile_member=member(client, 1)) == [changed]
    client.delete(action_profile_member=member(client, 1))
    assert failure(lambda: client.delete(action_profile_member=changed)).canonical_code == status.NOT_FOUND
    assert failure(lambda: client.modify(action_profile_member=changed)).canonical_code == status.NOT_FOUND


@pytest.mark.parametrize(
    ("build_member", "code", "reason"),
    [
        (lambda c: member(c, 0, "deny"), status.INVALID_ARGUMENT, "0 is not a member id"),
        (lambda c: member(c, 1), status.INVALID_ARGUMENT, "the action is missing"),
        (lambda c: member(c, 1, "mark"), status.INVALID_ARGUMENT, "lacks an argument for value"),
        (lambda c: member(c, 1, "NoAction"), status.PERMISSION_DENIED, "@defaultonly"),
        (lambda c: p4r.ActionProfileMember(action_profile_id=5), status.INVALID_ARGUMENT, "no action profile has id 5"),
    ],
)
def test_bad_member(client: Client, build_member: Callable[[Client], Any], code: int, reason: str) -> None:
    error = failure(lambda: client.insert(action_profile_member=build_member(client)))
    assert error.canonical_code == code
    assert reason in error.message


def test_profile_full(client: Client) -> None:
    for number in range(1, 5):
        client.insert(action_profile_member=member(client, number, "deny"))
    error = failure(lambda: client.insert(action_profile_member=member(client, 5, "deny")))
    assert error.canonical_code == status.RESOURCE_EXHAUSTED


def test_entries_share_members(client: Client, dataplane: DataPlane) -> None:
    client.insert(action_profile_member=member(client, 1, "mark", 77))
    client.insert(action_profile_member=member(client, 2, "mark", 88))
    one = client.entry("first", exact(1, 0x0A), action=refer(1), metadata=b"m")
    other = client.entry("second", lpm(1, 0x1000, 4), action=refer(1))
    client.insert(table_entry=one)
    client.insert(table_entry=other)
    assert client.read(table_entry=client.entry("first")) == [one]
    assert seen(client, dataplane) == 77
    client.modify(action_profile_member=member(client, 1, "mark", 79))
    assert seen(client, dataplane) == 79
    client.delete(table_entry=one)
    assert seen(client, dataplane) == 79  # the other entry has changed with its member as well
    other.action.action_profile_member_id = 2
    client.modify(table_entry=other)
    assert seen(client, dataplane) == 88
    client.delete(action_profile_member=member(client, 1))
    error = failure(lambda: client.delete(action_profile_member=member(client, 2)))
    assert error.canonical_code == status.FAILED_PRECONDITION
    assert "used by 1 table entries" in error.message
    client.delete(table_entry=other)
    client.delete(action_profile_member=member(client, 2))


def test_selector_takes_members(client: Client, dataplane: DataPlane) -> None:
    client.insert(action_profile_member=member(client, 7, "mark", 5, profile="paths"))
    entry = client.entry("third", exact(1, 0x0A), action=refer(7))
    client.insert(table_entry=entry)
    assert client.read(table_entry=client.entry("third")) == [entry]
    assert seen(client, dataplane) == 5


@pytest.mark.parametrize(
    ("action", "code", "reason"),
    [
        (refer(9), status.NOT_FOUND, "member 9 of action profile 'Profiles.shared' does not exist"),
        (p4r.TableAction(), status.INVALID_ARGUMENT, "a member id is needed, not none"),
        (p4r.TableAction(action=p4r.Action(action_id=1)), status.INVALID_ARGUMENT, "a member id is needed, not action"),
        (p4r.TableAction(action_profile_group_id=1), status.INVALID_ARGUMENT, "not action_profile_group_id"),
    ],
)
def test_bad_reference(client: Client, action: p4r.TableAction, code: int, reason: str) -> None:
    error = failure(lambda: client.insert(table_entry=client.entry("first", exact(1, 1), action=action)))
    assert error.canonical_code == code
    assert reason in error.message


def test_default_of_an_indirect_table_is_const(client: Client) -> None:
    entry = client.entry("first", is_default_action=True, action=client.action("deny"))
    assert failure(lambda: client.modify(table_entry=entry)).canonical_code == status.PERMISSION_DENIED


def test_rollback_restores_references(client: Client, dataplane: DataPlane) -> None:
    client.insert(action_profile_member=member(client, 1, "mark", 77))
    client.insert(action_profile_member=member(client, 2, "mark", 88))
    entry = client.entry("first", exact(1, 0x0A), action=refer(1))
    client.insert(table_entry=entry)
    changed = client.entry("first", exact(1, 0x0A), action=refer(2))

    def update(kind: Any, **entity: Any) -> p4r.Update:
        return p4r.Update(type=kind, entity=p4r.Entity(**entity))

    with pytest.raises(WriteFailed):
        client.write(
            update(p4r.Update.MODIFY, table_entry=changed),
            update(p4r.Update.MODIFY, action_profile_member=member(client, 1, "mark", 79)),
            update(p4r.Update.DELETE, action_profile_member=member(client, 1)),
            update(p4r.Update.DELETE, table_entry=entry),
            update(p4r.Update.INSERT, action_profile_member=member(client, 2, "mark", 1)),
            atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR,
        )
    assert client.read(table_entry=client.entry("first")) == [entry]
    assert seen(client, dataplane) == 77
    assert failure(lambda: client.delete(action_profile_member=member(client, 1))).canonical_code == (
        status.FAILED_PRECONDITION
    )
