"""What a loaded program says of its tables and externs, and how their values are laid out in words."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import cffi

from p4switch.dataplane.errors import InvalidArgument
from p4switch.dataplane.native import join, split, word_count
from p4switch.dataplane.types import EntryRecord, FieldMatch, TableEntry

_HEAD = 7  # words of an entry's record before its key: RECORD_HEAD of table_control.c
EXACT, LPM, TERNARY, RANGE, OPTIONAL, SELECTOR = range(6)  # enum p4_match


@dataclass(frozen=True)
class Key:
    name: str
    width: int
    word: int
    words: int
    kind: int
    full: int


@dataclass(frozen=True)
class Action:
    id: int
    name: str
    params: tuple[tuple[str, int, int, int], ...]  # name, width, first word, words
    data_words: int


@dataclass
class Table:
    """What a table's updates need to know, read once from the program."""

    index: int
    name: str
    keys: tuple[Key, ...]
    key_words: int
    actions: tuple[Action, ...]
    action_index: dict[int, int] = field(init=False)
    compared: int = field(init=False)  # keys that entries say something of: all but those of a selector
    simple: bool = field(init=False)  # every key and parameter is one word

    def __post_init__(self) -> None:
        self.action_index = {action.id: i for i, action in enumerate(self.actions)}
        self.compared = sum(key.kind != SELECTOR for key in self.keys)
        self.simple = all(k.words == 1 for k in self.keys) and all(p[3] == 1 for a in self.actions for p in a.params)

    def encode_key(self, entry: TableEntry) -> list[int]:
        """Give value and mask words."""
        if len(entry.matches) != self.compared:
            raise InvalidArgument(f"table {self.name} has {self.compared} keys, the entry has {len(entry.matches)}")
        values: list[int] = []
        masks: list[int] = []
        given = iter(entry.matches)
        for key in self.keys:
            kind, full = key.kind, key.full
            match = None if kind == SELECTOR else next(given)
            if match is None:
                if kind == EXACT:
                    raise InvalidArgument(f"table {self.name}: exact key {key.name} cannot be left out")
                value, mask = 0, full if kind == RANGE else 0
            else:
                value = match.value
                if kind in (EXACT, OPTIONAL):
                    mask = full
                elif kind == LPM:
                    if not 0 <= match.prefix <= key.width:
                        raise InvalidArgument(
                            f"table {self.name}: key {key.name} has {key.width} bits, its prefix length {match.prefix}"
                        )
                    mask = full >> (key.width - match.prefix) << (key.width - match.prefix)
                else:
                    mask = match.mask_or_hi
            if kind == RANGE and value > mask:
                raise InvalidArgument(f"table {self.name}: range of key {key.name} ends before it begins")
            if not (0 <= value <= full and 0 <= mask <= full):
                raise InvalidArgument(f"table {self.name}: key {key.name} has {key.width} bits; {match} does not fit")
            if key.words == 1:
                values.append(value)
                masks.append(mask)
            else:
                values += split(value, key.words)
                masks += split(mask, key.words)
        return values + masks

    def encode_action(self, action_id: int, params: tuple[int, ...]) -> tuple[int, list[int]]:
        """Give the action's index in the table and its data words."""
        index = self.action_index.get(action_id)
        if index is None:
            known = ", ".join(f"{a.name} ({a.id:#x})" for a in self.actions)
            raise InvalidArgument(f"table {self.name} has no action {action_id:#x}; it has {known}")
        action = self.actions[index]
        if len(params) != len(action.params):
            raise InvalidArgument(f"action {action.name} takes {len(action.params)} arguments, not {len(params)}")
        data: list[int] = []
        for value, (name, width, _, words) in zip(params, action.params, strict=True):
            if not 0 <= value < 1 << width:
                raise InvalidArgument(f"action {action.name}: {name} has {width} bits; {value} does not fit")
            if words == 1:
                data.append(value)
            else:
                data += split(value, words)
        return index, data

    def decode(self, table_id: int, record: Sequence[int]) -> EntryRecord:
        """Read a record of sw_table_dump()."""
        _, action_index, priority, packets, octets, idle, is_const = record[:_HEAD]
        matches: list[FieldMatch | None] = []
        for key in self.keys:
            if key.kind == SELECTOR:
                continue
            value = join(record, _HEAD + key.word, key.words)
            mask = join(record, _HEAD + self.key_words + key.word, key.words)
            matches.append(_decode_match(key, value, mask))
        action = self.actions[action_index]
        base = _HEAD + 2 * self.key_words
        params = tuple(join(record, base + word, words) for _, _, word, words in action.params)
        priority = priority - (1 << 64) if priority >> 63 else priority
        entry = TableEntry(table_id, tuple(matches), priority, action.id, params)
        return EntryRecord(entry, bool(is_const), packets, octets, idle)


