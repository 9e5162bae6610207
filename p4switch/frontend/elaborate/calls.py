"""Calls: what is called decides how it is lowered. Functions, actions, controls and parsers are inlined."""

from __future__ import annotations

from collections.abc import Iterator

from p4switch import ir
from p4switch.frontend import ast
from p4switch.frontend import types as ty
from p4switch.frontend.elaborate.arguments import Passed
from p4switch.frontend.elaborate.base import const
from p4switch.frontend.elaborate.externs import Externs
from p4switch.frontend.elaborate.scope import Frame, Scope
from p4switch.frontend.elaborate.values import (
    ActionVal,
    ApplyResult,
    BlockVal,
    ExternVal,
    FunctionSet,
    MethodVal,
    Operand,
    TableVal,
    TypeVal,
    UnknownVal,
    Value,
    VoidVal,
)
from p4switch.ir import Loc


class Calls(Externs):
    """Lowers call expressions; the result is an operand, void calls give VoidVal."""

    def statements(self, body: tuple[ast.Stmt, ...]) -> None:
        raise NotImplementedError  # given by Statements

    def apply_block(self, block: BlockVal, node: ast.CallExpr) -> Operand:
        raise NotImplementedError  # given by Controls

    def anonymous_block(self, kind: ty.Callable, node: ast.CallExpr) -> BlockVal:
        raise NotImplementedError  # given by Controls

    def mention_action(self, action: ActionVal) -> None:
        raise NotImplementedError  # given by Tables

    def construct(self, kind: ty.Type, decl: ast.Decl | None, node: ast.CallExpr) -> Operand:
        raise NotImplementedError  # given by Controls

    def call(self, node: ast.CallExpr) -> Operand:
        callee = self.expr(node.callee)
        if isinstance(callee, MethodVal):
            return self.method(callee, node)
        if isinstance(callee, FunctionSet):
            return self.function(callee, node)
        if isinstance(callee, ActionVal):
            return self.action_call(callee, node)
        if isinstance(callee, TypeVal):
            return self.construct(callee.type, callee.decl, node)
        if isinstance(callee, UnknownVal):
            return callee
        hint = "call its apply() method" if isinstance(callee, TableVal | BlockVal) else ""
        self.fail(node.loc, f"{callee.what} cannot be called", hint)

    # ---------------------------------------------------------------------------------------------------- functions

    def function(self, callee: FunctionSet, node: ast.CallExpr) -> Operand:
        decl = self.overload(f"function '{callee.name}'", callee.decls, node)
        if decl.body is None:
            return self.extern_function(decl, node)
        passed = self.evaluate(self.match(f"function '{decl.name}'", decl.params, node.args, node.loc))
        scope = self.type_scope(decl, node.type_args, passed, node.loc, self.globals)
        return self.inline(decl, passed, scope, node.loc, "function", by_reference=True)

    def overload(self, what: str, decls: list[ast.FunctionDecl], node: ast.CallExpr) -> ast.FunctionDecl:
        """Choose among functions or methods of one name by the number and names of the arguments."""
        fitting = [d for d in decls if self.accepts(d.params, node.args)]
        if len(fitting) >= 1:
            return fitting[0]
        if len(decls) == 1:
            return decls[0]  # matching it will say what is wrong
        forms = "; ".join(f"({', '.join(p.name for p in d.params)})" for d in decls)
        self.fail(node.loc, f"no form of {what} takes these {len(node.args)} arguments", f"forms: {forms}")

    def inline(
        self,
        decl: ast.FunctionDecl | ast.ActionDecl,
        passed: list[Passed],
        scope: Scope,
        loc: Loc,
        kind: str,
        by_reference: bool,
    ) -> Operand:
        """Elaborate a body in place of its call, with copy-in, copy-out and early returns."""
        if any(d is decl for d in self.active):
            self.fail(loc, f"{kind} '{decl.name}' calls itself", "P4 has no recursion")
        self.count_call(f"{kind} '{decl.name}'", loc)
        self.elaborated.add(id(decl))
        inner = Scope(scope)
        copies = self.bind(passed, scope, inner.names, by_reference)
        if kind == "action":
            self.emit(ir.Called(loc, kind, decl.name, scalar_arguments(passed, inner)))
        frame = Frame(kind, decl.name, self.frame, label=self.names.unique(f"{decl.name}_end"))
        if isinstance(decl, ast.FunctionDecl) and decl.return_type is not None:
            with self.scoped(scope):
                frame.return_type = self.resolve_type(decl.return_type, allow_void=True)
            if frame.return_type.is_data:
                result = self.local(f"{decl.name}_result", frame.return_type).expr
                assert isinstance(result, ir.Var)
                frame.result = result
        frame.copy_out = lambda: [ir.Assign(loc, target.expr, copy.expr) for target, copy in copies]
        self.run_body(decl, frame, inner, loc)
        if isinstance(decl, ast.FunctionDecl):
            self.check_returns(decl, frame.return_type)
        self.out.extend(frame.copy_out())
        if frame.result is not None:
            return Value(frame.return_type, frame.result)
        return VoidVal() if frame.return_type is ty.VOID else UnknownVal()

    def run_body(self, decl: ast.FunctionDecl | ast.ActionDecl, frame: Frame, scope: Scope, loc: Loc) -> None:
        assert decl.body is not None
        saved = self.frame
        self.frame = frame
        self.active.append(decl)
        try:
            with self.scoped(scope), self.capture() as body:
                self.body_statements(decl.body.body)
        finally:
            self.active.pop()
            self.frame = saved
        if frame.label_used:
            self.emit(ir.Scope(loc, frame.label, tuple(body)))
        else:
            self.out.extend(body)

    def check_returns(self, decl: ast.FunctionDecl, kind: ty.Type) -> None:
        if kind is not ty.VOID and decl.body is not None and not always_returns(decl.body):
            hint = f"end it with: return VALUE; of type {kind}"
            self.errors.error(decl.loc, f"function '{decl.name}' does not return a value on all paths", hint)

    def body_statements(self, body: tuple[ast.Stmt, ...]) -> None:
        """Elaborate a callable's body; a final return needs no jump."""
        if body and isinstance(body[-1], ast.ReturnStmt):
            self.statements(body[:-1])
            with self.collecting():
                self.return_value(body[-1])
        else:
            self.statements(body)

    def return_value(self, node: ast.ReturnStmt) -> None:
        frame = self.frame
        if frame.kind == "function" and frame.return_type is not ty.VOID:
            if node.value is None:
                self.fail(node.loc, f"'{frame.name}' returns {frame.return_type}: return needs a value")
            value = self.typed(node.value, frame.return_type)
            if frame.result is not None:
                self.store(Value(frame.return_type, frame.result, True), value, node.loc)
        elif node.value is not None:
            self.fail(node.value.loc, f"{frame.kind} '{frame.name}' returns no value")

    # ------------------------------------------------------------------------------------------------------ actions

    def action_call(self, callee: ActionVal, node: ast.CallExpr) -> Operand:
        if node.type_args:
            self.fail(node.loc, f"{callee.what} takes no type arguments")
        if self.frame_kind() == "parser" or self.frame.kind == "function":
            self.fail(
                node.loc,
                f"{callee.what} called from a {self.frame.kind}",
                "actions are called from controls and actions",
            )
        mark = len(self.out)
        passed = self.evaluate(self.match(callee.what, callee.decl.params, node.args, node.loc))
        chosen = any(isinstance(argument.value, ast.MuxExpr) for argument in node.args)
        if not chosen and applied_tables(tuple(self.out[mark:])):  # as p4c; what ?: chooses by, it takes out
            hint = "apply it in a statement of its own, and keep its result in a variable"
            self.fail(node.loc, f"a table is applied in an argument of {callee.what}", hint)
        self.mention_action(callee)
        return self.inline(callee.decl, passed, callee.scope, node.loc, "action", by_reference=False)

    # ------------------------------------------------------------------------------------------------------ methods

    def method(self, callee: MethodVal, node: ast.CallExpr) -> Operand:
        base, name = callee.base, callee.name
        if isinstance(base, ExternVal):
            return self.extern_method(base, name, node)
        if isinstance(base, TableVal):
            return self.apply_table(base, node)
        if isinstance(base, BlockVal):
            return self.apply_block(base, node)
        if isinstance(base, TypeVal) and name == "apply":
            if not isinstance(base.type, ty.Callable) and base.decl is not None:
                base = TypeVal(self.specialize_open(base.decl))
            if isinstance(base.type, ty.Callable):
                return self.apply_block(self.anonymous_block(base.type, node), node)
            self.fail(node.loc, f"type {base.type} has no method 'apply'", "parsers and controls have")
        if name in ("isValid", "setValid", "setInvalid"):
            self.match(f"{name}()", (), node.args, node.loc)
            return self.header_method(base, name, node.loc)
        if name in ("push_front", "pop_front"):
            return self.stack_method(base, name, node)
        return self.size_method(base, name, node)

    def specialize_open(self, decl: ast.Decl) -> ty.Type:
        """Give a generic parser or control without its type arguments; the call's arguments will tell them."""
        if not isinstance(decl, ast.ParserDecl | ast.ControlDecl):
            return ty.UNKNOWN
        return ty.Callable(decl, ())

    def header_method(self, base: Operand, name: str, loc: Loc) -> Operand:
        if name == "isValid":
            return self.validity(base)
        if not isinstance(base, Value) or not base.lvalue:
            reason = base.readonly if isinstance(base, Value) else ""
            self.fail(loc, f"{name}() on what cannot be changed", reason)
        kind = base.type
        assert isinstance(kind, ty.Struct)
        if kind.kind == "header_union":
            self.fail(loc, f"header union {kind} has no method '{name}'", "call it on one of the union's headers")
        if name == "setValid":
            self.set_valid(base, loc)
        else:
            self.set_invalid(base, loc)
        return VoidVal()

    def stack_method(self, base: Operand, name: str, node: ast.CallExpr) -> Operand:
        if not isinstance(base, Value) or not base.lvalue:
            self.fail(node.loc, f"{name}() on what cannot be changed", base.readonly if isinstance(base, Value) else "")
        if len(node.args) != 1:
            self.fail(node.loc, f"{name}() takes 1 argument, {len(node.args)} given", "how many elements to move by")
        count = self.constant_int(node.args[0].value, f"the argument of {name}()")
        if count < 0:
            self.fail(node.args[0].loc, f"{name}() by a negative number")
        make = ir.PushFront if name == "push_front" else ir.PopFront
        if count:
            self.emit(make(node.loc, base.expr, count))
        return VoidVal()

    def size_method(self, base: Operand, name: str, node: ast.CallExpr) -> Operand:
        self.match(f"{name}()", (), node.args, node.loc)
        kind = base.type
        low, high = size_bounds(kind)
        if high is None or low is None:
            self.fail(node.loc, f"{kind} has no size in bits")
        size = low if name.startswith("min") else high
        # A constant of arbitrary precision, as the specification says.
        value = (size + 7) // 8 if name.endswith("Bytes") else size
        return const(ty.bits(32), value)

    # ------------------------------------------------------------------------------------------------------- tables

    def exit_copies(self) -> list[ir.Stmt]:
        """Make the copies that an exit has to write back: those of all open calls, innermost first."""
        copies: list[ir.Stmt] = []
        frame: Frame | None = self.frame
        while frame is not None:
            if frame.copy_out is not None:
                copies += frame.copy_out()
            frame = frame.parent
        return copies

    def apply_table(self, table: TableVal, node: ast.CallExpr) -> Operand:
        self.match(f"{table.decl.name}.apply()", (), node.args, node.loc)
        frame: Frame | None = self.frame
        while frame is not None and frame.kind != "control":
            if frame.kind in ("action", "function"):
                hint = "apply tables in the control's apply block"
                self.fail(node.loc, f"table '{table.decl.name}' applied inside {frame.kind} '{frame.name}'", hint)
            frame = frame.parent
        self.out.extend(table.key_statements)
        on_exit = tuple(self.exit_copies()) if table.exits_elsewhere else ()
        self.emit(ir.ApplyTable(node.loc, table.ir_name, on_exit=on_exit))
        return ApplyResult(table, len(self.out) - 1, self.out)


