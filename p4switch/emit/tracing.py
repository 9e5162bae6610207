"""What a traced build of a program tells of a packet, step by step.

Every line written here is inside P4_TRACE(), which the preprocessor drops in the normal build (p4rt.h). Tables and the
traffic manager tell of themselves (runtime/trace.c).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from p4switch import ir
from p4switch.emit.context import Function
from p4switch.emit.headers import fixed_bits, max_bytes, parts, varbit_of
from p4switch.emit.layout import bit_width, c_string, is_scalar
from p4switch.ir_text import expr_text, statement_text

_STEP, _DETAIL = 0, 1  # how far a line is indented inside its block
_NAME = re.compile(r"\w+")
_INDEX = re.compile(r"\[\d+w(0x[0-9a-f]+)\]")


def before(f: Function, statement: ir.Stmt) -> None:
    """Tell of a statement that is about to run."""
    if teller := _BEFORE.get(type(statement)):
        teller(f, statement)


def after(f: Function, statement: ir.Stmt) -> None:
    """Tell what a statement did."""
    if teller := _AFTER.get(type(statement)):
        teller(f, statement)


def say(f: Function, text: str, *values: str) -> None:
    """Write a line of the trace; `values` are the C texts for the places of the printf format `text`."""
    f.out.trace(f"p4_trace(pkt, {', '.join([c_string(text), *values])})")


def show(f: Function, name: str, t: ir.Type, place: str, depth: int = _STEP) -> None:
    """Write the lines that show a value and all that is inside it; `place` is its C text."""
    inner = parts(t, place)
    if isinstance(t, ir.Varbits):
        f.out.trace(f"p4_trace_bits(pkt, {depth}, {c_string(name)}, ({place}).data, ({place}).bits)")
    elif inner is None:
        words = f.expressions.words_of(place, bit_width(t))
        f.out.trace(f"p4_trace_value(pkt, {depth}, {c_string(name)}, {bit_width(t)}, {words})")
    else:
        names = [n for n, _ in t.fields] if isinstance(t, ir.HeaderType | ir.StructType) else None
        for number, (part, at) in enumerate(inner):
            show(f, f"{name}.{names[number]}" if names is not None else f"{name}[{number}]", part, at, depth)


def text_of(f: Function, e: ir.Expr) -> str:
    """Write an expression as a reader of the program knows it."""
    text = _NAME.sub(lambda m: f.unit.result_names.get(m.group(), m.group()), expr_text(e))
    return _INDEX.sub(lambda m: f"[{int(m.group(1), 16)}]", text)


def _text(f: Function, e: ir.Expr) -> str:
    """C text of a string that names an expression."""
    return c_string(text_of(f, e))


def brief(s: ir.Stmt) -> str:
    """Write a statement in a few words; of one that has others inside, its kind."""
    if isinstance(s, ir.If | ir.Switch | ir.Scope | ir.Loop):
        return type(s).__name__.lower()
    return _INDEX.sub(lambda m: f"[{int(m.group(1), 16)}]", statement_text(s))


def _truth(text: str) -> str:
    return f'({text}) ? "true" : "false"'


# ------------------------------------------------------------------------------------------------------------- before


def _if(f: Function, s: ir.If) -> None:
    say(f, "if %s: %s", _text(f, s.condition), _truth(f.value(s.condition)))


def _switch(f: Function, s: ir.Switch) -> None:
    if isinstance(s.subject, ir.Var) and s.subject.name in f.unit.result_names:
        return  # on the action that the table has just told of
    show(f, f"switch {text_of(f, s.subject)}", s.subject.type, f.value(s.subject))


def _exit(f: Function, s: ir.Exit) -> None:
    say(f, "exit")


def _called(f: Function, s: ir.Called) -> None:
    say(f, "%s %s", c_string(s.kind), c_string(s.name))
    for name, value in s.args:
        show(f, name, value.type, f.value(value), _DETAIL)


def _verify(f: Function, s: ir.Verify) -> None:
    say(f, "verify %s: %s", _text(f, s.condition), _truth(f.value(s.condition)))


# -------------------------------------------------------------------------------------------------------------- after


def _assign(f: Function, s: ir.Assign) -> None:
    if isinstance(s.target, ir.Var) and isinstance(s.value, ir.Const) and not s.value.value:
        return  # how every local begins
    if is_scalar(s.target.type):
        show(f, text_of(f, s.target), s.target.type, f.value(s.target))
    else:
        say(f, "%s", c_string(brief(s)))


def _plain(f: Function, s: ir.Stmt) -> None:
    say(f, "%s", c_string(brief(s)))


def _extract(f: Function, s: ir.Extract) -> None:
    t = s.header.type
    assert isinstance(t, ir.HeaderType)
    # What was next is last now.
    header = ir.StackLast(t, s.header.base) if isinstance(s.header, ir.StackNext) else s.header
    place = f.value(header)
    size = f"{fixed_bits(t)} + {varbit_size(t, place)}"
    say(f, "extract %s, %u bits", _text(f, s.header), f"(unsigned)({size})")
    for (name, _), (part, at) in zip(t.fields, parts(t, place) or [], strict=True):
        show(f, name, part, at, _DETAIL)


def varbit_size(t: ir.HeaderType, place: str) -> str:
    """C text of the bits in a header's varbit field, 0 where it has none."""
    varbit = varbit_of(t)
    if varbit is None:
        return "0"
    places = {name: at for (name, _), (_, at) in zip(t.fields, parts(t, place) or [], strict=True)}
    return f"({places[varbit[0]]}).bits"


