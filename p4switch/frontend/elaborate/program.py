"""A whole program: its global declarations, the V1Switch package, and the assembly of ir.Program."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from p4switch import ir
from p4switch.frontend import ast
from p4switch.frontend import types as ty
from p4switch.frontend.elaborate.calls import applied_tables
from p4switch.frontend.elaborate.notes import MAX_NUMBER, field_ids, notes
from p4switch.frontend.elaborate.objects import (
    GLOBAL,
    IN_BLOCK,
    NOT_IDENTIFIED,
    Named,
    Objects,
    annotation,
    control_plane_name,
    text_of,
)
from p4switch.frontend.elaborate.parsers import Parsers
from p4switch.frontend.elaborate.scope import Block, Frame, Scope
from p4switch.frontend.elaborate.values import (
    ActionVal,
    BlockVal,
    ExternVal,
    FunctionSet,
    Operand,
    TypeVal,
    UnknownVal,
    Value,
)
from p4switch.frontend.errors import ErrorList, Failure
from p4switch.frontend.identity import identify
from p4switch.frontend.lexer import parse_int
from p4switch.frontend.parser.expressions import unquote
from p4switch.ir import Loc

# V1Switch's parameters, in order: name of the IR block and roots of its parameters.
_BLOCKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("parser", ("packet", "hdr", "meta", "standard_metadata")),
    ("verify", ("hdr", "meta")),
    ("ingress", ("hdr", "meta", "standard_metadata")),
    ("egress", ("hdr", "meta", "standard_metadata")),
    ("compute", ("hdr", "meta")),
    ("deparser", ("packet", "hdr")),
)
_PACKAGE_FIELDS = ("name", "version", "organization", "contact", "url", "arch")
_PLATFORM_FIELDS = (
    "multicast_group_table_size",
    "multicast_group_table_total_replicas",
    "multicast_group_table_max_replicas_per_entry",
)
_OF_PACKAGES = ("pkginfo", "platform_property")  # annotations that P4Info has fields for
# Objects for which p4c writes type_info, even if it stays empty.
_WITH_TYPES = ("table", "controller_header")


class Elaborator(Parsers):
    """Elaborates one program."""

    def __init__(self, errors: ErrorList, control_plane_only: bool = False) -> None:
        super().__init__(errors, control_plane_only)
        self.own_field_lists = {}
        self.digest_names = {}
        self.direct_meter_targets = {}
        self.owners = {}
        self.source = ""
        self.main: BlockVal | None = None
        self.blocks: dict[str, ir.ParserBlock | ir.ControlBlock] = {}
        self.roots: dict[str, Value] = {}
        self.root_structs: dict[str, ty.Struct] = {}

    def run(self, program: ast.Program, source: str, files: tuple[str, ...]) -> ir.Program | None:
        """Elaborate; None when there are errors, which are in `errors` then."""
        self.source = source
        self.reserve_names(program)
        for i, decl in enumerate(program.declarations):
            self.objects.position, self.objects.loc = (GLOBAL, i), decl.loc
            with self.collecting():
                self.global_decl(decl)
        with self.collecting():
            self.elaborate_main()
        self.check_unused(program)
        if self.main is None and self.control_plane_only and "main" not in self.globals.names:
            return None if self.errors.diagnostics else library(source, files, self.errors_by_index())
        if self.main is None:
            with self.collecting():
                self.missing_main(program)
        if self.errors.diagnostics:
            return None
        with self.collecting():
            return self.assemble(program, source, files)
        return None

    def reserve_names(self, program: ast.Program) -> None:
        """Keep locals from being called like action parameters, which are variables of their actions' bodies."""
        for decl in program.declarations:
            members = decl.locals if isinstance(decl, ast.ControlDecl) else (decl,)
            for member in members:
                if isinstance(member, ast.ActionDecl):
                    for param in member.params:
                        if not param.direction:
                            self.names.reserve(param.name)

    # ------------------------------------------------------------------------------------------- global declarations

    def declare(self, name: str, value: object, loc: Loc) -> None:
        assert isinstance(value, Operand)
        known = self.scope.names.get(name)
        if known is not None:
            self.fail(loc, f"'{name}' is declared twice", "give one of them another name")
        self.scope.names[name] = value

    def global_decl(self, decl: ast.Decl) -> None:
        try:
            self.global_object(decl)
        except Failure:
            self.globals.names.setdefault(decl.name, TypeVal(ty.UNKNOWN) if names_type(decl) else UnknownVal())
            raise

    def global_object(self, decl: ast.Decl) -> None:
        if isinstance(decl, ast.StructDecl):
            self.declare_struct(decl)
        elif isinstance(decl, ast.EnumDecl):
            self.declare_enum(decl)
        elif isinstance(decl, ast.TypedefDecl):
            self.typedef(decl)
        elif isinstance(decl, ast.ErrorDecl):
            self.declare_errors(decl)
        elif isinstance(decl, ast.MatchKindDecl):
            for member in decl.members:
                if member.name in self.match_kinds:
                    self.errors.error(member.loc, f"match kind '{member.name}' is declared twice")
                self.match_kinds[member.name] = member.loc
        elif isinstance(decl, ast.ConstDecl):
            self.const_decl(decl)
        elif isinstance(decl, ast.FunctionDecl):
            self.declare_function(decl)
        elif isinstance(decl, ast.ActionDecl):
            self.check_params(decl.params)
            self.declare(decl.name, ActionVal(decl, self.globals, None), decl.loc)
        elif isinstance(decl, ast.ExternDecl | ast.ParserDecl | ast.ControlDecl | ast.PackageDecl):
            self.declare_open(decl)
        elif isinstance(decl, ast.Instantiation):
            operand = self.instantiation(decl)
            if isinstance(operand, BlockVal) and not isinstance(operand.decl, ast.PackageDecl):
                word = "parser" if isinstance(operand.decl, ast.ParserDecl) else "control"
                hint = f"instantiate it inside a {word}, or as an argument of V1Switch"
                self.fail(decl.loc, f"{word} '{decl.name}' is instantiated outside of all {word}s", hint)
            self.declare(decl.name, operand, decl.loc)
            if decl.name == "main":
                self.check_main(operand, decl)
        else:
            self.fail(decl.loc, f"'{decl.name}' cannot be declared here")

    def declare_open(self, decl: ast.ExternDecl | ast.ParserDecl | ast.ControlDecl | ast.PackageDecl) -> None:
        known = self.globals.names.get(decl.name)
        ahead = isinstance(known, TypeVal) and isinstance(known.decl, ast.ExternDecl) and not known.decl.methods
        if ahead and isinstance(decl, ast.ExternDecl):
            del self.globals.names[decl.name]
        if not decl.type_params:
            self.declare(decl.name, TypeVal(self.specialize(decl, (), decl.loc), decl), decl.loc)
        else:
            self.declare(decl.name, TypeVal(ty.Special(decl.name), decl), decl.loc)

    def declare_function(self, decl: ast.FunctionDecl) -> None:
        known = self.globals.names.get(decl.name)
        if not isinstance(known, FunctionSet):
            self.declare(decl.name, FunctionSet(decl.name, [decl]), decl.loc)
            return
        for other in known.decls:
            if [p.name for p in other.params] == [p.name for p in decl.params]:
                self.fail(decl.loc, f"function '{decl.name}' is declared twice with the same parameters")
        known.decls.append(decl)

    # ------------------------------------------------------------------------------------------------- the package

    def check_main(self, operand: Operand, decl: ast.Instantiation) -> None:
        if not isinstance(operand, BlockVal) or not isinstance(operand.decl, ast.PackageDecl):
            if isinstance(operand, UnknownVal):
                return
            self.fail(decl.loc, "'main' must be a package", "write V1Switch(...) main;")
        if operand.decl.name != "V1Switch":
            hint = "p4switch runs v1model programs: write V1Switch(...) main;"
            self.fail(decl.type.loc, f"package {operand.decl.name} is not supported", hint)
        self.main = operand

    def missing_main(self, program: ast.Program) -> None:
        known = self.globals.names.get("main")
        if known is not None and not isinstance(known, BlockVal | UnknownVal):
            loc = next(d.loc for d in program.declarations if d.name == "main")
            self.fail(loc, f"'main' is {known.what}, it must be a package", "write V1Switch(...) main;")
        if known is None:
            last = program.declarations[-1].loc if program.declarations else Loc(self.source, 1, 1)
            self.fail(last, "the program has no 'main'", "end it with V1Switch(...) main;")

    def elaborate_main(self) -> None:
        if self.main is None:
            return
        assert isinstance(self.main.decl, ast.PackageDecl)
        if len(self.main.decl.params) != len(_BLOCKS):
            self.fail(self.main.decl.loc, f"this V1Switch has {len(self.main.decl.params)} blocks, not {len(_BLOCKS)}")
        for param in self.main.decl.params:
            value = self.main.args.get(param.name)
            if not isinstance(value, BlockVal | UnknownVal):
                what = value.what if value is not None else "nothing"
                self.fail(
                    self.main.loc, f"argument '{param.name}' of V1Switch must be a parser or control, found {what}"
                )
        for i, ((kind, roots), param) in enumerate(zip(_BLOCKS, self.main.decl.params, strict=True)):
            value = self.main.args[param.name]
            if isinstance(value, BlockVal):
                value.position = (IN_BLOCK, i)
                with self.collecting():
                    self.main_block(kind, roots, value, param)

    def main_block(self, kind: str, roots: tuple[str, ...], block: BlockVal, param: ast.Parameter) -> None:
        """Elaborate one of the six blocks; its parameters stand for the roots that all blocks share."""
        decl = block.decl
        wanted = ast.ParserDecl if kind == "parser" else ast.ControlDecl
        assert isinstance(decl, ast.ParserDecl | ast.ControlDecl)
        article = "a parser" if kind == "parser" else "a control"
        if not isinstance(decl, wanted):
            self.fail(block.loc, f"argument '{param.name}' of V1Switch must be {article}, found '{decl.name}'")
        if len(decl.params) != len(roots):
            self.fail(
                decl.loc,
                f"'{decl.name}' has {len(decl.params)} parameters, {param.name} of V1Switch needs {len(roots)}",
                PARAMS[kind],
            )
        scope = Scope(self.globals)
        callable_type = block.type
        assert isinstance(callable_type, ty.Callable)
        for i, name in enumerate(decl.type_params):
            scope.names[name] = TypeVal(callable_type.args[i] if i < len(callable_type.args) else ty.UNKNOWN)
        params: dict[str, Operand] = {}
        for own, root in zip(decl.params, roots, strict=True):
            params[own.name] = self.root(own, root, kind, scope, decl)
        self.block = Block(kind)
        self.frame = Frame(
            "parser" if kind == "parser" else "control", decl.name, label=self.names.unique(f"{kind}_end")
        )
        block.prefix = decl.name  # whatever its @name: p4c ignores it here
        self.active.append(decl)
        try:
            if isinstance(decl, ast.ParserDecl):
                states = self.main_parser(block, params, scope)
                self.blocks[kind] = ir.ParserBlock(decl.name, tuple(self.block.locals), states)
            else:
                with self.capture() as body:
                    self.inline_control(block, decl, params, scope, decl.loc)
                self.blocks[kind] = ir.ControlBlock(decl.name, tuple(self.block.locals), tuple(body))
        finally:
            self.active.pop()
            self.frame = Frame("constant", "")
            self.block = Block("")

    def root(
        self, param: ast.Parameter, root: str, block: str, scope: Scope, decl: ast.ParserDecl | ast.ControlDecl
    ) -> Operand:
        with self.scoped(scope):
            kind = self.resolve_type(param.type)
        if root == "packet":
            wanted = "packet_in" if block == "parser" else "packet_out"
            if not isinstance(kind, ty.Extern) or kind.decl.name != wanted:
                self.fail(
                    param.loc,
                    f"parameter '{param.name}' of '{decl.name}' must be {wanted}, found {kind}",
                    PARAMS[block],
                )
            return ExternVal(kind, param.name)
        if kind is ty.UNKNOWN:
            return UnknownVal()
        if not isinstance(kind, ty.Struct):
            self.fail(
                param.loc, f"parameter '{param.name}' of '{decl.name}' must be a struct, found {kind}", PARAMS[block]
            )
        if not kind.is_data:
            bad = next(name for name, field in kind.fields.items() if not field.is_data)
            hint = f"field '{bad}' has type {kind.fields[bad]}"
            self.fail(param.loc, f"parameter '{param.name}' of '{decl.name}' has no values at run time", hint)
        known = self.roots.get(root)
        if kind.kind == "header_union":
            self.fail(
                param.loc, f"parameter '{param.name}' of '{decl.name}' must be a struct, found {kind}", PARAMS[block]
            )
        if root == "standard_metadata" and kind.name != "standard_metadata_t":
            self.fail(param.loc, f"parameter '{param.name}' must be standard_metadata_t, found {kind}", PARAMS[block])
        if root == "standard_metadata" and known is None:
            self.check_standard_metadata(kind)
        if known is None:
            known = self.roots[root] = self.new_root(root, kind)
        elif known.type is not kind:
            hint = "all blocks of V1Switch share one type of headers and one of metadata"
            self.fail(
                param.loc,
                f"parameter '{param.name}' of '{decl.name}' has type {kind}, elsewhere it is {known.type}",
                hint,
            )
        writable = param.direction in ("out", "inout")
        return Value(kind, known.expr, writable, "" if writable else f"'{param.name}' is an in parameter")

    def check_standard_metadata(self, kind: ty.Struct) -> None:
        """A program may bring a v1model.p4 of its own; nothing sets what that adds, as on BMv2."""
        fields = kind.decl.fields if kind.decl is not None else ()
        more = [field for field in fields if field.name not in ir.STANDARD_METADATA_FIELDS]
        for count, field in enumerate(more, 1):
            of = kind.fields[field.name]
            if not isinstance(of.ir, ir.Bool) and not (isinstance(of.ir, ir.Bits) and of.ir.width <= 64):
                hint = "put it into metadata of your own"
                self.unsupported(field.loc, f"field '{field.name}' added to standard metadata has type {of}", hint)
            elif count > ir.MORE_STANDARD_METADATA_FIELDS:
                hint = f"{ir.MORE_STANDARD_METADATA_FIELDS} may be added"
                self.unsupported(field.loc, f"field '{field.name}' of standard metadata is one too many", hint)

    def new_root(self, root: str, kind: ty.Struct) -> Value:
        if kind.kind == "struct":
            return Value(kind, ir.Var(kind.ir, root), True)
        # A single header where v1model wants a struct of headers: the root is a struct around it.
        around = ty.Struct(f"{root}_t", "struct", None)
        around.ir_name = self.names.unique(around.name)
        around.fields = {root: kind}
        self.root_structs[root] = around
        return Value(kind, ir.Field(kind.ir, ir.Var(around.ir, root), root), True)

    # ---------------------------------------------------------------------------------------------- unused declarations

    def check_unused(self, program: ast.Program) -> None:
        """Check the bodies that the package does not reach, on stand-ins for their arguments; the result is dropped."""
        kept = self.objects, self.blocks, self.states, self.names
        self.dead = True
        for decl in program.declarations:
            members: tuple[ast.Decl, ...] = (decl,)
            if isinstance(decl, ast.ControlDecl) and id(decl) in self.elaborated:
                members = ()
            for member in members:
                if id(member) not in self.elaborated:
                    self.objects = Objects()
                    with self.collecting():
                        self.trial_run(member)
        self.dead = False
        self.objects, self.blocks, self.states, self.names = kept
        self.block, self.frame, self.out = Block(""), Frame("constant", ""), []

    def trial_run(self, decl: ast.Decl) -> None:
        if isinstance(decl, ast.ParserDecl | ast.ControlDecl):
            body = decl.states if isinstance(decl, ast.ParserDecl) else decl.body
            if body is None:
                return
        elif not isinstance(decl, ast.FunctionDecl | ast.ActionDecl) or decl.body is None:
            return
        scope = Scope(self.globals)
        type_params: tuple[str, ...] = getattr(decl, "type_params", ())
        for name in type_params:
            scope.names[name] = TypeVal(ty.UNKNOWN)
        kind = "parser" if isinstance(decl, ast.ParserDecl) else "ingress"
        self.block = Block(kind)
        self.out = []
        with self.scoped(scope):
            params: dict[str, Operand] = {p.name: self.stand_in(p) for p in decl.params}
            ctor = {p.name: self.stand_in(p) for p in getattr(decl, "ctor_params", ())}
        word = {ast.ParserDecl: "parser", ast.ControlDecl: "control", ast.FunctionDecl: "function"}.get(
            type(decl), "action"
        )
        self.frame = Frame(word, decl.name, label="end")
        self.active.append(decl)
        try:
            if isinstance(decl, ast.ParserDecl | ast.ControlDecl):
                block = BlockVal(ty.Callable(decl, ()), decl, decl.name, decl.name, ctor, decl.loc)
                if isinstance(decl, ast.ParserDecl):
                    self.main_parser(block, params, scope)
                else:
                    self.inline_control(block, decl, params, scope, decl.loc)
            else:
                assert isinstance(decl, ast.FunctionDecl | ast.ActionDecl) and decl.body is not None
                with self.scoped(scope):
                    if isinstance(decl, ast.FunctionDecl) and decl.return_type is not None:
                        self.frame.return_type = self.resolve_type(decl.return_type, allow_void=True)
                    scope.names.update(params)
                    self.statements(decl.body.body)
                    if isinstance(decl, ast.FunctionDecl):
                        self.check_returns(decl, self.frame.return_type)
        finally:
            self.active.pop()
            self.elaborated.add(id(decl))

    def stand_in(self, param: ast.Parameter) -> Operand:
        """Make an operand for a parameter whose argument is not known."""
        kind = self.resolve_type(param.type)
        if isinstance(kind, ty.Extern):
            return ExternVal(kind, param.name)
        if kind is ty.UNKNOWN or not kind.is_data:
            return UnknownVal()
        writable = param.direction in ("out", "inout")
        return Value(
            kind, ir.Var(kind.ir, param.name), writable, "" if writable else f"'{param.name}' is an in parameter"
        )

    # -------------------------------------------------------------------------------------------------- ir.Program

    def assemble(self, program: ast.Program, source: str, files: tuple[str, ...]) -> ir.Program:
        standard = self.globals.find("standard_metadata_t")
        assert isinstance(standard, TypeVal) and isinstance(standard.type, ty.Struct)
        headers, meta = (self.root_structs.get(r, self.roots[r].type) for r in ("hdr", "meta"))
        assert isinstance(headers, ty.Struct) and isinstance(meta, ty.Struct)
        if self.type_info.mentions_errors:
            self.type_info.add(ir.NamedType("error", "error", values=tuple(self.error_members.items())))
        self.drop_unused()
        self.attach_direct_objects()
        self.controller_headers(program)
        self.order_objects()
        identify(self.objects.named)
        by_kind: dict[str, list[Named]] = {}
        for item in self.objects.named:
            by_kind.setdefault(item.kind, []).append(item)

        def values(*kinds: str) -> tuple[Any, ...]:
            return tuple(item.value for kind in kinds for item in by_kind.get(kind, ()))

        main = next(d for d in program.declarations if isinstance(d, ast.Instantiation) and d.name == "main")
        lowered = standard.type.lowered
        assert isinstance(headers.lowered, ir.StructType) and isinstance(meta.lowered, ir.StructType)
        assert isinstance(lowered, ir.StructType)
        return ir.Program(
            source=source,
            headers=headers.lowered,
            meta=meta.lowered,
            standard_metadata=lowered,
            errors=self.errors_by_index(),
            parser=self.blocks["parser"],  # type: ignore[arg-type]
            verify=self.blocks["verify"],  # type: ignore[arg-type]
            ingress=self.blocks["ingress"],  # type: ignore[arg-type]
            egress=self.blocks["egress"],  # type: ignore[arg-type]
            compute=self.blocks["compute"],  # type: ignore[arg-type]
            deparser=self.blocks["deparser"],  # type: ignore[arg-type]
            actions=tuple(a for a in values("action") if isinstance(a, ir.Action)),
            action_infos=action_infos(values("action")),
            tables=values("table"),
            registers=values("register"),
            counters=values("counter", "direct_counter"),
            meters=values("meter", "direct_meter"),
            action_profiles=values("action_profile"),
            digests=values("digest"),
            value_sets=values("value_set"),
            controller_headers=values("controller_header"),
            field_lists=self.field_lists(),
            package=package_info(main),
            platform_properties=platform_properties(main),
            package_notes=notes(main.annotations, _OF_PACKAGES, _OF_PACKAGES),
            named_types=tuple(self.type_info.named.values()),
            has_type_info=self.has_type_info or any(not value.identity.hidden for value in values(*_WITH_TYPES)),
            files=files,
        )

    def attach_direct_objects(self) -> None:
        """Tell direct counters and meters which table owns them, and tables which field a direct meter writes."""
        tables: dict[str, str] = {}
        for item in self.objects.named:
            if isinstance(item.value, ir.Table):
                table = item.value
                for attached in (table.direct_counter, table.direct_meter):
                    if attached is not None:
                        tables[attached] = table.ir_name
                if table.direct_meter is not None:
                    target = self.direct_meter_targets.get(table.direct_meter)
                    item.value = replace(table, meter_target=target)
        for item in self.objects.named:
            if item.kind in ("direct_counter", "direct_meter"):
                assert isinstance(item.value, ir.Counter | ir.Meter)
                item.value = replace(item.value, table=tables.get(item.value.ir_name))
        # A direct object without a table counts nothing and has no place in P4Info.
        unowned = {id(i) for i in self.objects.named if i.kind.startswith("direct_") and i.value.table is None}  # type: ignore[attr-defined]
        self.objects.named = [i for i in self.objects.named if id(i) not in unowned]

    def drop_unused(self) -> None:
        """Drop tables that are never applied, and actions that no other table runs."""
        applied: set[str] = set()
        for block in self.blocks.values():
            if isinstance(block, ir.ControlBlock):
                applied |= applied_tables(block.body)
        before = list(self.objects.named)
        kept: list[Named] = []
        used: set[str] = set()
        for item in self.objects.named:
            if isinstance(item.value, ir.Table):
                if item.value.ir_name not in applied:
                    continue
                used.update(a.action for a in item.value.actions)
            kept.append(item)
        self.objects.named = [i for i in kept if not isinstance(i.value, ir.Action) or i.value.ir_name in used]
        # Types that only dropped ones mention are not described. A table's mentions include those of its actions.
        in_tables = Counter(key for item in before if isinstance(item.value, ir.Table) for key in item.types)
        elsewhere = Counter(self.type_info.log) - in_tables
        mentioned = {key for item in self.objects.named for key in item.types}
        for key in in_tables:
            if key not in mentioned and not elsewhere[key]:
                del self.type_info.named[key]

    def order_objects(self) -> None:
        """Put objects in p4c's order."""
        kept = sorted(self.objects.named, key=lambda i: i.position)
        # Top-level actions come first in the first block whose tables run them, in the order of those tables.
        top = {i.value.ir_name: i for i in kept if isinstance(i.value, ir.Action) and i.value.ir_name in self.top_level}
        for item in list(kept):
            if isinstance(item.value, ir.Table):
                for reference in item.value.actions:
                    action = top.pop(reference.action, None)
                    if action is not None:
                        action.position = (*item.position[:2], -1)
        kept.sort(key=lambda i: i.position)
        self.objects.named = kept

    def controller_headers(self, program: ast.Program) -> None:
        for decl in program.declarations:
            found = annotation(decl.annotations, "controller_header")
            if found is None or not isinstance(decl, ast.StructDecl):
                continue
            value = self.globals.find(decl.name)
            if not isinstance(value, TypeVal) or not isinstance(value.type, ty.Struct):
                continue
            fields = self.controller_fields(value.type, decl)
            header = ir.ControllerHeader(decl.name, NOT_IDENTIFIED, text_of(found), fields)
            name = control_plane_name(decl.name, decl.annotations, None)
            self.objects.add("controller_header", name, decl.annotations, header)

    def controller_fields(self, kind: ty.Struct, decl: ast.StructDecl) -> tuple[ir.ControllerField, ...]:
        own = {f.name: f.annotations for f in decl.fields}
        parts = [(n, t, own.get(n, ())) for n, t in ty.leaves(kind)]
        numbers = field_ids([a for _, _, a in parts])
        return tuple(
            ir.ControllerField(
                control_plane_name(name, annotations, None),
                part.bit_width() or 0,
                number,
                notes(annotations),
                self.type_info.mention(part),
                annotation(annotations, "hidden") is not None,
            )
            for (name, part, annotations), number in zip(parts, numbers, strict=True)
        )

    def field_lists(self) -> dict[int, tuple[ir.Expr, ...]]:
        """Collect the fields of the metadata that carry @field_list, by list number."""
        lists: dict[int, list[ir.Expr]] = {}
        for root in ("meta", "standard_metadata"):
            value = self.roots.get(root)
            if value is not None:
                self.field_lists_in(value, lists)
        return {number: tuple(fields) for number, fields in sorted(lists.items())} | self.own_field_lists

    def field_lists_in(self, value: Value, lists: dict[int, list[ir.Expr]]) -> None:
        kind = value.type
        if not isinstance(kind, ty.Struct) or kind.decl is None:
            return
        for i, field in enumerate(kind.decl.fields):
            part = self.part(value, field.name, i)
            assert isinstance(part, Value)
            found = annotation(field.annotations, "field_list")
            if found is not None:
                with self.collecting():
                    for number in self.list_numbers(found):
                        fields: list[ir.Expr] = []
                        self.flatten(part, field.loc, fields)
                        lists.setdefault(number, []).extend(fields)
            else:
                self.field_lists_in(part, lists)

    def list_numbers(self, found: ast.Annotation) -> list[int]:
        numbers = []
        for kind, text in found.tokens:
            if kind == "INT":
                numbers.append(parse_int(text, found.loc)[0])
            elif kind == "ID":
                operand = self.globals.find(text)
                if isinstance(operand, Value) and operand.constant is not None:
                    numbers.append(operand.constant)
        return numbers


