"""Table entries: TableEntry messages <-> the data plane's tables.

The data plane holds the entries; kept here is only what it has no use for: metadata, cookies and idle time-outs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from finsy.proto import p4r

from p4switch.dataplane import DataPlane, EntryRecord, TableEntry
from p4switch.server import dataplane_errors
from p4switch.server.actions import Params, decode_action, encode_action
from p4switch.server.arrays import check_count
from p4switch.server.handler import DELETE, INSERT, MODIFY, Sink, Undo, kind_name
from p4switch.server.matches import Matches, decode_matches, encode_matches
from p4switch.server.meters import MeterConfig, decode_meter
from p4switch.server.schema import Schema, Table
from p4switch.server.status import INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, UNIMPLEMENTED, RequestError

Key = tuple[Matches, int]  # of an entry in its table: match fields and priority


@dataclass(frozen=True)
class Note:
    """What a client said of an entry that matters to clients only."""

    controller_metadata: int = 0
    metadata: bytes = b""
    idle_timeout_ns: int = 0

    @classmethod
    def of(cls, message: p4r.TableEntry) -> Note | None:
        if message.controller_metadata or message.metadata or message.idle_timeout_ns:
            return cls(message.controller_metadata, message.metadata, message.idle_timeout_ns)
        return None


@dataclass
class TableUpdate:
    """A checked update of an entry that touches nothing but the entry and its note."""

    kind: int
    table: Table
    entry: TableEntry
    note: Note | None


class TableEntities:
    """TableEntry: entries, const entries and default entries, with their direct resources when asked for."""

    def __init__(self, schema: Schema, dataplane: DataPlane) -> None:
        self._schema = schema
        self._dataplane = dataplane
        self._notes: dict[int, dict[Key, Note]] = {number: {} for number in schema.tables}
        self._default_notes: dict[int, Note] = {}

    def p4_id(self, message: p4r.TableEntry) -> int:
        return message.table_id

    def find_table(self, table_id: int) -> Table:
        return self._schema.find("table", self._schema.tables, table_id)

    # ------------------------------------------------------------------------------------------------ writes

    def is_plain(self, kind: int, message: p4r.TableEntry) -> bool:
        """Tell whether an update may go to apply() together with others: it sets an entry as a whole, nothing else."""
        if message.is_default_action or message.HasField("meter_config") or message.HasField("counter_data"):
            return False
        if kind != MODIFY:
            return True
        table = self._schema.tables.get(message.table_id)
        return message.HasField("action") and (table is None or not table.direct_meter)

    def prepare(self, kind: int, message: p4r.TableEntry) -> TableUpdate:
        """Check an INSERT, DELETE, or MODIFY with an action, of an entry that is not the default one."""
        table = self.find_table(message.table_id)
        if message.is_const:
            raise RequestError(INVALID_ARGUMENT, f"table '{table.name}': is_const is set, which a client may not write")
        if table.is_const:
            raise RequestError(
                PERMISSION_DENIED,
                f"table '{table.name}' has const entries: {kind_name(kind)} is not allowed, only MODIFY of counters "
                "and meters of its entries, without an action",
            )
        matches, priority = self.decode_key(table, message)
        if kind == DELETE:  # everything but the key is ignored, whatever it says
            return TableUpdate(kind, table, TableEntry(table.id, matches, priority, 0, ()), None)
        action_id, params = self._decode_action(table, message)
        self._check_rest(table, message)
        entry = TableEntry(table.id, matches, priority, action_id, params)
        return TableUpdate(kind, table, entry, Note.of(message))

    def apply(self, updates: list[TableUpdate]) -> list[RequestError | None]:
        """Carry out checked updates in order, each on its own; return the error of each that failed."""
        if not updates:
            return []
        results = self._dataplane.apply([(update.kind, update.entry) for update in updates])
        errors: list[RequestError | None] = []
        for update, result in zip(updates, results, strict=True):
            if result is None:
                self._note(update.table, (update.entry.matches, update.entry.priority), update.note)
                errors.append(None)
            else:
                errors.append(dataplane_errors.translate(result, f"table '{update.table.name}'"))
        return errors

    def write(self, kind: int, message: p4r.TableEntry) -> Undo:
        table = self.find_table(message.table_id)
        if message.is_default_action:
            return self._write_default(kind, table, message)
        if kind == INSERT:
            return self._insert(table, message)
        matches, priority = self.decode_key(table, message)
        record = self.get(table, matches, priority)
        if kind == DELETE:
            return self._delete(table, message, record)
        return self._modify(table, message, record)

    def _insert(self, table: Table, message: p4r.TableEntry) -> Undo:
        update = self.prepare(INSERT, message)
        counter, meter = self._decode_resources(table, message)
        self._apply_one(update)
        self._set_resources(update.entry, counter, meter)
        return lambda: self._apply_one(TableUpdate(DELETE, table, update.entry, None))

    def _delete(self, table: Table, message: p4r.TableEntry, record: EntryRecord | None) -> Undo:
        update = self.prepare(DELETE, message)
        note = self._notes[table.id].get((update.entry.matches, update.entry.priority))
        meter = self._meter(table, record.entry) if record is not None else None
        self._apply_one(update)
        assert record is not None
        old = record

        def undo() -> None:
            self._apply_one(TableUpdate(INSERT, table, old.entry, note))
            counter = (old.packets, old.bytes) if table.direct_counter else None
            self._set_resources(old.entry, counter, meter)

        return undo

    def _modify(self, table: Table, message: p4r.TableEntry, record: EntryRecord | None) -> Undo:
        counter, meter = self._decode_resources(table, message)
        if message.HasField("action"):
            update = self.prepare(MODIFY, message)
        else:
            if message.is_const:
                raise RequestError(
                    INVALID_ARGUMENT, f"table '{table.name}': is_const is set, which a client may not write"
                )
            self._check_rest(table, message)
            update = None
        if record is None:
            raise RequestError(NOT_FOUND, f"table '{table.name}': no such entry")
        key = (record.entry.matches, record.entry.priority)
        old_note, old_meter = self._notes[table.id].get(key), self._meter(table, record.entry)
        if update is not None:
            self._apply_one(update)
        elif not table.is_const:
            self._note(table, key, Note.of(message))
        self._set_resources(record.entry, counter, meter, reset_meter=bool(table.direct_meter))
        old = record

        def undo() -> None:
            if update is not None:
                self._apply_one(TableUpdate(MODIFY, table, old.entry, old_note))
            else:
                self._note(table, key, old_note)
            old_counter = (old.packets, old.bytes) if counter is not None else None
            self._set_resources(old.entry, old_counter, old_meter, reset_meter=bool(table.direct_meter))

        return undo

    def _write_default(self, kind: int, table: Table, message: p4r.TableEntry) -> Undo:
        what = f"default entry of table '{table.name}'"
        if kind != MODIFY:
            raise RequestError(INVALID_ARGUMENT, f"{what}: {kind_name(kind)} is not possible, only MODIFY")
        if message.match or message.priority:
            raise RequestError(INVALID_ARGUMENT, f"{what}: it has neither match fields nor a priority")
        if message.idle_timeout_ns or message.HasField("time_since_last_hit"):
            raise RequestError(INVALID_ARGUMENT, f"{what}: default entries have no idle time-out")
        if table.const_default or table.implementation:
            raise RequestError(PERMISSION_DENIED, f"{what} is const")
        if message.HasField("meter_config") or message.HasField("counter_data"):
            raise RequestError(UNIMPLEMENTED, f"{what}: this switch counts and meters entries only, not misses")
        old = self._dataplane.table_default(table.id)
        old_note = self._default_notes.get(table.id)
        if message.HasField("action"):
            if message.action.WhichOneof("type") != "action":
                raise RequestError(INVALID_ARGUMENT, f"{what}: an action with its arguments is needed")
            action_id, params = decode_action(table, message.action.action, as_default=True)
            self._set_default(table, action_id, params, Note.of(message))
        else:
            self._set_default(table, None, (), None)
        return lambda: self._set_default(table, old[0], old[1], old_note)

    def _set_default(self, table: Table, action_id: int | None, params: Params, note: Note | None) -> None:
        with dataplane_errors.translated(f"default entry of table '{table.name}'"):
            self._dataplane.set_table_default(table.id, action_id, params)
        if note is None:
            self._default_notes.pop(table.id, None)
        else:
            self._default_notes[table.id] = note

    def _apply_one(self, update: TableUpdate) -> None:
        (error,) = self.apply([update])
        if error is not None:
            raise error

    def _note(self, table: Table, key: Key, note: Note | None) -> None:
        if note is not None:
            self._notes[table.id][key] = note
        elif self._notes[table.id]:
            self._notes[table.id].pop(key, None)

    def decode_key(self, table: Table, message: p4r.TableEntry) -> Key:
        """Check and read what identifies an entry."""
        if not table.keys:
            raise RequestError(
                INVALID_ARGUMENT, f"table '{table.name}' has no key, hence no entries but the default one"
            )
        matches = decode_matches(table.keys, table.positions, f"table '{table.name}'", message.match)
        priority = message.priority
        if table.needs_priority:
            if priority <= 0:
                raise RequestError(
                    INVALID_ARGUMENT,
                    f"table '{table.name}' has ternary, range or optional fields: its entries need a priority above 0, "
                    f"not {priority}",
                )
        elif priority:
            raise RequestError(
                INVALID_ARGUMENT,
                f"table '{table.name}' has no ternary, range or optional field: priority must be 0, not {priority}",
            )
        return matches, priority

    @staticmethod
    def _decode_action(table: Table, message: p4r.TableEntry) -> tuple[int, Params]:
        given = message.action.WhichOneof("type") if message.HasField("action") else None
        if table.implementation:
            raise RequestError(UNIMPLEMENTED, f"table '{table.name}': action profiles are not supported by this switch")
        if given != "action":
            raise RequestError(
                INVALID_ARGUMENT, f"table '{table.name}': an action with its arguments is needed, not {given or 'none'}"
            )
        return decode_action(table, message.action.action, as_default=False)

    @staticmethod
    def _check_rest(table: Table, message: p4r.TableEntry) -> None:
        if message.HasField("meter_counter_data"):
            raise RequestError(UNIMPLEMENTED, f"table '{table.name}': this switch keeps no meter counters per colour")
        if message.HasField("time_since_last_hit"):
            raise RequestError(INVALID_ARGUMENT, f"table '{table.name}': time_since_last_hit can only be read")
        if message.idle_timeout_ns and not table.idle_timeout:
            raise RequestError(
                INVALID_ARGUMENT,
                f"table '{table.name}' supports no idle time-out (support_timeout = true in the P4 program)",
            )
        if message.idle_timeout_ns < 0:
            raise RequestError(INVALID_ARGUMENT, f"table '{table.name}': idle_timeout_ns is negative")

    # ---------------------------------------------------------------------------------------- direct resources

    @staticmethod
    def _decode_resources(table: Table, message: p4r.TableEntry) -> tuple[tuple[int, int] | None, MeterConfig | None]:
        counter = meter = None
        if message.HasField("counter_data"):
            if not table.direct_counter:
                raise RequestError(
                    INVALID_ARGUMENT, f"table '{table.name}' has no direct counter; leave counter_data unset"
                )
            counter = message.counter_data.packet_count, message.counter_data.byte_count
            check_count(*counter, f"table '{table.name}'")
        if message.HasField("meter_config"):
            if not table.direct_meter:
                raise RequestError(
                    INVALID_ARGUMENT, f"table '{table.name}' has no direct meter; leave meter_config unset"
                )
            meter = decode_meter(message.meter_config, False, f"table '{table.name}'")
        return counter, meter

    def _set_resources(
        self,
        entry: TableEntry,
        counter: tuple[int, int] | None,
        meter: MeterConfig | None,
        *,
        reset_meter: bool = False,
    ) -> None:
        if counter is not None:
            self._dataplane.direct_counter_write(entry, *counter)
        if meter is not None or reset_meter:
            self._dataplane.set_direct_meter_config(entry, meter)

    def _meter(self, table: Table, entry: TableEntry) -> MeterConfig | None:
        return self._dataplane.direct_meter_config(entry) if table.direct_meter else None

    # ------------------------------------------------------------------------------------------------- reads

    def get(self, table: Table, matches: Matches, priority: int) -> EntryRecord | None:
        """Return an entry by its key."""
        return self._dataplane.table_get(TableEntry(table.id, matches, priority, 0, ()))

    def records(self, table: Table, query: p4r.TableEntry) -> Iterable[EntryRecord]:
        """Find the entries that a query selects by match, priority and action."""
        if query.match:
            matches = decode_matches(table.keys, table.positions, f"table '{table.name}'", query.match)
            if table.needs_priority and query.priority == 0:
                found = [r for r in self._dataplane.table_records(table.id) if r.entry.matches == matches]
            else:
                record = self.get(table, matches, query.priority)
                found = [record] if record is not None else []
        else:
            found = self._dataplane.table_records(table.id)
            if query.priority:
                found = [record for record in found if record.entry.priority == query.priority]
        if query.HasField("action"):
            wanted = query.action.action.action_id
            if wanted and wanted not in table.actions:
                raise RequestError(INVALID_ARGUMENT, f"table '{table.name}' has no action with id {wanted}")
            if wanted:
                found = [record for record in found if record.entry.action_id == wanted]
        return found

    def read(self, query: p4r.TableEntry, sink: Sink) -> None:
        for table in self._tables(query, sink):
            if query.is_default_action:
                self._read_default(table, query, sink)
                continue
            for record, note in self._noted(table, query):
                self._add(table, record, note, query, sink)

    def _tables(self, query: p4r.TableEntry, sink: Sink) -> list[Table]:
        if query.is_default_action and (query.match or query.priority or query.HasField("time_since_last_hit")):
            raise RequestError(INVALID_ARGUMENT, "a default entry has no match fields, priority or idle time-out")
        if query.table_id:
            table = self.find_table(query.table_id)
            if query.HasField("time_since_last_hit") and not table.idle_timeout:
                raise RequestError(INVALID_ARGUMENT, f"table '{table.name}' supports no idle time-out")
            return [table]
        if query.match or query.priority or query.HasField("action") or query.controller_metadata or query.metadata:
            raise RequestError(INVALID_ARGUMENT, "a read of all tables (table id 0) takes no other filter")
        return [table for table in self._schema.tables.values() if sink.shows(table.id)]

    def _noted(self, table: Table, query: p4r.TableEntry) -> Iterator[tuple[EntryRecord, Note | None]]:
        notes = self._notes[table.id]
        for record in self.records(table, query):
            note = notes.get((record.entry.matches, record.entry.priority)) if notes else None
            if query.controller_metadata and (note is None or note.controller_metadata != query.controller_metadata):
                continue
            if query.metadata and (note is None or note.metadata != query.metadata):
                continue
            yield record, note

    def _add(self, table: Table, record: EntryRecord, note: Note | None, query: p4r.TableEntry, sink: Sink) -> None:
        entry = record.entry
        message = sink.add().table_entry
        message.table_id = table.id
        encode_matches(table.keys, entry.matches, message)
        message.priority = entry.priority
        encode_action(table.actions[entry.action_id].action, entry.params, message.action.action)
        if record.is_const:
            message.is_const = True
        if note is not None:
            message.controller_metadata = note.controller_metadata
            message.metadata = note.metadata
            message.idle_timeout_ns = note.idle_timeout_ns
        if query.HasField("counter_data") and table.direct_counter:
            message.counter_data.packet_count = record.packets
            message.counter_data.byte_count = record.bytes
        if query.HasField("meter_config") and table.direct_meter:
            meter = self._meter(table, entry)
            if meter is not None:
                config = message.meter_config
                config.cir, config.cburst, config.pir, config.pburst = meter
        if query.HasField("time_since_last_hit") and table.idle_timeout:
            message.time_since_last_hit.elapsed_ns = record.idle_us * 1000

    def _read_default(self, table: Table, query: p4r.TableEntry, sink: Sink) -> None:
        if table.implementation:
            return
        action_id, params = self._dataplane.table_default(table.id)
        if query.HasField("action") and query.action.action.action_id not in (0, action_id):
            return
        message = sink.add().table_entry
        message.table_id = table.id
        message.is_default_action = True
        encode_action(self._schema.actions[action_id], params, message.action.action)
        if table.const_default:
            message.is_const = True
        note = self._default_notes.get(table.id)
        if note is not None:
            message.controller_metadata = note.controller_metadata
            message.metadata = note.metadata
