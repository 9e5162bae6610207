"""The externs of core.p4 and v1model: their calls, and the objects that their instances are."""

from __future__ import annotations

from collections.abc import Collection

from p4switch import ir
from p4switch.frontend import ast
from p4switch.frontend import types as ty
from p4switch.frontend.elaborate.arguments import Arguments, Passed
from p4switch.frontend.elaborate.base import boolean, const, numeric
from p4switch.frontend.elaborate.notes import number_of
from p4switch.frontend.elaborate.objects import NOT_IDENTIFIED, annotation, control_plane_name, text_of
from p4switch.frontend.elaborate.scope import Scope
from p4switch.frontend.elaborate.typeinfo import TypeInfo
from p4switch.frontend.elaborate.values import (
    Aggregate,
    ExternVal,
    IntVal,
    InvalidVal,
    ListVal,
    NamedVal,
    Operand,
    StrVal,
    TypeVal,
    UnknownVal,
    Value,
    VoidVal,
)
from p4switch.frontend.errors import did_you_mean
from p4switch.ir import Loc

# Functions that become ir.ExternCall as they are, with the position of the argument that is a list of fields.
FUNCTIONS: dict[str, int | None] = {
    "hash": 3,
    "random": None,
    "mark_to_drop": None,
    "clone": None,
    "clone_preserving_field_list": None,
    "resubmit_preserving_field_list": None,
    "recirculate_preserving_field_list": None,
    "truncate": None,
    "log_msg": 1,
    "assert": None,
    "assume": None,
    "verify_checksum": 1,
    "verify_checksum_with_payload": 1,
    "update_checksum": 1,
    "update_checksum_with_payload": 1,
}
METHODS = frozenset(
    [
        "register.read",
        "register.write",
        "counter.count",
        "direct_counter.count",
        "meter.execute_meter",
        "direct_meter.read",
    ]
)
REPLACED = {
    "clone3": "clone_preserving_field_list",
    "resubmit": "resubmit_preserving_field_list",
    "recirculate": "recirculate_preserving_field_list",
}
MAX_CELLS = 1 << 27
FIRST_OWN_LIST = 256  # field lists of the program have 8-bit numbers


