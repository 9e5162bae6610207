"""Tables and the actions that they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from p4switch import ir
from p4switch.frontend import ast
from p4switch.frontend import types as ty
from p4switch.frontend.elaborate.arguments import Passed
from p4switch.frontend.elaborate.base import numeric
from p4switch.frontend.elaborate.calls import exits
from p4switch.frontend.elaborate.key_names import KeyNames
from p4switch.frontend.elaborate.notes import field_ids, notes
from p4switch.frontend.elaborate.objects import NOT_IDENTIFIED, annotation, control_plane_name, text_of
from p4switch.frontend.elaborate.scope import Block, Frame, Scope
from p4switch.frontend.elaborate.typeinfo import TypeInfo
from p4switch.frontend.elaborate.values import ActionVal, ExternVal, Operand, TableVal, UnknownVal, Value
from p4switch.frontend.errors import Diagnostic, Failure, did_you_mean

PROPERTIES = (
    "key",
    "actions",
    "default_action",
    "size",
    "entries",
    "counters",
    "meters",
    "implementation",
    "support_timeout",
    "largest_priority_first",
    "largest_priority_wins",  # what p4c 1.2.4 calls it
    "priority_delta",
)
DEFAULT_SIZE = 1024
MATCH_KINDS = {k.value: k for k in ir.MatchKind}


class Tables(KeyNames):
    """Makes ir.Table and ir.Action objects."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self._actions: dict[tuple[int, int], str] = {}
        self._called: set[tuple[int, int]] = set()
        self.exiting: set[str] = set()  # IR names of actions that may exit
        self.type_info = TypeInfo()
        self.top_level: set[str] = set()  # IR names of actions that are declared outside of controls

    # ------------------------------------------------------------------------------------------------------ actions

    def table_action(self, action: ActionVal, bound: list[Passed], binding: Sequence[ir.Stmt] = ()) -> str:
        """Make the ir.Action that a table runs: one per action, or per binding of directional parameters.

        binding: the side effects of the bound arguments, which each run of the action has, and begins with."""
        directional = any(p.direction for p in action.decl.params)
        key = (id(action.decl), id(action.scope))
        if not directional and key in self._actions:
            return self._actions[key]
        full_name = control_plane_name(action.decl.name, action.decl.annotations, action.prefix)
        ir_name = self.names.unique(full_name.replace(".", "_"))
        self._actions[key] = ir_name
        mark = len(self.type_info.log)
        value = self.action_body(action, bound, ir_name)
        value = replace(value, body=(*binding, *value.body))
        if exits(value.body):
            self.exiting.add(ir_name)
        position = action.position
        if action.prefix is None:
            self.top_level.add(ir_name)
        found = self.objects.add("action", full_name, action.decl.annotations, value, position, action.decl.loc)
        found.types = tuple(self.type_info.log[mark:])
        return ir_name

    def mention_action(self, action: ActionVal) -> None:
        """Note an action that a control calls: P4Info lists it, without parameters, though no table runs it."""
        key = (id(action.decl), id(action.scope))
        if self.dead or self.frame.kind != "control" or key in self._actions or key in self._called:
            return
        self._called.add(key)
        full_name = control_plane_name(action.decl.name, action.decl.annotations, action.prefix)
        position = action.position if action.prefix is not None else (*self.objects.position[:2], -1)
        value = ir.ActionInfo(NOT_IDENTIFIED, ())
        self.objects.add("action", full_name, action.decl.annotations, value, position, action.decl.loc)

    def param_type(self, param: ast.Parameter, scope: Scope) -> ty.Type:
        with self.scoped(scope):
            return self.resolve_type(param.type)

    def action_body(self, action: ActionVal, bound: list[Passed], ir_name: str) -> ir.Action:
        decl = action.decl
        self.elaborated.add(id(decl))
        saved_block, saved_frame = self.block, self.frame
        block = Block(saved_block.kind)
        self.block = block
        # An exit in the action ends the controls around the table, too: their copies are written back before it; where
        # they depend on the place of application, there (ApplyTable.on_exit).
        parent = None if self.shared else saved_frame
        frame = self.frame = Frame("action", decl.name, parent, label=self.names.unique(f"{ir_name}_end"))
        scope = Scope(action.scope)
        params: list[ir.Param] = []
        try:
            with self.capture() as body:
                copies = self.bind([b for b in bound if b.param.direction], action.scope, scope.names, False)
                frame.copy_out = lambda: [ir.Assign(decl.loc, target.expr, copy.expr) for target, copy in copies]
                data = [p for p in decl.params if not p.direction]
                for param, number in zip(data, field_ids([p.annotations for p in data]), strict=True):
                    with self.collecting():
                        params.append(self.action_param(param, number, scope, action.scope))
                self.run_body(decl, frame, scope, decl.loc)
                assert frame.copy_out is not None
                self.out.extend(frame.copy_out())
        finally:
            self.block, self.frame = saved_block, saved_frame
        owner = saved_block.kind if action.prefix is not None or bound else ""
        return ir.Action(ir_name, NOT_IDENTIFIED, tuple(params), tuple(body), owner, tuple(block.locals))

    def action_param(self, param: ast.Parameter, number: int, scope: Scope, outer: Scope) -> ir.Param:
        scope.names[param.name] = UnknownVal()
        kind = self.param_type(param, outer)
        readonly = f"'{param.name}' is action data: copy it to a variable first"
        base = ty.underlying(kind)
        lowered = ir.Bits(1) if base is ty.BOOL else kind.ir
        if isinstance(base, ty.Enum):
            lowered = ir.Bits(32)
        if isinstance(lowered, ir.Bits) and not isinstance(base, ty.Enum):
            variable: ir.Expr = ir.Var(lowered, param.name)
            if base is ty.BOOL:
                variable = ir.Cast(base.ir, variable)
            scope.names[param.name] = Value(kind, variable, False, readonly)
        elif kind is not ty.UNKNOWN:
            hint = "action data is bit<W>, int<W>, bool or a serializable enum"
            self.fail(param.loc, f"action parameter '{param.name}' of type {kind} cannot come from a table", hint)
        assert isinstance(lowered, ir.Bits)
        name = control_plane_name(param.name, param.annotations, None)
        return ir.Param(name, param.name, lowered, number, notes(param.annotations), self.type_info.mention(kind))

    def action_ref(self, ref: ast.ActionRef) -> tuple[ActionVal, list[Passed]]:
        """Resolve one element of a table's action list; directional parameters are bound here."""
        scope = self.globals if ref.absolute else self.scope
        found = scope.find(ref.name)
        if not isinstance(found, ActionVal):
            names = {n for n in scope.all_names() if isinstance(scope.find(n), ActionVal)}
            what = f"'{ref.name}' is {found.what}, not an action" if found else f"action '{ref.name}' is not declared"
            self.fail(ref.loc, what, did_you_mean(ref.name, names, "actions"))
        directional = tuple(p for p in found.decl.params if p.direction)
        if ref.args is None or (not ref.args and directional):
            if directional:
                hint = "bind it in the list of actions: " + ref.name + "(...)"
                self.fail(ref.loc, f"no argument for parameter '{directional[0].name}' of {found.what}", hint)
            return found, []
        return found, self.evaluate(self.match(found.what, directional, ref.args, ref.loc))

    # ------------------------------------------------------------------------------------------------------- tables

    def table_decl(self, node: ast.TableDecl, prefix: str) -> TableVal:
        full_name = control_plane_name(node.name, node.annotations, prefix)
        table = TableVal(node, self.names.unique(full_name.replace(".", "_")))
        mark = len(self.type_info.log)
        keys: list[ir.Key] = []
        key_types: list[ty.Type] = []
        for element in node.keys:
            with self.collecting():
                kind = self.key(table, element, keys)
                key_types.append(kind)
        numbers = field_ids([k.annotations for k in node.keys])
        if len(keys) == len(node.keys):
            keys = [replace(k, id=n) for k, n in zip(keys, numbers, strict=True)]
        actions: list[ir.TableAction] = []
        refs: dict[str, ActionVal] = {}
        if not node.has_actions:
            self.errors.error(node.loc, f"table '{node.name}' has no actions", "add actions = { ... }")
        for ref in node.actions:
            with self.collecting():
                with self.capture() as binding:
                    action, bound = self.action_ref(ref)
                if ref.name in refs:
                    self.fail(ref.loc, f"action '{ref.name}' is listed twice in table '{node.name}'")
                refs[ref.name] = action
                name = self.table_action(action, bound, binding)
                table.action_names.append(ref.name)
                actions.append(
                    ir.TableAction(
                        name,
                        annotation(ref.annotations, "tableonly") is not None,
                        annotation(ref.annotations, "defaultonly") is not None,
                        notes(ref.annotations),
                    )
                )
        table.exits_elsewhere = self.shared and any(a.action in self.exiting for a in actions)
        properties = self.properties(node)
        default, default_args, const_default = self.default_action(node, properties, refs, table, actions)
        table.run_type = ty.ActionRun(node.name, table.action_names)
        size = DEFAULT_SIZE
        if "size" in properties:
            with self.collecting():
                size = self.constant_int(properties["size"].value, "a table's size")
                if not 0 <= size < 1 << 32:
                    self.fail(properties["size"].loc, f"size of table '{node.name}' is {size}")
        entries: tuple[ir.ConstEntry, ...] = ()
        if node.entries is not None and len(key_types) == len(node.keys):
            entries = self.table_entries(node, keys, key_types, refs, table.action_names, actions, properties)
        value = ir.Table(
            table.ir_name,
            NOT_IDENTIFIED,
            self.block.kind,
            tuple(keys),
            tuple(actions),
            default,
            default_args,
            const_default,
            size or DEFAULT_SIZE,
            entries,
            node.entries_const,
            direct_counter=self.attached(properties, "counters", "direct_counter", full_name),
            direct_meter=self.attached(properties, "meters", "direct_meter", full_name),
            implementation=self.implementation(properties, full_name),
            support_timeout=self.flag(properties, "support_timeout", False),
        )
        found = self.objects.add("table", full_name, node.annotations, value)
        found.types = tuple(self.type_info.log[mark:])
        return table

    def key(self, table: TableVal, element: ast.KeyElement, keys: list[ir.Key]) -> ty.Type:
        with self.capture() as statements:
            operand = self.expr(element.expr)
        kind = operand.type
        if element.match_kind not in self.match_kinds:
            hint = did_you_mean(element.match_kind, MATCH_KINDS, "match kinds")
            self.fail(element.loc, f"match kind '{element.match_kind}' is not declared", hint)
        if element.match_kind not in MATCH_KINDS:
            self.fail(
                element.loc,
                f"match kind '{element.match_kind}' is not supported",
                f"match kinds: {', '.join(MATCH_KINDS)}",
            )
        match = MATCH_KINDS[element.match_kind]
        if kind is ty.UNKNOWN:
            return kind
        base = ty.underlying(kind)
        if isinstance(base, ty.Enum) or base is ty.ERROR:
            width = 32
        elif isinstance(base, ty.Bits) or base is ty.BOOL:
            width = base.bit_width() or 0
        else:
            hint = "give it a width" if kind is ty.INT else "keys are bit<W>, int<W>, bool, enums and errors"
            self.fail(element.expr.loc, f"key of type {kind}", hint)
        expr = self.materialize(operand, element.loc)
        if statements:
            copy = self.temp(kind)
            table.key_statements.extend([*statements, ir.Assign(element.loc, copy.expr, expr)])
            expr = copy.expr
        found = annotation(element.annotations, "name")
        name = text_of(found) if found is not None else self.key_name(element.expr)
        keys.append(ir.Key(expr, match, name, 0, width, notes(element.annotations), self.type_info.mention(kind)))
        return kind

    def properties(self, node: ast.TableDecl) -> dict[str, ast.Property]:
        found: dict[str, ast.Property] = {}
        for item in node.properties:
            if item.name not in PROPERTIES:
                # Other targets have properties of their own; what looks like a misspelt one of ours is an error.
                hint = did_you_mean(item.name, PROPERTIES, "properties")
                message = f"table property '{item.name}' is not known"
                if hint.startswith("did you mean"):
                    self.errors.error(item.loc, message, hint)
                else:
                    self.errors.warnings.append(Diagnostic(item.loc, message + " and has no effect", hint))
            elif item.name in found:
                self.errors.error(item.loc, f"property '{item.name}' of table '{node.name}' is given twice")
            found[item.name] = item
        return found

    def default_action(
        self,
        node: ast.TableDecl,
        properties: dict[str, ast.Property],
        refs: dict[str, ActionVal],
        table: TableVal,
        actions: list[ir.TableAction],
    ) -> tuple[str, tuple[int, ...], bool]:
        given = properties.get("default_action")
        if given is None:
            if "NoAction" not in refs:
                no_action = self.globals.find("NoAction")
                if not isinstance(no_action, ActionVal):
                    self.errors.error(
                        node.loc, f"table '{node.name}' has no default action", "include core.p4 or give default_action"
                    )
                    return "", (), False
                refs["NoAction"] = no_action
                name = self.table_action(no_action, [])
                table.action_names.append("NoAction")
                actions.append(ir.TableAction(name, False, True, ir.Notes(("@defaultonly",))))
            return actions[table.action_names.index("NoAction")].action, (), False
        try:
            name, args = self.action_expression(given.value, refs, node.name)
            if name not in table.action_names:
                return "", (), given.is_const  # the action itself is in error
            if actions[table.action_names.index(name)].table_only:
                self.fail(given.loc, f"action '{name}' is @tableonly and cannot be the default action")
            return actions[table.action_names.index(name)].action, args, given.is_const
        except Failure as failure:
            self.errors.add(failure.diagnostic)
            return "", (), given.is_const

    # ------------------------------------------------------------------------------------------------ attached objects

    def attached(self, properties: dict[str, ast.Property], name: str, extern: str, table: str) -> str | None:
        """Give the IR name of a direct counter or meter, making it where the property constructs it in place."""
        given = properties.get(name)
        if given is None:
            return None
        with self.collecting():
            operand = self.property_object(given, table)
            if isinstance(operand, UnknownVal):
                return None
            if (
                isinstance(operand, ExternVal)
                and isinstance(operand.type, ty.Extern)
                and operand.type.decl.name == extern
            ):
                if operand.ir_name in self.owners and self.owners[operand.ir_name] != table:
                    hint = "make one for each table"
                    self.fail(
                        given.loc,
                        f"{extern} '{operand.name}' belongs to table '{self.owners[operand.ir_name]}' already",
                        hint,
                    )
                self.owners[operand.ir_name] = table
                return operand.ir_name
            self.fail(given.loc, f"property '{name}' needs a {extern}, found {operand.what}")
        return None

    def property_object(self, given: ast.Property, table: str) -> Operand:
        """Evaluate an object-valued property; Type(...) makes an instance named by the property."""
        self.anonymous_name = (f"{table}.{given.name}", given.annotations)
        try:
            return self.expr(given.value)
        finally:
            self.anonymous_name = None

    shared = False  # whether a control instance is elaborated that is applied in several places
    anonymous_name: tuple[str, tuple[ast.Annotation, ...]] | None = None
    owners: dict[str, str]

    def implementation(self, properties: dict[str, ast.Property], table: str) -> str | None:
        given = properties.get("implementation")
        if given is None:
            return None
        with self.collecting():
            operand = self.property_object(given, table)
            if isinstance(operand, UnknownVal):
                return None
            wanted = ("action_profile", "action_selector")
            if (
                isinstance(operand, ExternVal)
                and isinstance(operand.type, ty.Extern)
                and operand.type.decl.name in wanted
            ):
                return operand.ir_name
            self.fail(
                given.loc, f"property 'implementation' needs an action_profile or action_selector, found {operand.what}"
            )
        return None

    def flag(self, properties: dict[str, ast.Property], name: str, default: bool) -> bool:
        given = properties.get(name)
        if given is None:
            return default
        with self.collecting():
            value = numeric(self.typed(given.value, ty.BOOL))
            if value is None:
                self.fail(given.loc, f"property '{name}' must be true or false")
            return bool(value)
        return default
