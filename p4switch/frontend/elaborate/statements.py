"""Statements."""

from __future__ import annotations

from collections.abc import Callable

from p4switch import ir
from p4switch.frontend import ast
from p4switch.frontend import types as ty
from p4switch.frontend.elaborate.base import const
from p4switch.frontend.elaborate.calls import Calls
from p4switch.frontend.elaborate.scope import Frame
from p4switch.frontend.elaborate.values import (
    IntVal,
    InvalidVal,
    ListVal,
    NamedVal,
    Operand,
    UnknownVal,
    Value,
)
from p4switch.frontend.errors import Failure, did_you_mean
from p4switch.ir import Loc

MAX_UNROLL = 4096


class Statements(Calls):
    """Lowers statements into `out`. A statement with an error is reported and left out."""

    def statements(self, body: tuple[ast.Stmt, ...]) -> None:
        for node in body:
            self.statement(node)

    def statement(self, node: ast.Stmt) -> None:
        try:
            _DISPATCH[type(node)](self, node)
        except Failure as failure:
            self.errors.add(failure.diagnostic)

    def nested(self, node: ast.Stmt) -> tuple[ir.Stmt, ...]:
        """Lower a statement in a scope and a list of its own."""
        with self.scoped(), self.capture() as body:
            self.statement(node)
        return tuple(body)

    # ------------------------------------------------------------------------------------------------ simple ones

    def block_stmt(self, node: ast.BlockStmt) -> None:
        with self.scoped():
            self.statements(node.body)

    def call_stmt(self, node: ast.CallStmt) -> None:
        self.call(node.call)

    def assign(self, node: ast.AssignStmt) -> None:
        target = self.assignable(node.target)
        if target is None:
            return
        if node.op:
            target = self.as_value(self.freeze(target, node.loc))
        mark = len(self.out)
        value = self.expr(node.value)
        if len(self.out) != mark and not node.op:
            # The target's indices are evaluated before the value.
            later = self.out[mark:]
            del self.out[mark:]
            target = self.as_value(self.freeze(target, node.loc))
            self.out.extend(later)
        if node.op:
            current: Operand = Value(target.type, target.expr)
            if len(self.out) != mark:
                current = self.keep_order([current], mark, node.loc)[0]
            value = self.binary_op(node.op, current, value, node.loc)
        kind = target.type
        if kind is ty.UNKNOWN or value.type is ty.UNKNOWN:
            return
        if isinstance(kind, ty.SerEnum) and node.op:
            self.fail(node.loc, f"'{node.op}=' on an enum of type {kind}", "cast the result back to the enum")
        converted = self.convert(value, kind, ast.start_of(node.value))
        if not isinstance(converted, Value | InvalidVal | UnknownVal):
            # {s.b, s.a} assigned to s: the parts are read before any is written.
            converted = self.snapshot(converted, node.loc) if self.mentions(converted, target.expr) else converted
        self.store(target, converted, node.loc)

    def assignable(self, node: ast.Expr) -> Value | None:
        operand = self.expr(node)
        if isinstance(operand, UnknownVal):
            return None
        if not isinstance(operand, Value):
            self.fail(node.loc, f"{operand.what} cannot be assigned to")
        if not operand.lvalue:
            if operand.constant is not None:
                self.fail(node.loc, "a constant cannot be assigned to", operand.readonly)
            self.fail(
                node.loc,
                "this cannot be assigned to",
                operand.readonly or "only variables, fields, elements and slices can",
            )
        return operand

    def mentions(self, operand: Operand, target: ir.Expr) -> bool:
        """Whether a part of an aggregate reads the variable that holds `target`."""
        root = target
        while isinstance(root, ir.Field | ir.Index | ir.Slice | ir.StackNext | ir.StackLast):
            root = root.base
        name = root.name if isinstance(root, ir.Var) else ""
        return any(name in variables(e) for e in self.expressions_of(operand))

    def expressions_of(self, operand: Operand) -> list[ir.Expr]:
        if isinstance(operand, Value):
            return [operand.expr]
        parts: list[Operand] = getattr(operand, "parts", [])
        return [e for p in parts for e in self.expressions_of(p)]

    # ----------------------------------------------------------------------------------------------- declarations

    def declare_name(self, name: str, operand: Operand, loc: Loc) -> None:
        if name in self.scope.names:
            self.fail(loc, f"'{name}' is declared twice", "give one of them another name")
        self.scope.names[name] = operand

    def var_decl(self, node: ast.VarDecl) -> None:
        value: Operand | None = None
        try:
            kind = self.resolve_type(node.type)
            if node.init is not None:
                value = self.expr(node.init)
                if kind is not ty.UNKNOWN:
                    value = self.convert(value, kind, ast.start_of(node.init))
        except Failure:
            self.scope.names.setdefault(node.name, UnknownVal())
            raise
        if kind is ty.UNKNOWN:
            self.declare_name(node.name, UnknownVal(), node.loc)
            return
        if not kind.is_data:
            self.scope.names.setdefault(node.name, UnknownVal())
            hint = "give it a width, or make it a const" if kind is ty.INT else "variables hold data"
            self.fail(node.loc, f"variable '{node.name}' of type {kind}", hint)
        if value is None:
            operand = self.uninitialized(node.name, kind, node.loc)
        else:
            operand = self.local(node.name, kind)
            self.store(operand, value, node.loc)
        self.declare_name(node.name, operand, node.loc)

    def const_decl(self, node: ast.ConstDecl) -> None:
        try:
            operand = self.constant_value(node)
        except Failure:
            self.scope.names.setdefault(node.name, UnknownVal())
            raise
        self.declare_name(node.name, operand, node.loc)

    def constant_value(self, node: ast.ConstDecl) -> Operand:
        kind = self.resolve_type(node.type)
        with self.capture() as effects:
            operand = self.typed(node.value, kind)
        if effects or not self.is_constant(operand):
            self.fail(node.value.loc, f"the value of constant '{node.name}' is not known at compile time")
        return operand

    def is_constant(self, operand: Operand) -> bool:
        if isinstance(operand, Value):
            return isinstance(operand.expr, ir.Const)
        if isinstance(operand, ListVal):
            return all(self.is_constant(i) for i in operand.items)
        if isinstance(operand, NamedVal):
            return all(self.is_constant(i) for i in operand.fields.values())
        return all(self.is_constant(p) for p in getattr(operand, "parts", []))

    def misplaced_decl(self, node: ast.Decl) -> None:
        self.fail(node.loc, f"'{node.name}' cannot be declared here", "instances are declared outside of statements")

    # ---------------------------------------------------------------------------------------------- control flow

    def if_stmt(self, node: ast.IfStmt) -> None:
        condition = self.condition(node.condition, "the condition of 'if'")
        dead = self.dead
        self.dead = dead or condition.constant == 0
        then = self.nested(node.then)
        self.dead = dead or bool(condition.constant)
        otherwise = self.nested(node.otherwise) if node.otherwise is not None else ()
        self.dead = dead
        if condition.constant is not None:
            self.out.extend(then if condition.constant else otherwise)
        elif then or otherwise:
            self.emit(ir.If(node.loc, condition.expr, then, otherwise))

    def return_stmt(self, node: ast.ReturnStmt) -> None:
        frame = self.frame
        if frame.kind == "parser":
            self.fail(node.loc, "return inside of a parser", "end the state with a transition")
        self.return_value(node)
        frame.label_used = True
        self.emit(ir.Leave(node.loc, frame.label))

    def exit_stmt(self, node: ast.ExitStmt) -> None:
        if self.block.kind == "parser":
            self.fail(node.loc, "exit inside of a parser", "use transition reject")
        frame: Frame | None = self.frame
        while frame is not None:
            if frame.kind == "function":
                self.fail(node.loc, "exit inside of a function", "functions can only return")
            frame = frame.parent
        self.out.extend(self.exit_copies())
        self.emit(ir.Exit(node.loc))

    # --------------------------------------------------------------------------------------------------- switch

    def switch_stmt(self, node: ast.SwitchStmt) -> None:
        subject = self.expr(node.subject)
        if isinstance(subject, UnknownVal):
            return
        kind = subject.type
        cases: list[ir.SwitchCase] = []
        labels: list[int] = []
        is_default = False
        seen: dict[int, Loc] = {}
        seen_default = False
        for case in node.cases:
            with self.collecting():
                if case.label.value is None:
                    if seen_default:
                        self.fail(case.loc, "'default' stands twice in one switch")
                    is_default = seen_default = True
                else:
                    value = self.switch_label(kind, case.label.value)
                    if value in seen:
                        self.fail(
                            case.loc, "this label stands twice in one switch", f"first at line {seen[value].line}"
                        )
                    seen[value] = case.loc
                    labels.append(value)
            if case.body is None:
                continue
            body = self.nested(case.body)
            if labels and not is_default:
                cases.append(ir.SwitchCase(tuple(labels), body))
            elif is_default:
                cases.append(ir.SwitchCase(None, body))
            labels, is_default = [], False
        if not isinstance(subject, Value):
            if isinstance(subject, IntVal):
                self.fail(node.subject.loc, f"switch on {subject.what}", "give it a width")
            self.fail(node.subject.loc, f"switch on {subject.what}")
        if not (
            isinstance(ty.underlying(kind), ty.Bits)
            or isinstance(kind, ty.Enum | ty.ActionRun)
            or kind in (ty.BOOL, ty.ERROR)
        ):
            self.fail(
                node.subject.loc, f"switch on {subject.what}", "switch works on action_run, integers, enums and errors"
            )
        if cases:
            self.emit(ir.Switch(node.loc, subject.expr, tuple(cases)))

    def switch_label(self, kind: ty.Type, node: ast.Expr) -> int:
        if isinstance(kind, ty.ActionRun):
            names = kind.actions
            if not isinstance(node, ast.Name) or node.name not in names:
                text = node.name if isinstance(node, ast.Name) else "this"
                hint = did_you_mean(text, names, "actions")
                self.fail(node.loc, f"'{text}' is no action of table '{kind.table}'", hint)
            return names.index(node.name)
        with self.capture():
            operand = self.typed(node, kind)
        if not isinstance(operand, Value) or operand.constant is None:
            self.fail(node.loc, "a switch label must be known at compile time")
        return operand.constant

    # ---------------------------------------------------------------------------------------------------- loops

    def for_stmt(self, node: ast.ForStmt) -> None:
        with self.scoped():
            self.statements(node.init)
            with self.capture() as head:
                condition = self.condition(node.condition, "the condition of 'for'")
            leave, again = self.loop_labels()
            with self.capture() as update:
                self.statements(node.update)
            body = self.loop_body(node.body, leave, again)
            stop = ir.If(
                node.loc, self.as_value(self.unary_op("!", condition, node.loc)).expr, (ir.Leave(node.loc, leave),)
            )
            self.emit(ir.Loop(node.loc, leave, (*head, stop, ir.Scope(node.loc, again, body), *update)))

    def loop_labels(self) -> tuple[str, str]:
        return self.names.unique("loop_end"), self.names.unique("loop_next")

    def loop_body(self, node: ast.Stmt, leave: str, again: str) -> tuple[ir.Stmt, ...]:
        self.frame.loops.append((leave, again))
        body = self.nested(node)
        self.frame.loops.pop()
        return body

    def for_in_stmt(self, node: ast.ForInStmt) -> None:
        with self.scoped():
            if node.type is not None:
                variable = self.local(node.name, self.resolve_type(node.type))
                self.scope.names[node.name] = variable
            else:
                found = self.assignable(ast.Name(node.loc, node.name))
                if found is None:
                    return
                variable = found
            if isinstance(node.collection, ast.RangeExpr):
                self.for_range(node, variable, node.collection)
                return
            # What is looped over is evaluated once, before the first iteration.
            collection = self.snapshot(self.expr(node.collection), node.loc)
            if isinstance(collection.type, ty.Stack):
                items = [self.element(collection, i) for i in range(collection.type.size)]
            elif isinstance(collection, ListVal):
                items = collection.items
            elif isinstance(collection, UnknownVal):
                return
            else:
                self.fail(node.collection.loc, f"loop over {collection.what}", "loops go over ranges, lists and stacks")
            leave = self.names.unique("loop_end")
            with self.capture() as unrolled:
                for item in items:
                    self.store(variable, self.convert(item, variable.type, node.collection.loc), node.loc)
                    again = self.names.unique("loop_next")
                    self.emit(ir.Scope(node.loc, again, self.loop_body(node.body, leave, again)))
            self.emit(ir.Scope(node.loc, leave, tuple(unrolled)))

    def for_range(self, node: ast.ForInStmt, variable: Value, bounds: ast.RangeExpr) -> None:
        """for (x in lo..hi): both bounds are evaluated once; the range is empty if lo > hi."""
        kind = variable.type
        low = self.typed(bounds.lo, kind)
        high = self.snapshot(self.typed(bounds.hi, kind), node.loc)
        if not isinstance(low, Value) or not isinstance(high, Value) or not isinstance(ty.underlying(kind), ty.Bits):
            self.fail(node.loc, f"loop over a range of {kind}", "ranges are of bit<W> or int<W>")
        counter = self.temp(kind)
        leave, again = self.loop_labels()
        self.emit(ir.Assign(node.loc, counter.expr, low.expr))
        above = ir.Binary(ty.BOOL.ir, ">", counter.expr, high.expr)
        self.emit(ir.If(node.loc, above, (), (self.range_loop(node, variable, counter, high, leave, again),)))

    def range_loop(
        self, node: ast.ForInStmt, variable: Value, counter: Value, high: Value, leave: str, again: str
    ) -> ir.Stmt:
        body = self.loop_body(node.body, leave, again)
        # Leaving before the increment keeps a range that ends at the type's largest value from wrapping round.
        last = ir.Binary(ty.BOOL.ir, "==", counter.expr, high.expr)
        one = const(counter.type, 1).expr
        step = ir.Binary(counter.type.ir, "+", counter.expr, one)
        return ir.Loop(
            node.loc,
            leave,
            (
                ir.Assign(node.loc, variable.expr, counter.expr),
                ir.Scope(node.loc, again, body),
                ir.If(node.loc, last, (ir.Leave(node.loc, leave),)),
                ir.Assign(node.loc, counter.expr, step),
            ),
        )

    def break_stmt(self, node: ast.BreakStmt | ast.ContinueStmt) -> None:
        word = "break" if isinstance(node, ast.BreakStmt) else "continue"
        if not self.frame.loops:
            self.fail(node.loc, f"{word} outside of a loop")
        leave, again = self.frame.loops[-1]
        self.emit(ir.Leave(node.loc, leave if word == "break" else again))