class Externs(Arguments):
    """Lowers calls of extern functions and methods, and makes IR objects of extern instances."""

    # ---------------------------------------------------------------------------------------------------- functions

    def extern_function(self, decl: ast.FunctionDecl, node: ast.CallExpr) -> Operand:
        name = decl.name
        if self.frame_kind() == "control" and not self.dead and name != "static_assert":
            self.has_type_info = True
        passed = self.evaluate(self.match(f"function '{name}'", decl.params, node.args, node.loc))
        scope = self.type_scope(decl, node.type_args, passed, node.loc, self.globals)
        if name == "static_assert":
            return self.static_assert(passed, node.loc)
        if name == "verify":
            return self.verify_call(passed, scope, node.loc)
        if name == "digest":
            return self.digest_call(passed, scope, node.loc)
        if name in REPLACED:
            return self.with_field_list(REPLACED[name], passed, scope, node.loc)
        if name not in FUNCTIONS:
            hint = did_you_mean(name, [*FUNCTIONS, "verify", "digest", "static_assert"], "v1model's functions")
            self.unsupported(node.loc, f"extern function '{name}' is not part of v1model", hint)
            return self.result_stand_in(decl, scope)
        args = self.extern_args(passed, scope, FUNCTIONS[name])
        self.check_numbers(passed, args, decl.type_params)
        if name == "mark_to_drop" and not args:  # the deprecated form without an argument
            standard = self.roots.get("standard_metadata")
            if standard is None:
                self.fail(node.loc, "mark_to_drop() outside of the package's blocks", "give it standard_metadata")
            args = (standard.expr,)
        self.emit(ir.ExternCall(node.loc, name, None, args))
        return self.void()

    def result_stand_in(self, decl: ast.FunctionDecl, scope: Scope) -> Operand:
        """Give something of the type that a call of an unknown extern returns."""
        if decl.return_type is None:
            return self.void()
        with self.scoped(scope):
            kind = self.resolve_type(decl.return_type, allow_void=True)
        if kind is ty.VOID:
            return self.void()
        return Value(kind, self.temp(kind).expr) if kind.is_data else UnknownVal()

    def with_field_list(self, name: str, passed: list[Passed], scope: Scope, loc: Loc) -> Operand:
        """Lower clone3, resubmit and recirculate, which list the metadata to keep in place of a @field_list number."""
        data = passed[-1].value
        assert data is not None
        fields = [f for f in self.field_list(data, loc).items if is_metadata(f)]
        number = FIRST_OWN_LIST + len(self.own_field_lists)
        self.own_field_lists[number] = tuple(fields)
        args = [*self.extern_args(passed[:-1], scope, None), ir.Const(ir.Bits(32), number)]
        self.emit(ir.ExternCall(loc, name, None, tuple(args)))
        return self.void()

    own_field_lists: dict[int, tuple[ir.Expr, ...]]
    roots: dict[str, Value]  # hdr, meta and standard_metadata

    def void(self) -> Operand:
        return VoidVal()

    def extern_args(
        self, passed: list[Passed], scope: Scope, list_position: int | None
    ) -> tuple[ir.Expr | ir.FieldList | ir.Text, ...]:
        args: list[ir.Expr | ir.FieldList | ir.Text] = []
        for i, entry in enumerate(passed):
            if i == list_position:
                assert entry.value is not None
                args.append(self.field_list(entry.value, entry.loc))
            else:
                args.append(self.extern_arg(entry, scope))
        return tuple(args)

    def extern_arg(self, entry: Passed, scope: Scope) -> ir.Expr | ir.Text:
        with self.scoped(scope):
            kind = self.resolve_type(entry.param.type)
        value = entry.value
        if isinstance(value, StrVal):
            return ir.Text(value.text)
        if value is None:
            if not kind.is_data:
                self.fail(
                    entry.loc, f"the type of '_' for parameter '{entry.param.name}' is not known", "use a variable"
                )
            return self.temp(kind).expr
        if isinstance(value, ListVal | NamedVal | Aggregate) and kind in (ty.UNKNOWN, ty.LIST):
            self.fail(entry.loc, f"parameter '{entry.param.name}' needs a single value, found {value.what}")
        if entry.param.direction in ("out", "inout") and isinstance(value, Value) and kind is not ty.UNKNOWN:
            if value.type is not kind and not (isinstance(value.type, ty.SerEnum) and value.type.base is kind):
                self.fail(
                    entry.loc,
                    f"parameter '{entry.param.name}' needs a variable of type {kind}, found {value.what}",
                )
            return value.expr
        if isinstance(value, IntVal) and kind in (ty.UNKNOWN, ty.INT):
            # A literal for a generic parameter: as wide as its value needs, as nothing else tells.
            width = max(32, value.value.bit_length() + (value.value < 0))
            return ir.Const(ir.Bits(width), value.value & ((1 << width) - 1))
        return self.materialize(self.convert(value, kind, entry.loc), entry.loc)

    def check_numbers(
        self,
        passed: list[Passed],
        args: tuple[ir.Expr | ir.FieldList | ir.Text, ...],
        type_params: Collection[str],
        enums: bool = False,
    ) -> None:
        """Refuse values that are no numbers for parameters of any type: v1model's externs compute with them.

        With `enums` an enum's value is one, as its members are numbered: so is a meter's colour.
        """
        numbers = (ir.Bits, ir.Bool, ir.EnumType) if enums else (ir.Bits, ir.Bool)
        for entry, arg in zip(passed, args, strict=True):
            generic = isinstance(entry.param.type, ast.NamedType) and entry.param.type.name in type_params
            if generic and isinstance(arg, ir.Expr) and not isinstance(arg.type, numbers):
                found = entry.value.what if entry.value is not None else "something else"
                self.fail(entry.loc, f"parameter '{entry.param.name}' needs a number, found {found}")

    def field_list(self, value: Operand, loc: Loc) -> ir.FieldList:
        items: list[ir.Expr] = []
        self.flatten(value, loc, items)
        return ir.FieldList(tuple(items))

    def flatten(self, value: Operand, loc: Loc, items: list[ir.Expr]) -> None:
        """Append the scalar leaves of a list, struct, header, stack or scalar."""
        kind = value.type
        if isinstance(value, ListVal):
            for item in value.items:
                self.flatten(item, loc, items)
        elif isinstance(value, NamedVal):
            for item in value.fields.values():
                self.flatten(item, loc, items)
        elif isinstance(value, InvalidVal):
            self.flatten(Value(kind, self.materialize(value, loc)), loc, items)
        elif isinstance(kind, ty.Struct):
            for i, name in enumerate(kind.fields):
                self.flatten(self.part(value, name, i), loc, items)
        elif isinstance(kind, ty.Stack):
            for i in range(kind.size):
                self.flatten(self.element(value, i), loc, items)
        elif isinstance(value, Value):
            items.append(value.expr)
        elif not isinstance(value, UnknownVal):
            hint = "give it one, such as 8w5" if isinstance(value, IntVal) else ""
            self.fail(loc, f"{value.what} in a list of fields has no width", hint)

    def static_assert(self, passed: list[Passed], loc: Loc) -> Operand:
        holds = numeric(passed[0].value) if passed[0].value is not None else None
        if holds is None:
            self.fail(loc, "static_assert of what is not known at compile time")
        if not holds:
            message = passed[1].value.text if len(passed) > 1 and isinstance(passed[1].value, StrVal) else ""
            self.fail(loc, f"static_assert failed{': ' + message if message else ''}")
        return boolean(True)

    def verify_call(self, passed: list[Passed], scope: Scope, loc: Loc) -> Operand:
        if self.frame_kind() != "parser":
            self.fail(loc, "'verify' outside of a parser", "in a control, use if")
        args = self.extern_args(passed, scope, None)
        condition, error = args
        assert isinstance(condition, ir.Expr) and isinstance(error, ir.Expr)
        self.emit(ir.Verify(loc, condition, error))
        return self.void()

    def digest_call(self, passed: list[Passed], scope: Scope, loc: Loc) -> Operand:
        receiver = self.extern_arg(passed[0], scope)
        data = passed[1].value
        assert data is not None
        given = scope.names.get("T")
        kind = given.type if isinstance(given, TypeVal) and given.type is not ty.UNKNOWN else self.type_of(data)
        if not isinstance(kind, ty.Struct):
            if kind is ty.UNKNOWN:
                return self.void()
            if not kind.is_data:
                self.fail(loc, "the type of the digest is not known", "write digest<MyStruct>(1, {...})")
            kind, data = self.tuple_of((kind,)), ListVal([data])
        data = self.convert(data, kind, loc)
        ir_name = self.digest_object(kind)
        assert not isinstance(receiver, ir.FieldList)
        self.emit(ir.ExternCall(loc, "digest", ir_name, (receiver, self.field_list(data, loc))))
        return self.void()

    def digest_object(self, kind: ty.Struct) -> str:
        name = self.digest_names.get(kind)
        if name is None:
            name = self.digest_names[kind] = self.names.unique(kind.ir_name)
            annotations = kind.decl.annotations if kind.decl is not None else ()
            fields = tuple((n, t.ir) for n, t in ty.leaves(kind))
            digest = ir.Digest(name, NOT_IDENTIFIED, fields, kind.name, self.type_info.spec(kind))
            shown = control_plane_name(kind.name, annotations, None)
            if kind.kind == "tuple":
                shown = f"digest_{sum(k.kind == 'tuple' for k in self.digest_names) - 1}"
            self.objects.add("digest", shown, (), digest)
        return name

    digest_names: dict[ty.Struct, str]
    type_info: TypeInfo
    has_type_info = False  # whether something was met for which p4c writes type_info, be it empty

    # ------------------------------------------------------------------------------------------------------ methods

    def extern_method(self, base: ExternVal, name: str, node: ast.CallExpr) -> Operand:
        kind = base.type
        assert isinstance(kind, ty.Extern)
        methods = [m for m in kind.decl.methods if m.name == name and m.return_type is not None]
        decl = self.overload(f"method '{name}' of {kind.decl.name}", methods, node)
        extern = kind.decl.name
        if extern == "packet_in":
            return self.packet_in_method(decl, name, node)
        if extern == "packet_out":
            return self.emit_call(decl, node)
        scope = Scope(self.globals)
        for param, arg in zip(kind.decl.type_params, kind.args, strict=False):
            scope.names[param] = TypeVal(arg)
        passed = self.evaluate(self.match(f"{base.name}.{name}()", decl.params, node.args, node.loc))
        scope = self.type_scope(decl, node.type_args, passed, node.loc, scope)
        if extern == "Checksum16" and name == "get":
            return self.checksum16(passed, node.loc)
        qualified = f"{extern}.{name}"
        if qualified not in METHODS:
            self.unsupported(node.loc, f"method '{name}' of extern {extern} is not supported")
            return self.result_stand_in(decl, scope)
        args = self.extern_args(passed, scope, None)
        if extern == "register" and isinstance(ty.underlying(kind.args[0]), ty.Struct):
            self.packed_access(qualified, base.ir_name, kind.args[0], args, node.loc)
            return self.void()
        is_meter = extern in ("meter", "direct_meter")
        self.check_numbers(passed, args, (*decl.type_params, *kind.decl.type_params), enums=is_meter)
        self.emit(ir.ExternCall(node.loc, qualified, base.ir_name, args))
        if extern == "direct_meter":
            self.direct_meter_targets[base.ir_name] = args[0]  # type: ignore[assignment]
        return self.void()

    direct_meter_targets: dict[str, ir.Expr]

    def packed_access(
        self,
        function: str,
        instance: str,
        kind: ty.Type,
        args: tuple[ir.Expr | ir.FieldList | ir.Text, ...],
        loc: Loc,
    ) -> None:
        """Read or write a register of structs: a cell holds the fields side by side, the first in the highest bits."""
        width = packed_width(kind)
        if width is None:
            return  # the register itself is in error
        reads = function == "register.read"
        struct, index = (args[0], args[1]) if reads else (args[1], args[0])
        assert isinstance(struct, ir.Expr)
        fields: list[ir.Expr] = []
        self.flatten(Value(kind, struct, True), loc, fields)
        if not reads:
            cell = unsigned(fields[0])
            for field in fields[1:]:
                low = unsigned(field)
                cell = ir.Binary(ir.Bits(bits_of(cell) + bits_of(low)), "++", cell, low)
            self.emit(ir.ExternCall(loc, function, instance, (index, cell)))
            return
        packed = self.temp(ty.bits(width)).expr
        self.emit(ir.ExternCall(loc, function, instance, (packed, index)))
        high = width
        for field in fields:
            size = 1 if isinstance(field.type, ir.Bool) else bits_of(field)
            part: ir.Expr = ir.Slice(ir.Bits(size), packed, high - 1, high - size)
            if field.type != part.type:
                part = ir.Cast(field.type, part)
            self.emit(ir.Assign(loc, field, part))
            high -= size

    def overload(self, what: str, decls: list[ast.FunctionDecl], node: ast.CallExpr) -> ast.FunctionDecl:
        raise NotImplementedError  # given by Calls

    def checksum16(self, passed: list[Passed], loc: Loc) -> Operand:
        """Checksum16.get(data) is the csum16 hash of its fields."""
        result = self.temp(ty.bits(16))
        algorithm = self.globals.find("HashAlgorithm")
        assert passed[0].value is not None and isinstance(algorithm, TypeVal) and isinstance(algorithm.type, ty.Enum)
        args = (
            result.expr,
            ir.Const(algorithm.type.ir, algorithm.type.members["csum16"]),
            const(ty.bits(16), 0).expr,
            self.field_list(passed[0].value, loc),
            const(ty.bits(32), 0x10000).expr,
        )
        self.emit(ir.ExternCall(loc, "hash", None, args))
        return Value(result.type, result.expr)

    def packet_in_method(self, decl: ast.FunctionDecl, name: str, node: ast.CallExpr) -> Operand:
        if self.frame_kind() != "parser":
            self.fail(node.loc, f"packet_in.{name}() outside of a parser")
        loc = node.loc
        passed = self.evaluate(self.match(f"packet_in.{name}()", decl.params, node.args, loc))
        scope = self.type_scope(decl, node.type_args, passed, loc, self.globals)
        if name == "extract":
            return self.extract(passed, node)
        if name == "lookahead":
            found = scope.find(decl.type_params[0])
            kind = found.type if isinstance(found, TypeVal) else ty.UNKNOWN
            if kind is ty.UNKNOWN:
                if not node.type_args:
                    self.fail(loc, "lookahead() needs the type to look at", "write lookahead<bit<8>>()")
                return UnknownVal()
            if kind.bit_width() is None:
                self.fail(loc, f"lookahead of {kind}", "its width is not fixed")
            target = self.temp(kind)
            self.emit(ir.Lookahead(loc, target.expr))
            return Value(kind, target.expr)
        if name == "advance":
            self.emit(ir.Advance(loc, self.as_expr(self.extern_arg(passed[0], scope))))
            return self.void()
        if name == "length":
            return Value(ty.bits(32), ir.PacketLength(ir.Bits(32)))
        self.fail(loc, f"packet_in.{name}() is not supported", "extract, lookahead, advance and length are")

    def as_expr(self, arg: ir.Expr | ir.Text) -> ir.Expr:
        assert isinstance(arg, ir.Expr)
        return arg

    def extract(self, passed: list[Passed], node: ast.CallExpr) -> Operand:
        target = passed[0].value
        if target is not None and target.type is ty.UNKNOWN:
            return self.void()
        if target is None:  # extract<T>(_): what is skipped is extracted into a temporary
            if not node.type_args:
                self.fail(node.loc, "extract(_) needs the header's type", "write extract<my_header_t>(_)")
            target = self.temp(self.resolve_type(node.type_args[0]))
        kind = target.type
        if not isinstance(target, Value) or not isinstance(kind, ty.Struct) or kind.kind != "header":
            hint = "extract its headers one by one" if isinstance(kind, ty.Struct | ty.Stack) else ""
            if isinstance(kind, ty.Stack):
                hint = "extract(....next) fills it element by element"
            self.fail(node.loc, f"extract() needs a header, found {target.what}", hint)
        varbits = [n for n, f in kind.fields.items() if isinstance(ty.underlying(f), ty.Varbit)]
        size: ir.Expr | None = None
        if len(passed) == 2:
            if len(varbits) != 1:
                self.fail(
                    node.loc, f"extract() with a size needs a header with one varbit field, {kind} has {len(varbits)}"
                )
            size = self.as_expr(self.extern_arg(passed[1], self.globals))
        elif varbits:
            hint = "extract(header, size_in_bits)"
            self.fail(node.loc, f"extract() of {kind} needs the size of its varbit field '{varbits[0]}'", hint)
        self.emit(ir.Extract(node.loc, target.expr, size))
        self.extracted(target, node.loc)
        return self.void()

    def extracted(self, target: Value, loc: Loc) -> None:
        union = self.union_of(target.expr)
        if union is not None:
            base, kind = union
            assert isinstance(target.expr, ir.Field)
            if isinstance(base, ir.StackNext):  # next has moved on by now
                base = ir.StackLast(base.type, base.base)
            for name, field in kind.fields.items():
                if name != target.expr.name:
                    self.emit(ir.SetValid(loc, ir.Field(field.ir, base, name), False))

    # --------------------------------------------------------------------------------------------------- packet_out

    def emit_call(self, decl: ast.FunctionDecl, node: ast.CallExpr) -> Operand:
        passed = self.evaluate(self.match("packet_out.emit()", decl.params, node.args, node.loc))
        value = passed[0].value
        assert value is not None
        self.emit_value(value, node.loc)
        return self.void()

    def emit_value(self, value: Operand, loc: Loc) -> None:
        """Emit a header; take structs, stacks, unions and lists apart."""
        kind = value.type
        if isinstance(value, ListVal):
            for item in value.items:
                self.emit_value(item, loc)
        elif isinstance(kind, ty.Stack):
            for i in range(kind.size):
                self.emit_value(self.element(value, i), loc)
        elif isinstance(kind, ty.Struct) and kind.kind != "header":
            for i, name in enumerate(kind.fields):
                self.emit_value(self.part(value, name, i), loc)
        elif isinstance(kind, ty.Struct):
            self.emit(ir.Emit(loc, self.materialize(value, loc)))
        elif kind is not ty.UNKNOWN:
            self.fail(
                loc,
                f"emit() needs a header, found {value.what}",
                "headers, stacks, unions and structs of them can be emitted",
            )

    # ---------------------------------------------------------------------------------------------------- instances

    def extern_instance(
        self,
        kind: ty.Extern,
        args: list[Passed],
        name: str,
        full_name: str,
        annotations: tuple[ast.Annotation, ...],
        loc: Loc,
        shown: bool = True,
    ) -> ExternVal:
        """Make the IR object of an extern instance."""
        ir_name = self.names.unique(full_name.replace(".", "_"))
        values = [a.value for a in args]
        extern = kind.decl.name
        self.has_type_info = self.has_type_info or (shown and not self.dead)
        if extern == "register":
            element = ty.underlying(kind.args[0])
            if element is ty.BOOL:
                element = ty.bits(1)
            packed = packed_width(element)
            if packed is not None:
                element = ty.bits(packed)
            if isinstance(element, ty.Bits):
                lowered = element.ir
                assert isinstance(lowered, ir.Bits)
                size = self.count(args[0], "a register's size")
                index = self.type_info.mention(kind.args[1]) if len(kind.args) > 1 else ""
                spec = self.type_info.spec(kind.args[0])
                register = ir.Register(ir_name, NOT_IDENTIFIED, lowered, size, spec, index, shown)
                self.objects.add("register", full_name, annotations, register)
            elif element is not ty.UNKNOWN:
                self.unsupported(
                    loc, f"register of {element}", "registers hold bit<W>, int<W>, bool, or structs of such"
                )
                if element.is_data:
                    spec = self.type_info.spec(kind.args[0])
                    size = self.count(args[0], "a register's size")
                    register = ir.Register(ir_name, NOT_IDENTIFIED, ir.Bits(1), size, spec)
                    self.objects.add("register", full_name, annotations, register)
        elif extern in ("counter", "meter"):
            size = self.count(args[0], f"a {extern}'s size")
            unit = self.enum_member(args[1])
            index = self.type_info.mention(kind.args[0]) if kind.args else ""
            make = ir.Counter if extern == "counter" else ir.Meter
            value = make(ir_name, NOT_IDENTIFIED, unit, size, None, index)
            self.objects.add(extern, full_name, annotations, value)
        elif extern == "direct_counter":
            unit = self.enum_member(args[0])
            self.objects.add("direct_counter", full_name, annotations, ir.Counter(ir_name, NOT_IDENTIFIED, unit))
        elif extern == "direct_meter":
            unit = self.enum_member(args[0])
            self.objects.add("direct_meter", full_name, annotations, ir.Meter(ir_name, NOT_IDENTIFIED, unit))
        elif extern == "action_profile":
            size = self.count(args[0], "an action profile's size")
            profile = ir.ActionProfile(ir_name, NOT_IDENTIFIED, size, False)
            self.objects.add("action_profile", full_name, annotations, profile)
        elif extern == "action_selector":
            algorithm = self.enum_member(args[0])
            size = self.count(args[1], "an action selector's size")
            width = self.count(args[2], "an action selector's output width")
            group_size = number_of(annotations, "max_group_size") or 0
            semantics, weight = self.selector_semantics(annotations)
            profile = ir.ActionProfile(
                ir_name, NOT_IDENTIFIED, size, True, algorithm, width, group_size, semantics, weight
            )
            self.objects.add("action_profile", full_name, annotations, profile)
        elif extern != "Checksum16":
            self.unsupported(
                loc, f"extern object '{extern}' is not part of v1model", "see v1model.p4 for what there is"
            )
        return ExternVal(kind, name, ir_name, [v for v in values if v is not None])

    def selector_semantics(self, annotations: tuple[ast.Annotation, ...]) -> tuple[str, int]:
        """What an action selector's size counts, and the most that one of its members may weigh."""
        found = annotation(annotations, "selector_size_semantics")
        if found is None:
            return "", 0
        semantics = text_of(found).lower()
        if semantics not in ("sum_of_weights", "sum_of_members"):
            self.fail(
                found.loc, f"@selector_size_semantics({text_of(found)})", 'write "sum_of_weights" or "sum_of_members"'
            )
        weight = number_of(annotations, "max_member_weight") if semantics == "sum_of_members" else None
        return semantics, weight or 0

    def count(self, arg: Passed, what: str) -> int:
        if isinstance(arg.value, UnknownVal):
            return 1
        value = numeric(arg.value) if arg.value is not None else None
        if value is None:
            self.fail(arg.loc, f"{what} must be known at compile time")
        if not 0 <= value <= MAX_CELLS:
            self.fail(arg.loc, f"{what} is {value}", f"sizes: 0 to {MAX_CELLS}")
        return value

    def enum_member(self, arg: Passed) -> str:
        value = arg.value
        if isinstance(value, Value) and isinstance(value.type, ty.Enum) and value.constant is not None:
            return list(value.type.members)[value.constant]
        if isinstance(value, UnknownVal):
            return "packets"
        self.fail(
            arg.loc, f"argument '{arg.param.name}' must be a member of an enum, found {value.what if value else '_'}"
        )


