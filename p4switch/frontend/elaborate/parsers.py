"""Parsers: states, transitions, select, and sub-parsers, whose states join those of the parser that applies them."""

from __future__ import annotations

from collections.abc import Iterable

from p4switch import ir
from p4switch.frontend import ast
from p4switch.frontend import types as ty
from p4switch.frontend.elaborate.blocks import Blocks
from p4switch.frontend.elaborate.scope import Scope
from p4switch.frontend.elaborate.values import (
    BlockVal,
    ListVal,
    Operand,
    StateVal,
    ValueSetVal,
)
from p4switch.frontend.errors import did_you_mean
from p4switch.ir import Loc

_GOTO = ir.Keyset("any")


def goto(target: str) -> ir.Transition:
    return ir.Transition((), (ir.SelectCase((_GOTO,), target),))


class Parsers(Blocks):
    """Builds the state machine of the program's parser."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.states: list[ir.State] = []
        self.state_name = ""
        self.state_out: list[ir.Stmt] = []

    # ------------------------------------------------------------------------------------------------------ states

    def begin_state(self, name: str) -> None:
        self.state_name = name
        self.state_out = self.out = []

    def end_state(self, transition: ir.Transition) -> None:
        self.states.append(ir.State(self.state_name, tuple(self.state_out), transition))

    def main_parser(self, block: BlockVal, names: dict[str, Operand], types: Scope) -> tuple[ir.State, ...]:
        """Elaborate the program's parser; the first state is 'start'."""
        saved = self.out
        self.states = []
        self.names.unique("start")
        self.begin_state("start")
        scope = self.open_block(block, names, types)
        # Initializations of the parser's variables run once, even if the program returns to its state 'start'.
        with self.scoped(scope):
            if self.state_out:
                first = self.names.unique("start")
                self.end_state(goto(first))
            else:
                first = "start"
            self.parser_states(block, {"accept": "accept", "reject": "reject", "start": first})
        self.out = saved
        found = reachable(self.states)
        if not any(c.target in ("accept", "reject") for s in found for c in s.transition.cases):
            self.errors.error(block.decl.loc, f"parser '{block.decl.name}' never reaches accept or reject")
        return found

    def parser_states(self, block: BlockVal, targets: dict[str, str]) -> None:
        decl = block.decl
        assert isinstance(decl, ast.ParserDecl) and decl.states is not None
        seen: set[str] = set()
        for state in decl.states:
            if state.name in seen:
                self.errors.error(state.loc, f"state '{state.name}' is declared twice")
            if state.name in ("accept", "reject"):
                self.errors.error(state.loc, f"state '{state.name}' exists in every parser and cannot be declared")
            seen.add(state.name)
            targets.setdefault(state.name, self.names.unique(state.name))
        if "start" not in seen:
            self.fail(decl.loc, f"parser '{decl.name}' has no state 'start'")
        for name in seen:
            self.scope.names.setdefault(name, StateVal(name))
        saved = self.prefix, self.applied
        self.prefix, self.applied = block.prefix, decl.applied
        for state in decl.states:
            self.begin_state(targets[state.name])
            with self.scoped():
                self.statements(state.body)
                transition = goto("reject")
                if state.transition is not None:
                    with self.collecting():
                        transition = self.transition(state.transition, targets)
            self.end_state(transition)
        self.prefix, self.applied = saved

    def target(self, name: str, targets: dict[str, str], loc: Loc) -> str:
        found = targets.get(name)
        if found is None:
            self.fail(loc, f"state '{name}' is not declared", did_you_mean(name, targets, "states"))
        return found

    # -------------------------------------------------------------------------------------------------- transitions

    def transition(self, node: ast.TransitionStmt, targets: dict[str, str]) -> ir.Transition:
        if node.target is not None:
            return goto(self.target(node.target, targets, node.loc))
        subjects = self.select_subjects(node.subjects)
        exprs = tuple(self.materialize(s, node.loc) for s in subjects)
        cases: list[ir.SelectCase] = []
        for case in node.cases:
            with self.collecting():
                target = self.target(case.target, targets, case.loc)
                cases.append(ir.SelectCase(self.keysets(case, subjects), target))
        if not exprs:
            chosen = cases[0].target if cases else "reject"
            return goto(chosen)
        return ir.Transition(exprs, tuple(cases))

    def select_subjects(self, nodes: tuple[ast.Expr, ...]) -> list[Operand]:
        found: list[Operand] = []
        for node in nodes:
            mark = len(self.out)
            operand = self.expr(node)
            if len(self.out) != mark:
                found = self.keep_order(found, mark, node.loc)
            for part in self.subject_parts(operand):
                kind = ty.underlying(part.type)
                if not (isinstance(kind, ty.Bits | ty.Enum) or kind in (ty.BOOL, ty.ERROR, ty.UNKNOWN)):
                    hint = (
                        "give it a width"
                        if kind is ty.INT
                        else "select works on bit<W>, int<W>, bool, enums and errors"
                    )
                    self.fail(node.loc, f"select on {part.what}", hint)
                found.append(part)
        return found

    def subject_parts(self, operand: Operand) -> list[Operand]:
        if isinstance(operand, ListVal):
            return [p for item in operand.items for p in self.subject_parts(item)]
        if isinstance(operand.type, ty.Struct) and operand.type.kind in ("tuple", "struct"):
            return [
                p for i, name in enumerate(operand.type.fields) for p in self.subject_parts(self.part(operand, name, i))
            ]
        return [operand]

    def keysets(self, case: ast.SelectCase, subjects: list[Operand]) -> tuple[ir.Keyset, ...]:
        nodes = case.keysets
        if len(nodes) == 1 and isinstance(nodes[0], ast.ListExpr):
            nodes = nodes[0].items
        if len(nodes) == 1:
            if isinstance(nodes[0], ast.AnyExpr):
                return (_GOTO,)
            if isinstance(nodes[0], ast.Name):
                found = self.scope.find(nodes[0].name)
                if isinstance(found, ValueSetVal):
                    self.check_value_set(found, subjects, nodes[0].loc)
                    return (ir.Keyset("value_set", value_set=found.ir_name),)
        if len(nodes) != len(subjects):
            self.fail(case.loc, f"select has {len(subjects)} subjects, this case gives {len(nodes)}")
        return tuple(self.keyset_of(n, s) for n, s in zip(nodes, subjects, strict=True))

    def check_value_set(self, found: ValueSetVal, subjects: list[Operand], loc: Loc) -> None:
        parts = [t for _, t in ty.leaves(found.element)]
        if len(parts) != len(subjects):
            self.fail(loc, f"value set '{found.name}' matches {len(parts)} values, select has {len(subjects)} subjects")
        for part, subject in zip(parts, subjects, strict=True):
            if subject.type is not ty.UNKNOWN and ty.underlying(part) is not ty.underlying(subject.type):
                self.fail(loc, f"value set '{found.name}' holds {part} where select has {subject.what}")

    def keyset_of(self, node: ast.Expr, subject: Operand) -> ir.Keyset:
        kind = subject.type
        if isinstance(node, ast.AnyExpr):
            return _GOTO
        if isinstance(node, ast.MaskExpr):
            value, mask = self.keyset_value(node.value, kind), self.keyset_value(node.mask, kind)
            return ir.Keyset("mask", value & mask, mask)
        if isinstance(node, ast.RangeExpr):
            low, high = self.keyset_value(node.lo, kind), self.keyset_value(node.hi, kind)
            if low > high:
                self.fail(node.loc, f"range {low}..{high} is empty", "put the smaller bound first")
            return ir.Keyset("range", low, high)
        if isinstance(node, ast.Name):
            found = self.scope.find(node.name)
            if isinstance(found, ValueSetVal):
                self.check_value_set(found, [subject], node.loc)
                return ir.Keyset("value_set", value_set=found.ir_name)
        return ir.Keyset("value", self.keyset_value(node, kind))

    # ------------------------------------------------------------------------------------------------- sub-parsers

    def inline_parser(self, block: BlockVal, names: dict[str, Operand], types: Scope, loc: Loc) -> None:
        """Put a sub-parser's states between what stands before its application and what stands after."""
        if self.out is not self.state_out:
            self.fail(loc, f"parser '{block.name}' applied inside an expression", "apply it in a statement of its own")
        after = self.names.unique(f"{self.state_name}_after_{block.name}")
        scope = self.open_block(block, names, types)
        with self.scoped(scope):
            first = self.names.unique(f"{block.name}_start")
            self.end_state(goto(first))
            self.parser_states(block, {"accept": after, "reject": "reject", "start": first})
        self.begin_state(after)

    def if_stmt(self, node: ast.IfStmt) -> None:
        """In a parser, an if around a sub-parser's application becomes a choice between states."""
        if self.block.kind != "parser" or self.out is not self.state_out or not applies_parser((node,), self.applied):
            super().if_stmt(node)
            return
        condition = self.condition(node.condition, "the condition of 'if'")
        then, otherwise, after = (self.names.unique(f"{self.state_name}_{w}") for w in ("then", "else", "after"))
        true = ir.Keyset("value", 1)
        cases = (ir.SelectCase((true,), then), ir.SelectCase((_GOTO,), otherwise))
        self.end_state(ir.Transition((condition.expr,), cases))
        for name, branch in ((then, node.then), (otherwise, node.otherwise)):
            self.begin_state(name)
            if branch is not None:
                with self.scoped():
                    self.statement(branch)
            self.end_state(goto(after))
        self.begin_state(after)


def applies_parser(nodes: Iterable[ast.Stmt], applied: tuple[str, ...]) -> bool:
    """Whether statements apply a parser: an instance among `applied`, or a type."""
    for node in nodes:
        if isinstance(node, ast.CallStmt):
            callee = node.call.callee
            if isinstance(callee, ast.Member) and callee.name == "apply":
                return True
        elif isinstance(node, ast.BlockStmt):
            if applies_parser(node.body, applied):
                return True
        elif isinstance(node, ast.IfStmt):
            branches = (node.then,) if node.otherwise is None else (node.then, node.otherwise)
            if applies_parser(branches, applied):
                return True
    return False


def reachable(states: list[ir.State]) -> tuple[ir.State, ...]:
    """Leave out the states that no path from the first one enters."""
    by_name = {s.name: s for s in states}
    start = "start"
    pending, seen = [start], {start}
    while pending:
        state = by_name[pending.pop()]
        for case in state.transition.cases:
            if case.target in by_name and case.target not in seen:
                seen.add(case.target)
                pending.append(case.target)
    ordered = [s for s in states if s.name in seen]
    ordered.sort(key=lambda s: s.name != start)
    return tuple(ordered)
