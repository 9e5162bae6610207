"""Print a program's IR for people: one statement a line, types where they are declared, C-like expressions."""

from __future__ import annotations

from collections.abc import Iterable

from p4switch import ir


def print_ir(program: ir.Program) -> str:
    """Write a whole program."""
    lines: list[str] = []
    for kind in _named_types(program):
        word = "header" if isinstance(kind, ir.HeaderType) else "struct"
        lines.append(f"{word} {kind.name} {{")
        lines += [f"    {type_text(t)} {name};" for name, t in kind.fields]
        lines += ["}", ""]
    lines += [f"errors: {', '.join(program.errors)}", ""]
    lines += [
        f"register {r.ir_name}: {type_text(r.element)}[{r.size}]  {_identity(r.identity)}" for r in program.registers
    ]
    for counter in program.counters:
        lines.append(f"counter {counter.ir_name}: {counter.unit}{_where(counter)}  {_identity(counter.identity)}")
    for meter in program.meters:
        lines.append(f"meter {meter.ir_name}: {meter.unit}{_where(meter)}  {_identity(meter.identity)}")
    for profile in program.action_profiles:
        word = "selector" if profile.selector else "profile"
        lines.append(f"action {word} {profile.ir_name}[{profile.size}]  {_identity(profile.identity)}")
    for value_set in program.value_sets:
        lines.append(
            f"value set {value_set.ir_name}{value_set.widths}[{value_set.size}]  {_identity(value_set.identity)}"
        )
    for digest in program.digests:
        fields = ", ".join(f"{name}: {type_text(t)}" for name, t in digest.fields)
        lines.append(f"digest {digest.ir_name}({fields})  {_identity(digest.identity)}")
    for number, exprs in program.field_lists.items():
        lines.append(f"field list {number}: {', '.join(map(expr_text, exprs))}")
    for action in program.actions:
        params = ", ".join(f"{type_text(p.type)} {p.variable}" for p in action.params)
        lines += [
            "",
            f"action {action.ir_name}({params}) of {action.block or 'any block'}  {_identity(action.identity)} {{",
        ]
        lines += _locals(action.locals)
        lines += _body(action.body, 1)
        lines.append("}")
    for table in program.tables:
        lines += ["", *_table(table)]
    lines += ["", f"parser {program.parser.name} {{", *_locals(program.parser.locals)]
    for state in program.parser.states:
        lines.append(f"    state {state.name} {{")
        lines += _body(state.body, 2)
        lines += _transition(state.transition)
        lines.append("    }")
    lines.append("}")
    for name in ("verify", "ingress", "egress", "compute", "deparser"):
        block: ir.ControlBlock = getattr(program, name)
        lines += ["", f"{name} {block.name} {{", *_locals(block.locals), *_body(block.body, 1), "}"]
    return "\n".join(lines) + "\n"


def _named_types(program: ir.Program) -> list[ir.HeaderType | ir.StructType]:
    found: dict[str, ir.HeaderType | ir.StructType] = {}

    def visit(kind: ir.Type) -> None:
        if isinstance(kind, ir.StackType):
            visit(kind.element)
        elif isinstance(kind, ir.HeaderType | ir.StructType) and kind.name not in found:
            for _, field in kind.fields:
                visit(field)
            found[kind.name] = kind

    for root in (program.headers, program.meta, program.standard_metadata):
        visit(root)
    return list(found.values())


def _identity(identity: ir.Identity) -> str:
    return f"// {identity.name} 0x{identity.id:08x}"


def _where(item: ir.Counter | ir.Meter) -> str:
    return f" of table {item.table}" if item.table is not None else f"[{item.size}]"


