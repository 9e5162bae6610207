"""Entries of tables that the program gives, const ones among others that a controller may change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from finsy.proto import p4r

from p4switch.build import build
from p4switch.dataplane import DataPlane
from p4switch.server import ServerOptions, serve, status
from tests.p4switch.server.client import Client, WriteFailed, exact
from tests.p4switch.server.conftest import PROGRAMS


@pytest.fixture
def client(dataplane: DataPlane) -> Iterator[Client]:
    program = build(PROGRAMS / "initial_entries.p4")
    with serve(dataplane, ServerOptions(grpc_addr="127.0.0.1:0"), program) as server:
        client = Client(server.port, p4info=program.p4info).become_primary()
        yield client
        client.close()


def entry(client: Client, a: int, port: int) -> p4r.TableEntry:
    return client.entry("mixed", exact(1, a), action=client.action("set_port", port))


def ports(client: Client) -> dict[int, tuple[int, bool]]:
    """Return each entry's port, and whether it is const, by its key."""
    return {
        e.match[0].exact.value[0]: (e.action.action.params[0].value[0], e.is_const)
        for e in client.read(table_entry=client.entry("mixed"))
    }


def refused(client: Client, kind: str, message: p4r.TableEntry) -> int:
    with pytest.raises(WriteFailed) as caught:
        getattr(client, kind)(table_entry=message)
    return caught.value.errors[0].canonical_code


def test_a_const_entry_stays_beside_one_that_changes(client: Client, dataplane: DataPlane) -> None:
    assert ports(client) == {1: (11, True), 2: (12, False)}
    assert refused(client, "modify", entry(client, 1, 5)) == status.PERMISSION_DENIED
    assert refused(client, "delete", entry(client, 1, 5)) == status.PERMISSION_DENIED
    assert refused(client, "insert", entry(client, 1, 5)) == status.ALREADY_EXISTS
    client.modify(table_entry=entry(client, 2, 6))
    assert ports(client) == {1: (11, True), 2: (6, False)}
    assert [dataplane.inject(3, bytes([a]))[0][0] for a in (1, 2, 9)] == [11, 6, 1]
    client.delete(table_entry=entry(client, 2, 0))
    assert ports(client) == {1: (11, True)}


def test_counters_of_a_const_entry_may_be_set(client: Client) -> None:
    message = entry(client, 1, 0)
    message.ClearField("action")
    message.counter_data.packet_count = 7
    client.modify(table_entry=message)
    query = client.entry("mixed", counter_data=p4r.CounterData())
    counts = {e.match[0].exact.value[0]: e.counter_data.packet_count for e in client.read(table_entry=query)}
    assert counts == {1: 7, 2: 0}


def test_the_programs_own_entries_take_no_room(client: Client) -> None:
    """The table is of size 2: that is for the controller, also after it has deleted what the program gave."""
    client.delete(table_entry=entry(client, 2, 0))
    for a in (3, 4):
        client.insert(table_entry=entry(client, a, 5))
    assert refused(client, "insert", entry(client, 5, 5)) == status.RESOURCE_EXHAUSTED
    assert ports(client).keys() == {1, 3, 4}
