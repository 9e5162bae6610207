"""Expressions: names, members, indices, slices, literals, and the choice operators that may need statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from p4switch import ir
from p4switch.frontend import ast
from p4switch.frontend import types as ty
from p4switch.frontend.elaborate.base import boolean, const, numeric
from p4switch.frontend.elaborate.operators import Operators
from p4switch.frontend.elaborate.values import (
    Aggregate,
    ApplyResult,
    BlockVal,
    ExternVal,
    IntVal,
    InvalidVal,
    ListVal,
    MethodVal,
    NamedVal,
    Operand,
    RestVal,
    StrVal,
    TableVal,
    TypeVal,
    UnknownVal,
    Value,
)
from p4switch.frontend.errors import did_you_mean
from p4switch.ir import Loc

HEADER_METHODS = ("isValid", "setValid", "setInvalid")
STACK_MEMBERS = ("next", "last", "lastIndex", "size", "push_front", "pop_front")
SIZE_METHODS = ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes")


class Expressions(Operators):
    """Turns expression trees into operands, emitting statements for what has side effects, in the spec's order."""

    def resolve_type(self, ref: ast.TypeRef, allow_void: bool = False) -> ty.Type:
        raise NotImplementedError  # given by Types

    def call(self, node: ast.CallExpr) -> Operand:
        raise NotImplementedError  # given by Calls

    # --------------------------------------------------------------------------------------------------- entry points

    def expr(self, node: ast.Expr) -> Operand:
        """Elaborate one expression."""
        return _DISPATCH[type(node)](self, node)

    def typed(self, node: ast.Expr, target: ty.Type) -> Operand:
        """Elaborate an expression and convert it to a type, without storing aggregates."""
        return self.convert(self.expr(node), target, ast.start_of(node))

    def condition(self, node: ast.Expr, what: str) -> Value:
        operand = self.expr(node)
        if operand.type is ty.UNKNOWN:
            return boolean(False)
        if operand.type is not ty.BOOL or not isinstance(operand, Value):
            hint = self.cast_hint(operand, ty.BOOL)
            self.fail(ast.start_of(node), f"{what} needs a bool, found {operand.what}", hint)
        return operand

    def constant_int(self, node: ast.Expr, what: str) -> int:
        """Evaluate an expression that must be a compile-time integer."""
        mark = len(self.out)
        operand = self.decay(self.expr(node))
        value = numeric(operand)
        if value is None or operand.type in (ty.BOOL, ty.ERROR) or isinstance(operand.type, ty.Enum):
            del self.out[mark:]
            if operand.type is ty.UNKNOWN:
                return 0
            self.fail(node.loc, f"{what} must be an integer known at compile time, found {operand.what}")
        return value

    def materialize(self, operand: Operand, loc: Loc) -> ir.Expr:
        """Give an operand as an IR expression, storing it in a temporary where it has none."""
        if isinstance(operand, Value):
            return operand.expr
        if isinstance(operand, Aggregate | InvalidVal) and operand.type.is_data:
            target = self.temp(operand.type)
            self.store(target, operand, loc)
            return target.expr
        if isinstance(operand, UnknownVal):
            return ir.Const(ir.Bits(1), 0)
        if isinstance(operand, IntVal):
            self.fail(
                loc, f"the width of {operand.what} is not known here", "give it one, such as 8w5, or cast it: (bit<8>)5"
            )
        self.fail(loc, f"{operand.what} cannot be used as a value")

    def store(self, target: Value, operand: Operand, loc: Loc) -> None:
        """Emit target = operand; both of one type. Aggregates are stored part by part."""
        kind = target.type
        if kind is ty.UNKNOWN:
            return
        if isinstance(operand, Value):
            self.invalidate_siblings(target, operand, loc)
            self.emit(ir.Assign(loc, target.expr, operand.expr))
        elif isinstance(operand, InvalidVal):
            self.set_invalid(target, loc)
        elif isinstance(operand, Aggregate):
            if isinstance(kind, ty.Stack):
                for i, part in enumerate(operand.parts):
                    self.store(self.as_value(self.element(target, i)), part, loc)
                return
            assert isinstance(kind, ty.Struct)
            if kind.kind == "header":
                self.set_valid(target, loc)
            for i, name in enumerate(kind.fields):
                self.store(self.as_value(self.part(target, name, i)), operand.parts[i], loc)
        elif not isinstance(operand, UnknownVal):
            self.fail(loc, f"{operand.what} cannot be stored")

    def as_value(self, operand: Operand) -> Value:
        assert isinstance(operand, Value)
        return operand

    def set_invalid(self, target: Value, loc: Loc) -> None:
        """Make every header inside `target` invalid."""
        kind = target.type
        if isinstance(kind, ty.Stack):
            for i in range(kind.size):
                self.set_invalid(self.as_value(self.element(target, i)), loc)
        elif isinstance(kind, ty.Struct):
            if kind.kind == "header":
                self.emit(ir.SetValid(loc, target.expr, False))
            else:
                for i, (name, field) in enumerate(kind.fields.items()):
                    if ty.contains_header(field):
                        self.set_invalid(self.as_value(self.part(target, name, i)), loc)

    def set_valid(self, target: Value, loc: Loc) -> None:
        self.invalidate_siblings(target, None, loc)
        self.emit(ir.SetValid(loc, target.expr, True))

    def invalidate_siblings(self, target: Value, operand: Value | None, loc: Loc) -> None:
        """At most one member of a header union is valid: what becomes valid makes the others invalid.

        operand: the header that is assigned; the others stay when it is invalid itself. None: it becomes valid."""
        union = self.union_of(target.expr)
        if union is None:
            return
        base, kind = union
        assert isinstance(target.expr, ir.Field)
        with self.capture() as statements:
            for name, field in kind.fields.items():
                if name != target.expr.name:
                    self.emit(ir.SetValid(loc, ir.Field(field.ir, base, name), False))
        if operand is None:
            self.out.extend(statements)
        elif statements:
            self.emit(ir.If(loc, ir.IsValid(ty.BOOL.ir, operand.expr), tuple(statements)))

    def union_of(self, expr: ir.Expr) -> tuple[ir.Expr, ty.Struct] | None:
        """If `expr` is a member of a header union, give the union."""
        if isinstance(expr, ir.Field) and isinstance(expr.base.type, ir.StructType):
            kind = self.unions.get(expr.base.type.name)
            if kind is not None:
                return expr.base, kind
        return None

    unions: dict[str, ty.Struct]  # header unions by IR name

    # -------------------------------------------------------------------------------------------------------- names

    def name(self, node: ast.Name) -> Operand:
        scope = self.globals if node.absolute else self.scope
        found = scope.find(node.name)
        if found is None and node.name in self.match_kinds:
            return Value(ty.MATCH_KIND, ir.Const(ir.Bits(32), list(self.match_kinds).index(node.name)))
        if found is None:
            self.fail(node.loc, f"'{node.name}' is not declared", did_you_mean(node.name, scope.all_names(), "names"))
        return found

    def type_expr(self, node: ast.TypeExpr) -> Operand:
        ref = node.type
        if isinstance(ref, ast.NamedType) and ref.args is None:
            found = (self.globals if ref.absolute else self.scope).find(ref.name)
            if isinstance(found, TypeVal):
                return found
            if found is not None and not isinstance(found, TypeVal):
                return found
        return TypeVal(self.resolve_type(ref))

    def member(self, node: ast.Member) -> Operand:
        base = self.expr(node.base)
        name = node.name
        kind = base.type
        if isinstance(base, TypeVal):
            return self.type_member(base, name, node.loc)
        if isinstance(kind, ty.Struct):
            field = kind.fields.get(name)
            if field is not None:
                if isinstance(base, Value):
                    return Value(field, ir.Field(field.ir, base.expr, name), base.lvalue, base.readonly)
                return self.part(base, name, list(kind.fields).index(name))
            if name in SIZE_METHODS or (name in HEADER_METHODS and kind.kind in ("header", "header_union")):
                return MethodVal(base, name)
            if kind.kind not in ("header", "header_union"):
                hint = did_you_mean(name, kind.fields, "fields")
                self.fail(node.loc, f"{kind.kind} {kind} has no field '{name}'", hint)
            hint = did_you_mean(name, [*kind.fields, *HEADER_METHODS], "fields and methods")
            self.fail(node.loc, f"{kind.kind} {kind} has no field or method '{name}'", hint)
        if isinstance(kind, ty.Stack) and isinstance(base, Value):
            return self.stack_member(base, kind, name, node.loc)
        if isinstance(base, ApplyResult):
            return self.apply_member(base, name, node.loc)
        if isinstance(base, TableVal | BlockVal):
            if name != "apply":
                self.fail(node.loc, f"{base.what} has no member '{name}'", f"did you mean '{base_name(base)}.apply()'?")
            return MethodVal(base, name)
        if isinstance(base, ExternVal) and isinstance(kind, ty.Extern):
            methods = {m.name for m in kind.decl.methods if m.return_type is not None}
            if name not in methods:
                self.fail(node.loc, f"extern {kind} has no method '{name}'", did_you_mean(name, methods, "methods"))
            return MethodVal(base, name)
        if isinstance(base, NamedVal):
            if name in base.fields:
                return base.fields[name]
        elif isinstance(base, UnknownVal):
            return base
        elif name in SIZE_METHODS and kind.is_data:
            return MethodVal(base, name)
        self.fail(node.loc, f"{base.what} has no member '{name}'")

    def type_member(self, base: TypeVal, name: str, loc: Loc) -> Operand:
        kind = base.type
        if isinstance(kind, ty.Enum):
            index = kind.members.get(name)
            if index is None:
                self.fail(loc, f"enum {kind} has no member '{name}'", did_you_mean(name, kind.members, "members"))
            return Value(kind, ir.Const(kind.ir, index))
        if isinstance(kind, ty.SerEnum):
            value = kind.members.get(name)
            if value is None:
                self.fail(loc, f"enum {kind} has no member '{name}'", did_you_mean(name, kind.members, "members"))
            return const(kind, value)
        if kind is ty.ERROR:
            if name not in self.error_members:
                self.fail(loc, f"error '{name}' is not declared", did_you_mean(name, self.error_members, "errors"))
            return Value(ty.ERROR, ir.Const(ty.ERROR.ir, self.error_members[name]))
        if kind is ty.UNKNOWN:
            return UnknownVal()
        if name in SIZE_METHODS or name == "apply":
            return MethodVal(base, name)
        self.fail(loc, f"type {kind} has no member '{name}'")

    error_members: dict[str, int]
    match_kinds: dict[str, Loc]

    def stack_member(self, base: Value, kind: ty.Stack, name: str, loc: Loc) -> Operand:
        if not kind.of_headers and name in STACK_MEMBERS:
            self.fail(loc, f"'.{name}' of array {kind}", "only header stacks have it")
        if name == "size":
            return const(ty.bits(32), kind.size)
        if name == "lastIndex":
            if self.frame_kind() == "control":
                self.fail(loc, "'.lastIndex' of a stack outside of a parser")
            return Value(ty.bits(32), ir.StackLastIndex(ir.Bits(32), base.expr))
        if name in ("next", "last"):
            if self.frame_kind() != "parser":
                self.fail(loc, f"'.{name}' of a stack outside of a parser", "use an index, such as [0]")
            if name == "next":
                return Value(kind.element, ir.StackNext(kind.element.ir, base.expr), base.lvalue, base.readonly)
            return Value(kind.element, ir.StackLast(kind.element.ir, base.expr), base.lvalue, base.readonly)
        if name in ("push_front", "pop_front") or name in SIZE_METHODS:
            return MethodVal(base, name)
        members = STACK_MEMBERS if kind.of_headers else SIZE_METHODS
        self.fail(loc, f"{kind.what} {kind} has no member '{name}'", did_you_mean(name, members, "members"))

    def frame_kind(self) -> str:
        """Kind of the block that is filled: 'parser', 'control' or ''."""
        return "parser" if self.block.kind == "parser" else "control" if self.block.kind else ""

    def apply_member(self, base: ApplyResult, name: str, loc: Loc) -> Operand:
        """hit, miss or action_run of the table application that was emitted as base.out[base.statement]."""
        applied = base.out[base.statement]
        assert isinstance(applied, ir.ApplyTable)
        if name in ("hit", "miss"):
            hit = applied.hit
            if hit is None:
                hit_var = self.local(f"{base.table.ir_name}_hit", ty.BOOL).expr
                assert isinstance(hit_var, ir.Var)
                hit = hit_var
                base.out[base.statement] = replace(applied, hit=hit)
            return Value(ty.BOOL, hit if name == "hit" else ir.Unary(ty.BOOL.ir, "!", hit))
        if name == "action_run":
            action = applied.action
            if action is None:
                action_var = self.local(f"{base.table.ir_name}_action", ty.bits(32)).expr
                assert isinstance(action_var, ir.Var)
                action = action_var
                base.out[base.statement] = replace(applied, action=action)
            assert base.table.run_type is not None
            return Value(base.table.run_type, action)
        choices = ("hit", "miss", "action_run")
        self.fail(
            loc, f"the result of a table's apply() has no member '{name}'", did_you_mean(name, choices, "members")
        )

    # --------------------------------------------------------------------------------------------- indices and slices

    def index(self, node: ast.IndexExpr) -> Operand:
        base = self.expr(node.base)
        mark = len(self.out)
        at = self.decay(self.expr(node.index))
        if len(self.out) != mark and isinstance(base, Value) and not base.lvalue:
            base = self.as_value(self.keep_order([base], mark, node.loc)[0])
        kind = base.type
        position = numeric(at)
        if isinstance(base, UnknownVal) or isinstance(at, UnknownVal):
            return UnknownVal()
        if (isinstance(kind, ty.Struct) and kind.kind == "tuple") or isinstance(base, ListVal):
            if position is None:
                self.fail(node.index.loc, "index into a tuple must be known at compile time")
            size = len(base.items) if isinstance(base, ListVal) else len(kind.fields)  # type: ignore[attr-defined]
            if not 0 <= position < size:
                self.fail(node.index.loc, f"index {position} is outside of a tuple of {size}")
            return base.items[position] if isinstance(base, ListVal) else self.part(base, f"f{position}", position)
        if not isinstance(kind, ty.Stack):
            hint = (
                f"to pick one bit, write [{position}:{position}]"
                if isinstance(kind, ty.Bits) and position is not None
                else ""
            )
            self.fail(node.loc, f"{base.what} cannot be indexed", hint or "header stacks, arrays and tuples can")
        if position is not None:
            if not 0 <= position < kind.size:
                self.fail(node.index.loc, f"index {position} is outside of {kind}", f"valid: 0 to {kind.size - 1}")
            return self.element(base, position)
        if not isinstance(at, Value) or not isinstance(at.type, ty.Bits):
            self.fail(node.index.loc, f"index must be bit<W>, found {at.what}")
        stack = self.materialize(base, node.loc)
        lvalue = isinstance(base, Value) and base.lvalue
        return Value(kind.element, ir.Index(kind.element.ir, stack, at.expr), lvalue)

    def slice(self, node: ast.SliceExpr) -> Operand:
        base = self.decay(self.expr(node.base))
        if isinstance(base, UnknownVal):
            return base
        hi = self.constant_int(node.hi, "the slice's upper bound")
        lo = self.constant_int(node.lo, "the slice's lower bound")
        if isinstance(base, IntVal) and 0 <= lo <= hi:
            return const(ty.bits(hi - lo + 1), base.value >> lo)
        kind = base.type
        if not isinstance(base, Value) or not isinstance(kind, ty.Bits):
            self.fail(node.loc, f"{base.what} cannot be sliced", "bit<W> and int<W> can")
        if lo < 0 or hi >= kind.width:
            self.fail(node.loc, f"slice [{hi}:{lo}] is outside of {kind}", f"bits {kind.width - 1} to 0")
        if hi < lo:
            self.fail(node.loc, f"slice [{hi}:{lo}] has its bounds the wrong way round", f"write [{lo}:{hi}]")
        result = ty.bits(hi - lo + 1)
        if base.constant is not None:
            return const(result, base.constant >> lo)
        if isinstance(base.expr, ir.Slice) and base.lvalue:  # a slice of a slice, so that both may be assigned to
            inner = base.expr
            return Value(result, ir.Slice(result.ir, inner.base, inner.lo + hi, inner.lo + lo), True)
        return Value(result, ir.Slice(result.ir, base.expr, hi, lo), base.lvalue, base.readonly)

    def part_select(self, node: ast.PartExpr) -> Operand:
        """base[low +: width]: a slice whose lower bound may be a run-time value; then it is no lvalue."""
        width = self.constant_int(node.width, "the slice's width")
        mark = len(self.out)
        low = self.expr(node.low)
        bound = numeric(low)
        if bound is not None:
            del self.out[mark:]
            high = ast.IntLit(node.low.loc, bound + width - 1)
            return self.slice(ast.SliceExpr(node.loc, node.base, high, ast.IntLit(node.low.loc, bound)))
        base = self.decay(self.expr(node.base))
        kind = base.type
        if isinstance(base, UnknownVal) or isinstance(low, UnknownVal):
            return UnknownVal()
        if not isinstance(base, Value) or not isinstance(kind, ty.Bits):
            self.fail(node.loc, f"{base.what} cannot be sliced", "bit<W> and int<W> can")
        if not 1 <= width <= kind.width:
            self.fail(node.width.loc, f"a slice of {width} bits of {kind}")
        shifted = self.shift(">>", Value(kind, base.expr), low, node.loc)
        result = ty.bits(width)
        return Value(result, ir.Slice(result.ir, self.as_value(shifted).expr, width - 1, 0))

    # ----------------------------------------------------------------------------------------------------- operators

    def unary(self, node: ast.UnaryExpr) -> Operand:
        return self.unary_op(node.op, self.expr(node.operand), node.loc)

    def binary(self, node: ast.BinaryExpr) -> Operand:
        op = node.op
        left = self.expr(node.left)
        if op in ("&&", "||"):
            return self.short_circuit(op, left, node)
        mark = len(self.out)
        right = self.expr(node.right)
        if len(self.out) != mark:
            left = self.keep_order([left], mark, node.loc)[0]
        return self.binary_op(op, left, right, node.loc)

    def short_circuit(self, op: str, left: Operand, node: ast.BinaryExpr) -> Operand:
        """The right side's statements run only if the left side does not decide."""
        with self.capture() as statements:
            right = self.expr(node.right)
        if not statements:
            return self.binary_op(op, left, right, node.loc)
        checked = self.logical(op, left, right, node.loc)
        if not isinstance(left, Value) or not isinstance(right, Value) or left.constant is not None:
            if isinstance(left, Value) and left.constant is not None and bool(left.constant) == (op == "&&"):
                self.out.extend(statements)
            return checked
        result = self.temp(ty.BOOL)
        self.emit(ir.Assign(node.loc, result.expr, left.expr))
        body = (*statements, ir.Assign(node.loc, result.expr, right.expr))
        proceed = result.expr if op == "&&" else ir.Unary(ty.BOOL.ir, "!", result.expr)
        self.emit(ir.If(node.loc, proceed, body))
        return Value(ty.BOOL, result.expr)

    def mux(self, node: ast.MuxExpr) -> Operand:
        condition = self.condition(node.condition, "the condition of '?'")
        with self.capture() as first:
            then = self.expr(node.then)
        with self.capture() as second:
            otherwise = self.expr(node.otherwise)
        if otherwise.type is ty.BOOL and then.type not in (ty.BOOL, ty.UNKNOWN):
            hint = "a ? b : c ? d : e means (a ? b : c) ? d : e; put the second choice into parentheses"
            self.fail(node.loc, f"'?:' chooses between {then.what} and {otherwise.what}", hint)
        if then.type is ty.UNKNOWN or otherwise.type is ty.UNKNOWN:
            return UnknownVal()
        if condition.constant is not None:
            self.out.extend(first if condition.constant else second)
            chosen, other = (then, otherwise) if condition.constant else (otherwise, then)
            return self.convert(chosen, other.type, node.loc) if isinstance(other, Value) else chosen
        if isinstance(then.type, ty.SerEnum) and then.type is not otherwise.type:
            then = self.decay(then)
        if isinstance(otherwise.type, ty.SerEnum) and then.type is not otherwise.type:
            otherwise = self.decay(otherwise)
        if isinstance(then, ListVal | NamedVal | InvalidVal):
            then = self.convert(then, otherwise.type, node.loc)
        elif isinstance(otherwise, ListVal | NamedVal | InvalidVal):
            otherwise = self.convert(otherwise, then.type, node.loc)
        if isinstance(then, IntVal) and isinstance(otherwise, IntVal):
            hint = "give one of the integers a width, such as 8w1"
            self.fail(node.loc, "the width of the result of '?' is not known here", hint)
        then, otherwise = self.unify("?:", then, otherwise, node.loc)
        kind = then.type
        scalar = isinstance(then, Value) and isinstance(otherwise, Value) and not isinstance(kind, ty.Struct | ty.Stack)
        if scalar and not first and not second:
            assert isinstance(then, Value) and isinstance(otherwise, Value)
            return Value(kind, ir.Mux(kind.ir, condition.expr, then.expr, otherwise.expr))
        result = self.temp(kind)
        for statements, operand in ((first, then), (second, otherwise)):
            with self.capture() as stores:
                self.store(result, operand, node.loc)
            statements.extend(stores)
        self.emit(ir.If(node.loc, condition.expr, tuple(first), tuple(second)))
        return Value(kind, result.expr)

    def cast_expr(self, node: ast.CastExpr) -> Operand:
        target = self.resolve_type(node.type)
        return self.cast(self.expr(node.operand), target, node.loc)

    # ------------------------------------------------------------------------------------------------------ literals

    def list_expr(self, node: ast.ListExpr) -> Operand:
        items: list[Operand] = []
        for item in node.items:
            mark = len(self.out)
            operand = self.expr(item)
            if len(self.out) != mark:
                items = self.keep_order(items, mark, item.loc)
            items.append(operand)
        return ListVal(items, node.has_rest)

    def struct_expr(self, node: ast.StructExpr) -> Operand:
        fields: dict[str, Operand] = {}
        locs: dict[str, Loc] = {}
        for name, value in node.fields:
            if name in fields:
                self.fail(value.loc, f"field '{name}' is given twice")
            mark = len(self.out)
            operand = self.expr(value)
            if len(self.out) != mark:
                fields = dict(zip(fields, self.keep_order(list(fields.values()), mark, value.loc), strict=True))
            fields[name] = operand
            locs[name] = value.loc
        return NamedVal(fields, locs, node.has_rest)

    def int_lit(self, node: ast.IntLit) -> Operand:
        if node.width is None:
            return IntVal(node.value)
        if not 0 <= node.width <= ty.MAX_WIDTH or (node.width == 0 and node.signed):
            self.fail(node.loc, f"width {node.width} is not supported", f"widths: 1 to {ty.MAX_WIDTH}")
        return const(ty.bits(node.width, node.signed), node.value)

    def misplaced(self, node: ast.Expr) -> Operand:
        what = {ast.This: "'this'", ast.AnyExpr: "'_' or 'default'", ast.MaskExpr: "'&&&'", ast.RangeExpr: "'..'"}
        self.fail(node.loc, f"{what[type(node)]} is not allowed here")


