"""Tell which locals of a block need no zero at its start, because every use of them comes after an assignment.

A block's locals are all live from its start in the IR. Large programs have hundreds, most of them of branches that a
packet does not take, so zeroing all of them would cost more than the packet's own work.
"""

from __future__ import annotations

from collections.abc import Iterable

from p4switch import ir
from p4switch.emit.context import Unit, all_expressions, all_statements


def zeroed_locals(unit: Unit, block: str) -> list[ir.Local]:
    """Give the locals of a block that have to be zeroed at its start, in order of declaration.

    Only a control's body is followed; a parser's states form a graph, and all of its locals are zeroed.
    """
    locals_ = list(unit.locals_of(block))
    if block == "parser" or not locals_:
        return locals_
    finder = _Finder(unit, {v.name for v in locals_})
    finder.follow(getattr(unit.program, block).body, set())
    return [v for v in locals_ if v.name in finder.unassigned]


class _Finder:
    """Walks a body in order, with what has been assigned on every way to the present statement.

    Assignments inside a branch, a scope or a loop count only inside it: what follows may be reached without them.
    """

    def __init__(self, unit: Unit, names: set[str]) -> None:
        self._names = names
        self._of_table = {table.ir_name: self._table_names(unit, table) for table in unit.program.tables}
        self.unassigned: set[str] = set()
        """Locals that are used where they may not have been assigned."""

    def _table_names(self, unit: Unit, table: ir.Table) -> set[str]:
        """Give the locals that applying a table may use: in its keys and its actions."""
        nodes: list[object] = [key.expr for key in table.keys]
        if table.meter_target is not None:
            nodes.append(table.meter_target)
        actions = {choice.action for choice in table.actions}
        for action in unit.program.actions:
            if action.ir_name in actions:
                nodes += all_statements(action.body)
        return self._used(nodes)

    def _used(self, nodes: Iterable[object]) -> set[str]:
        found = {e.name for node in nodes for e in all_expressions(node) if isinstance(e, ir.Var)}
        return found & self._names

    def _use(self, names: set[str], assigned: set[str]) -> None:
        self.unassigned |= names - assigned

    def follow(self, body: Iterable[ir.Stmt], assigned: set[str]) -> None:
        """Follow statements, starting with these locals assigned."""
        assigned = set(assigned)
        for statement in body:
            match statement:
                case ir.Assign(target=ir.Var(name=name)) if name in self._names:
                    self._use(self._used([statement.value]), assigned)
                    assigned.add(name)
                case ir.If():
                    self._use(self._used([statement.condition]), assigned)
                    self.follow(statement.then, assigned)
                    self.follow(statement.otherwise, assigned)
                case ir.Switch():
                    self._use(self._used([statement.subject]), assigned)
                    for case in statement.cases:
                        self.follow(case.body, assigned)
                case ir.Scope() | ir.Loop():
                    self.follow(statement.body, assigned)
                case ir.ApplyTable():
                    self._use(self._of_table[statement.table], assigned)
                    self.follow(statement.on_exit, assigned)
                    assigned |= {v.name for v in (statement.hit, statement.action) if v is not None}
                case _:
                    self._use(self._used([statement]), assigned)
