"""State and helpers shared by the parts of the elaborator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from p4switch import ir
from p4switch.frontend import ast
from p4switch.frontend import types as ty
from p4switch.frontend.elaborate.objects import Objects
from p4switch.frontend.elaborate.scope import Block, Frame, Names, Scope
from p4switch.frontend.elaborate.values import Aggregate, IntVal, ListVal, NamedVal, Operand, Value
from p4switch.frontend.errors import ErrorList, Failure
from p4switch.ir import Loc

MAX_INLINE = 64  # nested calls; P4 has no recursion, so deeper ones are a mistake
MAX_CALLS = 20_000  # inlined calls in all: functions that call others twice, which call others twice, multiply


class ElaboratorBase:
    """Where elaboration stands: scope, frame, IR block, and the statement list being filled."""

    def __init__(self, errors: ErrorList, control_plane_only: bool = False) -> None:
        self.errors = errors
        self.control_plane_only = control_plane_only
        self.globals = Scope()
        self.scope = self.globals
        self.block = Block("")
        self.frame = Frame("constant", "")
        self.out: list[ir.Stmt] = []
        self.names = Names()
        self.objects = Objects()
        self.active: list[ast.Decl] = []
        self.calls = 0
        self.elaborated: set[int] = set()  # ids of the declarations whose bodies were checked
        self.dead = False  # whether what is elaborated now is only checked and never runs

    # ----------------------------------------------------------------------------------------------------- reports

    def fail(self, loc: Loc, message: str, hint: str = "") -> NoReturn:
        raise Failure(loc, message, hint)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Report a failure inside and go on after it."""
        try:
            yield
        except Failure as failure:
            self.errors.add(failure.diagnostic)

    def unsupported(self, loc: Loc, message: str, hint: str = "") -> None:
        """Report what p4switch cannot run; it does not matter in code that never runs, nor to P4Info alone."""
        if not self.dead and not self.control_plane_only:
            self.errors.error(loc, message, hint)

    def count_call(self, what: str, loc: Loc) -> None:
        """Bound the depth and the number of inlined calls."""
        self.calls += 1
        if len(self.active) >= MAX_INLINE:
            self.fail(loc, f"{what} is nested more than {MAX_INLINE} calls deep")
        if self.calls > MAX_CALLS:
            self.fail(
                loc,
                f"the program inlines more than {MAX_CALLS} calls",
                "functions that call others several times multiply",
            )

    # -------------------------------------------------------------------------------------------------- statements

    def emit(self, statement: ir.Stmt) -> None:
        self.out.append(statement)

    @contextmanager
    def capture(self) -> Iterator[list[ir.Stmt]]:
        """Collect the statements emitted inside in a list of their own."""
        saved = self.out
        statements: list[ir.Stmt] = []
        self.out = statements
        try:
            yield statements
        finally:
            self.out = saved

    @contextmanager
    def scoped(self, scope: Scope | None = None) -> Iterator[Scope]:
        """Elaborate inside `scope`, or a new one below the current."""
        saved = self.scope
        self.scope = scope if scope is not None else Scope(saved)
        try:
            yield self.scope
        finally:
            self.scope = saved

    def local(self, name: str, kind: ty.Type) -> Value:
        """Make a local of the current block (or action) under a unique name."""
        unique = self.names.unique(name)
        lowered = kind.ir
        self.block.locals.append(ir.Local(unique, lowered))
        return Value(kind, ir.Var(lowered, unique), True)

    def temp(self, kind: ty.Type) -> Value:
        return self.local("t", kind)

    # ----------------------------------------------------------------------------------------------- evaluation order

    def snapshot(self, operand: Operand, loc: Loc) -> Operand:
        """Fix an operand's value now, before statements that may change what it reads."""
        if isinstance(operand, Value):
            if isinstance(operand.expr, ir.Const) or not operand.type.is_data:
                return operand
            copy = self.temp(operand.type)
            self.emit(ir.Assign(loc, copy.expr, operand.expr))
            return Value(operand.type, copy.expr)
        if isinstance(operand, ListVal):
            return ListVal([self.snapshot(i, loc) for i in operand.items], operand.rest)
        if isinstance(operand, NamedVal):
            fields = {n: self.snapshot(v, loc) for n, v in operand.fields.items()}
            return NamedVal(fields, operand.locs, operand.rest)
        if isinstance(operand, Aggregate):
            return Aggregate(operand.type, [self.snapshot(p, loc) for p in operand.parts])
        return operand

    def keep_order(self, operands: list[Operand], mark: int, loc: Loc) -> list[Operand]:
        """Snapshot `operands` in front of the statements emitted since `mark`, if there are any."""
        if len(self.out) == mark:
            return operands
        later = self.out[mark:]
        del self.out[mark:]
        fixed = [self.snapshot(o, loc) for o in operands]
        self.out.extend(later)
        return fixed


def const(kind: ty.Type, value: int) -> Value:
    """A constant; the value is wrapped to the type's width."""
    lowered = kind.ir
    if isinstance(lowered, ir.Bits):
        value &= (1 << lowered.width) - 1
    return Value(kind, ir.Const(lowered, value))


def boolean(value: bool) -> Value:
    return Value(ty.BOOL, ir.Const(ty.BOOL.ir, int(value)))


def numeric(operand: Operand) -> int | None:
    """Give the mathematical value of a constant operand (negative for signed patterns); None if it is none."""
    if isinstance(operand, IntVal):
        return operand.value
    if isinstance(operand, Value) and isinstance(operand.expr, ir.Const):
        return signed_value(operand.expr)
    return None


def signed_value(constant: ir.Const) -> int:
    kind = constant.type
    if isinstance(kind, ir.Bits) and kind.signed and kind.width and constant.value >> (kind.width - 1):
        return constant.value - (1 << kind.width)
    return constant.value
