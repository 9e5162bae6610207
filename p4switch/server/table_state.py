"""The tables of a loaded pipeline: the data plane's entries, and what only clients have a use for.

The data plane holds the entries; kept here are metadata, cookies and idle time-outs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from finsy.proto import p4r

from p4switch.dataplane import DataPlane, DataPlaneError, EntryRecord, MeterConfig, MeterCounts, TableEntry
from p4switch.server.handler import DataPlaneUser
from p4switch.server.matches import EntryKey, decode_matches
from p4switch.server.profiles import Profiles, Reference
from p4switch.server.schema import Schema, Table
from p4switch.server.status import INVALID_ARGUMENT, RequestError


@dataclass(frozen=True)
class Note:
    """What a client said of an entry that the data plane has no place for. reference: of entries of indirect tables."""

    controller_metadata: int = 0
    metadata: bytes = b""
    idle_timeout_ns: int = 0
    reference: Reference | None = None

    @classmethod
    def of(cls, message: p4r.TableEntry, reference: Reference | None = None) -> Note | None:
        if message.controller_metadata or message.metadata or message.idle_timeout_ns or reference:
            return cls(message.controller_metadata, message.metadata, message.idle_timeout_ns, reference)
        return None

    def put(self, into: p4r.TableEntry) -> None:
        into.controller_metadata = self.controller_metadata
        into.metadata = self.metadata
        into.idle_timeout_ns = self.idle_timeout_ns


class TableState(DataPlaneUser):
    """Access to the tables by messages. on_timed is called when an entry gets an idle time-out."""

    def __init__(self, schema: Schema, dataplane: DataPlane, profiles: Profiles) -> None:
        super().__init__(dataplane)
        self.schema = schema
        self.profiles = profiles
        self.default_notes: dict[int, Note] = {}
        self.written_defaults: set[int] = set()  # ids of tables
        self.on_timed: Callable[[], None] = lambda: None
        self.takes_over = False  # while the state of another program is written, counts of colours included
        self._notes: dict[int, dict[EntryKey, Note]] = {number: {} for number in schema.tables}

    def find_table(self, table_id: int) -> Table:
        return self.schema.find("table", self.schema.tables, table_id)

    def decode_key(self, table: Table, message: p4r.TableEntry) -> EntryKey:
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

    def get(self, table: Table, key: EntryKey) -> EntryRecord | None:
        """Return an entry by its key."""
        return self.dataplane.table_get(TableEntry(table.id, *key))

    def meter(self, table: Table, entry: TableEntry) -> MeterConfig | None:
        """Return the configuration of an entry's direct meter, None for the default one or no meter at all."""
        return self.dataplane.direct_meter_config(entry) if table.direct_meter else None

    def meter_of(self, table: Table, entry: TableEntry) -> MeterConfig | None:
        """Like `meter`, for an entry that may have gone since it was read, or whose program has."""
        with suppress(DataPlaneError):
            return self.meter(table, entry)
        return None

    def colors_of(self, table: Table, entry: TableEntry) -> MeterCounts | None:
        """Return what an entry's direct meter coloured; None where there is none, or the entry has gone."""
        with suppress(DataPlaneError):
            return self.dataplane.direct_meter_counts(entry) if table.direct_meter else None
        return None

    def note(self, table: Table, key: EntryKey) -> Note | None:
        notes = self._notes[table.id]
        return notes.get(key) if notes else None  # hashing a key costs more than asking whether there are any

    def notes(self, table: Table) -> dict[EntryKey, Note]:
        """Return a copy of all notes on a table's entries."""
        return dict(self._notes[table.id])

    def set_note(self, table: Table, key: EntryKey, note: Note | None) -> None:
        if table.implementation:
            old = self._notes[table.id].get(key)
            self.profiles.refer(table, key, old.reference if old else None, note.reference if note else None)
        if note is not None:
            self._notes[table.id][key] = note
            if note.idle_timeout_ns:
                self.on_timed()
        elif self._notes[table.id]:
            self._notes[table.id].pop(key, None)

    def timed(self) -> Iterator[tuple[Table, EntryRecord, Note]]:
        """Yield the entries that have an idle time-out."""
        for number, notes in self._notes.items():
            table = self.schema.tables[number]
            if not table.idle_timeout:
                continue
            for key, note in notes.items():
                if note.idle_timeout_ns and (record := self.get(table, key)) is not None:
                    yield table, record, note
