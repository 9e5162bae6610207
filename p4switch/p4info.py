"""P4Info of a compiled program: ids, aliases, order and annotations as p4c gives them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from finsy.proto.p4.config.v1 import p4info_pb2 as pb

from p4switch import ir

_MATCHES = {
    ir.MatchKind.EXACT: pb.MatchField.EXACT,
    ir.MatchKind.LPM: pb.MatchField.LPM,
    ir.MatchKind.TERNARY: pb.MatchField.TERNARY,
    ir.MatchKind.RANGE: pb.MatchField.RANGE,
    ir.MatchKind.OPTIONAL: pb.MatchField.OPTIONAL,
}
_COUNTER_UNITS = {
    "packets": pb.CounterSpec.PACKETS,
    "bytes": pb.CounterSpec.BYTES,
    "packets_and_bytes": pb.CounterSpec.BOTH,
}
_METER_UNITS = {"packets": pb.MeterSpec.PACKETS, "bytes": pb.MeterSpec.BYTES}
_METER_TYPES = {  # annotations of P4Runtime 1.4, which p4c does not know
    "@two_rate_three_color": pb.MeterSpec.TWO_RATE_THREE_COLOR,
    "@single_rate_three_color": pb.MeterSpec.SINGLE_RATE_THREE_COLOR,
    "@single_rate_two_color": pb.MeterSpec.SINGLE_RATE_TWO_COLOR,
}


def p4info_of(program: ir.Program) -> pb.P4Info:
    """Describe a program's control-plane objects in the message that P4Runtime clients load."""
    return _Builder(program).build()


