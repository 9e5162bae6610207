"""Names in STF scripts to objects of the P4Info, and script values to what the data plane takes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from finsy.proto import p4i

from p4switch.dataplane import FieldMatch, TableEntry
from p4switch.stf.script import Call, Statement, StfError, Value


class _WithPreamble(Protocol):
    @property
    def preamble(self) -> p4i.Preamble: ...


Object = TypeVar("Object", bound=_WithPreamble)


def _unknown(place: str, kind: str, name: str, valid: Iterable[str]) -> StfError:
    choices = sorted(valid)
    near = difflib.get_close_matches(name, choices, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else f"; there is {', '.join(choices) or 'none'}"
    return StfError(place, f"no {kind} '{name}' in the program{hint}")


def find(place: str, kind: str, objects: Sequence[Object], name: str) -> Object:
    """Find an object by its full name, its alias, or a suffix of its name that only one object has."""
    by_name = {o.preamble.name: o for o in objects}
    for o in objects:
        if name in (o.preamble.name, o.preamble.alias):
            return o
    dotted = [n for n in by_name if n.endswith("." + name)]
    found = dotted or [n for n in by_name if n.endswith(name)]
    if len(found) == 1:
        return by_name[found[0]]
    if found:
        raise StfError(place, f"{kind} '{name}' is ambiguous: {', '.join(sorted(found))}")
    raise _unknown(place, kind, name, by_name)


class Names:
    """The P4Info of one program, asked by name."""

    def __init__(self, p4info: p4i.P4Info) -> None:
        self.p4info = p4info
        self._actions = {a.preamble.id: a for a in p4info.actions}
        self._profiles = {p.preamble.id for p in p4info.action_profiles}

    def table(self, place: str, name: str) -> p4i.Table:
        """Find a table."""
        return find(place, "table", self.p4info.tables, name)

    def action(self, place: str, table: p4i.Table, call: Call) -> tuple[int, tuple[int, ...]]:
        """Resolve an action call of a table to its id and its arguments in order."""
        choices = [self._actions[ref.id] for ref in table.action_refs]
        action = find(place, f"action of table {table.preamble.name}", choices, call.name)
        given = dict(call.args)
        values = []
        for param in action.params:
            if param.name not in given:
                raise StfError(place, f"{action.preamble.name} lacks the argument {param.name}")
            value = given.pop(param.name)
            if value.kind != "exact" or not 0 <= value.value < 1 << param.bitwidth:
                raise StfError(place, f"argument {param.name} must be a number of {param.bitwidth} bits")
            values.append(value.value)
        if given:
            raise _unknown(
                place, f"parameter of {action.preamble.name}", next(iter(given)), (p.name for p in action.params)
            )
        return action.preamble.id, tuple(values)

    def entry(self, s: Statement) -> TableEntry:
        """Resolve an add statement."""
        table = self.table(s.place, s.table)
        if table.implementation_id:
            raise StfError(s.place, f"table {table.preamble.name} takes members of an action profile; STF has none")
        matches: list[FieldMatch | None] = [None] * len(table.match_fields)
        for name, value in s.keys:
            position = self._key(s.place, table, name)
            matches[position] = _match(s.place, table.match_fields[position], value)
        for position, key in enumerate(table.match_fields):
            if matches[position] is None and key.match_type == p4i.MatchField.EXACT:
                matches[position] = FieldMatch(0)  # as p4c's runner fills it in
        assert s.call is not None
        action_id, params = self.action(s.place, table, s.call)
        ordered = any(k.match_type in _WITH_PRIORITY for k in table.match_fields)
        priority = (s.priority if s.priority is not None else 0) + 1 if ordered else 0
        return TableEntry(table.preamble.id, tuple(matches), priority, action_id, params)

    @staticmethod
    def _key(place: str, table: p4i.Table, name: str) -> int:
        """Find a key by its name, or by a suffix of it after a dot; h$0 stands for h[0]."""
        names = [k.name for k in table.match_fields]
        wanted = [name, f"{name}$", f"{name}.$valid$", name.replace("valid", "$valid$")]
        head, dollar, tail = name.partition("$")
        if dollar and tail[:1].isdigit():
            digits = "".join(c for c in tail if c.isdigit())
            wanted.append(f"{head}[{digits}]{tail[len(digits) :]}")
        for candidate in wanted:
            if candidate in names:
                return names.index(candidate)
        for candidate in wanted:
            for position, each in enumerate(names):
                if each.endswith("." + candidate):
                    return position
        raise _unknown(place, f"key of table {table.preamble.name}", name, names)


_WITH_PRIORITY = (p4i.MatchField.TERNARY, p4i.MatchField.RANGE, p4i.MatchField.OPTIONAL)


def _match(place: str, key: p4i.MatchField, value: Value) -> FieldMatch | None:
    """Turn a script's value into the match that the key takes; None: don't care."""
    width = key.bitwidth
    full = (1 << width) - 1
    if not 0 <= value.value <= full:
        raise StfError(place, f"{value.value:#x} does not fit the {width} bits of key {key.name}")
    match key.match_type:
        case p4i.MatchField.EXACT if value.kind == "exact":
            return FieldMatch(value.value)
        case p4i.MatchField.OPTIONAL if value.kind == "exact":
            return FieldMatch(value.value)
        case p4i.MatchField.OPTIONAL if value.kind == "mask" and value.other == 0:
            return None
        case p4i.MatchField.LPM:
            prefix = {"prefix": value.other, "mask": value.other.bit_count()}.get(value.kind, width)
            if not 0 <= prefix <= width:
                raise StfError(place, f"a prefix of {prefix} bits does not fit the {width} bits of key {key.name}")
            kept = full & ~((1 << (width - prefix)) - 1)
            return FieldMatch(value.value & kept, prefix=prefix) if prefix else None
        case p4i.MatchField.TERNARY if value.kind in ("exact", "mask"):
            # As p4c's runner has it, digits that are not written are not compared.
            mask = value.other if value.kind == "mask" else (1 << value.digits) - 1 if value.digits else full
            mask &= full
            return FieldMatch(value.value & mask, mask_or_hi=mask) if mask else None
        case p4i.MatchField.RANGE if value.kind in ("exact", "range"):
            high = value.other if value.kind == "range" else value.value
            if not value.value <= high <= full:
                raise StfError(place, f"{value.value:#x}->{high:#x} is no range of {width} bits")
            return None if (value.value, high) == (0, full) else FieldMatch(value.value, mask_or_hi=high)
    kind = p4i.MatchField.MatchType.Name(key.match_type).lower()
    raise StfError(place, f"key {key.name} is matched {kind}; a {value.kind} value does not go with it")
