"""Reads of large tables: answered in pieces, as of one moment, without keeping others waiting."""

from __future__ import annotations

from typing import Any

import pytest
from finsy.proto import p4r

from p4switch.server import P4RuntimeServer, table_reads
from tests.p4switch.server.client import Client, exact

N = 3000


def entries(client: Client, n: int = N) -> list[p4r.TableEntry]:
    return [
        client.entry("exact_table", exact(1, i), action=client.action("counted_forward", i % 500 + 1)) for i in range(n)
    ]


def write(client: Client, kind: p4r.Update.Type.ValueType, found: list[p4r.TableEntry]) -> None:
    client.write(*(p4r.Update(type=kind, entity=p4r.Entity(table_entry=entry)) for entry in found))


def test_an_answer_is_of_one_moment(client: Client) -> None:
    """What is deleted and added while the answer is on its way makes no difference to it."""
    write(client, p4r.Update.INSERT, entries(client))
    query = p4r.Entity(table_entry=client.entry("exact_table"))
    answer = iter(client.stub.Read(p4r.ReadRequest(device_id=client.device_id, entities=[query])))
    first = next(answer)
    assert 0 < len(first.entities) < N
    write(client, p4r.Update.DELETE, entries(client))
    write(client, p4r.Update.INSERT, entries(client, 5))
    rest = [entity for response in answer for entity in response.entities]
    found = [entity.table_entry for entity in (*first.entities, *rest)]
    assert found == entries(client)  # in the order of their insertion
    assert len(client.read(table_entry=client.entry("exact_table"))) == 5


def test_direct_counters_come_in_the_same_way(client: Client) -> None:
    write(client, p4r.Update.INSERT, entries(client))
    table = client.entry("exact_table")
    found = client.read(direct_counter_entry=p4r.DirectCounterEntry(table_entry=table))
    assert [entry.table_entry.match[0] for entry in found] == [entry.match[0] for entry in entries(client)]


def test_nothing_is_made_while_the_device_is_locked(
    server: P4RuntimeServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries become messages as the client takes them: a large answer is neither built as a whole nor kept."""
    write(client, p4r.Update.INSERT, entries(client))
    made: list[int] = []
    add = table_reads._add

    def counting(*arguments: Any) -> None:
        made.append(1)
        add(*arguments)

    monkeypatch.setattr(table_reads, "_add", counting)
    query = p4r.Entity(table_entry=client.entry("exact_table"))
    responses, error = server._device.read(p4r.ReadRequest(device_id=client.device_id, entities=[query]))
    assert error is None
    assert not made
    first = next(responses)
    assert len(first.entities) <= len(made) <= len(first.entities) + 1
    assert sum(len(response.entities) for response in responses) == N - len(first.entities)
    assert len(made) == N