def base_name(base: TableVal | BlockVal) -> str:
    return base.decl.name if isinstance(base, TableVal) else base.name


_DISPATCH: dict[type, Callable[..., Operand]] = {
    ast.Name: Expressions.name,
    ast.Member: Expressions.member,
    ast.IntLit: Expressions.int_lit,
    ast.BoolLit: lambda self, node: boolean(node.value),
    ast.StringLit: lambda self, node: StrVal(node.value),
    ast.BinaryExpr: Expressions.binary,
    ast.UnaryExpr: Expressions.unary,
    ast.CallExpr: lambda self, node: self.call(node),
    ast.CastExpr: Expressions.cast_expr,
    ast.IndexExpr: Expressions.index,
    ast.SliceExpr: Expressions.slice,
    ast.PartExpr: Expressions.part_select,
    ast.MuxExpr: Expressions.mux,
    ast.ListExpr: Expressions.list_expr,
    ast.StructExpr: Expressions.struct_expr,
    ast.TypeExpr: Expressions.type_expr,
    ast.InvalidExpr: lambda self, node: InvalidVal(),
    ast.RestExpr: lambda self, node: RestVal(),
    ast.This: Expressions.misplaced,
    ast.AnyExpr: Expressions.misplaced,
    ast.MaskExpr: Expressions.misplaced,
    ast.RangeExpr: Expressions.misplaced,
}
