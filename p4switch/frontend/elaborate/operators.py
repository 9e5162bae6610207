"""Operators, conversions and comparisons, with constant folding."""

from __future__ import annotations

from p4switch import ir
from p4switch.frontend import types as ty
from p4switch.frontend.elaborate.base import ElaboratorBase, boolean, const, numeric, signed_value
from p4switch.frontend.elaborate.values import (
    Aggregate,
    IntVal,
    InvalidVal,
    ListVal,
    NamedVal,
    Operand,
    RestVal,
    StrVal,
    TypeVal,
    UnknownVal,
    Value,
)
from p4switch.frontend.errors import did_you_mean
from p4switch.ir import Loc

_COMPARISONS = frozenset(["==", "!=", "<", "<=", ">", ">="])
MAX_SHIFT = 1 << 20  # of constants, so that 1 << 1000000000 does not eat all memory


def fold(op: str, a: int, b: int) -> int:
    """Compute a op b on mathematical integers; the caller wraps, and has excluded division by zero and negatives."""
    if op == "+":
        return a + b
    if op == "-":
        return a - b
    if op == "*":
        return a * b
    if op == "/":
        return a // b
    if op == "%":
        return a % b
    if op == "&":
        return a & b
    if op == "|":
        return a | b
    return a ^ b


def compare(op: str, a: int, b: int) -> bool:
    if op == "==":
        return a == b
    if op == "!=":
        return a != b
    if op == "<":
        return a < b
    if op == "<=":
        return a <= b
    if op == ">":
        return a > b
    return a >= b


