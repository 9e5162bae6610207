"""Scopes, call frames and the IR block under construction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from p4switch import ir
from p4switch.frontend import types as ty
from p4switch.frontend.elaborate.values import Operand


class Scope:
    """Names of one level of the program and where to look further out."""

    __slots__ = ("names", "parent", "types")

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.names: dict[str, Operand] = {}

    def find(self, name: str) -> Operand | None:
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def all_names(self) -> set[str]:
        names: set[str] = set()
        scope: Scope | None = self
        while scope is not None:
            names.update(scope.names)
            scope = scope.parent
        return names


@dataclass
class Frame:
    """One activation of a parser, control, action or function, inlined or not.

    copy_out: makes the statements that end the activation on every way out; exit runs those of all open frames."""

    kind: str  # 'parser', 'control', 'action', 'function', 'constant'
    name: str
    parent: Frame | None = None
    return_type: ty.Type = ty.VOID
    result: ir.Var | None = None
    label: str = ""
    label_used: bool = False
    copy_out: Callable[[], list[ir.Stmt]] | None = None
    loops: list[tuple[str, str]] = field(default_factory=list)  # labels of break and continue


class Block:
    """The IR block that is being filled: its locals, and its kind ('parser', 'verify', 'ingress', ...)."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.locals: list[ir.Local] = []


class Names:
    """Gives every object and local of a program a name of its own that is a C identifier."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {"hdr": 1, "meta": 1, "standard_metadata": 1}

    def unique(self, base: str) -> str:
        base = base.replace("$", "_").lstrip(".") or "x"
        count = self._next.get(base)
        if count is None:
            self._next[base] = 1
            return base
        while True:
            name = f"{base}_{count}"
            count += 1
            if name not in self._next:
                self._next[base] = count
                self._next[name] = 1
                return name

    def reserve(self, name: str) -> None:
        """Keep a name from being given out."""
        self._next.setdefault(name, 1)
