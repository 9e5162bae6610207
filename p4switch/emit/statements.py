"""P4 statements to C: assignments, control flow, tables. Parser and extern statements have files of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from p4switch import ir
from p4switch.emit import externs, tracing
from p4switch.emit.context import Function, Unit
from p4switch.emit.headers import fixed_bits, varbit_of
from p4switch.emit.layout import bit_width, c_name, literal, native

Handler = Callable[[Function, ir.Stmt], None]


def write_body(f: Function, body: Iterable[ir.Stmt], extra: dict[type, Callable] | None = None) -> None:
    """Write statements; `extra` maps further statement types (the parser's, the deparser's) to their writers."""
    handlers = _HANDLERS if extra is None else _HANDLERS | extra
    for statement in body:
        f.at(statement.loc)
        handler = handlers.get(type(statement))
        if handler is None:
            raise f.error(f"{type(statement).__name__} cannot stand in the {f.block or 'top-level'} block")
        _enter(f, statement, extra)
        tracing.before(f, statement)
        if type(statement) in (ir.If, ir.Switch, ir.Scope, ir.Loop):
            handler(f, statement, extra)
        else:
            handler(f, statement)
        tracing.after(f, statement)


def _enter(f: Function, statement: ir.Stmt, extra: dict[type, Callable] | None) -> None:
    """Give the parser the chance to check what a statement's expressions need (stack.next, stack.last)."""
    if extra is not None and ir.Stmt in extra:
        extra[ir.Stmt](f, statement)


def _assign(f: Function, s: ir.Assign) -> None:
    f.assign(s.target, f.value(s.value))


def _if(f: Function, s: ir.If, extra: dict[type, Callable] | None) -> None:
    with f.out.block(f"if ({f.value(s.condition)})"):
        write_body(f, s.then, extra)
    if s.otherwise:
        with f.out.block("else"):
            write_body(f, s.otherwise, extra)


def _switch(f: Function, s: ir.Switch, extra: dict[type, Callable] | None) -> None:
    width = bit_width(s.subject.type)
    subject = f.value(s.subject)
    if width > 64:
        _switch_by_comparison(f, s, extra)
        return
    with f.out.block(f"switch ({subject})"):
        for case in s.cases:
            labels = ["default"] if case.values is None else [f"case {literal(v, width)}" for v in case.values]
            with f.out.block(" ".join(f"{label}:" for label in labels)):
                write_body(f, case.body, extra)
                f.out.line("break;")


def _switch_by_comparison(f: Function, s: ir.Switch, extra: dict[type, Callable] | None) -> None:
    done = f.fresh("switch_end")
    default: tuple[ir.Stmt, ...] = ()
    for case in s.cases:
        if case.values is None:
            default = case.body
            continue
        tests = [
            f.value(ir.Binary(ir.Bool(), "==", s.subject, ir.Const(s.subject.type, value))) for value in case.values
        ]
        with f.out.block(f"if ({' || '.join(tests)})"):
            write_body(f, case.body, extra)
            f.out.line(f"goto {done};")
    write_body(f, default, extra)
    f.out.label(done)


def _scope(f: Function, s: ir.Scope, extra: dict[type, Callable] | None) -> None:
    label = f.fresh("leave")
    f.labels.setdefault(s.label, []).append(label)
    with f.out.block():
        write_body(f, s.body, extra)
    f.labels[s.label].pop()
    f.out.label(label)


def _loop(f: Function, s: ir.Loop, extra: dict[type, Callable] | None) -> None:
    label = f.fresh("leave")
    f.labels.setdefault(s.label, []).append(label)
    with f.out.block("for (;;)"):
        with f.out.block("if (!pkt->rounds_left--)"):
            f.out.line("pkt->rounds_left = 0;")
            f.out.trace('p4_trace(pkt, "a loop that does not end is left: %d rounds", P4_MAX_ROUNDS)')
            f.out.line("break;")
        write_body(f, s.body, extra)
    f.labels[s.label].pop()
    f.out.label(label)


def _leave(f: Function, s: ir.Leave) -> None:
    if not f.labels.get(s.label):
        raise f.error(f"Leave({s.label!r}) outside of its Scope")
    f.out.line(f"goto {f.labels[s.label][-1]};")


def _called(f: Function, s: ir.Called) -> None:
    """Nothing: what follows was inlined."""


def _exit(f: Function, s: ir.Exit) -> None:
    f.out.line(f.exit_statement)