PARAMS = {
    "parser": "parser P(packet_in packet, out H hdr, inout M meta, inout standard_metadata_t standard_metadata)",
    "verify": "control C(inout H hdr, inout M meta)",
    "ingress": "control C(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata)",
    "egress": "control C(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata)",
    "compute": "control C(inout H hdr, inout M meta)",
    "deparser": "control D(packet_out packet, in H hdr)",
}


def library(source: str, files: tuple[str, ...], errors: tuple[str, ...]) -> ir.Program:
    """Give the program of a file without a package, whose P4Info is empty."""
    nothing = ir.ControlBlock("", (), ())
    start = ir.State("start", (), ir.Transition((), (ir.SelectCase((ir.Keyset("any"),), "accept"),)))
    empty = ir.StructType("empty_t", ())
    return ir.Program(
        source=source,
        headers=empty,
        meta=empty,
        standard_metadata=empty,
        errors=errors,
        parser=ir.ParserBlock("", (), (start,)),
        verify=nothing,
        ingress=nothing,
        egress=nothing,
        compute=nothing,
        deparser=nothing,
        files=files,
    )


def names_type(decl: ast.Decl) -> bool:
    return not isinstance(decl, ast.ConstDecl | ast.FunctionDecl | ast.ActionDecl | ast.Instantiation)