def is_metadata(expr: ir.Expr) -> bool:
    """Whether an expression is a field of the user's or the standard metadata, which copies of a packet may keep."""
    while isinstance(expr, ir.Field):
        expr = expr.base
    return isinstance(expr, ir.Var) and expr.name in ("meta", "standard_metadata")


def packed_width(kind: ty.Type) -> int | None:
    """Give the bits of a struct or tuple whose parts are bit<W>, int<W> and bool; None for anything else."""
    kind = ty.underlying(kind)
    if not isinstance(kind, ty.Struct) or kind.kind not in ("struct", "tuple") or ty.contains_header(kind):
        return None
    parts = [ty.underlying(part) for _, part in ty.leaves(kind)]
    if not parts or not all(isinstance(part, ty.Bits) or part is ty.BOOL for part in parts):
        return None
    return sum(part.bit_width() or 0 for part in parts)


def bits_of(expr: ir.Expr) -> int:
    """Give the width of a bit<W> or int<W> value."""
    assert isinstance(expr.type, ir.Bits)
    return expr.type.width


def unsigned(expr: ir.Expr) -> ir.Expr:
    """Give the bits of a number or truth value."""
    width = 1 if isinstance(expr.type, ir.Bool) else bits_of(expr)
    return expr if expr.type == ir.Bits(width) else ir.Cast(ir.Bits(width), expr)