def _decode_match(key: Key, value: int, mask: int) -> FieldMatch | None:
    if key.kind == EXACT:
        return FieldMatch(value)
    if key.kind == RANGE:
        return None if value == 0 and mask == key.full else FieldMatch(value, mask_or_hi=mask)
    if not mask:
        return None
    if key.kind == LPM:
        return FieldMatch(value, prefix=mask.bit_count())
    return FieldMatch(value) if key.kind == OPTIONAL else FieldMatch(value, mask_or_hi=mask)


class Snapshot:
    """The entries of a table at one moment, in the order of their insertion.

    They are decoded as they are asked for: a large table takes seconds to decode, and milliseconds to copy."""

    def __init__(self, table: Table, table_id: int, words: array[int], stride: int) -> None:
        self._table = table
        self._table_id = table_id
        self._words = words
        self._stride = stride

    def __len__(self) -> int:
        return len(self._words) // self._stride

    def __iter__(self) -> Iterator[EntryRecord]:
        words, stride = self._words, self._stride
        serials = words[::stride]
        for i in sorted(range(len(serials)), key=serials.__getitem__):
            yield self._table.decode(self._table_id, words[i * stride : (i + 1) * stride])


@dataclass(frozen=True)
class Cells:
    """A register, counter or meter."""

    index: int
    name: str
    width: int
    size: int
    direct: bool


@dataclass(frozen=True)
class Digest:
    id: int
    name: str
    fields: tuple[tuple[int, int], ...]  # first word, words


class Program:
    """A loaded program's objects by P4Info id."""

    def __init__(self, ffi: cffi.FFI, program: Any) -> None:
        def text(pointer: Any) -> str:
            return str(ffi.string(pointer).decode()) if pointer else ""

        def action(a: Any) -> Action:
            params = tuple(
                (text(p.name), p.width, p.word, word_count(p.width)) for p in (a.params[i] for i in range(a.n_params))
            )
            return Action(a.id, text(a.name), params, a.data_words)

        def key(k: Any) -> Key:
            return Key(text(k.name), k.width, k.word, word_count(k.width), int(k.match), (1 << k.width) - 1)

        def cells(items: Any, n: int, width: bool) -> dict[int, Cells]:
            found = {}
            for i in range(n):
                d = items[i]
                direct = not width and d.table >= 0
                found[d.id] = Cells(i, text(d.name), d.width if width else 0, d.size, direct)
            return found

        actions = [action(program.actions[i]) for i in range(program.n_actions)]
        self.tables: dict[int, Table] = {}
        for i in range(program.n_tables):
            t = program.tables[i]
            keys = tuple(key(t.keys[k]) for k in range(t.n_keys))
            own = tuple(actions[t.actions[a]] for a in range(t.n_actions))
            self.tables[t.id] = Table(i, text(t.name), keys, t.key_words, own)
        self.registers = cells(program.registers, program.n_registers, True)
        self.counters = cells(program.counters, program.n_counters, False)
        self.meters = cells(program.meters, program.n_meters, False)
        self.digests: list[Digest] = []
        for i in range(program.n_digests):
            d = program.digests[i]
            fields = tuple((f.word, word_count(f.width)) for f in (d.fields[k] for k in range(d.n_fields)))
            self.digests.append(Digest(d.id, text(d.name), fields))
        self.value_sets = {
            program.value_sets[i].id: (
                i,
                [key(program.value_sets[i].fields[k]) for k in range(program.value_sets[i].n_fields)],
            )
            for i in range(program.n_value_sets)
        }