def _table(table: ir.Table) -> list[str]:
    lines = [f"table {table.ir_name} of {table.block}  {_identity(table.identity)} {{"]
    for key in table.keys:
        lines.append(f"    key {key.id} {key.name}: {key.match.value} = {expr_text(key.expr)} ({key.width} bits)")
    for reference in table.actions:
        scope = " (table only)" if reference.table_only else " (default only)" if reference.default_only else ""
        lines.append(f"    action {reference.action}{scope}")
    word = "const default" if table.const_default else "default"
    lines.append(f"    {word} {table.default_action}{_numbers(table.default_args)}")
    lines.append(f"    size {table.size}")
    for label, value in (
        ("counter", table.direct_counter),
        ("meter", table.direct_meter),
        ("implementation", table.implementation),
    ):
        if value is not None:
            lines.append(f"    {label} {value}")
    for entry in table.const_entries:
        matches = ", ".join(_match(m) for m in entry.matches)
        lines.append(f"    entry ({matches}) priority {entry.priority}: {entry.action}{_numbers(entry.args)}")
    return [*lines, "}"]


def _numbers(values: Iterable[int]) -> str:
    return f"({', '.join(map(hex, values))})"


def _match(match: ir.KeyMatch) -> str:
    if match.wildcard:
        return "_"
    extra = f" / {match.prefix}" if match.prefix else f" : 0x{match.mask_or_hi:x}" if match.mask_or_hi else ""
    return f"0x{match.value:x}{extra}"


def _locals(items: tuple[ir.Local, ...]) -> list[str]:
    return [f"    {type_text(item.type)} {item.name};" for item in items]


def _transition(transition: ir.Transition) -> list[str]:
    if not transition.subjects:
        return [f"        transition {transition.cases[0].target};"]
    lines = [f"        transition select ({', '.join(map(expr_text, transition.subjects))}) {{"]
    for case in transition.cases:
        lines.append(f"            ({', '.join(_keyset(k) for k in case.keysets)}): {case.target};")
    return [*lines, "        }"]


def _keyset(keyset: ir.Keyset) -> str:
    if keyset.kind == "value":
        return hex(keyset.lo)
    if keyset.kind == "mask":
        return f"0x{keyset.lo:x} &&& 0x{keyset.hi:x}"
    if keyset.kind == "range":
        return f"0x{keyset.lo:x} .. 0x{keyset.hi:x}"
    return "_" if keyset.kind == "any" else keyset.value_set


# ------------------------------------------------------------------------------------------------------- statements


def _body(body: tuple[ir.Stmt, ...], depth: int) -> list[str]:
    return [line for statement in body for line in _statement(statement, depth)]


def _statement(node: ir.Stmt, depth: int) -> list[str]:
    pad = "    " * depth
    if isinstance(node, ir.If):
        lines = [f"{pad}if ({expr_text(node.condition)}) {{", *_body(node.then, depth + 1)]
        if node.otherwise:
            lines += [f"{pad}}} else {{", *_body(node.otherwise, depth + 1)]
        return [*lines, f"{pad}}}"]
    if isinstance(node, ir.Switch):
        lines = [f"{pad}switch ({expr_text(node.subject)}) {{"]
        for case in node.cases:
            label = "default" if case.values is None else ", ".join(map(str, case.values))
            lines += [f"{pad}    {label}: {{", *_body(case.body, depth + 2), f"{pad}    }}"]
        return [*lines, f"{pad}}}"]
    if isinstance(node, ir.ApplyTable) and node.on_exit:
        return [f"{pad}{statement_text(node)}, on exit {{", *_body(node.on_exit, depth + 1), f"{pad}}}"]
    if isinstance(node, ir.Scope | ir.Loop):
        word = "scope" if isinstance(node, ir.Scope) else "loop"
        return [f"{pad}{word} {node.label} {{", *_body(node.body, depth + 1), f"{pad}}}"]
    return [f"{pad}{statement_text(node)}{'' if isinstance(node, ir.Called) else ';'}"]


