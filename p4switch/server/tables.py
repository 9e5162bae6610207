"""Table entries: INSERT, MODIFY and DELETE of TableEntry messages, alone or many at a time."""

from __future__ import annotations

from dataclasses import dataclass

from finsy.proto import p4r

from p4switch.dataplane import EntryRecord, MeterConfig, MeterCounts, TableEntry
from p4switch.server import dataplane_errors
from p4switch.server.actions import Params, decode_action
from p4switch.server.arrays import check_count
from p4switch.server.handler import DELETE, INSERT, MODIFY, Sink, Undo, kind_name
from p4switch.server.meters import decode_counts, decode_meter
from p4switch.server.profiles import Call, Reference
from p4switch.server.schema import Table
from p4switch.server.status import INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, RequestError
from p4switch.server.table_reads import read_tables
from p4switch.server.table_state import Note, TableState


@dataclass
class TableUpdate:
    """A checked update of an entry that touches nothing but the entry and its note."""

    kind: int
    table: Table
    entry: TableEntry
    note: Note | None


@dataclass(frozen=True)
class Resources:
    """Direct resources of an entry, or those that a message gives: counts, meter, and what the meter coloured."""

    counter: tuple[int, int] | None = None
    meter: MeterConfig | None = None
    colors: MeterCounts | None = None

    def where(self, given: Resources) -> Resources:
        """Leave out the counts that `given` does not have."""
        return Resources(
            self.counter if given.counter is not None else None,
            self.meter,
            self.colors if given.colors is not None else None,
        )