def walk(body: tuple[ir.Stmt, ...]) -> Iterator[ir.Stmt]:
    """Give statements and those inside them."""
    for statement in body:
        yield statement
        if isinstance(statement, ir.If):
            yield from walk(statement.then)
            yield from walk(statement.otherwise)
        elif isinstance(statement, ir.Switch):
            for case in statement.cases:
                yield from walk(case.body)
        elif isinstance(statement, ir.Scope | ir.Loop):
            yield from walk(statement.body)


def applied_tables(body: tuple[ir.Stmt, ...]) -> set[str]:
    """Give the tables that statements apply."""
    return {s.table for s in walk(body) if isinstance(s, ir.ApplyTable)}


def exits(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether statements may exit."""
    return any(isinstance(s, ir.Exit) for s in walk(body))


def scalar_arguments(passed: list[Passed], scope: Scope) -> tuple[tuple[str, ir.Expr], ...]:
    """Give the values that a call's parameters have at its start, of those that have one and are numbers."""
    given = [(p.param.name, scope.names[p.param.name]) for p in passed if p.param.direction != "out"]
    scalar = ir.Bits | ir.Bool | ir.ErrorType | ir.EnumType
    return tuple((name, v.expr) for name, v in given if isinstance(v, Value) and isinstance(v.expr.type, scalar))


def always_returns(node: ast.Stmt | None) -> bool:
    """Whether no path through a statement reaches its end."""
    if isinstance(node, ast.ReturnStmt | ast.ExitStmt):
        return True
    if isinstance(node, ast.BlockStmt):
        return any(always_returns(s) for s in node.body)
    if isinstance(node, ast.IfStmt):
        return always_returns(node.then) and always_returns(node.otherwise)
    if isinstance(node, ast.SwitchStmt):
        bodies = [c.body for c in node.cases if c.body is not None]
        has_default = any(c.label.value is None for c in node.cases)
        return has_default and all(always_returns(b) for b in bodies)
    return False


def size_bounds(kind: ty.Type) -> tuple[int | None, int | None]:
    """Give the least and largest number of bits of a value of a type."""
    if isinstance(kind, ty.Varbit):
        return 0, kind.width
    if isinstance(kind, ty.Struct):
        bounds = [size_bounds(f) for f in kind.fields.values()]
        lows = [b[0] for b in bounds if b[0] is not None]
        highs = [b[1] for b in bounds if b[1] is not None]
        if len(lows) != len(bounds) or len(highs) != len(bounds):
            return None, None
        if kind.kind == "header_union":
            return min(lows, default=0), max(highs, default=0)
        return sum(lows), sum(highs)
    if isinstance(kind, ty.Stack):
        low, high = size_bounds(kind.element)
        return (None, None) if low is None or high is None else (low * kind.size, high * kind.size)
    width = kind.bit_width()
    return width, width