class _Builder:
    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.info = pb.P4Info()
        self.actions = {a.ir_name: a for a in program.actions}
        self.tables = {t.ir_name: t.identity for t in program.tables}
        self.types = {(t.kind, t.name): t for t in program.named_types}

    def build(self) -> pb.P4Info:
        program, info = self.program, self.info
        for key, value in program.package.items():
            setattr(info.pkg_info, key, value)
        for key, number in program.platform_properties.items():
            setattr(info.pkg_info.platform_properties, key, number)
        if program.package:
            _notes(info.pkg_info, program.package_notes)
        for table in program.tables:
            if not table.identity.hidden:
                self.table(table)
        self.add_actions()
        for profile in program.action_profiles:
            self.action_profile(profile)
        for counter in program.counters:
            self.counter(counter)
        for meter in program.meters:
            self.meter(meter)
        for header in program.controller_headers:
            if not header.identity.hidden:
                self.controller_header(header)
        for value_set in program.value_sets:
            self.value_set(value_set)
        for register in program.registers:
            if register.in_p4info:
                self.register(register)
        for digest in program.digests:
            message = info.digests.add()
            _preamble(message, digest.identity)
            if digest.type_spec is not None:
                _type_spec(message.type_spec, digest.type_spec)
        if program.has_type_info:
            info.type_info.SetInParent()
        for named in program.named_types:
            self.named_type(named)
        return info

    # ------------------------------------------------------------------------------------------------------ objects

    def bitwidth(self, width: int, type_name: str) -> int:
        """Give the width that the controller sees: a translated type's, 0 for a string."""
        named = self.types.get(("new_type", type_name))
        return named.width if named is not None and named.translated else width

    def table(self, table: ir.Table) -> None:
        message = self.info.tables.add()
        _preamble(message, table.identity)
        message.size = table.size
        if table.const_default:
            message.const_default_action_id = self.actions[table.default_action].identity.id
        self.initial_default(message.initial_default_action, table)
        for reference in table.actions:
            ref = message.action_refs.add()
            ref.id = self.actions[reference.action].identity.id
            _notes(ref, reference.notes)
            if reference.table_only:
                ref.scope = pb.ActionRef.TABLE_ONLY
            elif reference.default_only:
                ref.scope = pb.ActionRef.DEFAULT_ONLY
        for key in table.keys:
            if key.match is ir.MatchKind.SELECTOR:
                continue
            field = message.match_fields.add()
            field.id = key.id
            field.name = key.name
            _notes(field, key.notes)
            field.bitwidth = 0 if isinstance(key.expr.type, ir.ErrorType) else self.bitwidth(key.width, key.type_name)
            field.match_type = _MATCHES[key.match]
            if key.type_name:
                field.type_name.name = key.type_name
        message.is_const_table = table.entries_are_const
        message.has_initial_entries = bool(table.const_entries)
        if table.implementation is not None:
            profiles = {p.ir_name: p.identity.id for p in self.program.action_profiles}
            message.implementation_id = profiles[table.implementation]
        direct: list[ir.Counter | ir.Meter] = [*self.program.counters, *self.program.meters]
        for name in (table.direct_counter, table.direct_meter):
            if name is not None:
                message.direct_resource_ids.append(next(d.identity.id for d in direct if d.ir_name == name))
        if table.support_timeout:
            message.idle_timeout_behavior = pb.Table.NOTIFY_CONTROL

    def initial_default(self, message: pb.TableActionCall, table: ir.Table) -> None:
        action = self.actions[table.default_action]
        message.action_id = action.identity.id
        for param, value in zip(action.params, table.default_args, strict=True):
            width = self.bitwidth(param.type.width, param.type_name)
            if width:  # no number stands for a translated string
                message.arguments.add(param_id=param.id, value=_bytes(value, width))

    def add_actions(self) -> None:
        for action in self.program.action_infos:
            if action.identity.hidden:
                continue
            message = self.info.actions.add()
            _preamble(message, action.identity)
            for param in action.params:
                field = message.params.add()
                field.id = param.id
                field.name = param.name
                _notes(field, param.notes)
                field.bitwidth = self.bitwidth(param.type.width, param.type_name)
                if param.type_name:
                    field.type_name.name = param.type_name

    def action_profile(self, profile: ir.ActionProfile) -> None:
        message = self.info.action_profiles.add()
        _preamble(message, profile.identity)
        message.with_selector = profile.selector
        message.size = profile.size
        message.max_group_size = profile.max_group_size
        if profile.size_semantics == "sum_of_weights":
            message.sum_of_weights.SetInParent()
        elif profile.size_semantics == "sum_of_members":
            message.sum_of_members.max_member_weight = profile.max_member_weight
        tables = sorted(
            (t.identity for t in self.program.tables if t.implementation == profile.ir_name), key=lambda i: i.name
        )
        message.table_ids.extend(i.id for i in tables)

    def counter(self, counter: ir.Counter) -> None:
        message: Any = self.info.counters.add() if counter.table is None else self.info.direct_counters.add()
        _preamble(message, counter.identity)
        message.spec.unit = _COUNTER_UNITS[counter.unit]
        self.size_or_table(message, counter)

    def meter(self, meter: ir.Meter) -> None:
        message: Any = self.info.meters.add() if meter.table is None else self.info.direct_meters.add()
        _preamble(message, meter.identity)
        message.spec.unit = _METER_UNITS[meter.unit]
        for text in meter.identity.notes.texts:
            message.spec.type = _METER_TYPES.get(text.split("(")[0], message.spec.type)
        self.size_or_table(message, meter)

    def size_or_table(self, message: Any, source: ir.Counter | ir.Meter) -> None:
        if source.table is not None:
            message.direct_table_id = self.tables[source.table].id
            return
        message.size = source.size
        if source.index_type_name:
            message.index_type_name.name = source.index_type_name

    def controller_header(self, header: ir.ControllerHeader) -> None:
        message = self.info.controller_packet_metadata.add()
        _preamble(message, header.identity)
        # The id is that of the header's type, the name is the controller's.
        message.preamble.name = message.preamble.alias = header.controller_name
        for item in header.fields:
            if item.hidden:
                continue
            field = message.metadata.add()
            field.id = item.id
            field.name = item.name
            _annotations(field, item.notes)
            field.bitwidth = self.bitwidth(item.width, item.type_name)
            if item.type_name:
                field.type_name.name = item.type_name

    def value_set(self, value_set: ir.ValueSet) -> None:
        message = self.info.value_sets.add()
        _preamble(message, value_set.identity)
        message.size = value_set.size
        for i, (width, match) in enumerate(zip(value_set.widths, value_set.matches, strict=True)):
            field = message.match.add()
            field.id = i + 1
            field.bitwidth = width
            field.match_type = _MATCHES[match]
            if value_set.names:
                field.name = value_set.names[i]

    def register(self, register: ir.Register) -> None:
        message = self.info.registers.add()
        _preamble(message, register.identity)
        message.size = register.size
        if register.type_spec is not None:
            _type_spec(message.type_spec, register.type_spec)
        if register.index_type_name:
            message.index_type_name.name = register.index_type_name

    # -------------------------------------------------------------------------------------------------------- types

    def named_type(self, named: ir.NamedType) -> None:
        types = self.info.type_info
        if named.kind == "struct":
            struct = types.structs[named.name]
            struct.SetInParent()
            for name, spec in named.members:
                member = struct.members.add(name=name)
                _type_spec(member.type_spec, spec)
        elif named.kind == "header":
            header = types.headers[named.name]
            header.SetInParent()
            for name, spec in named.members:
                _bitstring(header.members.add(name=name).type_spec, spec)
        elif named.kind == "header_union":
            union = types.header_unions[named.name]
            union.SetInParent()
            for name, spec in named.members:
                union.members.add(name=name).header.name = spec.name
        elif named.kind == "enum":
            enum = types.enums[named.name]
            enum.SetInParent()
            for name, _ in named.values:
                enum.members.add(name=name)
        elif named.kind == "serializable_enum":
            serializable = types.serializable_enums[named.name]
            serializable.underlying_type.bitwidth = named.width
            for name, value in named.values:
                serializable.members.add(name=name, value=_bytes(value, named.width))
        elif named.kind == "error":
            types.error.members.extend(name for name, _ in named.values)
        else:
            new_type = types.new_types[named.name]
            _annotations(new_type, named.notes)
            if named.translated:
                new_type.translated_type.uri = named.uri
                if named.width:
                    new_type.translated_type.sdn_bitwidth = named.width
                else:
                    new_type.translated_type.sdn_string.SetInParent()
            elif named.original is not None:
                _type_spec(new_type.original_type, named.original)


