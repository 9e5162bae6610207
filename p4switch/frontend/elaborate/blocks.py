"""Instances of parsers, controls and externs: construction, members, and application of controls."""

from __future__ import annotations

from p4switch import ir
from p4switch.frontend import ast
from p4switch.frontend import types as ty
from p4switch.frontend.elaborate.arguments import Passed
from p4switch.frontend.elaborate.objects import NOT_IDENTIFIED, annotation, control_plane_name, text_of
from p4switch.frontend.elaborate.scope import Frame, Scope
from p4switch.frontend.elaborate.tables import MATCH_KINDS, Tables
from p4switch.frontend.elaborate.values import (
    ActionVal,
    BlockVal,
    ExternVal,
    Operand,
    TypeVal,
    UnknownVal,
    Value,
    ValueSetVal,
    VoidVal,
)
from p4switch.frontend.errors import Failure
from p4switch.ir import Loc

_BODY = 1 << 20  # position of what the body of a block makes, behind all members


class Blocks(Tables):
    """Makes instances and inlines the application of controls."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.prefix = ""  # control-plane path of the block whose members are elaborated
        self.applied: tuple[str, ...] = ()
        self._openings: dict[int, list[ir.Stmt]] = {}  # initializations of an instance's locals, by id of the instance

    # ------------------------------------------------------------------------------------------------ construction

    def instantiation(self, node: ast.Instantiation) -> Operand:
        """Make the instance that a declaration asks for."""
        if node.initializer is not None:
            self.fail(
                node.loc, f"instance '{node.name}' implements abstract methods", "v1model has no externs with them"
            )
        kind, decl = self.instance_type(node.type, node.args)
        full_name = control_plane_name(node.name, node.annotations, self.prefix)
        # p4c leaves registers whose type is called by a typedef out of P4Info, or fails.
        written = node.type.name if isinstance(node.type, ast.NamedType) else ""
        shown = not isinstance(kind, ty.Extern) or kind.decl.name != "register" or written == "register"
        return self.instance(kind, decl, node.args, node.name, full_name, node.annotations, node.loc, shown)

    def instance_type(self, ref: ast.TypeRef, args: tuple[ast.Argument, ...]) -> tuple[ty.Type, ast.Decl | None]:
        if isinstance(ref, ast.NamedType) and ref.args is None:
            found = (self.globals if ref.absolute else self.scope).find(ref.name)
            if isinstance(found, TypeVal) and found.decl is not None:
                if isinstance(found.decl, ast.ExternDecl) and found.decl.type_params:
                    return self.infer_extern(found.decl, args, ref.loc), found.decl
                return self.specialize(found.decl, (), ref.loc), found.decl
        kind = self.resolve_type(ref)
        return kind, getattr(kind, "decl", None)

    def infer_extern(self, decl: ast.ExternDecl, args: tuple[ast.Argument, ...], loc: Loc) -> ty.Type:
        """Infer an extern's type arguments from its constructor's arguments; those that no argument tells stay open."""
        bound: dict[str, ty.Type | None] = dict.fromkeys(decl.type_params)
        constructor = self.constructor(decl, args, loc)
        for entry in self.evaluate(self.match(f"constructor of {decl.name}", constructor, args, loc)):
            if entry.value is not None:
                self.infer(entry.param.type, self.type_of(entry.value), bound, entry.loc)
        if decl.name == "register" and bound.get("T") is None:
            self.fail(loc, "register needs the type of its cells", "write register<bit<32>>(...)")
        return self.specialize(decl, tuple(t if t is not None else ty.UNKNOWN for t in bound.values()), loc)

    def constructor(self, decl: ast.ExternDecl, args: tuple[ast.Argument, ...], loc: Loc) -> tuple[ast.Parameter, ...]:
        constructors = [m for m in decl.methods if m.return_type is None]
        if not constructors:
            self.fail(loc, f"extern {decl.name} cannot be instantiated", "it has no constructor")
        fitting = [c for c in constructors if self.accepts(c.params, args)]
        return (fitting or constructors)[0].params

    def construct(self, kind: ty.Type, decl: ast.Decl | None, node: ast.CallExpr) -> Operand:
        """Type(args) where an expression stands: an instance without a name."""
        if isinstance(decl, ast.ExternDecl) and not isinstance(kind, ty.Extern):
            kind = self.infer_extern(decl, node.args, node.loc)
        elif decl is not None and not isinstance(kind, ty.Extern | ty.Callable):
            kind = self.specialize(decl, (), node.loc) if not isinstance(decl, ast.StructDecl) else kind
        if not isinstance(kind, ty.Extern | ty.Callable):
            hint = f"to convert, write ({kind})..." if kind.is_data else ""
            self.fail(node.loc, f"type {kind} cannot be instantiated", hint)
        name, annotations = kind.decl.name, ()
        full_name = f"{self.prefix}.{name}" if self.prefix else name
        if self.anonymous_name is not None and isinstance(kind, ty.Extern):
            full_name, given = self.anonymous_name
            return self.instance(
                kind, kind.decl, node.args, name, control_plane_name(full_name, given, None), given, node.loc
            )
        return self.instance(kind, kind.decl, node.args, name, full_name, annotations, node.loc)

    def instance(
        self,
        kind: ty.Type,
        decl: ast.Decl | None,
        args: tuple[ast.Argument, ...],
        name: str,
        full_name: str,
        annotations: tuple[ast.Annotation, ...],
        loc: Loc,
        shown: bool = True,
    ) -> Operand:
        """Make an instance; a register that is not `shown` is kept out of P4Info."""
        if kind is ty.UNKNOWN:
            return UnknownVal()
        if isinstance(kind, ty.Extern):
            params = self.constructor(kind.decl, args, loc)
            if kind.decl.type_params and not kind.args:
                self.fail(loc, f"extern {kind} needs type arguments")
            passed = self.constructor_args(f"constructor of {kind.decl.name}", params, args, kind, loc)
            return self.extern_instance(kind, passed, name, full_name, annotations, loc, shown)
        if not isinstance(kind, ty.Callable) or isinstance(decl, ast.PackageDecl):
            if isinstance(decl, ast.PackageDecl) and isinstance(kind, ty.Callable):
                return self.package_instance(kind, decl, args, name, loc)
            self.fail(loc, f"type {kind} cannot be instantiated", "parsers, controls, externs and packages can")
        assert isinstance(decl, ast.ParserDecl | ast.ControlDecl)
        body = decl.states if isinstance(decl, ast.ParserDecl) else decl.body
        if body is None:
            self.fail(loc, f"'{decl.name}' is only a type and cannot be instantiated", "it has no body")
        passed = self.constructor_args(f"constructor of {decl.name}", decl.ctor_params, args, kind, loc)
        values = {p.param.name: p.value for p in passed if p.value is not None}
        for value in values.values():
            if isinstance(value, BlockVal):  # others apply it, each any number of times
                value.calls = max(value.calls, 2)
        # Inside of what is applied more than once, so is all else.
        calls = max(self.applied.count(name), 2 if self.shared else 1)
        return BlockVal(kind, decl, name, full_name, values, loc, calls=calls, position=self.objects.position)

    def package_instance(
        self, kind: ty.Callable, decl: ast.PackageDecl, args: tuple[ast.Argument, ...], name: str, loc: Loc
    ) -> Operand:
        values: dict[str, Operand] = {}
        for entry in self.evaluate(self.match(f"package {decl.name}", decl.params, args, loc)):
            if entry.value is not None:
                values[entry.param.name] = entry.value
        return BlockVal(kind, decl, name, name, values, loc)

    def constructor_args(
        self,
        what: str,
        params: tuple[ast.Parameter, ...],
        args: tuple[ast.Argument, ...],
        kind: ty.Extern | ty.Callable,
        loc: Loc,
    ) -> list[Passed]:
        scope = Scope(self.globals)
        type_params: tuple[str, ...] = kind.decl.type_params
        for i, param in enumerate(type_params):
            scope.names[param] = TypeVal(kind.args[i] if i < len(kind.args) else ty.UNKNOWN)
        passed = self.evaluate(self.match(what, params, args, loc))
        for entry in passed:
            with self.scoped(scope):
                wanted = self.resolve_type(entry.param.type)
            value = entry.value
            if value is None or isinstance(value, ExternVal | BlockVal | UnknownVal):
                self.check_object(entry, wanted)
                continue
            entry.value = self.convert(value, wanted, entry.loc)
            if not self.is_constant(entry.value):
                self.fail(entry.loc, f"argument '{entry.param.name}' of the {what} is not known at compile time")
        return passed

    def check_object(self, entry: Passed, wanted: ty.Type) -> None:
        value = entry.value
        if value is None or isinstance(value, UnknownVal) or wanted is ty.UNKNOWN:
            return
        if isinstance(wanted, ty.Extern) and getattr(value.type, "decl", None) is not wanted.decl:
            self.fail(entry.loc, f"parameter '{entry.param.name}' expects {wanted}, found {value.what}")

    # ----------------------------------------------------------------------------------------------------- members

    def open_block(self, block: BlockVal, params: dict[str, Operand], types: Scope) -> Scope:
        """Elaborate an instance's local declarations; return the scope of its body."""
        decl = block.decl
        assert isinstance(decl, ast.ParserDecl | ast.ControlDecl)
        self.elaborated.add(id(decl))
        scope = Scope(types)
        scope.names.update(block.args)
        scope.names.update(params)
        inner = Scope(scope)
        saved = self.prefix, self.applied
        position = self.objects.position
        self.prefix, self.applied = block.prefix, decl.applied
        try:
            with self.scoped(inner):
                for i, member in enumerate(decl.locals):
                    self.objects.position, self.objects.loc = (*block.position, i + 1), member.loc
                    with self.collecting():
                        self.member_decl(member)
        finally:
            self.prefix, self.applied = saved
            self.objects.position = position
        return inner

    def member_decl(self, node: ast.Decl) -> None:
        if isinstance(node, ast.VarDecl):
            self.var_decl(node)
        elif isinstance(node, ast.ConstDecl):
            self.const_decl(node)
        else:
            try:
                operand = self.member_object(node)
            except Failure:
                self.scope.names.setdefault(node.name, UnknownVal())
                raise
            self.declare_name(node.name, operand, node.loc)

    def member_object(self, node: ast.Decl) -> Operand:
        if isinstance(node, ast.Instantiation):
            return self.instantiation(node)
        if isinstance(node, ast.ActionDecl):
            self.check_params(node.params)
            return ActionVal(node, self.scope, self.prefix, self.objects.position)
        if isinstance(node, ast.TableDecl):
            return self.table_decl(node, self.prefix)
        if isinstance(node, ast.ValueSetDecl):
            return self.value_set(node)
        self.fail(node.loc, f"'{node.name}' cannot be declared here")

    def value_set(self, node: ast.ValueSetDecl) -> Operand:
        element = self.resolve_type(node.type)
        size = self.constant_int(node.size, "a value set's size")
        full_name = control_plane_name(node.name, node.annotations, self.prefix)
        ir_name = self.names.unique(full_name.replace(".", "_"))
        if element is ty.UNKNOWN:
            return UnknownVal()
        parts = [t for _, t in ty.leaves(element)]
        widths = tuple(t.bit_width() or 0 for t in parts)
        if not all(isinstance(ty.underlying(t), ty.Bits) or ty.underlying(t) is ty.BOOL for t in parts):
            self.fail(
                node.type.loc,
                f"value set of {element}",
                "value sets hold bit<W>, int<W>, bool, or tuples and structs of those",
            )
        matches: tuple[ir.MatchKind, ...] = (ir.MatchKind.EXACT,) * len(widths)
        names: tuple[str, ...] = ()
        if isinstance(element, ty.Struct) and element.decl is not None:
            names = tuple(f.name for f in element.decl.fields)
            matches = tuple(self.value_set_match(f) for f in element.decl.fields)
        value = ir.ValueSet(ir_name, NOT_IDENTIFIED, widths, size, matches, names)
        self.objects.add("value_set", full_name, node.annotations, value)
        return ValueSetVal(node.name, ir_name, element)

    def value_set_match(self, field: ast.FieldDecl) -> ir.MatchKind:
        """@match(kind) on a field of a value set's struct; exact without it."""
        found = annotation(field.annotations, "match")
        kind = text_of(found) if found is not None else "exact"
        if kind not in MATCH_KINDS:
            self.fail(field.loc, f"@match({kind})", f"match kinds: {', '.join(MATCH_KINDS)}")
        return MATCH_KINDS[kind]

    # -------------------------------------------------------------------------------------------------- application

    def anonymous_block(self, kind: ty.Callable, node: ast.CallExpr) -> BlockVal:
        """Type.apply(...): an instance for this call alone, named like its type."""
        decl = kind.decl
        prefix = f"{self.prefix}.{decl.name}" if self.prefix else decl.name
        operand = self.instance(kind, decl, (), decl.name, prefix, (), node.loc)
        assert isinstance(operand, BlockVal)
        operand.calls = 1
        # p4c puts the instances of direct applications behind all other members.
        operand.position = (*operand.position[:-1], _BODY - 1, self.anonymous_count)
        self.anonymous_count += 1
        return operand

    anonymous_count = 0

    def apply_block(self, block: BlockVal, node: ast.CallExpr) -> Operand:
        decl = block.decl
        loc = node.loc
        if isinstance(decl, ast.PackageDecl):
            self.fail(loc, f"package '{block.name}' cannot be applied")
        if any(d is decl for d in self.active):
            self.fail(loc, f"'{decl.name}' applies itself", "P4 has no recursion")
        self.count_call(f"'{decl.name}'", loc)
        kind = "parser" if isinstance(decl, ast.ParserDecl) else "control"
        if kind != self.frame.kind:
            where = f"{self.frame.kind} '{self.frame.name}'"
            self.fail(
                loc, f"{kind} '{block.name}' applied inside {where}", f"{kind}s are applied in the body of {kind}s"
            )
        assert isinstance(decl, ast.ParserDecl | ast.ControlDecl)
        passed = self.evaluate(self.match(f"{block.name}.apply()", decl.params, node.args, loc))
        types = self.block_types(block, node, passed)
        names, copies = self.block_params(block, passed, types, loc)
        self.active.append(decl)
        saved = self.frame
        self.frame = Frame(kind, block.name, saved, label=self.names.unique(f"{block.name}_end"))
        self.frame.copy_out = lambda: [ir.Assign(loc, target.expr, copy.expr) for target, copy in copies]
        frame = self.frame
        try:
            if isinstance(decl, ast.ParserDecl):
                self.inline_parser(block, names, types, loc)
            else:
                self.emit(ir.Called(loc, "control", block.prefix or block.name))
                self.inline_control(block, decl, names, types, loc)
        finally:
            self.active.pop()
            self.frame = saved
        assert frame.copy_out is not None
        self.out.extend(frame.copy_out())
        return VoidVal()

    def block_types(self, block: BlockVal, node: ast.CallExpr, passed: list[Passed]) -> Scope:
        """Bind the type parameters of a generic parser or control, from its type or from the call."""
        decl = block.decl
        kind = block.type
        assert isinstance(decl, ast.ParserDecl | ast.ControlDecl) and isinstance(kind, ty.Callable)
        if kind.args:
            scope = Scope(self.globals)
            for name, arg in zip(decl.type_params, kind.args, strict=True):
                scope.names[name] = TypeVal(arg)
            return scope
        return self.type_scope(decl, node.type_args, passed, node.loc, self.globals)

    def block_params(
        self, block: BlockVal, passed: list[Passed], types: Scope, loc: Loc
    ) -> tuple[dict[str, Operand], list[tuple[Value, Value]]]:
        """Bind parameters. An instance that is applied more than once keeps variables of its own for them, since its
        tables' keys and actions, made once, refer to them."""
        names: dict[str, Operand] = {}
        if block.calls == 1 or isinstance(block.decl, ast.ParserDecl):
            return names, self.bind(passed, types, names, True)
        if block.params is None:
            params: dict[str, Operand] = {}
            for entry in passed:
                with self.scoped(types):
                    kind = self.resolve_type(entry.param.type)
                if isinstance(entry.value, ExternVal | BlockVal | UnknownVal) or kind is ty.UNKNOWN:
                    params[entry.param.name] = entry.value or UnknownVal()
                else:
                    params[entry.param.name] = self.local(entry.param.name, kind)
            block.params = params
        copies: list[tuple[Value, Value]] = []
        for entry in passed:
            param, own, value = entry.param, block.params[entry.param.name], entry.value
            if not isinstance(own, Value):
                names[param.name] = own
                continue
            writable = param.direction in ("out", "inout")
            if writable and isinstance(value, Value) and value.type is not own.type:
                self.fail(
                    entry.loc,
                    f"{param.direction} parameter '{param.name}' needs a {own.type} variable, found {value.what}",
                )
            if param.direction != "out" and value is not None:
                self.store(own, self.convert(entry.saved or value, own.type, entry.loc), loc)
            elif ty.contains_header(own.type):
                self.set_invalid(own, loc)
            if writable and isinstance(value, Value):
                copies.append((value, own))
            readonly = "" if writable else f"'{param.name}' is an in parameter: copy it to a variable first"
            names[param.name] = Value(own.type, own.expr, writable, readonly)
        return names, copies

    def inline_control(
        self, block: BlockVal, decl: ast.ControlDecl, names: dict[str, Operand], types: Scope, loc: Loc
    ) -> None:
        """Elaborate a control's members, the first time, and its body, each time."""
        assert decl.body is not None
        with self.capture() as body:
            if block.scope is None:
                shared, self.shared = self.shared, self.shared or block.calls > 1
                with self.capture() as opening:
                    block.scope = self.open_block(block, names, types)
                self.shared = shared
                self._openings[id(block)] = opening
            self.out.extend(self._openings[id(block)])
            saved = self.prefix, self.applied, self.objects.position
            self.prefix, self.applied = block.prefix, decl.applied
            self.objects.position = (*block.position, _BODY)
            try:
                with self.scoped(Scope(block.scope)):
                    self.statements(decl.body.body)
            finally:
                self.prefix, self.applied, self.objects.position = saved
        if self.frame.label_used:
            self.emit(ir.Scope(loc, self.frame.label, tuple(body)))
        else:
            self.out.extend(body)

    def inline_parser(self, block: BlockVal, names: dict[str, Operand], types: Scope, loc: Loc) -> None:
        raise NotImplementedError  # given by Parsers