class TableEntities:
    """TableEntry: entries, const entries and default entries, with their direct resources when asked for."""

    def __init__(self, state: TableState) -> None:
        self._state = state

    def p4_id(self, message: p4r.TableEntry) -> int:
        return message.table_id

    @property
    def written_defaults(self) -> set[int]:
        """Ids of the tables whose default entry a client has set."""
        return self._state.written_defaults

    def read(self, query: p4r.TableEntry, sink: Sink) -> None:
        read_tables(self._state, query, sink)

    def is_plain(self, kind: int, message: p4r.TableEntry) -> bool:
        """Tell whether an update may go to apply() together with others: it sets an entry as a whole, nothing else."""
        if message.is_default_action or _gives_resources(message):
            return False
        if kind != MODIFY:
            return True
        table = self._state.schema.tables.get(message.table_id)
        return message.HasField("action") and (table is None or not table.direct_meter)

    def prepare(self, kind: int, message: p4r.TableEntry) -> TableUpdate:
        """Check an INSERT, DELETE, or MODIFY with an action, of an entry that is not the default one."""
        table = self._state.find_table(message.table_id)
        if message.is_const:
            raise RequestError(INVALID_ARGUMENT, f"table '{table.name}': is_const is set, which a client may not write")
        if table.is_const:
            raise RequestError(
                PERMISSION_DENIED,
                f"table '{table.name}' has const entries: {kind_name(kind)} is not allowed, only MODIFY of counters "
                "and meters of its entries, without an action",
            )
        matches, priority = self._state.decode_key(table, message)
        if kind == DELETE:  # everything but the key is ignored, whatever it says
            return TableUpdate(kind, table, TableEntry(table.id, matches, priority, 0, ()), None)
        call, reference = self._decode_action(table, message)
        self._check_rest(table, message)
        return TableUpdate(kind, table, TableEntry(table.id, matches, priority, *call), Note.of(message, reference))

    def apply(self, updates: list[TableUpdate]) -> list[RequestError | None]:
        """Carry out checked updates in order, each on its own; return the error of each that failed."""
        if not updates:
            return []
        results = self._state.dataplane.apply([(update.kind, update.entry) for update in updates])
        errors: list[RequestError | None] = []
        for update, result in zip(updates, results, strict=True):
            if result is None:
                self._state.set_note(update.table, (update.entry.matches, update.entry.priority), update.note)
                if update.note is not None and update.note.reference is not None:
                    self._state.profiles.offer(update.table, update.entry, update.note.reference)
                errors.append(None)
            else:
                errors.append(dataplane_errors.translate(result, f"entry of table '{update.table.name}'"))
        return errors

    def write(self, kind: int, message: p4r.TableEntry) -> Undo:
        table = self._state.find_table(message.table_id)
        if message.is_default_action:
            return self._write_default(kind, table, message)
        if kind == INSERT:
            return self._insert(table, message)
        record = self._state.get(table, self._state.decode_key(table, message))
        if kind == DELETE:
            return self._delete(table, message, record)
        return self._modify(table, message, record)

    def _insert(self, table: Table, message: p4r.TableEntry) -> Undo:
        update = self.prepare(INSERT, message)
        resources = self._decode_resources(table, message)
        self._apply_one(update)
        self._set_resources(update.entry, resources)
        return lambda: self._apply_one(TableUpdate(DELETE, table, update.entry, None))

    def _delete(self, table: Table, message: p4r.TableEntry, record: EntryRecord | None) -> Undo:
        update = self.prepare(DELETE, message)
        note = self._state.note(table, (update.entry.matches, update.entry.priority))
        old_resources = self._resources(table, record.entry) if record is not None else Resources()
        self._apply_one(update)
        assert record is not None
        old = record

        def undo() -> None:
            self._apply_one(TableUpdate(INSERT, table, old.entry, note))
            self._set_resources(old.entry, old_resources)

        return undo

    def _modify(self, table: Table, message: p4r.TableEntry, record: EntryRecord | None) -> Undo:
        resources = self._decode_resources(table, message)
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
            raise RequestError(NOT_FOUND, f"entry of table '{table.name}': it does not exist")
        if record.is_const and Note.of(message):
            raise RequestError(
                PERMISSION_DENIED, f"entry of table '{table.name}': it is const, its metadata is as well"
            )
        key = (record.entry.matches, record.entry.priority)
        old_note, old_resources = self._state.note(table, key), self._resources(table, record.entry)
        if update is not None:
            self._apply_one(update)
        elif not record.is_const:
            self._state.set_note(table, key, Note.of(message, old_note.reference if old_note else None))
        self._set_resources(record.entry, resources, reset_meter=bool(table.direct_meter))
        old = record

        def undo() -> None:
            if update is not None:
                self._apply_one(TableUpdate(MODIFY, table, old.entry, old_note))
            else:
                self._state.set_note(table, key, old_note)
            taken_back = old_resources.where(resources)
            self._set_resources(old.entry, taken_back, reset_meter=bool(table.direct_meter))

        return undo

    def _write_default(self, kind: int, table: Table, message: p4r.TableEntry) -> Undo:
        what = f"default entry of table '{table.name}'"
        if kind != MODIFY:
            raise RequestError(INVALID_ARGUMENT, f"{what}: {kind_name(kind)} is not possible, only MODIFY")
        if message.match or message.priority:
            raise RequestError(INVALID_ARGUMENT, f"{what}: it has neither match fields nor a priority")
        if message.idle_timeout_ns or message.HasField("time_since_last_hit"):
            raise RequestError(INVALID_ARGUMENT, f"{what}: default entries have no idle time-out")
        resources = self._decode_resources(table, message)
        undos: list[Undo] = []
        if table.const_default or table.implementation:
            if resources == Resources() or message.HasField("action") or Note.of(message):
                raise RequestError(PERMISSION_DENIED, f"{what} is const")
        else:
            undos.append(self._write_default_action(table, message, what))
        undos.append(self._write_misses(table, resources))

        def undo() -> None:
            for each in reversed(undos):
                each()

        return undo

    def _write_misses(self, table: Table, resources: Resources) -> Undo:
        """Set the direct counter and meter of the default entry, which tell of misses; as in entries, a meter that is
        not given is reset."""
        entry, metered = TableEntry(table.id, is_default=True), bool(table.direct_meter)
        old = self._resources(table, entry).where(resources)
        self._set_resources(entry, resources, reset_meter=metered)
        return lambda: self._set_resources(entry, old, reset_meter=metered)

    def _write_default_action(self, table: Table, message: p4r.TableEntry, what: str) -> Undo:
        old: tuple[int | None, Params] = (None, ())
        if table.id in self._state.written_defaults:
            old = self._state.dataplane.table_default(table.id)
        old_note = self._state.default_notes.get(table.id)
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
            self._state.dataplane.set_table_default(table.id, action_id, params)
        if action_id is None:
            self._state.written_defaults.discard(table.id)
        else:
            self._state.written_defaults.add(table.id)
        if note is None:
            self._state.default_notes.pop(table.id, None)
        else:
            self._state.default_notes[table.id] = note

    def _apply_one(self, update: TableUpdate) -> None:
        (error,) = self.apply([update])
        if error is not None:
            raise error

    def _decode_action(self, table: Table, message: p4r.TableEntry) -> tuple[Call, Reference | None]:
        """Return the action that the entry carries, and what it refers to if the table is indirect."""
        if table.implementation:
            return self._state.profiles.resolve(table, message.action)
        given = message.action.WhichOneof("type") if message.HasField("action") else None
        if given != "action":
            raise RequestError(
                INVALID_ARGUMENT, f"table '{table.name}': an action with its arguments is needed, not {given or 'none'}"
            )
        return decode_action(table, message.action.action, as_default=False), None

    @staticmethod
    def _check_rest(table: Table, message: p4r.TableEntry) -> None:
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

    def _decode_resources(self, table: Table, message: p4r.TableEntry) -> Resources:
        what = f"table '{table.name}'"
        for name, given, there, kind in (
            ("counter_data", message.HasField("counter_data"), table.direct_counter, "counter"),
            ("meter_config", message.HasField("meter_config"), table.direct_meter, "meter"),
            ("meter_counter_data", message.HasField("meter_counter_data"), table.direct_meter, "meter"),
        ):
            if given and not there:
                raise RequestError(INVALID_ARGUMENT, f"{what} has no direct {kind}; leave {name} unset")
        counter = meter = colors = None
        if message.HasField("counter_data"):
            counter = message.counter_data.packet_count, message.counter_data.byte_count
            check_count(*counter, what)
        if message.HasField("meter_config"):
            meter = decode_meter(message.meter_config, table.meter_type, what)
        if message.HasField("meter_counter_data"):
            colors = decode_counts(message.meter_counter_data, what, only_reset=not self._state.takes_over)
        return Resources(counter, meter, colors)

    def _resources(self, table: Table, entry: TableEntry) -> Resources:
        """Give an entry's resources as they are."""
        dataplane = self._state.dataplane
        counter = dataplane.direct_counter_read(entry) if table.direct_counter else None
        colors = dataplane.direct_meter_counts(entry) if table.direct_meter else None
        return Resources(counter, self._state.meter(table, entry), colors)

    def _set_resources(self, entry: TableEntry, resources: Resources, *, reset_meter: bool = False) -> None:
        dataplane = self._state.dataplane
        if resources.counter is not None:
            dataplane.direct_counter_write(entry, *resources.counter)
        if resources.meter is not None or reset_meter:
            dataplane.set_direct_meter_config(entry, resources.meter)
        if resources.colors is not None:
            dataplane.set_direct_meter_counts(entry, resources.colors)


def _gives_resources(message: p4r.TableEntry) -> bool:
    return (
        message.HasField("meter_config") or message.HasField("counter_data") or message.HasField("meter_counter_data")
    )
