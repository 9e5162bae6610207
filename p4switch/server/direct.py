"""Direct resources of table entries on their own: DirectCounterEntry and DirectMeterEntry."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from p4switch.dataplane import EntryRecord, TableEntry
from p4switch.server.arrays import check_count
from p4switch.server.handler import Sink, Undo, only_modify
from p4switch.server.meters import decode_counts, decode_meter, encode_counts, encode_meter
from p4switch.server.schema import Table
from p4switch.server.status import INVALID_ARGUMENT, NOT_FOUND, RequestError
from p4switch.server.table_reads import describe_key, find_records
from p4switch.server.table_state import TableState


class _DirectEntities:
    """What both kinds share: finding the entries that a message means."""

    def __init__(self, state: TableState) -> None:
        self._state = state

    def _table(self, message: p4r.DirectCounterEntry | p4r.DirectMeterEntry, what: str) -> Table:
        table = self._state.find_table(message.table_entry.table_id)
        if not (table.direct_counter if what == "direct counter" else table.direct_meter):
            raise RequestError(INVALID_ARGUMENT, f"table '{table.name}' has no {what}")
        return table

    def _one(self, message: p4r.DirectCounterEntry | p4r.DirectMeterEntry, what: str) -> tuple[Table, EntryRecord]:
        table = self._table(message, what)
        if message.table_entry.is_default_action:
            return table, self._misses(table, message.table_entry)
        record = self._state.get(table, self._state.decode_key(table, message.table_entry))
        if record is None:
            raise RequestError(NOT_FOUND, f"entry of table '{table.name}': it does not exist")
        return table, record

    def _misses(self, table: Table, message: p4r.TableEntry) -> EntryRecord:
        """Give what is kept of the default entry."""
        if message.match or message.priority:
            what = f"default entry of table '{table.name}'"
            raise RequestError(INVALID_ARGUMENT, f"{what}: it has neither match fields nor a priority")
        entry = TableEntry(table.id, is_default=True)
        return EntryRecord(entry, False, *self._state.dataplane.direct_counter_read(entry), 0)

    def _select(
        self, query: p4r.DirectCounterEntry | p4r.DirectMeterEntry, what: str, sink: Sink
    ) -> Iterator[tuple[Table, EntryRecord]]:
        """Find what a query means, as it is now; the records come as they are asked for."""
        of_misses = query.table_entry.is_default_action
        if query.table_entry.match or (of_misses and query.table_entry.table_id):
            return iter([self._one(query, what)])
        if query.table_entry.table_id:
            tables = [self._table(query, what)]
        else:
            tables = [
                table
                for table in self._state.schema.tables.values()
                if (table.direct_counter if what == "direct counter" else table.direct_meter) and sink.shows(table.id)
            ]
        if of_misses:
            return iter([(table, self._misses(table, query.table_entry)) for table in tables])
        found = [(table, find_records(self._state, table, query.table_entry)) for table in tables]
        return ((table, record) for table, records in found for record in records)


class DirectCounterEntities(_DirectEntities):
    """DirectCounterEntry."""

    def p4_id(self, message: p4r.DirectCounterEntry) -> int:
        return message.table_entry.table_id

    def write(self, kind: int, message: p4r.DirectCounterEntry) -> Undo:
        only_modify(kind, "direct counter")
        table, record = self._one(message, "direct counter")
        if not message.HasField("data"):
            return lambda: None
        packets, octets = message.data.packet_count, message.data.byte_count
        check_count(packets, octets, f"direct counter of table '{table.name}'")
        self._state.dataplane.direct_counter_write(record.entry, packets, octets)
        return lambda: self._state.dataplane.direct_counter_write(record.entry, record.packets, record.bytes)

    def read(self, query: p4r.DirectCounterEntry, sink: Sink) -> None:
        found = self._select(query, "direct counter", sink)

        def fill(chunk: Sink) -> Iterator[None]:
            for table, record in found:
                message = chunk.add().direct_counter_entry
                describe_key(table, record, message.table_entry)
                message.data.packet_count = record.packets
                message.data.byte_count = record.bytes
                yield

        sink.later(fill)


class DirectMeterEntities(_DirectEntities):
    """DirectMeterEntry."""

    def p4_id(self, message: p4r.DirectMeterEntry) -> int:
        return message.table_entry.table_id

    def write(self, kind: int, message: p4r.DirectMeterEntry) -> Undo:
        only_modify(kind, "direct meter")
        table, record = self._one(message, "direct meter")
        what = f"direct meter of table '{table.name}'"
        counts = (
            decode_counts(message.counter_data, what, only_reset=True) if message.HasField("counter_data") else None
        )
        config = decode_meter(message.config, table.meter_type, what) if message.HasField("config") else None
        dataplane, entry = self._state.dataplane, record.entry
        old, old_counts = dataplane.direct_meter_config(entry), dataplane.direct_meter_counts(entry)
        dataplane.set_direct_meter_config(entry, config)
        if counts is not None:
            dataplane.set_direct_meter_counts(entry, counts)

        def undo() -> None:
            dataplane.set_direct_meter_config(entry, old)
            if counts is not None:
                dataplane.set_direct_meter_counts(entry, old_counts)

        return undo

    def read(self, query: p4r.DirectMeterEntry, sink: Sink) -> None:
        found = self._select(query, "direct meter", sink)

        def fill(chunk: Sink) -> Iterator[None]:
            for table, record in found:
                message = chunk.add().direct_meter_entry
                describe_key(table, record, message.table_entry)
                encode_meter(self._state.meter_of(table, record.entry), message.config)
                counts = self._state.colors_of(table, record.entry) if query.HasField("counter_data") else None
                if counts is not None:
                    encode_counts(counts, message.counter_data)
                yield

        sink.later(fill)
