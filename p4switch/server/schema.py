"""An index of a P4Info: what the server must know of each object to check and translate messages, by id.

Built once per pipeline. A P4Info comes from a client, so everything in it is checked here: ids unique and of the right
type, references that lead somewhere, kinds of match that this switch has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from finsy.proto import p4i

from p4switch.server import status
from p4switch.server.datatypes import DataType, Field, Types
from p4switch.server.status import INVALID_ARGUMENT, RequestError
from p4switch.server.translation import translations

EXACT = p4i.MatchField.EXACT
LPM = p4i.MatchField.LPM
TERNARY = p4i.MatchField.TERNARY
RANGE = p4i.MatchField.RANGE
OPTIONAL = p4i.MatchField.OPTIONAL
_KIND_NAMES: dict[int, str] = {EXACT: "exact", LPM: "lpm", TERNARY: "ternary", RANGE: "range", OPTIONAL: "optional"}
_PREFIXES = {  # first byte of an id -> what it names (P4Ids in p4info.proto)
    0x01: "action",
    0x02: "table",
    0x03: "value set",
    0x11: "action profile",
    0x12: "counter",
    0x13: "direct counter",
    0x14: "meter",
    0x15: "direct meter",
    0x16: "register",
    0x17: "digest",
}


_NAMED = (  # the fields of a P4Info whose objects share one space of ids
    "actions",
    "tables",
    "action_profiles",
    "counters",
    "direct_counters",
    "meters",
    "direct_meters",
    "value_sets",
    "registers",
    "digests",
)


@dataclass(frozen=True)
class Action:
    id: int
    name: str
    params: tuple[Field, ...]
    positions: dict[int, int]  # param id -> index in params


@dataclass(frozen=True)
class ActionRef:
    action: Action
    in_entries: bool  # not @defaultonly
    as_default: bool  # not @tableonly


@dataclass(frozen=True)
class Key:
    field: Field
    kind: int  # EXACT, LPM, TERNARY, RANGE or OPTIONAL

    @property
    def kind_name(self) -> str:
        return _KIND_NAMES[self.kind]


@dataclass(frozen=True)
class Table:
    """A table. Ids of its direct resources and of its implementation are 0 when it has none."""

    id: int
    name: str
    keys: tuple[Key, ...]
    positions: dict[int, int]  # match field id -> index in keys
    needs_priority: bool
    actions: dict[int, ActionRef]
    is_const: bool
    const_default: bool
    size: int
    implementation: int
    direct_counter: int
    direct_meter: int
    idle_timeout: bool
    meter_type: int = field(default=0, compare=False)  # of the direct meter


@dataclass(frozen=True)
class Array:
    """An indexed object: a counter, meter or register."""

    id: int
    name: str
    size: int
    element: DataType | None = None  # of a register
    meter_type: int = field(default=0, compare=False)  # p4i.MeterSpec.Type; what controllers may ask of it, no more


@dataclass(frozen=True)
class ActionProfile:
    id: int
    name: str
    table_ids: tuple[int, ...]
    selector: bool
    size: int
    max_group_size: int
    count_members: bool  # sizes count members rather than weights
    max_member_weight: int


@dataclass(frozen=True)
class ValueSet:
    id: int
    name: str
    keys: tuple[Key, ...]
    positions: dict[int, int]
    size: int


@dataclass(frozen=True)
class Digest:
    id: int
    name: str
    type: DataType


@dataclass(frozen=True)
class ControllerHeader:
    """The header that stands before the packet on the CPU port, as bit fields in order."""

    name: str
    fields: tuple[Field, ...]
    length: int  # bytes


T = TypeVar("T")


@dataclass
class Schema:
    """All objects of a P4Info by id. names covers every object, for messages."""

    p4info: p4i.P4Info
    types: Types
    names: dict[int, str] = field(default_factory=dict)
    actions: dict[int, Action] = field(default_factory=dict)
    tables: dict[int, Table] = field(default_factory=dict)
    counters: dict[int, Array] = field(default_factory=dict)
    direct_counters: dict[int, int] = field(default_factory=dict)  # id -> table id
    meters: dict[int, Array] = field(default_factory=dict)
    direct_meters: dict[int, int] = field(default_factory=dict)
    registers: dict[int, Array] = field(default_factory=dict)
    profiles: dict[int, ActionProfile] = field(default_factory=dict)
    value_sets: dict[int, ValueSet] = field(default_factory=dict)
    digests: dict[int, Digest] = field(default_factory=dict)
    packet_in: ControllerHeader | None = None
    packet_out: ControllerHeader | None = None

    def find(self, kind: str, objects: Mapping[int, T], p4_id: int) -> T:
        """Return an object by id, or raise an error that tells what the id is and which ids there are."""
        found = objects.get(p4_id)
        if found is not None:
            return found
        if p4_id == 0:
            raise RequestError(INVALID_ARGUMENT, f"the id of a {kind} is missing (0 is never an id)")
        if p4_id in self.names:
            actual = _PREFIXES.get(p4_id >> 24, "object")
            raise RequestError(INVALID_ARGUMENT, f"id {p4_id} is {actual} '{self.names[p4_id]}', not a {kind}")
        known = status.list_choices(f"'{self.names[each]}' ({each})" for each in objects)
        raise RequestError(INVALID_ARGUMENT, f"no {kind} has id {p4_id} in the P4Info; there is {known}")


def build_schema(p4info: p4i.P4Info, plane_widths: dict[str, int] | None = None) -> Schema:
    """Index a P4Info; INVALID_ARGUMENT if it contradicts itself or asks for what this switch does not have.

    plane_widths: what translated types are in the program, by name, in bits; P4Info does not say it.
    """
    types = Types(p4info.type_info, translations(p4info.type_info, plane_widths or {}))
    schema = Schema(p4info, types)
    for kind in _NAMED:
        objects = getattr(p4info, kind)
        for each in objects:
            _register(schema.names, each.preamble)
    for action in p4info.actions:
        number, name = action.preamble.id, action.preamble.name
        params = tuple(Field.of(p, types, f"parameter '{p.name}' of action '{name}'") for p in action.params)
        schema.actions[number] = Action(number, name, params, _positions(params, f"action '{name}'"))
    for profile in p4info.action_profiles:
        schema.profiles[profile.preamble.id] = ActionProfile(
            id=profile.preamble.id,
            name=profile.preamble.name,
            table_ids=tuple(profile.table_ids),
            selector=profile.with_selector,
            size=profile.size,
            max_group_size=profile.max_group_size,
            count_members=profile.HasField("sum_of_members"),
            max_member_weight=profile.sum_of_members.max_member_weight,
        )
    for counter in p4info.counters:
        schema.counters[counter.preamble.id] = Array(counter.preamble.id, counter.preamble.name, counter.size)
    for meter in p4info.meters:
        array = Array(meter.preamble.id, meter.preamble.name, meter.size, None, meter.spec.type)
        schema.meters[meter.preamble.id] = array
    for register in p4info.registers:
        element = DataType.of(register.type_spec, types, f"register '{register.preamble.name}'")
        schema.registers[register.preamble.id] = Array(
            register.preamble.id, register.preamble.name, register.size, element
        )
    for digest in p4info.digests:
        schema.digests[digest.preamble.id] = Digest(
            digest.preamble.id,
            digest.preamble.name,
            DataType.of(digest.type_spec, types, f"digest '{digest.preamble.name}'"),
        )
    for counter in p4info.direct_counters:
        schema.direct_counters[counter.preamble.id] = counter.direct_table_id
    for meter in p4info.direct_meters:
        schema.direct_meters[meter.preamble.id] = meter.direct_table_id
    meter_types = {meter.preamble.id: meter.spec.type for meter in p4info.direct_meters}
    for table in p4info.tables:
        schema.tables[table.preamble.id] = _table(schema, table, meter_types)
    for value_set in p4info.value_sets:
        owner = f"value set '{value_set.preamble.name}'"
        keys = _keys(value_set.match, types, owner)
        schema.value_sets[value_set.preamble.id] = ValueSet(
            value_set.preamble.id,
            value_set.preamble.name,
            keys,
            _positions([k.field for k in keys], owner),
            value_set.size,
        )
    for header in p4info.controller_packet_metadata:
        _add_controller_header(schema, header)
    return schema


def _register(names: dict[int, str], preamble: p4i.Preamble) -> None:
    if preamble.id == 0 or not preamble.name:
        raise RequestError(
            INVALID_ARGUMENT, f"P4Info: object '{preamble.name}' with id {preamble.id} lacks one of both"
        )
    if preamble.id in names:
        raise RequestError(
            INVALID_ARGUMENT,
            f"P4Info: id {preamble.id} belongs to '{names[preamble.id]}' and to '{preamble.name}'",
        )
    names[preamble.id] = preamble.name


def _positions(fields: Iterable[Field], owner: str) -> dict[int, int]:
    positions: dict[int, int] = {}
    for position, each in enumerate(fields):
        if each.id in positions:
            raise RequestError(INVALID_ARGUMENT, f"P4Info: id {each.id} occurs twice in {owner}")
        positions[each.id] = position
    return positions


def _keys(match_fields: Iterable[p4i.MatchField], types: Types, owner: str) -> tuple[Key, ...]:
    keys = []
    for each in match_fields:
        if each.match_type not in _KIND_NAMES:
            kind = each.other_match_type or f"number {each.match_type}"
            raise RequestError(
                INVALID_ARGUMENT,
                f"P4Info: match field '{each.name}' of {owner} has match kind {kind}; "
                f"this switch has {status.list_choices(_KIND_NAMES.values())}",
            )
        keys.append(Key(Field.of(each, types, f"match field '{each.name}' of {owner}"), each.match_type))
    return tuple(keys)


def _table(schema: Schema, table: p4i.Table, meter_types: Mapping[int, int]) -> Table:
    name = table.preamble.name
    owner = f"table '{name}'"
    keys = _keys(table.match_fields, schema.types, owner)
    actions = {}
    for ref in table.action_refs:
        action = schema.actions.get(ref.id)
        if action is None:
            raise RequestError(INVALID_ARGUMENT, f"P4Info: {owner} refers to action {ref.id}, which does not exist")
        actions[ref.id] = ActionRef(
            action, ref.scope != p4i.ActionRef.DEFAULT_ONLY, ref.scope != p4i.ActionRef.TABLE_ONLY
        )
    if table.implementation_id and table.implementation_id not in schema.profiles:
        raise RequestError(
            INVALID_ARGUMENT,
            f"P4Info: {owner} refers to action profile {table.implementation_id}, which does not exist",
        )
    for resource in table.direct_resource_ids:
        if resource not in schema.direct_counters and resource not in schema.direct_meters:
            raise RequestError(
                INVALID_ARGUMENT, f"P4Info: {owner} refers to direct resource {resource}, which does not exist"
            )
    direct_meter = next((r for r in table.direct_resource_ids if r in schema.direct_meters), 0)
    return Table(
        id=table.preamble.id,
        name=name,
        keys=keys,
        positions=_positions([key.field for key in keys], owner),
        needs_priority=any(key.kind in (TERNARY, RANGE, OPTIONAL) for key in keys),
        actions=actions,
        is_const=table.is_const_table,
        const_default=table.const_default_action_id != 0,
        size=table.size,
        implementation=table.implementation_id,
        direct_counter=next((r for r in table.direct_resource_ids if r in schema.direct_counters), 0),
        direct_meter=direct_meter,
        idle_timeout=table.idle_timeout_behavior == p4i.Table.NOTIFY_CONTROL,
        meter_type=meter_types.get(direct_meter, 0),
    )


def _add_controller_header(schema: Schema, header: p4i.ControllerPacketMetadata) -> None:
    name = header.preamble.name
    if name not in ("packet_in", "packet_out"):
        raise RequestError(
            INVALID_ARGUMENT, f"P4Info: controller header '{name}' is neither 'packet_in' nor 'packet_out'"
        )
    fields = tuple(Field.of(each, schema.types, f"metadata '{each.name}' of {name}") for each in header.metadata)
    _positions(fields, name)
    bits = sum(each.plane_width for each in fields)
    setattr(schema, name, ControllerHeader(name, fields, (bits + 7) // 8))
