"""Types as the front end checks them.

Structural types (bit<8>, tuples, stacks) are interned and nominal ones exist once per declaration and type arguments,
so that two types are equal if and only if they are the same object. `ir` is the type that a value has in the IR:
serializable enums and distinct types become their representation there, header unions and tuples become structs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from p4switch import ir

if TYPE_CHECKING:
    from p4switch.frontend import ast

MAX_WIDTH = 65_536


class Type:
    """Base of all types. str() is how the type is written in P4."""

    name: str = "?"

    def __str__(self) -> str:
        return self.name

    @property
    def ir(self) -> ir.Type:
        raise TypeError(f"{self} has no values at run time")

    @property
    def is_data(self) -> bool:
        """Whether values of the type exist at run time."""
        return False

    def bit_width(self) -> int | None:
        """Width of a value on the wire or in a list of bits; None where that is not fixed."""
        return None


class _Data(Type):
    def __init__(self, name: str, lowered: ir.Type, width: int | None) -> None:
        self.name = name
        self._ir = lowered
        self._width = width

    @property
    def ir(self) -> ir.Type:
        return self._ir

    @property
    def is_data(self) -> bool:
        return True

    def bit_width(self) -> int | None:
        return self._width


class Bits(_Data):
    """bit<W> or int<W>."""

    def __init__(self, width: int, signed: bool) -> None:
        super().__init__(f"{'int' if signed else 'bit'}<{width}>", ir.Bits(width, signed), width)
        self.width = width
        self.signed = signed


class Varbit(_Data):
    def __init__(self, width: int) -> None:
        super().__init__(f"varbit<{width}>", ir.Varbits(width), None)
        self.width = width


class Special(Type):
    """A type without run-time values: int (arbitrary precision), string, void, match_kind, unknown."""

    def __init__(self, name: str) -> None:
        self.name = name


BOOL = _Data("bool", ir.Bool(), 1)
ERROR = _Data("error", ir.ErrorType(), None)
INT = Special("int")
STRING = Special("string")
VOID = Special("void")
MATCH_KIND = Special("match_kind")
UNKNOWN = _Data("unknown type", ir.Bits(1), None)  # of what was reported already; silences errors that only follow
LIST = Special("list")  # of {a, b} whose type is not known yet
INVALID = Special("{#}")
REST = Special("...")

_bits: dict[tuple[int, bool], Bits] = {}
_varbits: dict[int, Varbit] = {}


def bits(width: int, signed: bool = False) -> Bits:
    key = (width, signed)
    found = _bits.get(key)
    if found is None:
        found = _bits[key] = Bits(width, signed)
    return found


def varbit(width: int) -> Varbit:
    found = _varbits.get(width)
    if found is None:
        found = _varbits[width] = Varbit(width)
    return found


class Enum(Type):
    """An enum without representation."""

    def __init__(self, name: str, members: tuple[str, ...], decl: ast.EnumDecl | None = None) -> None:
        self.name = name
        self.members = {m: i for i, m in enumerate(members)}
        self.decl = decl
        self._ir = ir.EnumType(name, members)

    @property
    def ir(self) -> ir.Type:
        return self._ir

    @property
    def is_data(self) -> bool:
        return True


class SerEnum(Type):
    """An enum with representation: distinct from it, but converted to it without a cast."""

    def __init__(self, name: str, base: Bits, decl: ast.EnumDecl) -> None:
        self.name = name
        self.base = base
        self.members: dict[str, int] = {}
        self.decl = decl

    @property
    def ir(self) -> ir.Type:
        return self.base.ir

    @property
    def is_data(self) -> bool:
        return True

    def bit_width(self) -> int | None:
        return self.base.width


class NewType(Type):
    """`type base name`: distinct from its base, converted by casts only."""

    def __init__(self, name: str, base: Type, decl: ast.TypedefDecl) -> None:
        self.name = name
        self.base = base
        self.decl = decl

    @property
    def ir(self) -> ir.Type:
        return self.base.ir

    @property
    def is_data(self) -> bool:
        return self.base.is_data

    def bit_width(self) -> int | None:
        return self.base.bit_width()


class Struct(Type):
    """A struct, header or header_union, or a tuple (fields f0, f1, ...)."""

    def __init__(self, name: str, kind: str, decl: ast.StructDecl | None) -> None:
        self.name = name
        self.kind = kind  # 'struct', 'header', 'header_union', 'tuple'
        self.decl = decl
        self.ir_name = name
        self.fields: dict[str, Type] = {}
        self.args: tuple[Type, ...] = ()  # type arguments of a generic one

    @cached_property
    def lowered(self) -> ir.HeaderType | ir.StructType:
        fields = tuple((n, t.ir) for n, t in self.fields.items())
        return ir.HeaderType(self.ir_name, fields) if self.kind == "header" else ir.StructType(self.ir_name, fields)

    @property
    def ir(self) -> ir.Type:
        return self.lowered

    @property
    def is_data(self) -> bool:
        return all(t.is_data for t in self.fields.values())

    def bit_width(self) -> int | None:
        total = 0
        for field in self.fields.values():
            width = field.bit_width()
            if width is None:
                return None
            total += width
        return total

    def max_width(self) -> int:
        return sum(
            f.width if isinstance(f, Varbit) else f.max_width() if isinstance(f, Struct) else f.bit_width() or 0
            for f in self.fields.values()
        )


class Stack(Type):
    """An array: of headers or header unions, which is a stack, or of other data."""

    def __init__(self, element: Type, size: int) -> None:
        self.name = f"{element}[{size}]"
        self.element = element
        self.size = size

    @property
    def of_headers(self) -> bool:
        """Whether it is a header stack, with next, last, push_front and the like."""
        return isinstance(self.element, Struct) and self.element.kind in ("header", "header_union")

    @property
    def what(self) -> str:
        return "stack" if self.of_headers else "array"

    @cached_property
    def lowered(self) -> ir.StackType:
        return ir.StackType(self.element.ir, self.size)

    @property
    def ir(self) -> ir.Type:
        return self.lowered

    @property
    def is_data(self) -> bool:
        return True

    def bit_width(self) -> int | None:
        width = self.element.bit_width()
        return None if width is None else width * self.size


class ListOf(Type):
    """list<T>: compile-time lists, as extern constructors take them."""

    def __init__(self, element: Type) -> None:
        self.name = f"list<{element}>"
        self.element = element


class Extern(Type):
    """An extern object type with its type arguments."""

    def __init__(self, decl: ast.ExternDecl, args: tuple[Type, ...]) -> None:
        self.name = decl.name + (f"<{', '.join(map(str, args))}>" if args else "")
        self.decl = decl
        self.args = args


class Callable(Type):
    """A parser, control or package type with its type arguments."""

    def __init__(self, decl: ast.ParserDecl | ast.ControlDecl | ast.PackageDecl, args: tuple[Type, ...]) -> None:
        self.name = decl.name + (f"<{', '.join(map(str, args))}>" if args else "")
        self.decl = decl
        self.args = args


class ActionRun(Type):
    """Type of table.apply().action_run."""

    def __init__(self, table: str, actions: list[str]) -> None:
        self.name = f"action_list({table})"
        self.table = table
        self.actions = actions


def leaves(t: Type, prefix: str = "") -> Iterator[tuple[str, Type]]:
    """Give the scalar parts of a type with dotted names, in order."""
    if isinstance(t, Struct):
        for name, field in t.fields.items():
            yield from leaves(field, f"{prefix}.{name}" if prefix else name)
    elif isinstance(t, Stack):
        for i in range(t.size):
            yield from leaves(t.element, f"{prefix}[{i}]")
    else:
        yield prefix, t


def count_leaves(t: Type) -> int:
    """Count the scalar parts of a type."""
    if isinstance(t, Struct):
        return sum(count_leaves(field) for field in t.fields.values())
    return t.size * count_leaves(t.element) if isinstance(t, Stack) else 1


def only_bits(t: Type) -> bool:
    """Whether a type is made of bits alone, so that it has a place inside a header: structs and arrays may be."""
    base = underlying(t)
    if isinstance(base, Stack):
        return only_bits(base.element)
    if isinstance(base, Struct):
        return base.kind == "struct" and all(only_bits(field) for field in base.fields.values())
    return isinstance(base, Bits) or base is BOOL or base is UNKNOWN


def underlying(t: Type) -> Type:
    """Strip distinct types and serializable enums down to their representation."""
    while isinstance(t, NewType | SerEnum):
        t = t.base
    return t


def contains_header(t: Type) -> bool:
    """Whether a value of the type holds validity bits, so that an uninitialized one must be made invalid."""
    if isinstance(t, Stack):
        return contains_header(t.element)
    if isinstance(t, Struct):
        return t.kind in ("header", "header_union") or any(contains_header(f) for f in t.fields.values())
    return False
