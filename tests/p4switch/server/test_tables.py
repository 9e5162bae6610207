"""Table entries over gRPC: every kind of match, every rule, and reads that give back what was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from finsy.proto import p4r, p4r_grpc

from p4switch.server import P4RuntimeServer, status
from tests.p4switch.server.client import Client, WriteFailed, between, details, exact, lpm, optional, ternary

Build = Callable[[Client], p4r.TableEntry]

GOOD: dict[str, Build] = {
    "exact": lambda c: c.entry("exact_table", exact(1, 0x112233445566), action=c.action("counted_forward", 300)),
    "lpm": lambda c: c.entry("lpm_table", lpm(1, 0x110000000000, 8), action=c.action("to_cpu", 5)),
    "lpm, don't care": lambda c: c.entry("lpm_table", action=c.action("NoAction")),
    "ternary": lambda c: c.entry(
        "ternary_table", ternary(1, 0x10, 0xF0), exact(2, 0x800), priority=10, action=c.action("rated")
    ),
    "ternary, don't care": lambda c: c.entry("ternary_table", exact(2, 0), priority=1, action=c.action("NoAction")),
    "range": lambda c: c.entry("range_table", between(1, 0, 0x600), priority=7, action=c.action("learn")),
    "optional": lambda c: c.entry("optional_table", optional(2, 0x806), priority=2, action=c.action("deny")),
    "optional, don't care": lambda c: c.entry("optional_table", priority=2, action=c.action("deny")),
    "with metadata": lambda c: c.entry(
        "exact_table", exact(1, 1), action=c.action("counted_forward", 1), metadata=b"mine", controller_metadata=77
    ),
    "with time-out": lambda c: c.entry(
        "optional_table", optional(1, 1), priority=2, action=c.action("deny"), idle_timeout_ns=10**15
    ),
}


def failure(action: Callable[[], Any]) -> p4r.Error:
    """Return the error of the only update of a Write."""
    with pytest.raises(WriteFailed) as caught:
        action()
    (error,) = caught.value.errors
    return error


@pytest.mark.parametrize("name", GOOD)
def test_read_gives_back_what_was_written(client: Client, name: str) -> None:
    entry = GOOD[name](client)
    client.insert(table_entry=entry)
    assert client.read(table_entry=p4r.TableEntry(table_id=entry.table_id)) == [entry]
    assert failure(lambda: client.insert(table_entry=entry)).canonical_code == status.ALREADY_EXISTS
    client.modify(table_entry=entry)
    assert client.read(table_entry=p4r.TableEntry(table_id=entry.table_id)) == [entry]
    client.delete(table_entry=entry)
    assert client.read(table_entry=p4r.TableEntry(table_id=entry.table_id)) == []
    assert failure(lambda: client.delete(table_entry=entry)).canonical_code == status.NOT_FOUND
    assert failure(lambda: client.modify(table_entry=entry)).canonical_code == status.NOT_FOUND


def broken(name: str, **changes: Any) -> Build:
    def build(client: Client) -> p4r.TableEntry:
        entry = GOOD[name](client)
        for field, value in changes.items():
            setattr(entry, field, value)
        return entry

    return build


def rematched(name: str, *matches: p4r.FieldMatch) -> Build:
    def build(client: Client) -> p4r.TableEntry:
        entry = GOOD[name](client)
        del entry.match[:]
        entry.match.extend(matches)
        return entry

    return build


def react(name: str, action: str, *args: int) -> Build:
    def build(client: Client) -> p4r.TableEntry:
        entry = GOOD[name](client)
        entry.action.CopyFrom(client.action(action, *args))
        return entry

    return build


def unset_match(client: Client) -> p4r.TableEntry:
    return client.entry("exact_table", p4r.FieldMatch(field_id=1), action=client.action("counted_forward", 1))


def padded_param(client: Client) -> p4r.TableEntry:
    entry = GOOD["exact"](client)
    entry.action.action.params[0].value = b""
    return entry


BAD: dict[str, tuple[Build, int, str]] = {
    "unknown table": (broken("exact", table_id=0x02FFFFFF), status.INVALID_ARGUMENT, "no table has id 50331647"),
    "id of an action": (broken("exact", table_id=0), status.INVALID_ARGUMENT, "the id of a table is missing"),
    "missing exact field": (rematched("exact"), status.INVALID_ARGUMENT, "'hdr.ethernet.dst' of table"),
    "unknown field": (rematched("exact", exact(9, 1)), status.INVALID_ARGUMENT, "no match field has id 9; there is 1"),
    "field twice": (rematched("exact", exact(1, 1), exact(1, 2)), status.INVALID_ARGUMENT, "is given twice"),
    "wrong kind": (rematched("exact", lpm(1, 0, 8)), status.INVALID_ARGUMENT, "is matched by exact, not by lpm"),
    "no kind": (unset_match, status.INVALID_ARGUMENT, "unset match type"),
    "value too wide": (rematched("exact", exact(1, 1 << 48)), status.INVALID_ARGUMENT, "does not fit in 48 bits"),
    "empty value": (
        rematched("exact", p4r.FieldMatch(field_id=1, exact=p4r.FieldMatch.Exact())),
        status.INVALID_ARGUMENT,
        "empty byte string",
    ),
    "priority on exact": (broken("exact", priority=1), status.INVALID_ARGUMENT, "priority must be 0, not 1"),
    "priority on lpm": (broken("lpm", priority=1), status.INVALID_ARGUMENT, "priority must be 0, not 1"),
    "no priority": (broken("ternary", priority=0), status.INVALID_ARGUMENT, "need a priority above 0, not 0"),
    "negative priority": (broken("range", priority=-1), status.INVALID_ARGUMENT, "need a priority above 0, not -1"),
    "prefix 0": (rematched("lpm", lpm(1, 0, 0)), status.INVALID_ARGUMENT, "leave the field out"),
    "prefix too long": (rematched("lpm", lpm(1, 0, 49)), status.INVALID_ARGUMENT, "not between 1 and 48"),
    "negative prefix": (rematched("lpm", lpm(1, 0, -1)), status.INVALID_ARGUMENT, "not between 1 and 48"),
    "bits beyond prefix": (rematched("lpm", lpm(1, 1, 8)), status.INVALID_ARGUMENT, "beyond its prefix"),
    "mask 0": (rematched("ternary", ternary(1, 0, 0), exact(2, 1)), status.INVALID_ARGUMENT, "the mask is zero"),
    "bits outside mask": (
        rematched("ternary", ternary(1, 3, 2), exact(2, 1)),
        status.INVALID_ARGUMENT,
        "outside mask 0x02",
    ),
    "empty range": (rematched("range", between(1, 5, 4)), status.INVALID_ARGUMENT, "range 5..4 is empty"),
    "full range": (rematched("range", between(1, 0, 0xFFFF)), status.INVALID_ARGUMENT, "covers every value"),
    "action of another table": (react("exact", "to_cpu", 1), status.INVALID_ARGUMENT, "has no action with id"),
    "default-only action": (react("exact", "deny"), status.PERMISSION_DENIED, "@defaultonly"),
    "missing argument": (react("exact", "counted_forward"), status.INVALID_ARGUMENT, "lacks an argument for port"),
    "extra argument": (react("exact", "counted_forward", 1, 2), status.INVALID_ARGUMENT, "no parameter with id 2"),
    "wide argument": (react("exact", "counted_forward", 512), status.INVALID_ARGUMENT, "does not fit in 9 bits"),
    "empty argument": (padded_param, status.INVALID_ARGUMENT, "empty byte string"),
    "member of no profile": (
        lambda c: c.entry("exact_table", exact(1, 1), action=p4r.TableAction(action_profile_member_id=1)),
        status.INVALID_ARGUMENT,
        "not action_profile_member_id",
    ),
    "no action": (
        lambda c: c.entry("exact_table", exact(1, 1)),
        status.INVALID_ARGUMENT,
        "an action with its arguments is needed",
    ),
    "const flag": (broken("exact", is_const=True), status.INVALID_ARGUMENT, "is_const"),
    "time-out unsupported": (broken("exact", idle_timeout_ns=1), status.INVALID_ARGUMENT, "supports no idle time-out"),
    "negative time-out": (broken("with time-out", idle_timeout_ns=-1), status.INVALID_ARGUMENT, "negative"),
    "counter of no counter": (
        lambda c: c.entry("lpm_table", action=c.action("NoAction"), counter_data=p4r.CounterData()),
        status.INVALID_ARGUMENT,
        "has no direct counter",
    ),
    "negative count": (
        lambda c: c.entry(
            "exact_table",
            exact(1, 1),
            action=c.action("counted_forward", 1),
            counter_data=p4r.CounterData(packet_count=-1),
        ),
        status.INVALID_ARGUMENT,
        "negative",
    ),
    "meter of no meter": (
        lambda c: c.entry("lpm_table", action=c.action("NoAction"), meter_config=p4r.MeterConfig()),
        status.INVALID_ARGUMENT,
        "has no direct meter",
    ),
    "const table": (
        lambda c: c.entry("const_table", ternary(1, 1, 1), priority=1, action=c.action("deny")),
        status.PERMISSION_DENIED,
        "const entries",
    ),
    "keyless table": (
        lambda c: c.entry("keyless_table", action=c.action("learn")),
        status.INVALID_ARGUMENT,
        "has no key",
    ),
    "default entry inserted": (
        lambda c: c.entry("lpm_table", action=c.action("NoAction"), is_default_action=True),
        status.INVALID_ARGUMENT,
        "INSERT is not possible",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_insert(client: Client, name: str) -> None:
    build, code, reason = BAD[name]
    error = failure(lambda: client.insert(table_entry=build(client)))
    assert error.canonical_code == code, error
    assert reason in error.message
    assert len(client.read(table_entry=p4r.TableEntry())) == 2  # the const entries only


def test_delete_looks_at_the_key_only(client: Client) -> None:
    entry = GOOD["ternary"](client)
    client.insert(table_entry=entry)
    entry.action.action.action_id = 1
    entry.idle_timeout_ns = -5
    client.delete(table_entry=entry)
    assert client.read(table_entry=p4r.TableEntry(table_id=entry.table_id)) == []


def test_padded_values_are_read_back_short(client: Client) -> None:
    entry = GOOD["exact"](client)
    padded = p4r.TableEntry()
    padded.CopyFrom(entry)
    padded.match[0].exact.value = b"\x00\x00" + entry.match[0].exact.value
    padded.action.action.params[0].value = b"\x00\x00\x00" + entry.action.action.params[0].value
    client.insert(table_entry=padded)
    assert client.read(table_entry=p4r.TableEntry(table_id=entry.table_id)) == [entry]
    assert failure(lambda: client.insert(table_entry=entry)).canonical_code == status.ALREADY_EXISTS


def test_same_match_other_priority_is_another_entry(client: Client) -> None:
    entry = GOOD["ternary"](client)
    client.insert(table_entry=entry)
    entry.priority = 11
    client.insert(table_entry=entry)
    assert len(client.read(table_entry=p4r.TableEntry(table_id=entry.table_id))) == 2


def test_table_full(client: Client) -> None:
    for number in range(8):
        entry = client.entry("range_table", between(1, number, number), priority=1, action=client.action("learn"))
        client.insert(table_entry=entry)
    entry = client.entry("range_table", between(1, 8, 8), priority=1, action=client.action("learn"))
    error = failure(lambda: client.insert(table_entry=entry))
    assert error.canonical_code == status.RESOURCE_EXHAUSTED
    assert "range_table" in error.message


def test_modify_without_action_keeps_it(client: Client) -> None:
    entry = GOOD["with metadata"](client)
    client.insert(table_entry=entry)
    client.modify(table_entry=client.entry("exact_table", exact(1, 1), metadata=b"new"))
    (found,) = client.read(table_entry=p4r.TableEntry(table_id=entry.table_id))
    assert found.action == entry.action
    assert found.metadata == b"new" and found.controller_metadata == 0


# ------------------------------------------------------------------------------------------------- default entries


def read_default(client: Client, table: str) -> p4r.TableEntry:
    (entry,) = client.read(table_entry=client.entry(table, is_default_action=True))
    return entry


def test_default_entry(client: Client) -> None:
    initial = read_default(client, "lpm_table")
    assert initial.action == client.action("NoAction")
    changed = client.entry("lpm_table", is_default_action=True, action=client.action("forward", 4), metadata=b"m")
    client.modify(table_entry=changed)
    assert read_default(client, "lpm_table") == changed
    for metadata, found in ((b"m", [changed]), (b"n", [])):
        assert client.read(table_entry=client.entry("lpm_table", is_default_action=True, metadata=metadata)) == found
    assert len(client.read(table_entry=client.entry("lpm_table"))) == 0
    client.modify(table_entry=client.entry("lpm_table", is_default_action=True))
    assert read_default(client, "lpm_table") == initial


@pytest.mark.parametrize(
    ("build", "code", "reason"),
    [
        (lambda c: c.entry("range_table", action=c.action("learn")), status.PERMISSION_DENIED, "is const"),
        (lambda c: c.entry("lpm_table", action=c.action("mirror", 1)), status.PERMISSION_DENIED, "@tableonly"),
        (lambda c: c.entry("lpm_table", priority=1), status.INVALID_ARGUMENT, "neither match fields nor a priority"),
        (lambda c: c.entry("lpm_table", lpm(1, 0, 1)), status.INVALID_ARGUMENT, "neither match fields nor a priority"),
        (lambda c: c.entry("optional_table", idle_timeout_ns=1), status.INVALID_ARGUMENT, "no idle time-out"),
        (lambda c: c.entry("lpm_table", action=c.action("deny")), status.INVALID_ARGUMENT, "has no action with id"),
    ],
)
def test_bad_default(client: Client, build: Build, code: int, reason: str) -> None:
    entry = build(client)
    entry.is_default_action = True
    error = failure(lambda: client.modify(table_entry=entry))
    assert error.canonical_code == code
    assert reason in error.message


def test_default_of_every_table(client: Client) -> None:
    found = client.read(table_entry=p4r.TableEntry(is_default_action=True))
    assert {entry.table_id for entry in found} == {table.preamble.id for table in client.p4info.tables}
    assert all(entry.is_default_action and entry.HasField("action") for entry in found)


# --------------------------------------------------------------------------------------------------- const entries


def test_const_entries(client: Client) -> None:
    first, second = sorted(client.read(table_entry=client.entry("const_table")), key=lambda e: -e.priority)
    assert first.match[0].ternary.value == b"\x81\x00" and first.match[0].ternary.mask == b"\xff\xf0"
    assert second.match[0].ternary.mask == b"\xff\xff"
    assert first.priority > second.priority > 0
    assert first.is_const and second.is_const
    first.is_const = False
    assert failure(lambda: client.delete(table_entry=first)).canonical_code == status.PERMISSION_DENIED
    assert failure(lambda: client.modify(table_entry=first)).canonical_code == status.PERMISSION_DENIED
    first.ClearField("action")
    first.metadata = b"mine"
    assert failure(lambda: client.modify(table_entry=first)).canonical_code == status.PERMISSION_DENIED
    first.metadata = b""
    first.counter_data.packet_count = 5
    client.modify(table_entry=first)  # direct resources alone may be changed
    query = client.entry("const_table", counter_data=p4r.CounterData())
    counts = {entry.priority: entry.counter_data.packet_count for entry in client.read(table_entry=query)}
    assert counts == {first.priority: 5, second.priority: 0}
    second.is_const = False
    assert failure(lambda: client.insert(table_entry=second)).canonical_code == status.PERMISSION_DENIED
    direct = p4r.DirectCounterEntry(table_entry=first, data=p4r.CounterData(packet_count=6))
    client.modify(direct_counter_entry=direct)
    assert client.read(direct_counter_entry=direct)[0].data.packet_count == 6


# ----------------------------------------------------------------------------------------------------------- reads


def test_filters(client: Client) -> None:
    for number in range(4):
        client.insert(
            table_entry=client.entry(
                "ternary_table",
                exact(2, number),
                priority=1 + number % 2,
                action=client.action("rated" if number < 3 else "NoAction"),
                metadata=b"odd" if number % 2 else b"",
                controller_metadata=number,
            )
        )

    def numbers(*matches: p4r.FieldMatch, **fields: Any) -> list[int]:
        found = client.read(table_entry=client.entry("ternary_table", *matches, **fields))
        return sorted(entry.controller_metadata for entry in found)

    assert numbers() == [0, 1, 2, 3]
    assert numbers(priority=2) == [1, 3]
    assert numbers(action=client.action("NoAction")) == [3]
    assert numbers(metadata=b"odd") == [1, 3]
    assert numbers(controller_metadata=2) == [2]
    assert numbers(exact(2, 1)) == [1]
    assert numbers(exact(2, 1), priority=2) == [1]
    assert numbers(exact(2, 1), priority=1) == []


def test_wildcard_of_tables_takes_no_filter(client: Client) -> None:
    with pytest.raises(Exception) as caught:
        client.read(table_entry=p4r.TableEntry(priority=1))
    assert "takes no other filter" in str(caught.value)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (lambda c: c.entry("exact_table", idle_timeout_ns=1), "supports no idle time-out"),
        (lambda c: c.entry("exact_table", time_since_last_hit=p4r.TableEntry.IdleTimeout()), "no idle time-out"),
        (lambda c: c.entry("optional_table", is_default_action=True, idle_timeout_ns=1), "no match fields, priority"),
        (lambda c: c.entry("lpm_table", is_default_action=True, priority=1), "no match fields, priority"),
        (lambda c: c.entry("lpm_table", lpm(1, 0, 1), is_default_action=True), "no match fields, priority"),
        (lambda c: c.entry("exact_table", exact(9, 1)), "no match field has id 9"),
        (lambda c: c.entry("exact_table", action=c.action("learn")), "has no action with id"),
    ],
)
def test_bad_reads(client: Client, query: Build, reason: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        client.read(table_entry=query(client))
    (error,) = details(caught.value)
    assert error.canonical_code == status.INVALID_ARGUMENT
    assert reason in error.message


def test_read_of_several_with_an_error(client: Client) -> None:
    client.insert(table_entry=GOOD["exact"](client))
    responses = client.read_responses(
        p4r.Entity(table_entry=p4r.TableEntry(table_id=1)),
        p4r.Entity(table_entry=client.entry("exact_table")),
        p4r.Entity(),
    )
    found = []
    with pytest.raises(grpc.RpcError) as caught:
        for response in responses:
            found += response.entities
    assert len(found) == 1
    assert caught.value.code() == grpc.StatusCode.UNKNOWN
    codes = [error.canonical_code for error in details(caught.value)]
    assert codes == [status.INVALID_ARGUMENT, status.OK, status.INVALID_ARGUMENT]


# ---------------------------------------------------------------------------------------------------------- batches


def update(kind: Any, entry: p4r.TableEntry) -> p4r.Update:
    return p4r.Update(type=kind, entity=p4r.Entity(table_entry=entry))


def test_batch_with_errors_does_the_rest(client: Client) -> None:
    good = [client.entry("exact_table", exact(1, n), action=client.action("counted_forward", n)) for n in range(3)]
    with pytest.raises(WriteFailed) as caught:
        client.write(
            update(p4r.Update.INSERT, good[0]),
            update(p4r.Update.INSERT, good[0]),
            update(p4r.Update.UNSPECIFIED, good[1]),
            update(p4r.Update.INSERT, good[1]),
            p4r.Update(type=p4r.Update.INSERT),
            update(p4r.Update.DELETE, good[2]),
            update(p4r.Update.INSERT, good[2]),
        )
    assert [error.canonical_code for error in caught.value.errors] == [
        status.OK,
        status.ALREADY_EXISTS,
        status.INVALID_ARGUMENT,
        status.OK,
        status.INVALID_ARGUMENT,
        status.NOT_FOUND,
        status.OK,
    ]
    assert len(client.read(table_entry=client.entry("exact_table"))) == 3


def test_rollback(client: Client) -> None:
    kept = GOOD["with metadata"](client)
    kept.counter_data.packet_count = 5
    client.insert(table_entry=kept)
    changed = p4r.TableEntry()
    changed.CopyFrom(kept)
    changed.action.CopyFrom(client.action("counted_forward", 9))
    changed.metadata = b"other"
    changed.counter_data.packet_count = 6
    new = client.entry("exact_table", exact(1, 99), action=client.action("counted_forward", 9))
    query = client.entry("exact_table", counter_data=p4r.CounterData())
    before = client.read(table_entry=query)
    with pytest.raises(WriteFailed) as caught:
        client.write(
            update(p4r.Update.INSERT, new),
            update(p4r.Update.MODIFY, changed),
            update(p4r.Update.DELETE, kept),
            update(p4r.Update.DELETE, kept),
            update(p4r.Update.INSERT, kept),
            atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR,
        )
    codes = [error.canonical_code for error in caught.value.errors]
    assert codes == [status.ABORTED] * 3 + [status.NOT_FOUND, status.ABORTED]
    assert client.read(table_entry=query) == before
    client.write(
        update(p4r.Update.MODIFY, changed),
        update(p4r.Update.INSERT, new),
        atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR,
    )
    assert len(client.read(table_entry=query)) == 2


def test_ten_thousand_entries(client: Client) -> None:
    updates = [
        update(
            p4r.Update.INSERT,
            client.entry("exact_table", exact(1, number), action=client.action("counted_forward", number % 500)),
        )
        for number in range(10_000)
    ]
    client.write(*updates)  # how long it takes: bench/tables.py
    found = client.read(table_entry=client.entry("exact_table"))
    assert sorted(int.from_bytes(e.match[0].exact.value, "big") for e in found) == list(range(10_000))
    with pytest.raises(WriteFailed) as caught:
        client.write(*updates[:2_000])
    assert all(error.canonical_code == status.ALREADY_EXISTS for error in caught.value.errors)


def test_errors_of_a_batch_fit_a_client_with_default_limits(server: P4RuntimeServer, client: Client) -> None:
    wrong = client.entry("lpm_table", lpm(1, 0, 0), action=client.action("NoAction"))
    request = client.write_request(*[update(p4r.Update.INSERT, wrong) for _ in range(100)])
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel, pytest.raises(grpc.RpcError) as caught:
        p4r_grpc.P4RuntimeStub(channel).Write(request)
    assert caught.value.code() == grpc.StatusCode.UNKNOWN
    assert "prefix length 0" in str(caught.value.details())
    errors = details(caught.value)
    assert [error.canonical_code for error in errors] == [status.INVALID_ARGUMENT] * 100
    assert "prefix length 0" in errors[0].message and errors[99].message == ""
    call: Any = caught.value
    metadata = (*call.initial_metadata(), *call.trailing_metadata())
    sizes = [len(key) + len(value) + 32 for key, value in metadata]
    assert sum(sizes) + len(str(caught.value.details())) < 8192 - 150, "above 8 KB it is refused at random"