class Operators(ElaboratorBase):
    """Builds typed IR expressions from operands."""

    # ------------------------------------------------------------------------------------------------- conversions

    def convert(self, operand: Operand, target: ty.Type, loc: Loc) -> Operand:
        """Convert without a cast, as assignment, argument passing and return do. Fails when the types do not fit."""
        source = operand.type
        if source is target or source is ty.UNKNOWN or target is ty.UNKNOWN:
            return operand
        if isinstance(operand, IntVal):
            # An integer literal also becomes a distinct type without a cast, as p4c has it.
            if isinstance(ty.underlying(target), ty.Bits) and not isinstance(target, ty.SerEnum):
                return const(target, operand.value)
        elif isinstance(operand, ListVal | NamedVal):
            return self.convert_list(operand, target, loc)
        elif isinstance(operand, InvalidVal):
            if isinstance(target, ty.Struct) and target.kind in ("header", "header_union"):
                return InvalidVal(target)
            self.fail(loc, f"{{#}} is no value of type {target}", "only headers and header unions can be invalid")
        elif isinstance(operand, RestVal):
            return self.default_value(target, loc)
        elif isinstance(operand, Value):
            if isinstance(source, ty.SerEnum) and source.base is target:
                return Value(target, _retype(operand.expr, target.ir))
            if isinstance(source, ty.Struct) and isinstance(target, ty.Struct) and source.kind == "tuple":
                return self.convert_list(self.spread(operand), target, loc)
        elif isinstance(operand, Aggregate) and isinstance(source, ty.Struct) and source.kind == "tuple":
            return self.convert_list(ListVal(operand.parts), target, loc)
        self.fail(loc, f"expected {_article(target)}, found {operand.what}", self.cast_hint(operand, target))

    def cast_hint(self, operand: Operand, target: ty.Type) -> str:
        if isinstance(operand, TypeVal):
            return "a type is no value"
        if operand.type.is_data and target.is_data and not isinstance(target, ty.Struct | ty.Stack):
            source = ty.underlying(operand.type)
            goal = ty.underlying(target)
            if isinstance(source, ty.Bits) and isinstance(goal, ty.Bits):
                if source.signed != goal.signed and source.width != goal.width:
                    return (
                        f"convert in two steps: ({target})(bit<{source.width}>)..." if source.signed else "cast twice"
                    )
                return f"convert it with a cast: ({target})..."
            if source is ty.BOOL and goal is ty.bits(1):
                return f"convert it with a cast: ({target})..."
            if goal is ty.BOOL and isinstance(source, ty.Bits):
                return "compare it with a value: ... != 0"
        return ""

    def spread(self, operand: Value) -> ListVal:
        """View a tuple or struct value as the list of its fields."""
        kind = operand.type
        assert isinstance(kind, ty.Struct)
        items: list[Operand] = [Value(t, ir.Field(t.ir, operand.expr, n)) for n, t in kind.fields.items()]
        return ListVal(items)

    def convert_list(self, operand: ListVal | NamedVal, target: ty.Type, loc: Loc) -> Operand:
        """Give a list or struct expression the type that its context asks for."""
        if isinstance(target, ty.Stack) and isinstance(operand, ListVal):
            if len(operand.items) > target.size or (len(operand.items) < target.size and not operand.rest):
                self.fail(loc, f"{target} has {target.size} elements, {len(operand.items)} given")
            parts = [self.convert(i, target.element, loc) for i in operand.items]
            parts += [self.default_value(target.element, loc) for _ in range(target.size - len(parts))]
            return Aggregate(target, parts)
        if isinstance(target, ty.ListOf) and isinstance(operand, ListVal):
            return ListVal([self.convert(i, target.element, loc) for i in operand.items])
        if not isinstance(target, ty.Struct) or target.kind == "header_union":
            self.fail(loc, f"expected {_article(target)}, found {operand.what}")
        what = f"{target.kind} {target}" if target.kind != "tuple" else str(target)
        if isinstance(operand, ListVal):
            if len(operand.items) > len(target.fields) or (
                len(operand.items) < len(target.fields) and not operand.rest
            ):
                names = ", ".join(target.fields)
                self.fail(
                    loc, f"{what} has {len(target.fields)} fields, {len(operand.items)} given", f"fields: {names}"
                )
            given = dict(zip(target.fields, operand.items, strict=False))
        else:
            for name in operand.fields:
                if name not in target.fields:
                    hint = did_you_mean(name, target.fields, "fields")
                    self.fail(operand.locs.get(name, loc), f"{what} has no field '{name}'", hint)
            missing = [n for n in target.fields if n not in operand.fields]
            if missing and not operand.rest:
                self.fail(loc, f"no value for field '{missing[0]}' of {what}", "give all fields, or end with '...'")
            given = operand.fields
        parts = [
            self.convert(given[n], t, loc) if n in given else self.default_value(t, loc)
            for n, t in target.fields.items()
        ]
        return Aggregate(target, parts)

    def default_value(self, target: ty.Type, loc: Loc) -> Operand:
        """Give what '...' stands for: 0, false, the first member, error.NoError, invalid, and so on inside."""
        if isinstance(target, ty.Struct):
            if target.kind in ("header", "header_union"):
                return InvalidVal(target)
            return Aggregate(target, [self.default_value(t, loc) for t in target.fields.values()])
        if isinstance(target, ty.Stack):
            return Aggregate(target, [self.default_value(target.element, loc) for _ in range(target.size)])
        if isinstance(ty.underlying(target), ty.Varbit) or not target.is_data:
            self.fail(loc, f"{target} has no default value")
        return const(target, 0)

    def cast(self, operand: Operand, target: ty.Type, loc: Loc) -> Operand:
        """Convert as (type)expression does."""
        source = operand.type
        if source is target or source is ty.UNKNOWN or target is ty.UNKNOWN:
            return operand
        goal = ty.underlying(target)
        if isinstance(operand, IntVal):
            if isinstance(goal, ty.Bits):
                return const(target, operand.value)
            if goal is ty.BOOL:
                if operand.value not in (0, 1):
                    self.fail(loc, f"{operand.value} is neither 0 (false) nor 1 (true)")
                return Value(target, ir.Const(target.ir, operand.value))
        elif isinstance(operand, Value):
            base = ty.underlying(source)
            if target is ty.INT:
                value = numeric(operand)
                if value is not None and isinstance(base, ty.Bits):
                    return IntVal(value)
                if isinstance(base, ty.Bits):  # int has no run-time values: it keeps its width until it is cast again
                    return Value(base, operand.expr)
            if base is goal:
                return Value(target, _retype(operand.expr, target.ir))
            if isinstance(base, ty.Bits) and isinstance(goal, ty.Bits):
                if base.width == goal.width or base.signed == goal.signed:
                    return self.cast_bits(operand.expr, target)
                middle = ty.bits(goal.width, base.signed)
                hint = f"change the width first, then the sign: ({target})({middle})..."
                self.fail(loc, f"cannot cast {source} to {target} in one step", hint)
            if (base is ty.BOOL and goal is ty.bits(1)) or (goal is ty.BOOL and base is ty.bits(1)):
                if operand.constant is not None:
                    return Value(target, ir.Const(target.ir, operand.constant))
                return Value(target, ir.Cast(target.ir, operand.expr))
        if isinstance(operand, ListVal | NamedVal | InvalidVal | RestVal):
            return self.convert(operand, target, loc)
        if isinstance(source, ty.Struct) and isinstance(goal, ty.Struct) and isinstance(operand, Value | Aggregate):
            items = self.spread(operand) if isinstance(operand, Value) else ListVal(operand.parts)
            return self.convert_list(items, goal, loc)
        self.fail(loc, f"cannot cast {operand.what} to {target}", self.cast_hint(operand, target))

    def cast_bits(self, expr: ir.Expr, target: ty.Type) -> Value:
        lowered = target.ir
        assert isinstance(lowered, ir.Bits)
        if isinstance(expr, ir.Const):
            return const(target, signed_value(expr))
        return Value(target, ir.Cast(lowered, expr))

    # --------------------------------------------------------------------------------------------- unary operators

    def unary_op(self, op: str, operand: Operand, loc: Loc) -> Operand:
        if isinstance(operand, UnknownVal):
            return operand
        if isinstance(operand, IntVal):
            if op in ("-", "+"):
                return IntVal(-operand.value if op == "-" else operand.value)
            hint = "give the integer a width, such as 8w5" if op == "~" else "compare it with a value"
            self.fail(loc, f"'{op}' cannot be applied to {operand.what}", hint)
        operand = self.decay(operand)
        if isinstance(operand, Value):
            kind = operand.type
            if op == "!" and kind is ty.BOOL:
                if operand.constant is not None:
                    return boolean(not operand.constant)
                if isinstance(operand.expr, ir.Unary) and operand.expr.op == "!":
                    return Value(ty.BOOL, operand.expr.operand)
                return Value(ty.BOOL, ir.Unary(kind.ir, "!", operand.expr))
            if op in ("-", "~", "+") and isinstance(kind, ty.Bits):
                if op == "+":
                    return Value(kind, operand.expr)
                if operand.constant is not None:
                    return const(kind, -operand.constant if op == "-" else ~operand.constant)
                return Value(kind, ir.Unary(kind.ir, op, operand.expr))
        wanted = "a bool" if op == "!" else "bit<W> or int<W>"
        self.fail(loc, f"'{op}' needs {wanted}, found {operand.what}")

    def decay(self, operand: Operand) -> Operand:
        """Turn a serializable enum's member into its representation, as operators other than == do."""
        if isinstance(operand, Value) and isinstance(operand.type, ty.SerEnum):
            return Value(operand.type.base, operand.expr)
        return operand

    # -------------------------------------------------------------------------------------------- binary operators

    def binary_op(self, op: str, left: Operand, right: Operand, loc: Loc) -> Operand:
        """Build left op right; && and || only where both sides have no side effects."""
        if left.type is ty.UNKNOWN or right.type is ty.UNKNOWN:
            return UnknownVal()
        for side in (left, right):
            if isinstance(side, TypeVal):
                self.fail(loc, f"'{op}' needs values, found {side.what}")
        if op in ("&&", "||"):
            return self.logical(op, left, right, loc)
        if op in ("<<", ">>"):
            return self.shift(op, left, right, loc)
        if op == "++":
            return self.concat(left, right, loc)
        if isinstance(left, IntVal) and isinstance(right, IntVal):
            return self.fold_ints(op, left.value, right.value, loc)
        if op in ("==", "!="):
            return self.equality(op, left, right, loc)
        left, right = self.decay(left), self.decay(right)
        left, right = self.unify(op, left, right, loc)
        kind = left.type
        if not (isinstance(kind, ty.Bits) and isinstance(left, Value) and isinstance(right, Value)):
            wanted = "bit<W> or int<W>"
            culprit = right if isinstance(kind, ty.Bits) else left
            hint = f"cast it to {ty.underlying(kind)} first" if isinstance(kind, ty.NewType) else ""
            self.fail(loc, f"'{op}' needs operands of {wanted}, found {culprit.what}", hint)
        if op in ("/", "%"):
            if kind.signed:
                self.fail(loc, f"'{op}' is not defined for {kind}", "cast to bit<W>, or shift for powers of two")
            if right.constant == 0:
                self.fail(loc, "division by zero")
        a, b = left.expr, right.expr
        if isinstance(a, ir.Const) and isinstance(b, ir.Const):
            return self.fold_bits(op, kind, signed_value(a), signed_value(b))
        if op in _COMPARISONS:
            return Value(ty.BOOL, ir.Binary(ty.BOOL.ir, op, a, b))
        return Value(kind, ir.Binary(kind.ir, op, a, b))

    def unify(self, op: str, left: Operand, right: Operand, loc: Loc) -> tuple[Operand, Operand]:
        """Bring both operands to one type: an integer without width takes the other side's."""
        if left.type is right.type:
            return left, right
        if isinstance(left, IntVal) and isinstance(right.type, ty.Bits):
            return const(right.type, left.value), right
        if isinstance(right, IntVal) and isinstance(left.type, ty.Bits):
            return left, const(left.type, right.value)
        if op in ("==", "!="):
            if isinstance(left, IntVal) and isinstance(right.type, ty.NewType):
                return self.convert(left, right.type, loc), right
            if isinstance(right, IntVal) and isinstance(left.type, ty.NewType):
                return left, self.convert(right, left.type, loc)
        hint = ""
        if isinstance(left.type, ty.Bits) and isinstance(right.type, ty.Bits):
            hint = f"cast one side: ({left.type})..."
        elif isinstance(left.type, ty.NewType) or isinstance(right.type, ty.NewType):
            hint = "a distinct type takes part in == and != only, and only with its own kind; cast it"
        elif ty.BOOL in (left.type, right.type) and (isinstance(left.type, ty.Bits) or isinstance(right.type, ty.Bits)):
            hint = "cast the bool: (bit<1>)..."
        self.fail(loc, f"'{op}' needs operands of one type, found {left.what} and {right.what}", hint)

    def fold_ints(self, op: str, a: int, b: int, loc: Loc) -> Operand:
        if op in _COMPARISONS:
            return boolean(compare(op, a, b))
        if op in ("|+|", "|-|"):
            self.fail(loc, f"'{op}' needs operands with a width", "write 8w5 instead of 5")
        if op in ("/", "%"):
            if b == 0:
                self.fail(loc, "division by zero")
            if a < 0 or b < 0:
                self.fail(loc, f"'{op}' is not defined for negative numbers")
        if op == "*" and a.bit_length() + b.bit_length() > MAX_SHIFT:
            self.fail(loc, "constant is too large")
        return IntVal(fold(op, a, b))

    def fold_bits(self, op: str, kind: ty.Bits, a: int, b: int) -> Value:
        if op in _COMPARISONS:
            return boolean(compare(op, a, b))
        if op in ("|+|", "|-|"):
            low, high = (
                (-(1 << kind.width >> 1), (1 << kind.width >> 1) - 1) if kind.signed else (0, (1 << kind.width) - 1)
            )
            return const(kind, min(max(a + b if op == "|+|" else a - b, low), high))
        return const(kind, fold(op, a, b))

    def logical(self, op: str, left: Operand, right: Operand, loc: Loc) -> Operand:
        for side in (left, right):
            if side.type is not ty.BOOL or isinstance(side, TypeVal):
                hint = (
                    "compare it with a value: ... != 0" if side.type is ty.INT or isinstance(side.type, ty.Bits) else ""
                )
                self.fail(loc, f"'{op}' needs bool operands, found {side.what}", hint)
        assert isinstance(left, Value) and isinstance(right, Value)
        if left.constant is not None:
            return right if bool(left.constant) == (op == "&&") else left
        return Value(ty.BOOL, ir.Binary(ty.BOOL.ir, op, left.expr, right.expr))

    def shift(self, op: str, left: Operand, right: Operand, loc: Loc) -> Operand:
        left, right = self.decay(left), self.decay(right)
        amount = numeric(right)
        if amount is not None and amount < 0:
            self.fail(loc, "shift by a negative amount")
        if isinstance(left, IntVal):
            if amount is None:
                self.fail(loc, f"'{op}' needs a width on its left side here", "write 8w1 instead of 1")
            if amount > MAX_SHIFT:
                self.fail(loc, "constant is too large")
            return IntVal(left.value << amount if op == "<<" else left.value >> amount)
        kind = left.type
        if not isinstance(left, Value) or not isinstance(kind, ty.Bits):
            self.fail(loc, f"'{op}' needs bit<W> or int<W> on its left side, found {left.what}")
        if isinstance(right, IntVal):
            right = const(ty.bits(max(right.value.bit_length(), 1)), right.value)
        if not isinstance(right, Value) or not isinstance(right.type, ty.Bits):
            self.fail(loc, f"'{op}' needs bit<W> on its right side, found {right.what}")
        if right.type.signed:
            self.fail(loc, f"shift amount of type {right.type}", "cast it to bit<W>")
        if isinstance(left.expr, ir.Const) and amount is not None:
            value = signed_value(left.expr)
            amount = min(amount, kind.width)
            return const(kind, value << amount if op == "<<" else value >> amount)
        return Value(kind, ir.Binary(kind.ir, op, left.expr, right.expr))

    def concat(self, left: Operand, right: Operand, loc: Loc) -> Operand:
        left, right = self.decay(left), self.decay(right)
        if isinstance(left, StrVal) and isinstance(right, StrVal):
            return StrVal(left.text + right.text)
        for side in (left, right):
            if not isinstance(side, Value) or not isinstance(side.type, ty.Bits):
                hint = "write 8w5 instead of 5" if isinstance(side, IntVal) else ""
                self.fail(loc, f"'++' needs operands of bit<W> or int<W>, found {side.what}", hint)
        assert isinstance(left, Value) and isinstance(right, Value)
        assert isinstance(left.type, ty.Bits) and isinstance(right.type, ty.Bits)
        if left.type.width + right.type.width > ty.MAX_WIDTH:
            self.fail(loc, f"result is wider than {ty.MAX_WIDTH} bits")
        kind = ty.bits(left.type.width + right.type.width, left.type.signed)
        if left.constant is not None and right.constant is not None:
            return const(kind, left.constant << right.type.width | right.constant)
        return Value(kind, ir.Binary(kind.ir, "++", left.expr, right.expr))

    # -------------------------------------------------------------------------------------------------- comparison

    def equality(self, op: str, left: Operand, right: Operand, loc: Loc) -> Operand:
        if isinstance(left.type, ty.SerEnum) and left.type is not right.type:
            left = self.decay(left)
        if isinstance(right.type, ty.SerEnum) and left.type is not right.type:
            right = self.decay(right)
        if isinstance(left, ListVal | NamedVal | InvalidVal) and isinstance(right.type, ty.Struct | ty.Stack):
            left = self.convert(left, right.type, loc)
        if isinstance(right, ListVal | NamedVal | InvalidVal) and isinstance(left.type, ty.Struct | ty.Stack):
            right = self.convert(right, left.type, loc)
        if isinstance(left, ListVal) and isinstance(right, ListVal) and len(left.items) == len(right.items):
            result = self.all_of([self.equality("==", a, b, loc) for a, b in zip(left.items, right.items, strict=True)])
        else:
            if not isinstance(left, IntVal) or not isinstance(right, IntVal):
                left, right = self.unify(op, left, right, loc)
            result = self.equal(left, right, loc)
        return result if op == "==" else self.unary_op("!", result, loc)

    def equal(self, left: Operand, right: Operand, loc: Loc) -> Operand:
        """Compare operands of one type, part by part where it has parts."""
        kind = left.type
        if isinstance(kind, ty.Struct):
            parts = [self.equal(self.part(left, n, i), self.part(right, n, i), loc) for i, n in enumerate(kind.fields)]
            if kind.kind != "header":
                return self.all_of(parts)
            # Two headers are equal if both are invalid, or both are valid and all fields agree.
            a, b = self.validity(left), self.validity(right)
            both = self.all_of([a, b, *parts])
            neither = self.all_of([self.unary_op("!", a, loc), self.unary_op("!", b, loc)])
            return self.logical("||", neither, both, loc)
        if isinstance(kind, ty.Stack):
            parts = []
            for i in range(kind.size):
                pair = [self.element(o, i) for o in (left, right)]
                parts.append(self.equal(pair[0], pair[1], loc))
            return self.all_of(parts)
        if isinstance(left, IntVal) and isinstance(right, IntVal):
            return boolean(left.value == right.value)
        if not (isinstance(left, Value) and isinstance(right, Value)):
            self.fail(loc, f"cannot compare {left.what} with {right.what}")
        if left.constant is not None and right.constant is not None:
            return boolean(left.constant == right.constant)
        return Value(ty.BOOL, ir.Binary(ty.BOOL.ir, "==", left.expr, right.expr))

    def part(self, operand: Operand, name: str, index: int) -> Operand:
        """Give one field of a struct operand, stored or not."""
        kind = operand.type
        assert isinstance(kind, ty.Struct)
        if isinstance(operand, Value):
            field = kind.fields[name]
            return Value(field, ir.Field(field.ir, operand.expr, name), operand.lvalue, operand.readonly)
        if isinstance(operand, Aggregate):
            return operand.parts[index]
        field = kind.fields[name]
        return InvalidVal(field) if isinstance(field, ty.Struct) else self.default_value(field, _NOWHERE)

    def element(self, operand: Operand, index: int) -> Operand:
        kind = operand.type
        assert isinstance(kind, ty.Stack)
        if isinstance(operand, Aggregate):
            return operand.parts[index]
        assert isinstance(operand, Value)
        at = ir.Const(ir.Bits(32), index)
        return Value(kind.element, ir.Index(kind.element.ir, operand.expr, at), operand.lvalue, operand.readonly)

    def validity(self, operand: Operand) -> Operand:
        """isValid() of a header or header union, stored or not."""
        if isinstance(operand, InvalidVal):
            return boolean(False)
        if isinstance(operand, Aggregate):
            return boolean(True)
        assert isinstance(operand, Value)
        kind = operand.type
        if not isinstance(kind, ty.Struct):
            return boolean(False)  # a union's member whose type is in error
        if kind.kind == "header_union":
            result: Operand = boolean(False)
            for i, name in enumerate(kind.fields):
                member = self.validity(self.part(operand, name, i))
                result = member if i == 0 else self.binary_op("||", result, member, _NOWHERE)
            return result
        return Value(ty.BOOL, ir.IsValid(ty.BOOL.ir, operand.expr))

    def all_of(self, parts: list[Operand]) -> Operand:
        """Conjunction, as a balanced tree so that wide structs stay shallow."""
        if not parts:
            return boolean(True)
        while len(parts) > 1:
            parts = [
                self.logical("&&", parts[i], parts[i + 1], _NOWHERE) if i + 1 < len(parts) else parts[i]
                for i in range(0, len(parts), 2)
            ]
        return parts[0]


_NOWHERE = Loc("", 0, 0)


def _article(target: ty.Type) -> str:
    return f"a value of type {target}" if target.is_data else f"{target}"


def _retype(expr: ir.Expr, lowered: ir.Type) -> ir.Expr:
    """Types that differ in the front end only share their IR type; nothing needs to change."""
    assert expr.type is lowered or expr.type == lowered
    return expr