def _set_valid(f: Function, s: ir.SetValid) -> None:
    t = s.header.type
    assert isinstance(t, ir.HeaderType)
    header, size = f.place(s.header), str(fixed_bits(t) // 8)
    if varbit := varbit_of(t):
        size += f" + {header}.{c_name(varbit[0])}.bits / 8"
    if not s.valid:
        f.out.line(f"if ({header}.valid_) pkt->length -= (int32_t)({size});")
        f.out.line(f"{header}.valid_ = false;")
        return
    # Like BMv2: a header that becomes valid starts from zero, one that is valid already keeps its fields.
    with f.out.block(f"if (!{header}.valid_)"):
        f.out.line(f"memset(&{header}, 0, sizeof {header});")
        f.out.line(f"{header}.valid_ = true;")
        f.out.line(f"pkt->length += {fixed_bits(t) // 8};")


def _shift_stack(f: Function, stack: ir.Expr, count: int, front: bool) -> None:
    stack_type = stack.type
    assert isinstance(stack_type, ir.StackType)
    place, size = f.place(stack), stack_type.size
    count = min(count, size)
    kept, element = size - count, f"sizeof {place}.at[0]"
    source, target, cleared = (0, count, 0) if front else (count, 0, kept)
    if kept:
        f.out.line(f"memmove(&{place}.at[{target}], &{place}.at[{source}], {kept} * {element});")
    f.out.line(f"memset(&{place}.at[{cleared}], 0, {count} * {element});")
    if front:
        f.out.line(f"{place}.next_ = {place}.next_ + {count} < {size} ? {place}.next_ + {count} : {size};")
    else:
        f.out.line(f"{place}.next_ = {place}.next_ > {count} ? {place}.next_ - {count} : 0;")


def _push_front(f: Function, s: ir.PushFront) -> None:
    _shift_stack(f, s.stack, s.count, front=True)


def _pop_front(f: Function, s: ir.PopFront) -> None:
    _shift_stack(f, s.stack, s.count, front=False)


def action_function(action: ir.Action) -> str:
    """Name the C function of an action."""
    return f"action_{c_name(action.ir_name)}"


def action_call(unit: Unit, action: ir.Action, caller: Function) -> str:
    """C text of a call of an action with the data of the entry `e`."""
    fields, _ = unit.param_fields(action)
    arguments = ["pkt", "phv"]
    if unit.locals_of(action.block):
        arguments.append("L")
    for param, field in zip(action.params, fields, strict=True):
        arguments.append(caller.expressions.from_words(param.type, "e->data", field.word))
    return f"{action_function(action)}({', '.join(arguments)})"


def _apply(f: Function, s: ir.ApplyTable) -> None:
    unit, out = f.unit, f.out
    table = unit.tables[s.table]
    layout, key_words = unit.key_fields(table)
    with out.block(f"/* {table.identity.name} */"):
        out.line(f"uint64_t key[{max(key_words, 1)}];")
        for key, place in zip(table.keys, layout, strict=True):
            for line in f.expressions.text_to_words(_key_value(f, key.expr), place.width, "key", place.word):
                out.line(line)
        out.line(f"const struct p4_entry *const e = p4_table_lookup(pkt, {unit.table_index[s.table]}, key);")
        out.trace(f"p4_trace_lookup(pkt, {unit.table_index[s.table]}, key, e)")
        if s.hit is not None:
            f.assign(s.hit, "e->hit")
        if s.action is not None:
            f.assign(s.action, "e->action")
        if table.direct_meter and table.meter_target is not None:
            meter = f"p4_direct_meter_read(pkt, {unit.meter_index[table.direct_meter]}, e)"
            c_type = unit.layout.c_type(table.meter_target.type)
            out.line(f"const uint32_t color = {meter};")
            with out.block("if (color != P4_NO_COLOR)"):
                f.assign(table.meter_target, f"({c_type})color")
        with out.block("switch (e->action)"):
            for number, choice in enumerate(table.actions):
                action = unit.actions[choice.action]
                call = action_call(unit, action, f)
                if unit.action_exits(action):
                    with out.block(f"case {number}: if ({call})"):
                        write_body(f, s.on_exit)
                        out.line(f.exit_statement)
                    out.line("break;")
                elif action.body:
                    out.line(f"case {number}: {call}; break;")


def _key_value(f: Function, e: ir.Expr) -> str:
    """C text of a key; a field of an invalid header looks up as zero, as on BMv2."""
    text = f.value(e)
    if isinstance(e, ir.Field) and isinstance(e.base.type, ir.HeaderType):
        width = bit_width(e.type)
        zero = literal(0, width)
        if not native(width):
            f.unit.layout.wide(width)
        return f"({f.value(e.base)}.valid_ ? {text} : {zero})"
    return text


_HANDLERS: dict[type, Callable] = {
    ir.Assign: _assign,
    ir.If: _if,
    ir.Switch: _switch,
    ir.Scope: _scope,
    ir.Loop: _loop,
    ir.Leave: _leave,
    ir.Exit: _exit,
    ir.Called: _called,
    ir.SetValid: _set_valid,
    ir.PushFront: _push_front,
    ir.PopFront: _pop_front,
    ir.ApplyTable: _apply,
    ir.ExternCall: externs.write_call,
}