def statement_text(node: ir.Stmt) -> str:
    """Write a statement that has no statements inside."""
    if isinstance(node, ir.Assign):
        return f"{expr_text(node.target)} = {expr_text(node.value)}"
    if isinstance(node, ir.ApplyTable):
        results = [f"{word}={v.name}" for word, v in (("hit", node.hit), ("action", node.action)) if v is not None]
        return f"apply {node.table}{' -> ' if results else ''}{', '.join(results)}"
    if isinstance(node, ir.SetValid):
        return f"{expr_text(node.header)}.{'setValid' if node.valid else 'setInvalid'}()"
    if isinstance(node, ir.PushFront | ir.PopFront):
        word = "push_front" if isinstance(node, ir.PushFront) else "pop_front"
        return f"{expr_text(node.stack)}.{word}({node.count})"
    if isinstance(node, ir.Leave):
        return f"leave {node.label}"
    if isinstance(node, ir.Exit):
        return "exit"
    if isinstance(node, ir.Called):
        return f"// {node.kind} {node.name}({', '.join(f'{name} = {expr_text(arg)}' for name, arg in node.args)})"
    if isinstance(node, ir.ExternCall):
        name = node.function if node.instance is None else f"{node.instance}:{node.function}"
        return f"{name}({', '.join(map(_argument, node.args))})"
    if isinstance(node, ir.Extract):
        size = f", {expr_text(node.varbit_bits)}" if node.varbit_bits is not None else ""
        return f"extract({expr_text(node.header)}{size})"
    if isinstance(node, ir.Advance):
        return f"advance({expr_text(node.bits)})"
    if isinstance(node, ir.Lookahead):
        return f"lookahead({expr_text(node.target)})"
    if isinstance(node, ir.Verify):
        return f"verify({expr_text(node.condition)}, {expr_text(node.error)})"
    if isinstance(node, ir.Emit):
        return f"emit({expr_text(node.header)})"
    raise TypeError(f"no text for {type(node).__name__}")


def _argument(arg: ir.Expr | ir.FieldList | ir.Text) -> str:
    if isinstance(arg, ir.FieldList):
        return f"{{{', '.join(map(expr_text, arg.items))}}}"
    if isinstance(arg, ir.Text):
        return repr(arg.value)
    return expr_text(arg)


# ------------------------------------------------------------------------------------------------------ expressions


def type_text(kind: ir.Type) -> str:
    """Write a type as in P4."""
    if isinstance(kind, ir.Bits):
        return f"{'int' if kind.signed else 'bit'}<{kind.width}>"
    if isinstance(kind, ir.Varbits):
        return f"varbit<{kind.max_width}>"
    if isinstance(kind, ir.StackType):
        return f"{type_text(kind.element)}[{kind.size}]"
    if isinstance(kind, ir.HeaderType | ir.StructType | ir.EnumType):
        return kind.name
    return "bool" if isinstance(kind, ir.Bool) else "error"


def expr_text(node: ir.Expr) -> str:
    """Write an expression; constants carry their types."""
    if isinstance(node, ir.Const):
        return _constant(node)
    if isinstance(node, ir.Var):
        return node.name
    if isinstance(node, ir.Field):
        return f"{expr_text(node.base)}.{node.name}"
    if isinstance(node, ir.Index):
        return f"{expr_text(node.base)}[{expr_text(node.index)}]"
    if isinstance(node, ir.StackNext | ir.StackLast | ir.StackLastIndex):
        word = {ir.StackNext: "next", ir.StackLast: "last", ir.StackLastIndex: "lastIndex"}[type(node)]
        return f"{expr_text(node.base)}.{word}"
    if isinstance(node, ir.IsValid):
        return f"{expr_text(node.base)}.isValid()"
    if isinstance(node, ir.Slice):
        return f"{expr_text(node.base)}[{node.hi}:{node.lo}]"
    if isinstance(node, ir.Unary):
        return f"{node.op}{expr_text(node.operand)}"
    if isinstance(node, ir.Binary):
        return f"({expr_text(node.left)} {node.op} {expr_text(node.right)})"
    if isinstance(node, ir.Mux):
        return f"({expr_text(node.condition)} ? {expr_text(node.then)} : {expr_text(node.otherwise)})"
    if isinstance(node, ir.Cast):
        return f"({type_text(node.type)})({expr_text(node.operand)})"
    if isinstance(node, ir.PacketLength):
        return "packet.length()"
    raise TypeError(f"no text for {type(node).__name__}")


def _constant(node: ir.Const) -> str:
    kind = node.type
    if isinstance(kind, ir.Bits):
        return f"{kind.width}{'s' if kind.signed else 'w'}0x{node.value:x}"
    if isinstance(kind, ir.EnumType):
        return f"{kind.name}.{kind.members[node.value]}"
    if isinstance(kind, ir.Bool):
        return "true" if node.value else "false"
    return f"error#{node.value}"
