"""Type references and type declarations."""

from __future__ import annotations

from p4switch.frontend import ast
from p4switch.frontend import types as ty
from p4switch.frontend.elaborate.base import numeric
from p4switch.frontend.elaborate.expressions import Expressions
from p4switch.frontend.elaborate.scope import Scope
from p4switch.frontend.elaborate.values import TypeVal
from p4switch.frontend.errors import did_you_mean
from p4switch.ir import Loc

_SIMPLE = {
    "bool": ty.BOOL,
    "error": ty.ERROR,
    "string": ty.STRING,
    "match_kind": ty.MATCH_KIND,
    "void": ty.VOID,
    "_": ty.UNKNOWN,
}
MAX_ARRAY = 4096
MAX_LEAVES = 65_536  # of an array, whose elements may be arrays


NO_ERROR = "NoError"  # what parser_error is while nothing has gone wrong


class Types(Expressions):
    """Resolves what is written as a type to a `types.Type`, and declares the types of a program."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.error_members: dict[str, int] = {}
        self.match_kinds: dict[str, Loc] = {}
        self.unions: dict[str, ty.Struct] = {}
        self._specialized: dict[tuple[int, tuple[ty.Type, ...]], ty.Type] = {}
        self._tuples: dict[tuple[ty.Type, ...], ty.Struct] = {}
        self._arrays: dict[tuple[ty.Type, int], ty.Stack] = {}

    # -------------------------------------------------------------------------------------------------- references

    def resolve_type(self, ref: ast.TypeRef, allow_void: bool = False) -> ty.Type:
        if isinstance(ref, ast.BaseType):
            return self.base_type(ref, allow_void)
        if isinstance(ref, ast.NamedType):
            return self.named_type(ref)
        if isinstance(ref, ast.StackTypeRef):
            element = self.resolve_type(ref.element)
            size = self.constant_int(ref.size, "a stack's size")
            if element is ty.UNKNOWN:
                return ty.UNKNOWN
            if not element.is_data:
                self.fail(ref.loc, f"array of {element}", "arrays are of data")
            found = self.array_of(element, size)
            if not 1 <= size <= MAX_ARRAY:
                self.fail(ref.size.loc, f"{found.what} of {size} elements", f"sizes: 1 to {MAX_ARRAY}")
            if ty.count_leaves(found) > MAX_LEAVES:
                message = f"{found.what} {found} has {ty.count_leaves(found)} fields in all"
                self.fail(ref.size.loc, message, f"at most {MAX_LEAVES}")
            return found
        if isinstance(ref, ast.TupleTypeRef):
            return self.tuple_of(tuple(self.resolve_type(a) for a in ref.args))
        assert isinstance(ref, ast.ListTypeRef)
        return ty.ListOf(self.resolve_type(ref.element))

    def base_type(self, ref: ast.BaseType, allow_void: bool) -> ty.Type:
        if ref.kind == "void" and not allow_void:
            self.fail(ref.loc, "void is no type of a value", "only functions return void")
        if ref.kind in _SIMPLE:
            return _SIMPLE[ref.kind]
        if ref.width is None:
            return ty.INT
        width = ref.width if isinstance(ref.width, int) else self.constant_int(ref.width, "a width")
        least = 1 if ref.kind == "int" else 0
        if not least <= width <= ty.MAX_WIDTH:
            self.fail(ref.loc, f"width {width} is not supported", f"widths of {ref.kind}: {least} to {ty.MAX_WIDTH}")
        if ref.kind == "varbit":
            return ty.varbit(width)
        return ty.bits(width, ref.kind == "int")

    def named_type(self, ref: ast.NamedType) -> ty.Type:
        scope = self.globals if ref.absolute else self.scope
        found = scope.find(ref.name)
        if found is None:
            names = {n for n in scope.all_names() if isinstance(scope.find(n), TypeVal)}
            self.fail(ref.loc, f"type '{ref.name}' is not declared", did_you_mean(ref.name, names, "types"))
        if not isinstance(found, TypeVal):
            self.fail(ref.loc, f"'{ref.name}' is {found.what}, not a type")
        decl = found.decl
        if decl is None:
            if ref.args is not None:
                self.fail(ref.loc, f"type {ref.name} takes no type arguments")
            return found.type
        params: tuple[str, ...] = getattr(decl, "type_params", ())
        if ref.args is None:
            if params and isinstance(decl, ast.StructDecl):
                self.fail(ref.loc, f"type {ref.name} needs {len(params)} type arguments: {', '.join(params)}")
            return self.specialize(decl, (), ref.loc)
        if len(ref.args) != len(params):
            self.fail(ref.loc, f"type {ref.name} takes {len(params)} type arguments, {len(ref.args)} given")
        return self.specialize(decl, tuple(self.resolve_type(a) for a in ref.args), ref.loc)

    def specialize(self, decl: ast.Decl, args: tuple[ty.Type, ...], loc: Loc) -> ty.Type:
        """Give the type that a generic declaration makes of type arguments, the same object each time."""
        key = (id(decl), args)
        found = self._specialized.get(key)
        if found is None:
            if isinstance(decl, ast.StructDecl):
                found = self.struct_type(decl, args)
            elif isinstance(decl, ast.ExternDecl):
                found = ty.Extern(decl, args)
            else:
                assert isinstance(decl, ast.ParserDecl | ast.ControlDecl | ast.PackageDecl)
                found = ty.Callable(decl, args)
            self._specialized[key] = found
        return found

    def tuple_of(self, items: tuple[ty.Type, ...]) -> ty.Struct:
        found = self._tuples.get(items)
        if found is None:
            found = ty.Struct(f"tuple<{', '.join(map(str, items))}>", "tuple", None)
            found.ir_name = self.names.unique("tuple")
            found.fields = {f"f{i}": t for i, t in enumerate(items)}
            self._tuples[items] = found
        return found

    def array_of(self, element: ty.Type, size: int) -> ty.Stack:
        found = self._arrays.get((element, size))
        if found is None:
            found = self._arrays[(element, size)] = ty.Stack(element, size)
        return found

    # ------------------------------------------------------------------------------------------------ declarations

    def declare_type(self, name: str, value: TypeVal, loc: Loc) -> None:
        self.declare(name, value, loc)

    def declare(self, name: str, value: object, loc: Loc) -> None:
        raise NotImplementedError  # given by Declarations

    def struct_type(self, decl: ast.StructDecl, args: tuple[ty.Type, ...]) -> ty.Struct:
        """Build a struct, header or header union; fields are checked for what each kind may contain."""
        name = decl.name + (f"<{', '.join(map(str, args))}>" if args else "")
        result = ty.Struct(name, decl.kind, decl)
        result.ir_name = self.names.unique(decl.name)
        result.args = args
        scope = Scope(self.globals)
        for param, arg in zip(decl.type_params, args, strict=True):
            scope.names[param] = TypeVal(arg)
        with self.scoped(scope):
            for field in decl.fields:
                with self.collecting():
                    if field.name in result.fields:
                        self.fail(field.loc, f"field '{field.name}' is declared twice")
                    result.fields[field.name] = ty.UNKNOWN
                    kind = self.resolve_type(field.type)
                    self.check_field(decl, field, kind)
                    result.fields[field.name] = kind
        varbits = [n for n, t in result.fields.items() if isinstance(ty.underlying(t), ty.Varbit)]
        if decl.kind == "header" and len(varbits) > 1:
            second = next(f for f in decl.fields if f.name == varbits[1])
            self.errors.error(
                second.loc, f"{decl.kind} {decl.name} has more than one varbit field", "a header may have one"
            )
        if decl.kind == "header_union":
            self.unions[result.ir_name] = result
        return result

    def check_field(self, decl: ast.StructDecl, field: ast.FieldDecl, kind: ty.Type) -> None:
        if kind is ty.UNKNOWN:
            return
        base = ty.underlying(kind)
        if decl.kind == "header_union":
            if not isinstance(base, ty.Struct) or base.kind != "header":
                self.fail(
                    field.loc, f"field '{field.name}' of a header union has type {kind}", "its fields are headers"
                )
        elif decl.kind == "header":
            if not isinstance(base, ty.Varbit) and not ty.only_bits(base):
                hint = (
                    "fields of headers: bit<W>, int<W>, varbit<W>, bool, serializable enums, structs and arrays of them"
                )
                self.fail(field.loc, f"field '{field.name}' of a header has type {kind}", hint)
        elif not kind.is_data and kind is not ty.INT and kind is not ty.STRING and not isinstance(base, ty.Struct):
            self.fail(field.loc, f"field '{field.name}' of a struct has type {kind}", "fields are data")

    def typedef(self, decl: ast.TypedefDecl) -> None:
        if isinstance(decl.type, ast.StructDecl | ast.EnumDecl):
            inner = decl.type
            if isinstance(inner, ast.StructDecl):
                self.declare_struct(inner)
            else:
                self.declare_enum(inner)
            target = self.named_type(ast.NamedType(inner.loc, inner.name))
        else:
            assert isinstance(decl.type, ast.TypeRef)
            target = self.resolve_type(decl.type)
        if decl.distinct:
            base = ty.underlying(target)
            if not (isinstance(base, ty.Bits | ty.Varbit) or base in (ty.BOOL, ty.UNKNOWN)):
                self.fail(
                    decl.loc,
                    f"type {decl.name} of {target}",
                    "distinct types are made of bit<W>, int<W>, varbit<W> or bool",
                )
            target = ty.NewType(decl.name, target, decl)
        self.declare_type(decl.name, TypeVal(target), decl.loc)

    def declare_struct(self, decl: ast.StructDecl) -> None:
        if decl.type_params:
            self.declare_type(decl.name, TypeVal(ty.Special(decl.name), decl), decl.loc)
        else:
            self.declare_type(decl.name, TypeVal(self.struct_type(decl, ())), decl.loc)

    def declare_enum(self, decl: ast.EnumDecl) -> None:
        seen: set[str] = set()
        for member in decl.members:
            if member.name in seen:
                self.errors.error(member.loc, f"member '{member.name}' of enum {decl.name} is declared twice")
            seen.add(member.name)
        if decl.type is None:
            names = tuple(dict.fromkeys(m.name for m in decl.members))
            self.declare_type(decl.name, TypeVal(ty.Enum(decl.name, names, decl)), decl.loc)
            return
        base = ty.underlying(self.resolve_type(decl.type))
        if not isinstance(base, ty.Bits):
            self.fail(decl.type.loc, f"an enum cannot be represented by {base}", "use bit<W> or int<W>")
        kind = ty.SerEnum(decl.name, base, decl)
        self.declare_type(decl.name, TypeVal(kind), decl.loc)
        for member in decl.members:
            with self.collecting():
                kind.members[member.name] = 0
                assert member.value is not None
                operand = self.expr(member.value)
                value = numeric(self.decay(operand))
                if value is None:
                    self.fail(member.value.loc, f"value of '{member.name}' must be known at compile time")
                low, high = (
                    (-(1 << base.width >> 1), (1 << base.width >> 1) - 1) if base.signed else (0, (1 << base.width) - 1)
                )
                if not low <= value <= high:
                    self.fail(member.value.loc, f"{value} does not fit {base}", f"values: {low} to {high}")
                kind.members[member.name] = value

    def declare_errors(self, decl: ast.ErrorDecl) -> None:
        for member in decl.members:
            if member.name in self.error_members:
                self.errors.error(member.loc, f"error '{member.name}' is declared twice")
            elif member.name == NO_ERROR:
                self.error_members[NO_ERROR] = 0
            else:
                self.error_members[member.name] = len(self.error_members) + (NO_ERROR not in self.error_members)

    def errors_by_index(self) -> tuple[str, ...]:
        """Give the errors in the order of their indices: NoError is 0, wherever core.p4 is included."""
        others = sorted((index, name) for name, index in self.error_members.items() if name != NO_ERROR)
        return (NO_ERROR, *(name for _, name in others))
