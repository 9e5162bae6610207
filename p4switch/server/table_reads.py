"""Reads of table entries: wildcards, filters, and what a query asks to be told besides the entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from finsy.proto import p4r

from p4switch.dataplane import EntryRecord, TableEntry
from p4switch.server.actions import encode_action
from p4switch.server.handler import Sink
from p4switch.server.matches import EntryKey, decode_matches, encode_matches
from p4switch.server.meters import encode_counts, encode_meter
from p4switch.server.schema import Table
from p4switch.server.status import INVALID_ARGUMENT, RequestError
from p4switch.server.table_state import Note, TableState


def read_tables(state: TableState, query: p4r.TableEntry, sink: Sink) -> None:
    """Answer a TableEntry query."""
    for table in _tables(state, query, sink):
        if query.is_default_action:
            _add_default(state, table, query, sink)
            continue
        sink.later(partial(_add_all, state, table, find_records(state, table, query), state.notes(table), query))


def find_records(state: TableState, table: Table, query: p4r.TableEntry) -> Iterator[EntryRecord]:
    """Find the entries that a query selects by match, priority and action, as they are now.

    RequestError if the query is wrong; then the records come as they are asked for, for which nothing has to be locked.
    """
    wanted = query.action.action.action_id
    if wanted and wanted not in table.actions:
        raise RequestError(INVALID_ARGUMENT, f"table '{table.name}' has no action with id {wanted}")
    found: Iterable[EntryRecord]
    matches, priority = None, query.priority
    if query.match:
        matches = decode_matches(table.keys, table.positions, f"table '{table.name}'", query.match)
    if matches is not None and (priority or not table.needs_priority):
        record = state.get(table, (matches, priority))
        found = [record] if record is not None else []
    else:
        found = state.dataplane.table_snapshot(table.id)

    def selected(record: EntryRecord) -> bool:
        entry = record.entry
        return (
            (matches is None or entry.matches == matches)
            and (not priority or entry.priority == priority)
            and (not wanted or entry.action_id == wanted)
        )

    return filter(selected, found)


def _add_all(
    state: TableState,
    table: Table,
    records: Iterable[EntryRecord],
    notes: Mapping[EntryKey, Note],
    query: p4r.TableEntry,
    sink: Sink,
) -> Iterator[None]:
    """Add entries to an answer, one per step."""
    for record in records:
        # Hashing a key costs more than asking whether there are any notes.
        note = notes.get((record.entry.matches, record.entry.priority)) if notes else None
        if _noted(note, query):
            _add(state, table, record, note, query, sink)
        yield


def _noted(note: Note | None, query: p4r.TableEntry) -> bool:
    """Tell whether an entry has the metadata that the query selects by, if it does."""
    known = note or Note()
    return query.controller_metadata in (0, known.controller_metadata) and query.metadata in (b"", known.metadata)


def describe_key(table: Table, record: EntryRecord, into: p4r.TableEntry) -> None:
    """Fill in what identifies an entry."""
    into.table_id = table.id
    if record.entry.is_default:
        into.is_default_action = True
        return
    encode_matches(table.keys, record.entry.matches, into)
    into.priority = record.entry.priority


def _tables(state: TableState, query: p4r.TableEntry, sink: Sink) -> list[Table]:
    timed = query.HasField("time_since_last_hit") or query.idle_timeout_ns
    if query.is_default_action and (query.match or query.priority or timed):
        raise RequestError(INVALID_ARGUMENT, "a default entry has no match fields, priority or idle time-out")
    if query.table_id:
        table = state.find_table(query.table_id)
        if timed and not table.idle_timeout:
            raise RequestError(INVALID_ARGUMENT, f"table '{table.name}' supports no idle time-out")
        return [table]
    if query.match or query.priority or query.HasField("action") or query.controller_metadata or query.metadata:
        raise RequestError(INVALID_ARGUMENT, "a read of all tables (table id 0) takes no other filter")
    return [table for table in state.schema.tables.values() if sink.shows(table.id)]


def _add(
    state: TableState, table: Table, record: EntryRecord, note: Note | None, query: p4r.TableEntry, sink: Sink
) -> None:
    message = sink.add().table_entry
    describe_key(table, record, message)
    if note is not None and note.reference is not None:
        state.profiles.describe(table, note.reference, message.action)
    else:
        encode_action(table.actions[record.entry.action_id].action, record.entry.params, message.action.action)
    if record.is_const:
        message.is_const = True
    if note is not None:
        note.put(message)
    if query.HasField("counter_data") and table.direct_counter:
        message.counter_data.packet_count = record.packets
        message.counter_data.byte_count = record.bytes
    if query.HasField("meter_config") and table.direct_meter:
        encode_meter(state.meter_of(table, record.entry), message.meter_config)
    _add_colors(state, table, record.entry, query, message)
    if query.HasField("time_since_last_hit") and table.idle_timeout:
        message.time_since_last_hit.elapsed_ns = record.idle_us * 1000


def _add_default(state: TableState, table: Table, query: p4r.TableEntry, sink: Sink) -> None:
    action_id, params = state.dataplane.table_default(table.id)
    note = state.default_notes.get(table.id)
    if query.action.action.action_id not in (0, action_id) or not _noted(note, query):
        return
    message = sink.add().table_entry
    message.table_id = table.id
    message.is_default_action = True
    encode_action(state.schema.actions[action_id], params, message.action.action)
    if table.const_default or table.implementation:  # the default entry of an indirect table is const in 1.4
        message.is_const = True
    if note is not None:
        note.put(message)
    entry = TableEntry(table.id, is_default=True)
    if query.HasField("counter_data") and table.direct_counter:
        counts = state.dataplane.direct_counter_read(entry)
        message.counter_data.packet_count, message.counter_data.byte_count = counts
    if query.HasField("meter_config"):
        encode_meter(state.meter(table, entry), message.meter_config)
    _add_colors(state, table, entry, query, message)


def _add_colors(
    state: TableState, table: Table, entry: TableEntry, query: p4r.TableEntry, message: p4r.TableEntry
) -> None:
    """Add what the direct meter coloured, if the query asks for it."""
    if query.HasField("meter_counter_data") and (counts := state.colors_of(table, entry)) is not None:
        encode_counts(counts, message.meter_counter_data)