def _lookahead(f: Function, s: ir.Lookahead) -> None:
    show(f, f"{text_of(f, s.target)} = lookahead", s.target.type, f.place(s.target))


def _emit(f: Function, s: ir.Emit) -> None:
    t = s.header.type
    assert isinstance(t, ir.HeaderType)
    place = f.value(s.header)
    size = f"{max_bytes(t)}" if varbit_of(t) is None else f"({fixed_bits(t)} + {varbit_size(t, place)}) / 8"
    with_size = f"p4_trace(pkt, {c_string('emit %s, %u bytes')}, {_text(f, s.header)}, (unsigned)({size}))"
    f.out.trace(f"if ({place}.valid_) {with_size}")


# ------------------------------------------------------------------------------------------------------------ externs


def _call(f: Function, s: ir.ExternCall) -> None:
    teller = _CALLS.get(s.function, _plain_call)
    teller(f, s)


def _plain_call(f: Function, s: ir.ExternCall) -> None:
    say(f, "%s", c_string(brief(s)))


def _silent(f: Function, s: ir.ExternCall) -> None:
    """What tells of itself: log_msg() and failed assertions, checksums, direct counters and meters with their table."""


def _argument(s: ir.ExternCall, number: int) -> ir.Expr:
    argument = s.args[number]
    assert isinstance(argument, ir.Expr)
    return argument


def _index(f: Function, s: ir.ExternCall, number: int) -> str:
    return f"(unsigned long long)({f.expressions.amount(_argument(s, number))})"


def _register(f: Function, s: ir.ExternCall) -> None:
    register = f.unit.registers[s.instance or ""]
    reads = s.function == "register.read"
    index, value = _index(f, s, 1 if reads else 0), _argument(s, 0 if reads else 1)
    word = "reads" if reads else "writes"
    say(f, f"register %s {word} cell %llu%s", c_string(register.identity.name), index,
        f'({index}) < {register.size} ? "" : ", which it does not have"')  # fmt: skip
    show(f, text_of(f, value), value.type, f.value(value), _DETAIL)


def _count(f: Function, s: ir.ExternCall) -> None:
    counter = f.unit.program.counters[f.unit.counter_index[s.instance or ""]]
    say(f, "counter %s counts in cell %llu", c_string(counter.identity.name), _index(f, s, 0))


def _meter(f: Function, s: ir.ExternCall) -> None:
    meter = f.unit.program.meters[f.unit.meter_index[s.instance or ""]]
    say(f, "meter %s, cell %llu", c_string(meter.identity.name), _index(f, s, 0))
    show(f, text_of(f, _argument(s, 1)), _argument(s, 1).type, f.value(_argument(s, 1)), _DETAIL)


def _result(f: Function, s: ir.ExternCall) -> None:
    say(f, "%s", c_string(s.function))
    show(f, text_of(f, _argument(s, 0)), _argument(s, 0).type, f.value(_argument(s, 0)), _DETAIL)


def _drop(f: Function, s: ir.ExternCall) -> None:
    say(f, "mark_to_drop: egress_spec is the drop port, mcast_grp is 0")


def _clone(f: Function, s: ir.ExternCall) -> None:
    say(f, "%s, session %llu", c_string(s.function), _index(f, s, 1))


def _digest(f: Function, s: ir.ExternCall) -> None:
    digest = f.unit.digests[s.instance or ""]
    say(f, "digest %s", c_string(digest.identity.name))
    items = next(a for a in s.args if isinstance(a, ir.FieldList)).items
    for (name, _), item in zip(digest.fields, items, strict=True):
        show(f, name, item.type, f.value(item), _DETAIL)


def _truncate(f: Function, s: ir.ExternCall) -> None:
    say(f, "truncate to %llu bytes", _index(f, s, 0))


def _again(f: Function, s: ir.ExternCall) -> None:
    say(f, "%s, keeping field list %llu", c_string(s.function.split("_")[0]), _index(f, s, 0))


def checksum(f: Function, s: ir.ExternCall, computed: str) -> None:
    """Tell of a checksum whose condition holds; `computed` is the C text of what it should be."""
    field = _argument(s, 2)
    say(f, "%s", c_string(s.function))
    show(f, text_of(f, field), field.type, f.value(field), _DETAIL)
    show(f, "computed", field.type, computed, _DETAIL)


_BEFORE: dict[type, Callable] = {
    ir.If: _if,
    ir.Switch: _switch,
    ir.Exit: _exit,
    ir.Called: _called,
    ir.Verify: _verify,
}
_AFTER: dict[type, Callable] = {
    ir.Assign: _assign,
    ir.SetValid: _plain,
    ir.PushFront: _plain,
    ir.PopFront: _plain,
    ir.Extract: _extract,
    ir.Advance: _plain,
    ir.Lookahead: _lookahead,
    ir.Emit: _emit,
    ir.ExternCall: _call,
}
_CALLS: dict[str, Callable] = {
    "register.read": _register,
    "register.write": _register,
    "counter.count": _count,
    "meter.execute_meter": _meter,
    "direct_counter.count": _silent,
    "direct_meter.read": _silent,
    "hash": _result,
    "random": _result,
    "mark_to_drop": _drop,
    "clone": _clone,
    "clone_preserving_field_list": _clone,
    "digest": _digest,
    "truncate": _truncate,
    "resubmit_preserving_field_list": _again,
    "recirculate_preserving_field_list": _again,
    "verify_checksum": _silent,
    "verify_checksum_with_payload": _silent,
    "update_checksum": _silent,
    "update_checksum_with_payload": _silent,
    "log_msg": _silent,
    "assert": _silent,
    "assume": _silent,
}