def action_infos(actions: tuple[ir.Action | ir.ActionInfo, ...]) -> tuple[ir.ActionInfo, ...]:
    """Give each action once, however often it was bound or called."""
    found: dict[int, ir.ActionInfo] = {}
    for action in actions:
        if action.identity.id not in found or isinstance(action, ir.Action):
            found[action.identity.id] = ir.ActionInfo(action.identity, action.params)
    return tuple(found.values())


def package_info(main: ast.Instantiation) -> dict[str, str]:
    """Read @pkginfo(name="x", version="1")."""
    info = {"arch": "v1model"}
    for found in main.annotations:
        if found.name != "pkginfo":
            continue
        # @pkginfo[name="x", ...] was parsed; in @pkginfo(name="x", ...) each string follows a name and '='.
        texts = {key: unquote(t) for (_, key), (_, sign), (kind, t) in triples(found) if sign == "=" and kind == "STR"}
        for key, value in found.pairs:
            if not isinstance(value, ast.StringLit):
                raise Failure(value.loc, f"'{key}' in @pkginfo must be a string")
            texts[key] = value.value
        info.update({key: text for key, text in texts.items() if key in _PACKAGE_FIELDS})
    return info


def platform_properties(main: ast.Instantiation) -> dict[str, int]:
    """Read @platform_property(multicast_group_table_size=10)."""
    properties: dict[str, int] = {}
    for found in main.annotations:
        if found.name != "platform_property":
            continue
        numbers = {
            key: parse_int(t, found.loc)[0]
            for (_, key), (_, sign), (kind, t) in triples(found)
            if sign == "=" and kind == "INT"
        }
        for key, value in found.pairs:
            if not isinstance(value, ast.IntLit):
                raise Failure(value.loc, f"'{key}' in @platform_property must be an integer")
            numbers[key] = value.value
        for key, number in numbers.items():
            if key in _PLATFORM_FIELDS:
                if number > MAX_NUMBER:
                    raise Failure(found.loc, f"'{key}' in @platform_property is {number}", f"at most {MAX_NUMBER}")
                properties[key] = number
    return properties


def triples(found: ast.Annotation) -> zip[tuple[tuple[str, str], tuple[str, str], tuple[str, str]]]:
    """Give each three neighbouring tokens of an annotation's body."""
    return zip(found.tokens, found.tokens[1:], found.tokens[2:], strict=False)


def elaborate(
    program: ast.Program, source: str, files: tuple[str, ...], errors: ErrorList, control_plane_only: bool = False
) -> ir.Program | None:
    """Resolve, check and lower a program. control_plane_only: accept externs that p4switch cannot run."""
    return Elaborator(errors, control_plane_only).run(program, source, files)
