"""Types as P4Info describes them."""

from __future__ import annotations

from p4switch import ir
from p4switch.frontend import types as ty
from p4switch.frontend.elaborate.notes import notes
from p4switch.frontend.elaborate.objects import annotation, control_plane_name
from p4switch.frontend.errors import Failure
from p4switch.frontend.lexer import parse_int


class TypeInfo:
    """Collects the named types that control-plane objects mention."""

    def __init__(self) -> None:
        self.named: dict[tuple[str, str], ir.NamedType] = {}
        self.log: list[tuple[str, str]] = []  # every mention of a named type, in order
        self.mentions_errors = False

    def spec(self, kind: ty.Type) -> ir.TypeSpec:
        """Describe a type, and every named type inside it."""
        if isinstance(kind, ty.Bits):
            return ir.TypeSpec("int" if kind.signed else "bit", kind.width)
        if isinstance(kind, ty.Varbit):
            return ir.TypeSpec("varbit", kind.width)
        if kind is ty.BOOL:
            return ir.TypeSpec("bool")
        if kind is ty.ERROR:
            self.mentions_errors = True
            return ir.TypeSpec("error")
        if isinstance(kind, ty.Stack):
            element = self.spec(kind.element)
            if not kind.of_headers:  # P4Info has no arrays of other data
                return ir.TypeSpec("tuple", members=(element,) * kind.size)
            return ir.TypeSpec(f"{element.kind}_stack", kind.size, element.name)
        if isinstance(kind, ty.Struct) and kind.kind == "tuple":
            return ir.TypeSpec("tuple", members=tuple(self.spec(t) for t in kind.fields.values()))
        if isinstance(kind, ty.Struct):
            return self.struct(kind)
        if isinstance(kind, ty.NewType):
            return self.new_type(kind)
        if isinstance(kind, ty.Enum):
            name = control_plane_name(kind.name, kind.decl.annotations if kind.decl else (), None)
            self.add(ir.NamedType("enum", name, values=tuple((m, i) for m, i in kind.members.items())))
            return ir.TypeSpec("enum", name=name)
        if not isinstance(kind, ty.SerEnum):
            return ir.TypeSpec("bit")  # of an erroneous type, reported where it is declared
        name = control_plane_name(kind.name, kind.decl.annotations, None)
        self.add(ir.NamedType("serializable_enum", name, values=tuple(kind.members.items()), width=kind.base.width))
        return ir.TypeSpec("serializable_enum", name=name)

    def add(self, named: ir.NamedType) -> None:
        key = (named.kind, named.name)
        self.named.setdefault(key, named)
        self.log.append(key)

    def struct(self, kind: ty.Struct) -> ir.TypeSpec:
        name = control_plane_name(kind.name, kind.decl.annotations if kind.decl else (), None)
        if kind.kind == "header":
            # P4Info's headers are flat, and their fields are strings of bits.
            members = tuple((n, self.spec(_bitstring(t))) for n, t in ty.leaves(kind))
        else:
            members = tuple((n, self.spec(t)) for n, t in kind.fields.items())
        self.add(ir.NamedType(kind.kind, name, members))
        return ir.TypeSpec(kind.kind, name=name)

    def new_type(self, kind: ty.NewType) -> ir.TypeSpec:
        name = control_plane_name(kind.name, kind.decl.annotations, None)
        annotations = kind.decl.annotations
        base: ty.Type = kind
        while isinstance(base, ty.NewType):
            base = base.base
        original = self.spec(base)
        found = annotation(annotations, "p4runtime_translation")
        described = notes(annotations, ("p4runtime_translation",))
        if found is None:
            self.add(ir.NamedType("new_type", name, original=original, notes=described))
        else:
            if not isinstance(base, ty.Bits):
                raise Failure(found.loc, f"@p4runtime_translation on a type of {base}", "translated types are bit<W>")
            uri, width = translation(kind)
            named = ir.NamedType(
                "new_type", name, width=width, original=original, translated=True, uri=uri, notes=described
            )
            self.add(named)
        return ir.TypeSpec("new_type", name=name)

    def mention(self, kind: ty.Type) -> str:
        """Describe the type of a key or parameter; give its name if it is a distinct type."""
        if kind is ty.ERROR or isinstance(kind, ty.NewType | ty.SerEnum | ty.Enum):
            spec = self.spec(kind)
            return spec.name if isinstance(kind, ty.NewType | ty.Enum) else ""
        return ""


def translation(kind: ty.NewType) -> tuple[str, int]:
    """Read @p4runtime_translation("uri", bit<W> or W or string): the uri and W, 0 for string."""
    found = annotation(kind.decl.annotations, "p4runtime_translation")
    assert found is not None
    tokens = found.tokens
    if len(tokens) < 3 or tokens[0][0] != "STR" or tokens[1][0] != ",":
        raise Failure(
            found.loc,
            "@p4runtime_translation is malformed",
            'write @p4runtime_translation("uri", bit<32>) or ("uri", string)',
        )
    uri = tokens[0][1][1:-1]
    if tokens[2][1] == "string":
        return uri, 0
    for token, text in tokens[2:]:
        if token == "INT":
            width = parse_int(text, found.loc)[0]
            if not 0 < width <= ty.MAX_WIDTH:
                raise Failure(found.loc, f"@p4runtime_translation to {width} bits", f"1 to {ty.MAX_WIDTH} are possible")
            return uri, width
    raise Failure(
        found.loc,
        "@p4runtime_translation is malformed",
        'write @p4runtime_translation("uri", bit<32>) or ("uri", string)',
    )


def _bitstring(kind: ty.Type) -> ty.Type:
    base = ty.underlying(kind)
    return ty.bits(1) if base is ty.BOOL else base
