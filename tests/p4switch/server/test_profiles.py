"""Action profiles over gRPC: members shared by entries, and what a packet then meets."""

from __future__ import annotations

import queue
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from finsy.proto import p4r

from p4switch.build import BuildResult, build
from p4switch.dataplane import DataPlane
from p4switch.server import P4RuntimeServer, ServerOptions, serve, status
from tests.p4switch.server.client import Client, WriteFailed, exact, lpm, octets
from tests.p4switch.server.conftest import PROGRAMS, ip


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


def seen(client: Client, dataplane: DataPlane, src: int = 0x0B) -> int:
    """Send a frame and return the source address that the program gave it."""
    dataplane.packet_out(bytes.fromhex("00000000000a") + src.to_bytes(6, "big") + bytes.fromhex("1234") + bytes(46), 1)
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


def paths(
    client: Client, number: int, *members: tuple[int, int], watch: int | None = None, **fields: Any
) -> p4r.ActionProfileGroup:
    """Describe a group of (member, weight) pairs; the first one watches a port."""
    (info,) = [p for p in client.p4info.action_profiles if p.preamble.alias == "paths"]
    message = p4r.ActionProfileGroup(action_profile_id=info.preamble.id, group_id=number, **fields)
    for each, weight in members:
        message.members.add(member_id=each, weight=weight)
    if watch is not None:
        message.members[0].watch_port = octets(watch)
    return message


def spread(client: Client, dataplane: DataPlane, frames: int = 400) -> dict[int, int]:
    """Count what happens to frames of different sources, which is what the selector hashes."""
    counts: dict[int, int] = {}
    sources = random.Random(1)
    for _ in range(frames):
        value = seen(client, dataplane, sources.getrandbits(48))
        counts[value] = counts.get(value, 0) + 1
    return counts


def test_group(client: Client, dataplane: DataPlane) -> None:
    for number in (1, 2, 3):
        client.insert(action_profile_member=member(client, number, "mark", number, profile="paths"))
    group = paths(client, 5, (1, 1), (2, 3), max_size=8)
    client.insert(action_profile_group=group)
    assert client.read(action_profile_group=paths(client, 5)) == [group]
    assert failure(lambda: client.insert(action_profile_group=group)).canonical_code == status.ALREADY_EXISTS
    entry = client.entry("third", exact(1, 0x0A), action=p4r.TableAction(action_profile_group_id=5))
    client.insert(table_entry=entry)
    assert client.read(table_entry=client.entry("third")) == [entry]

    counts = spread(client, dataplane)
    assert set(counts) == {1, 2}
    assert 1.8 < counts[2] / counts[1] < 5.0  # weights 3 and 1
    assert len({seen(client, dataplane, 77) for _ in range(5)}) == 1  # a flow keeps its member

    client.modify(action_profile_member=member(client, 2, "mark", 22, profile="paths"))
    assert set(spread(client, dataplane, 50)) == {1, 22}
    client.modify(action_profile_group=paths(client, 5, (3, 1), max_size=8))
    assert set(spread(client, dataplane, 50)) == {3}
    client.modify(action_profile_group=paths(client, 5, max_size=8))  # empty: nothing is done, hence dropped to port 0
    dataplane.packet_out(bytes.fromhex("00000000000a00000000000b1234") + bytes(46), 1)
    with pytest.raises(queue.Empty):
        client.received.get(timeout=0.2)

    for action in (
        lambda: client.delete(action_profile_group=group),
        lambda: client.insert(action_profile_group=paths(client, 6, (9, 1))),
        lambda: client.modify(action_profile_group=paths(client, 5)),
    ):
        assert failure(action).canonical_code in (
            status.FAILED_PRECONDITION,
            status.NOT_FOUND,
            status.INVALID_ARGUMENT,
        )
    entry.action.action_profile_member_id = 1
    client.modify(table_entry=entry)
    assert seen(client, dataplane) == 1
    client.delete(action_profile_group=group)
    assert client.read(action_profile_group=p4r.ActionProfileGroup()) == []


@pytest.mark.parametrize(
    ("build_group", "code", "reason"),
    [
        (lambda c: paths(c, 0), status.INVALID_ARGUMENT, "0 is not a group id"),
        (lambda c: paths(c, 1, (9, 1)), status.NOT_FOUND, "member 9 does not exist"),
        (lambda c: paths(c, 1, (1, 0)), status.INVALID_ARGUMENT, "weight 0 is not above 0"),
        (lambda c: paths(c, 1, (1, -1)), status.INVALID_ARGUMENT, "weight -1 is not above 0"),
        (lambda c: paths(c, 1, (1, 1), (1, 1)), status.INVALID_ARGUMENT, "listed twice"),
        (lambda c: paths(c, 1, (1, 5), max_size=4), status.RESOURCE_EXHAUSTED, "its size 5 is above 4"),
        (lambda c: paths(c, 1, max_size=-1), status.INVALID_ARGUMENT, "max_size -1"),
        (lambda c: paths(c, 1, (1, 100_003), (2, 100_000)), status.RESOURCE_EXHAUSTED, "more than 65536"),
        (lambda c: paths(c, 1, (1, 1), watch=3), status.INVALID_ARGUMENT, "no port 3 to watch; there is none"),
        (lambda c: paths(c, 1, (1, 1), watch=600), status.INVALID_ARGUMENT, "does not fit in 9 bits"),
        (
            lambda c: p4r.ActionProfileGroup(action_profile_id=member(c, 1).action_profile_id, group_id=1),
            status.INVALID_ARGUMENT,
            "is no action selector",
        ),
    ],
)
def test_bad_group(client: Client, build_group: Callable[[Client], Any], code: int, reason: str) -> None:
    for number in (1, 2):
        client.insert(action_profile_member=member(client, number, "mark", 1, profile="paths"))
    error = failure(lambda: client.insert(action_profile_group=build_group(client)))
    assert error.canonical_code == code
    assert reason in error.message


