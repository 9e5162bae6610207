"""Parser value sets (ValueSetEntry): always written as a whole."""

from __future__ import annotations

from finsy.proto import p4r

from p4switch.dataplane import DataPlane, FieldMatch
from p4switch.server.handler import DataPlaneUser, Sink, Undo, only_modify
from p4switch.server.matches import Matches, decode_matches, encode_matches
from p4switch.server.schema import LPM, RANGE, TERNARY, Key, Schema, ValueSet
from p4switch.server.status import ALREADY_EXISTS, RESOURCE_EXHAUSTED, RequestError


class ValueSetEntities(DataPlaneUser):
    """ValueSetEntry. The members are kept here, as the data plane gives none back."""

    def __init__(self, schema: Schema, dataplane: DataPlane) -> None:
        super().__init__(dataplane)
        self._schema = schema
        self._members: dict[int, list[Matches]] = {number: [] for number in schema.value_sets}

    def p4_id(self, message: p4r.ValueSetEntry) -> int:
        return message.value_set_id

    def write(self, kind: int, message: p4r.ValueSetEntry) -> Undo:
        value_set = self._schema.find("value set", self._schema.value_sets, message.value_set_id)
        what = f"value set '{value_set.name}'"
        only_modify(kind, what)
        members = [decode_matches(value_set.keys, value_set.positions, what, each.match) for each in message.members]
        if len(members) > value_set.size:
            raise RequestError(RESOURCE_EXHAUSTED, f"{what} holds {value_set.size} members, not {len(members)}")
        if len(set(members)) < len(members):
            raise RequestError(ALREADY_EXISTS, f"{what}: a member is given twice")
        old = self._members[value_set.id]
        self._set(value_set, members)
        return lambda: self._set(value_set, old)

    def read(self, query: p4r.ValueSetEntry, sink: Sink) -> None:
        if query.value_set_id:
            found = [self._schema.find("value set", self._schema.value_sets, query.value_set_id)]
        else:
            found = [each for each in self._schema.value_sets.values() if sink.shows(each.id)]
        for value_set in found:
            message = sink.add().value_set_entry
            message.value_set_id = value_set.id
            for member in self._members[value_set.id]:
                encode_matches(value_set.keys, member, message.members.add())

    def _set(self, value_set: ValueSet, members: list[Matches]) -> None:
        self.dataplane.set_value_set(value_set.id, [_as_masks(value_set, member) for member in members])
        self._members[value_set.id] = members


def _as_masks(value_set: ValueSet, member: Matches) -> Matches:
    """Say with masks what the data plane's value sets have no kind of match for; a range's is its high end."""
    return tuple(
        None if match is None else FieldMatch(match.value, mask_or_hi=_mask(key, match))
        for key, match in zip(value_set.keys, member, strict=True)
    )


def _mask(key: Key, match: FieldMatch) -> int:
    full, spare = (1 << key.field.plane_width) - 1, key.field.plane_width - match.prefix
    if key.kind == LPM:
        return full >> spare << spare
    return match.mask_or_hi if key.kind in (TERNARY, RANGE) else full