def variables(expr: ir.Expr) -> set[str]:
    """Names of the variables that an expression reads."""
    found: set[str] = set()
    pending: list[ir.Expr] = [expr]
    while pending:
        current = pending.pop()
        if isinstance(current, ir.Var):
            found.add(current.name)
        else:
            pending.extend(v for v in vars(current).values() if isinstance(v, ir.Expr))
    return found


_DISPATCH: dict[type, Callable[..., None]] = {
    ast.AssignStmt: Statements.assign,
    ast.CallStmt: Statements.call_stmt,
    ast.BlockStmt: Statements.block_stmt,
    ast.IfStmt: lambda self, node: self.if_stmt(node),  # parsers have their own
    ast.SwitchStmt: Statements.switch_stmt,
    ast.ReturnStmt: Statements.return_stmt,
    ast.ExitStmt: Statements.exit_stmt,
    ast.EmptyStmt: lambda self, node: None,
    ast.VarDecl: Statements.var_decl,
    ast.ConstDecl: Statements.const_decl,
    ast.Instantiation: Statements.misplaced_decl,
    ast.ForStmt: Statements.for_stmt,
    ast.ForInStmt: Statements.for_in_stmt,
    ast.BreakStmt: Statements.break_stmt,
    ast.ContinueStmt: Statements.break_stmt,
}