def _bytes(value: int, width: int) -> bytes:
    """Write a value as P4Info does: in as many bytes as the width needs."""
    return (value & ((1 << width) - 1)).to_bytes((width + 7) // 8, "big")


def _preamble(message: Any, identity: ir.Identity) -> None:
    preamble = message.preamble
    preamble.id = identity.id
    preamble.name = identity.name
    preamble.alias = identity.alias
    _notes(preamble, identity.notes)


def _annotations(message: Any, notes: ir.Notes) -> None:
    message.annotations.extend(notes.texts)
    for found in notes.structured:
        structured = message.structured_annotations.add(name=found.name)
        for item in found.items:
            _value(structured.expression_list.expressions.add(), item)
        for key, item in found.pairs:
            _value(structured.kv_pair_list.kv_pairs.add(key=key).value, item)


def _notes(message: Any, notes: ir.Notes) -> None:
    _annotations(message, notes)
    if notes.brief:
        message.doc.brief = notes.brief
    if notes.description:
        message.doc.description = notes.description


def _value(expression: Any, value: int | bool | str) -> None:
    if isinstance(value, bool):
        expression.bool_value = value
    elif isinstance(value, int):
        expression.int64_value = value
    else:
        expression.string_value = value


def _bitstring(message: Any, spec: ir.TypeSpec) -> None:
    if spec.kind == "varbit":
        message.varbit.max_bitwidth = spec.size
    elif spec.kind == "int":
        message.int.bitwidth = spec.size
    else:
        message.bit.bitwidth = spec.size


def _type_spec(message: Any, spec: ir.TypeSpec) -> None:
    kind = spec.kind
    if kind in ("bit", "int", "varbit"):
        _bitstring(message.bitstring, spec)
    elif kind in ("bool", "error"):
        getattr(message, kind).SetInParent()
    elif kind == "tuple":
        message.tuple.SetInParent()
        for member in spec.members:
            _type_spec(message.tuple.members.add(), member)
    elif kind == "header_stack":
        message.header_stack.header.name = spec.name
        message.header_stack.size = spec.size
    elif kind == "header_union_stack":
        message.header_union_stack.header_union.name = spec.name
        message.header_union_stack.size = spec.size
    else:
        getattr(message, kind).name = spec.name


def text_of(info: pb.P4Info) -> str:
    """Write P4Info in the protobuf text format, with the header lines that editors know."""
    from google.protobuf import text_format

    lines: Iterable[str] = ("# proto-file: p4/config/v1/p4info.proto", "# proto-message: p4.config.v1.P4Info", "")
    return "\n".join(lines) + "\n" + text_format.MessageToString(info, as_utf8=False)
