"""How P4 types look in C: native integers, word arrays, structs, and the names of all of them."""

from __future__ import annotations

import re

from p4switch import ir

# Words that a P4 name may be and a C member may not: keywords, and what the included headers define as macros.
_KEYWORDS = """auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm
    typeof bool true false linux unix i386 offsetof"""
_RESERVED = frozenset(_KEYWORDS.split())
_PLAIN = re.compile(r"[a-z](?:[a-z0-9_]*[a-z0-9])?")

STANDARD_METADATA = "standard_metadata_t"


def c_name(name: str) -> str:
    """Map a P4 name to a C identifier, injectively.

    What is plain lower case stays; all else gets a trailing underscore, so that neither keywords nor macros are met and
    names that end in an underscore are free for the emitter's own members (valid_, next_).
    """
    if _PLAIN.fullmatch(name) and name not in _RESERVED:
        return name
    return "".join(c if c.isalnum() or c == "_" else f"_x{ord(c):x}_" if c != "." else "_" for c in name) + "_"


def member(owner: ir.Type, name: str) -> str:
    """C name of a field of a struct or header."""
    if isinstance(owner, ir.StructType) and owner.name == STANDARD_METADATA and name not in ir.STANDARD_METADATA_FIELDS:
        more = [field for field, _ in owner.fields if field not in ir.STANDARD_METADATA_FIELDS]
        return f"more[{more.index(name)}]"
    return c_name(name)


def words(width: int) -> int:
    """Count the 64-bit words of a value of `width` bits."""
    return (width + 63) // 64


def native(width: int) -> bool:
    """Tell whether a value of `width` bits is a native C integer (else an array of words)."""
    return width <= 128


def storage_type(width: int) -> str:
    """Name the C type that holds `width` bits in a struct or an array."""
    for size in (8, 16, 32, 64):
        if width <= size:
            return f"uint{size}_t"
    return "p4_u128" if width <= 128 else f"p4_w{words(width)}"


def compute_type(width: int) -> str:
    """Name the native C type in which arithmetic on `width` bits is done: never one that C would promote to int."""
    return "uint32_t" if width <= 32 else "uint64_t" if width <= 64 else "p4_u128"


def compute_width(width: int) -> int:
    """Size in bits of `compute_type(width)`."""
    return 32 if width <= 32 else 64 if width <= 64 else 128


def literal(value: int, width: int) -> str:
    """Write a constant of `width` bits."""
    if width <= 32:
        return f"{value:#x}u" if value > 9 else f"{value}u"
    if width <= 64:
        return f"{value:#x}ull"
    if width <= 128:
        return f"P4_U128({value >> 64:#x}ull, {value & (2**64 - 1):#x}ull)"
    return f"(({storage_type(width)}){{{{{', '.join(word_literals(value, width))}}}}})"


def word_literals(value: int, width: int) -> list[str]:
    """Write a constant as words, least significant first."""
    return [f"{value >> (64 * i) & (2**64 - 1):#x}ull" for i in range(max(words(width), 1))]


def c_string(text: str) -> str:
    """Write a string literal; what is not plain ASCII goes as UTF-8 in octal."""
    plain = [c if 32 <= ord(c) < 127 and c not in '"\\?' else None for c in text]
    pieces = [
        c or "".join(f"\\{b:03o}" for b in raw.encode(errors="replace")) for c, raw in zip(plain, text, strict=True)
    ]
    return f'"{"".join(pieces)}"'


def masked(text: str, width: int) -> str:
    """Clear the bits of a native value above `width`."""
    if width == compute_width(width):
        return text
    return f"({text} & {literal(2**width - 1, width)})"


def bit_width(t: ir.Type) -> int:
    """Width of a scalar as field lists, keys and digests see it; enums and errors count 32 bits, as on BMv2."""
    if isinstance(t, ir.Bits):
        return t.width
    if isinstance(t, ir.Bool):
        return 1
    if isinstance(t, ir.ErrorType | ir.EnumType):
        return 32
    raise TypeError(f"{t} has no fixed width")


def is_scalar(t: ir.Type) -> bool:
    return isinstance(t, ir.Bits | ir.Bool | ir.ErrorType | ir.EnumType)


class Layout:
    """The C types of one program, declared once each in an order in which C accepts them."""

    def __init__(self) -> None:
        self._names: dict[ir.Type, str] = {}
        self._taken: set[str] = set()
        self._declarations: list[str] = []
        self._basic: dict[str, str] = {}  # what the declarations rest on: word-array and varbit types
        self._fallbacks: dict[str, str] = {}

    def c_type(self, t: ir.Type) -> str:
        """Name the C type of a P4 type; the first use declares it."""
        if isinstance(t, ir.Bits):
            if not native(t.width):
                self.wide(t.width)
            return storage_type(t.width)
        if isinstance(t, ir.Bool):
            return "bool"
        if isinstance(t, ir.ErrorType | ir.EnumType):
            return "uint32_t"
        if isinstance(t, ir.Varbits):
            size = (t.max_width + 7) // 8
            self._basic.setdefault(f"varbit{size}", f"P4_DEFINE_VARBIT({size});")
            return f"p4_varbit_{size}"
        if t not in self._names:
            self._names[t] = self._declare(t)
        return self._names[t]

    def wide(self, width: int) -> str:
        """Declare the word-array type of `width` bits and name it."""
        n = words(width)
        self._basic.setdefault(f"wide{n}", f"P4_DEFINE_WIDE({n})")
        return f"p4_w{n}"

    def zero(self, t: ir.Type) -> str:
        """Name a zero, or an invalid header: what an array gives beyond its end."""
        return self._fallback("zero", "static const", t)

    def scratch(self, t: ir.Type) -> str:
        """Name what nobody reads: where writes beyond an array's end go."""
        return self._fallback("scratch", "static", t)

    def declarations(self) -> str:
        """All declarations so far."""
        return "\n".join([*self._basic.values(), "", *self._declarations, *self._fallbacks.values()])

    def _fallback(self, prefix: str, storage: str, t: ir.Type) -> str:
        c_type = self.c_type(t)
        name = f"{prefix}_{c_type.removeprefix('struct ')}"
        self._fallbacks.setdefault(name, f"{storage} {c_type} {name};")
        return name

    def _declare(self, t: ir.Type) -> str:
        if isinstance(t, ir.StructType) and t.name == STANDARD_METADATA:
            return "struct p4_std"
        if isinstance(t, ir.StackType):
            element = self.c_type(t.element)
            name = self._unique(f"stack_{element.removeprefix('struct ')}_{t.size}")
            self._declarations.append(f"struct {name} {{\n    uint32_t next_;\n    {element} at[{t.size}];\n}};\n")
            return f"struct {name}"
        if isinstance(t, ir.HeaderType | ir.StructType):
            kind = "header" if isinstance(t, ir.HeaderType) else "struct"
            members = [f"    {self.c_type(field)} {c_name(name)};\n" for name, field in t.fields]
            if isinstance(t, ir.HeaderType):
                members.append("    bool valid_;\n")
            name = self._unique(f"{kind}_{c_name(t.name)}")
            self._declarations.append(f"struct {name} {{\n{''.join(members)}}};\n")
            return f"struct {name}"
        raise TypeError(f"no C type for {t!r}")

    def _unique(self, name: str) -> str:
        candidate, number = name, 2
        while candidate in self._taken:
            candidate, number = f"{name}_{number}", number + 1
        self._taken.add(candidate)
        return candidate