def test_member_of_a_group_stays(client: Client) -> None:
    client.insert(action_profile_member=member(client, 1, "deny", profile="paths"))
    client.insert(action_profile_group=paths(client, 5, (1, 1)))
    error = failure(lambda: client.delete(action_profile_member=member(client, 1, profile="paths")))
    assert error.canonical_code == status.FAILED_PRECONDITION
    assert "used by 1 groups" in error.message


def one_shot(client: Client, *shots: tuple[int, int]) -> p4r.TableAction:
    message = p4r.TableAction()
    message.action_profile_action_set.SetInParent()
    for value, weight in shots:
        shot = message.action_profile_action_set.action_profile_actions.add(weight=weight)
        shot.action.CopyFrom(client.action("mark", value).action)
    return message


def test_one_shot(client: Client, dataplane: DataPlane) -> None:
    entry = client.entry("third", exact(1, 0x0A), action=one_shot(client, (1, 2), (2, 2), (1, 2)))
    client.insert(table_entry=entry)
    assert client.read(table_entry=client.entry("third")) == [entry]
    counts = spread(client, dataplane)
    assert set(counts) == {1, 2}
    assert 1.2 < counts[1] / counts[2] < 3.3
    error = failure(lambda: client.insert(action_profile_member=member(client, 1, "deny", profile="paths")))
    assert error.canonical_code == status.INVALID_ARGUMENT
    assert "one shots" in error.message
    for action in (refer(1), p4r.TableAction(action_profile_group_id=1)):
        other = client.entry("third", exact(1, 0x0B), action=action)
        error = failure(lambda other=other: client.insert(table_entry=other))  # type: ignore[misc]
        assert error.canonical_code == status.INVALID_ARGUMENT
        assert "are one shots" in error.message
    entry.action.CopyFrom(one_shot(client, (3, 1)))
    client.modify(table_entry=entry)
    assert set(spread(client, dataplane, 20)) == {3}
    client.delete(table_entry=entry)
    client.insert(action_profile_member=member(client, 1, "deny", profile="paths"))
    error = failure(lambda: client.insert(table_entry=entry))
    assert error.canonical_code == status.INVALID_ARGUMENT
    assert "has members or groups" in error.message


@pytest.mark.parametrize(
    ("action", "code", "reason"),
    [
        (refer(9), status.NOT_FOUND, "member 9 of 'Profiles.shared' does not exist"),
        (p4r.TableAction(), status.INVALID_ARGUMENT, "a member is needed, not none"),
        (p4r.TableAction(action=p4r.Action(action_id=1)), status.INVALID_ARGUMENT, "a member is needed, not action"),
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
    (found,) = client.read(table_entry=client.entry("first", is_default_action=True))
    assert found.is_const and found.action == client.action("NoAction")


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


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15  # a busy machine is slow to look
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_watched_member_of_a_group(client: Client, dataplane: DataPlane, cabled: str) -> None:
    for number in (1, 2):
        client.insert(action_profile_member=member(client, number, "mark", number, profile="paths"))
    group = paths(client, 5, (1, 1), (2, 1), watch=3)
    client.insert(action_profile_group=group)
    assert client.read(action_profile_group=paths(client, 5)) == [group]
    entry = client.entry("third", exact(1, 0x0A), action=p4r.TableAction(action_profile_group_id=5))
    client.insert(table_entry=entry)
    eventually(lambda: set(spread(client, dataplane, 20)) == {1, 2})
    ip("link", "set", cabled, "down")
    eventually(lambda: set(spread(client, dataplane, 20)) == {2})
    ip("link", "set", cabled, "up")
    eventually(lambda: set(spread(client, dataplane, 20)) == {1, 2})


def test_watched_one_shot(client: Client, dataplane: DataPlane, cabled: str) -> None:
    entry = client.entry("third", exact(1, 0x0A), action=one_shot(client, (1, 1), (2, 1)))
    entry.action.action_profile_action_set.action_profile_actions[1].watch_port = b"\x03"
    client.insert(table_entry=entry)
    assert client.read(table_entry=client.entry("third")) == [entry]
    eventually(lambda: set(spread(client, dataplane, 20)) == {1, 2})
    ip("link", "set", cabled, "down")
    eventually(lambda: set(spread(client, dataplane, 20)) == {1})
