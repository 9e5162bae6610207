"""The control-plane objects that elaboration finds, before they have P4Info ids."""

from __future__ import annotations

from dataclasses import dataclass, field

from p4switch import ir
from p4switch.frontend import ast

NOT_IDENTIFIED = ir.Identity("", 0, "")


@dataclass
class Named:
    """An IR object with what its Identity is made from: control-plane name and annotations."""

    kind: str  # P4Info's: 'action', 'table', 'counter', ...
    name: str
    annotations: tuple[ast.Annotation, ...]
    value: object  # the IR object, its identity still empty
    position: tuple[int, ...]
    loc: ir.Loc
    types: tuple[tuple[str, str], ...] = ()  # named types that it mentions, as keys of TypeInfo.named


# First element of positions: global objects, those inside the package's blocks.
GLOBAL, IN_BLOCK = 0, 1


@dataclass
class Objects:
    """All objects; ir.Program's fields are made from them at the end, ordered by position.

    position: where the declaration that is elaborated stands, once all blocks are inlined: (IN_BLOCK, number of the
    block, number of the member in it, number of the member in that one, ...)."""

    named: list[Named] = field(default_factory=list)
    position: tuple[int, ...] = (GLOBAL,)
    loc: ir.Loc = field(default_factory=lambda: ir.Loc("", 0, 0))

    def add(
        self,
        kind: str,
        name: str,
        annotations: tuple[ast.Annotation, ...],
        value: object,
        position: tuple[int, ...] | None = None,
        loc: ir.Loc | None = None,
    ) -> Named:
        """Note an object; position and loc where its declaration is not the one that is elaborated."""
        found = Named(kind, name, annotations, value, self.position if position is None else position, loc or self.loc)
        self.named.append(found)
        return found


def annotation(annotations: tuple[ast.Annotation, ...], name: str) -> ast.Annotation | None:
    for found in annotations:
        if found.name == name:
            return found
    return None


def text_of(found: ast.Annotation) -> str:
    """Give the string of @name("text"), or its bare words."""
    return "".join(t[1:-1] if k == "STR" and t.startswith('"') else t for k, t in found.tokens)


def control_plane_name(name: str, annotations: tuple[ast.Annotation, ...], prefix: str | None) -> str:
    """Qualify a name: @name replaces it, a leading dot makes that absolute."""
    found = annotation(annotations, "name")
    if found is not None and found.has_body:
        name = text_of(found)
    if name.startswith("."):
        return name[1:]
    return f"{prefix}.{name}" if prefix else name
