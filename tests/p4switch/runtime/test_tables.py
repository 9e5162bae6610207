"""Tables against a model: random updates of every kind of table, then every lookup must agree."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from p4switch.dataplane import (
    DELETE,
    INSERT,
    MODIFY,
    DataPlane,
    EntryExists,
    EntryMissing,
    FieldMatch,
    InvalidArgument,
    ReadOnly,
    TableEntry,
    TableFull,
)

from .conftest import CONSTANT, DROP_ACTION, EXACT, EXACT_WIDE, KEYLESS, LPM, MIXED, TERNARY, TO_PORT, WIDE

Match = FieldMatch | None
KINDS: dict[int, tuple[tuple[str, int], ...]] = {
    EXACT: (("exact", 8),),
    EXACT_WIDE: (("exact", 12), ("exact", 130)),
    LPM: (("exact", 8), ("lpm", 100)),
    TERNARY: (("ternary", 16), ("ternary", 70)),
    MIXED: (("range", 8), ("range", 80), ("optional", 8), ("ternary", 8), ("exact", 4), ("lpm", 8)),
}


def random_value(rng: random.Random, width: int) -> int:
    """Few different values, so that keys collide and lookups hit."""
    return rng.choice((0, 1, 2, 3, (1 << width) - 1, 1 << width - 1, 0x55 << width - 8 if width > 8 else 5))


def random_match(rng: random.Random, kind: str, width: int) -> Match:
    value, full = random_value(rng, width), (1 << width) - 1
    if kind == "exact":
        return FieldMatch(value)
    if rng.random() < 0.3:
        return None
    if kind == "optional":
        return FieldMatch(value)
    if kind == "lpm":
        prefix = rng.choice((1, width // 2, width - 1, width))
        mask = full >> width - prefix << width - prefix
        return FieldMatch(value & mask, prefix=prefix)
    if kind == "ternary":
        mask = rng.choice((1, 3, full, full ^ 1, full >> 1))
        return FieldMatch(value & mask, mask_or_hi=mask)
    ends = sorted((value, random_value(rng, width)))
    return None if ends == [0, full] else FieldMatch(ends[0], mask_or_hi=ends[1])


def matches(match: Match, kind: str, width: int, key: int) -> bool:
    if match is None:
        return True
    if kind == "range":
        return match.value <= key <= match.mask_or_hi
    if kind == "lpm":
        return key >> width - match.prefix == match.value >> width - match.prefix
    if kind == "ternary":
        return key & match.mask_or_hi == match.value
    return key == match.value


def rank(entry: TableEntry) -> int:
    """What decides among entries that match: priority, or the prefix where there is none."""
    return entry.priority or max((m.prefix for m in entry.matches if m), default=0)


@pytest.mark.parametrize("table", KINDS)
def test_random_updates(switch: DataPlane, table: int) -> None:
    rng = random.Random(table)
    kinds = KINDS[table]
    priorities = any(kind in ("ternary", "range", "optional") for kind, _ in kinds)
    model: dict[tuple[tuple[Match, ...], int], TableEntry] = {}
    for _ in range(1500):
        key = tuple(random_match(rng, kind, width) for kind, width in kinds)
        priority = rng.randint(1, 40) if priorities else 0
        if model and rng.random() < 0.4:
            key, priority = rng.choice(list(model))
        kind = rng.choice((INSERT, INSERT, INSERT, MODIFY, DELETE))
        action = rng.choice((DROP_ACTION, TO_PORT, WIDE))
        params = {DROP_ACTION: (), TO_PORT: (rng.randrange(512),), WIDE: (rng.getrandbits(100), rng.randrange(256))}
        entry = TableEntry(table, key, priority, action, params[action])
        (error,) = switch.apply([(kind, entry)])
        present = (key, priority) in model
        if kind == INSERT:
            assert isinstance(error, EntryExists) if present else error is None
            model.setdefault((key, priority), entry)
        elif not present:
            assert isinstance(error, EntryMissing)
        else:
            assert error is None
            if kind == MODIFY:
                model[key, priority] = entry
            else:
                del model[key, priority]
    assert {(e.matches, e.priority): e for e in switch.table_entries(table)} == model
    assert len(model) > 20 or table == EXACT
    hits = 0
    for _ in range(1500):
        values = tuple(random_value(rng, width) for _, width in kinds)
        candidates = [
            entry
            for entry in model.values()
            if all(matches(m, *k, v) for m, k, v in zip(entry.matches, kinds, values, strict=True))
        ]
        found = switch.table_lookup(table, values)
        if not candidates:
            assert found is None
            continue
        hits += 1
        best = max(map(rank, candidates))
        assert found is not None
        assert found.entry in [entry for entry in candidates if rank(entry) == best]
    assert hits > 100


def test_records_keep_the_order_of_insertion(switch: DataPlane) -> None:
    entries = [TableEntry(EXACT, (FieldMatch(v),), 0, TO_PORT, (v,)) for v in (9, 3, 200, 4)]
    for entry in entries:
        switch.table_insert(entry)
    assert switch.table_entries(EXACT) == entries
    record = switch.table_get(entries[2])
    assert record is not None and record.entry == entries[2] and not record.is_const
    assert switch.table_get(TableEntry(EXACT, (FieldMatch(5),))) is None


def test_size_is_enforced(switch: DataPlane) -> None:
    def insert(value: int) -> None:
        switch.table_insert(TableEntry(EXACT, (FieldMatch(value),), 0, DROP_ACTION))

    for value in range(200):
        insert(value)
    with pytest.raises(TableFull, match="exact is full"):
        insert(200)
    switch.table_delete(TableEntry(EXACT, (FieldMatch(7),)))
    insert(200)


def test_const_entries(switch: DataPlane) -> None:
    first, second = switch.table_records(CONSTANT)
    assert first.is_const and first.entry.matches == (FieldMatch(7, mask_or_hi=0xFF), FieldMatch(0x30, mask_or_hi=0xF0))
    assert (first.entry.priority, first.entry.action_id, first.entry.params) == (5, TO_PORT, (3,))
    assert second.entry.priority == 4 and second.entry.matches == (None, None)
    found = switch.table_lookup(CONSTANT, (7, 0x3F))
    assert found is not None and found.entry == first.entry
    found = switch.table_lookup(CONSTANT, (8, 0x3F))
    assert found is not None and found.entry == second.entry
    with pytest.raises(ReadOnly, match="constant has const entries"):
        switch.table_delete(first.entry)
    with pytest.raises(ReadOnly, match="const default"):
        switch.set_table_default(CONSTANT, TO_PORT, (1,))


def test_default_action(switch: DataPlane) -> None:
    assert switch.table_default(KEYLESS) == (DROP_ACTION, ())
    switch.set_table_default(KEYLESS, WIDE, (1 << 99, 7))
    assert switch.table_default(KEYLESS) == (WIDE, (1 << 99, 7))
    switch.set_table_default(KEYLESS, None)
    assert switch.table_default(KEYLESS) == (DROP_ACTION, ())
    with pytest.raises(InvalidArgument, match="has no key"):
        switch.table_insert(TableEntry(KEYLESS, (), 0, DROP_ACTION))


def entry(
    table: int, *keys: Match, priority: int = 0, action: int = DROP_ACTION, params: tuple[int, ...] = ()
) -> TableEntry:
    return TableEntry(table, keys, priority, action, params)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: entry(0x02999999), "there is no table 0x2999999"),
        (lambda: entry(EXACT, FieldMatch(256)), "key arg has 8 bits"),
        (lambda: entry(EXACT, FieldMatch(-1)), "key arg has 8 bits"),
        (lambda: entry(EXACT, None), "exact key arg cannot be left out"),
        (lambda: entry(EXACT), "has 1 keys, the entry has 0"),
        (lambda: entry(EXACT, FieldMatch(1), action=0x01999999), "has no action 0x1999999; it has drop"),
        (lambda: entry(EXACT, FieldMatch(1), action=TO_PORT), "to_port takes 1 arguments, not 0"),
        (lambda: entry(EXACT, FieldMatch(1), action=TO_PORT, params=(512,)), "port has 9 bits; 512"),
        (lambda: entry(LPM, FieldMatch(1), FieldMatch(0, prefix=101)), "its prefix length 101"),
        (lambda: entry(TERNARY, FieldMatch(0, mask_or_hi=1 << 16), None, priority=1), "key a has 16 bits"),
        (
            lambda: entry(
                MIXED, FieldMatch(9, mask_or_hi=8), None, None, None, FieldMatch(0), None, priority=1
            ),
            "range of key a ends before it begins",
        ),
    ],
)  # fmt: skip
def test_bad_entries_are_refused(switch: DataPlane, make: Callable[[], TableEntry], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        switch.table_insert(make())


def test_a_batch_reports_each_error_on_its_own(switch: DataPlane) -> None:
    good = entry(EXACT, FieldMatch(1))
    errors = switch.apply(
        [
            (INSERT, good),
            (INSERT, good),
            (DELETE, entry(EXACT, FieldMatch(2))),
            (INSERT, entry(EXACT, FieldMatch(999))),
            (DELETE, good),
        ]
    )
    assert [type(e) for e in errors] == [type(None), EntryExists, EntryMissing, InvalidArgument, type(None)]
    assert switch.table_entries(EXACT) == []


def test_ten_thousand_entries(switch: DataPlane) -> None:
    updates = [(INSERT, entry(EXACT_WIDE, FieldMatch(i & 0xFFF), FieldMatch(i << 90))) for i in range(10_000)]
    assert not any(switch.apply(updates))
    assert len(switch.table_entries(EXACT_WIDE)) == 10_000
    for i in (0, 1, 4095, 4096, 9999):
        found = switch.table_lookup(EXACT_WIDE, (i & 0xFFF, i << 90))
        assert found is not None and found.entry == updates[i][1]
    assert switch.table_lookup(EXACT_WIDE, (10_000 & 0xFFF, 10_000 << 90)) is None
