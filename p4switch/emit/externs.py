"""Calls of v1model's extern functions and methods.

What is asked of the traffic manager (clone, resubmit, ...) is only noted in pkt->ask; the last call of a pass wins, as
on BMv2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath

from p4switch import ir
from p4switch.emit import tracing
from p4switch.emit.context import Function
from p4switch.emit.field_lists import write_bytes
from p4switch.emit.layout import bit_width, c_string, masked, native, storage_type, words

KEEP_NOTHING = "P4_NO_LIST"  # the field list of clone()


def write_call(f: Function, call: ir.ExternCall) -> None:
    """Write the C of an extern call."""
    writer = _WRITERS.get(call.function)
    if writer is None:
        raise f.error(f"extern {call.function} is not supported", f"supported: {', '.join(sorted(_WRITERS))}")
    writer(f, call)


def _expr(f: Function, call: ir.ExternCall, index: int) -> ir.Expr:
    arg = call.args[index]
    if not isinstance(arg, ir.Expr):
        raise f.error(f"argument {index + 1} of {call.function} must be a value")
    return arg


def _fields(f: Function, call: ir.ExternCall, index: int) -> ir.FieldList:
    arg = call.args[index]
    if isinstance(arg, ir.Expr):
        return ir.FieldList((arg,))
    if not isinstance(arg, ir.FieldList):
        raise f.error(f"argument {index + 1} of {call.function} must be a list of fields")
    return arg


def _narrow(text: str, t: ir.Type) -> str:
    """C text of a native number cut to the width of `t`."""
    width = bit_width(t)
    if not native(width):
        return f"p4_w{words(width)}_from128({text})"
    return f"({storage_type(width)}){masked(f'({text})', width)}"


def _index32(f: Function, e: ir.Expr) -> str:
    """C text of an index of 32 bits; what does not fit gives the largest, which no object has."""
    text = f.expressions.amount(e)
    return text if bit_width(e.type) <= 32 else f"({text} > UINT32_MAX ? UINT32_MAX : (uint32_t)({text}))"


# -------------------------------------------------------------------------------------------------- stateful objects


def _register_read(f: Function, call: ir.ExternCall) -> None:
    _register_access(f, call, _expr(f, call, 1), write=False)


def _register_write(f: Function, call: ir.ExternCall) -> None:
    _register_access(f, call, _expr(f, call, 0), write=True)


def _register_access(f: Function, call: ir.ExternCall, index: ir.Expr, write: bool) -> None:
    register, out = f.unit.registers[call.instance or ""], f.out
    size = words(register.element.width)
    with out.block(f"/* {register.identity.name} */"):
        number = f.unit.register_index[register.ir_name]
        out.line(f"const struct p4_register_state *const r = &p4_registers(pkt)[{number}];")
        out.line(f"const uint64_t i = {f.expressions.amount(index)};")
        if write:
            with out.block("if (i < r->size)"):
                out.line(f"uint64_t *const cell = r->cells + i * {size};")
                for line in f.expressions.to_words(_expr(f, call, 1), "cell", 0):
                    out.line(line)
            return
        target = _expr(f, call, 0)
        zero = f.value(ir.Const(target.type, 0))
        out.line(f"const uint64_t *const cell = r->cells + (i < r->size ? i * {size} : 0);")
        f.assign(target, f"i < r->size ? {f.expressions.from_words(target.type, 'cell', 0)} : {zero}")


def _counter_count(f: Function, call: ir.ExternCall) -> None:
    index = _index32(f, _expr(f, call, 0))
    f.out.line(f"p4_counter_count(pkt, {f.unit.counter_index[call.instance or '']}, {index});")


def _meter_execute(f: Function, call: ir.ExternCall) -> None:
    index, result = _index32(f, _expr(f, call, 0)), _expr(f, call, 1)
    color = f"p4_meter_execute(pkt, {f.unit.meter_index[call.instance or '']}, {index})"
    f.assign(result, _narrow(color, result.type))


def _done_by_the_table(f: Function, call: ir.ExternCall) -> None:
    """Direct counters and meters run with the lookup of their table, as on BMv2."""


# --------------------------------------------------------------------------------------------------- hash, checksums


@dataclass(frozen=True)
class _Algorithm:
    """C text of a hash: its state's declaration, one step over (bytes, size), and its result."""

    state: str
    step: str
    result: str
    width: int
    in_turn: bool = True  # fields and payload may be fed one after the other


_CRC16 = _Algorithm("uint16_t h = p4_crc16_init();", "h = p4_crc16_add(h, {data}, {size});", "p4_crc16_end(h)", 16)
_CRC32 = _Algorithm("uint32_t h = p4_crc32_init();", "h = p4_crc32_add(h, {data}, {size});", "p4_crc32_end(h)", 32)
# The custom CRCs start with the parameters of the plain ones; nothing in P4 or P4Runtime changes them.
_ALGORITHMS = {
    "crc16": _CRC16,
    "crc16_custom": _CRC16,
    "crc32": _CRC32,
    "crc32_custom": _CRC32,
    "csum16": _Algorithm("struct p4_csum16 h = {0};", "p4_csum16_add(&h, {data}, {size});", "p4_csum16_end(&h)", 16),
    "xor16": _Algorithm("uint16_t h = 0;", "h = p4_xor16(h, {data}, {size});", "h", 16, in_turn=False),
    "identity": _Algorithm("uint64_t h = 0;", "h = p4_identity({data}, {size});", "h", 64, in_turn=False),
    "random": _Algorithm("", "(void){data};", "p4_random(pkt)", 64),
}


def _algorithm(f: Function, e: ir.Expr, function: str) -> _Algorithm:
    name = e.type.members[e.value] if isinstance(e, ir.Const) and isinstance(e.type, ir.EnumType) else "?"
    if name not in _ALGORITHMS:
        raise f.error(f"hash algorithm {name} of {function} is not supported", f"choose of {', '.join(_ALGORITHMS)}")
    return _ALGORITHMS[name]


def _write_digest_of(
    f: Function, algorithm: _Algorithm, fields: ir.FieldList, payload: bool = False, skip_invalid: bool = False
) -> str:
    """Write the computation; give C text of the result, to be used inside the current C block."""
    data, size = write_bytes(f, fields, skip_invalid)
    if algorithm.state:
        f.out.line(algorithm.state)
    f.out.line(algorithm.step.format(data=data, size=size))
    if payload:
        if not algorithm.in_turn:
            raise f.error("this hash algorithm cannot run over the payload", "use csum16, crc16 or crc32")
        f.out.line(algorithm.step.format(data="pkt->payload", size="pkt->payload_len"))
    return algorithm.result


def _hash(f: Function, call: ir.ExternCall) -> None:
    result = _expr(f, call, 0)
    algorithm = _algorithm(f, _expr(f, call, 1), "hash")
    base, limit = f.expressions.amount(_expr(f, call, 2)), f.expressions.amount(_expr(f, call, 4))
    with f.out.block("/* hash */"):
        text = _write_digest_of(f, algorithm, _fields(f, call, 3))
        f.out.line(f"const uint64_t limit = {limit};")
        f.assign(result, _narrow(f"(uint64_t){base} + (uint64_t)({text}) % (limit ? limit : 1)", result.type))


def _checksum(f: Function, call: ir.ExternCall) -> None:
    verify, payload = call.function.startswith("verify"), call.function.endswith("with_payload")
    condition, checksum = _expr(f, call, 0), _expr(f, call, 2)
    algorithm = _algorithm(f, _expr(f, call, 3), call.function)
    test = f.value(condition)
    if verify and isinstance(checksum, ir.Field) and isinstance(checksum.base.type, ir.HeaderType):
        test = f"{f.value(checksum.base)}.valid_ && {test}"
    with f.out.block(f"if ({test})"):
        result = _write_digest_of(f, algorithm, _fields(f, call, 1), payload, skip_invalid=True)
        text = _narrow(result, checksum.type)
        tracing.checksum(f, call, text)
        if verify:
            equal = f.value(checksum)
            width = bit_width(checksum.type)
            if native(width):
                f.out.line(f"if ({equal} != {text}) pkt->std.checksum_error = 1;")
            else:
                f.out.line(f"if (p4_w{words(width)}_cmp({equal}, {text})) pkt->std.checksum_error = 1;")
        else:
            f.assign(checksum, text)


def _random(f: Function, call: ir.ExternCall) -> None:
    result = _expr(f, call, 0)
    low, high = f.expressions.amount(_expr(f, call, 1)), f.expressions.amount(_expr(f, call, 2))
    with f.out.block("/* random, both ends included */"):
        f.out.line(f"const uint64_t lo = {low}, range = {high} - lo + 1;")
        f.assign(result, _narrow("lo + (range ? p4_random(pkt) % range : p4_random(pkt))", result.type))


# ---------------------------------------------------------------------------------------------------- traffic manager


def _mark_to_drop(f: Function, call: ir.ExternCall) -> None:
    metadata = f.place(_expr(f, call, 0))  # an inout parameter of an action may be a copy that is written back later
    f.out.line(f"{metadata}.egress_spec = P4_DROP_PORT;")
    f.out.line(f"{metadata}.mcast_grp = 0;")


def _ask(f: Function, flag: str, **wishes: str) -> None:
    f.out.line(f"pkt->ask.flags |= {flag};")
    for member, text in wishes.items():
        f.out.line(f"pkt->ask.{member} = (uint32_t)({text});")


def _clone(f: Function, call: ir.ExternCall) -> None:
    keep = f.value(_expr(f, call, 2)) if call.function == "clone_preserving_field_list" else KEEP_NOTHING
    _ask(f, "P4_ASK_CLONE", clone_session=f.expressions.amount(_expr(f, call, 1)), clone_list=keep)


def _resubmit(f: Function, call: ir.ExternCall) -> None:
    _ask(f, "P4_ASK_RESUBMIT", resubmit_list=f.value(_expr(f, call, 0)))


def _recirculate(f: Function, call: ir.ExternCall) -> None:
    _ask(f, "P4_ASK_RECIRCULATE", recirculate_list=f.value(_expr(f, call, 0)))


def _truncate(f: Function, call: ir.ExternCall) -> None:
    f.out.line(f"p4_truncate(pkt, {_index32(f, _expr(f, call, 0))});")


def _digest(f: Function, call: ir.ExternCall) -> None:
    digest = f.unit.digests[call.instance or ""]
    layout, total = f.unit.digest_fields(digest)
    fields = next(a for a in call.args if isinstance(a, ir.FieldList))
    with f.out.block(f"/* {digest.identity.name} */"):
        f.out.line(f"uint64_t words[{max(total, 1)}];")
        for item, place in zip(fields.items, layout, strict=True):
            for line in f.expressions.to_words(item, "words", place.word):
                f.out.line(line)
        f.out.line(f"p4_digest(pkt, {f.unit.digest_index[digest.ir_name]}, words);")


# -------------------------------------------------------------------------------------------------------- diagnostics


def _log_msg(f: Function, call: ir.ExternCall) -> None:
    text = call.args[0].value if isinstance(call.args[0], ir.Text) else ""
    items = list(_fields(f, call, 1).items) if len(call.args) > 1 else []
    pieces = text.split("{}")
    room = len(text.encode()) + 1 + sum(32 + bit_width(e.type) // 3 for e in items)
    with f.out.block("if (p4_log_enabled(pkt))"):
        f.out.line(f"char text[{room}];")
        f.out.line("size_t n = 0;")
        for number, piece in enumerate(pieces):
            if piece:
                f.out.line(f"memcpy(text + n, {c_string(piece)}, {len(piece.encode())}); n += {len(piece.encode())};")
            if number < len(pieces) - 1 and number < len(items):
                pointer, count = f.expressions.word_list(items[number])
                f.out.line(f"n += p4_put_decimal(text + n, {pointer}, {count});")
        f.out.line("text[n] = 0;")
        f.out.line("p4_log(pkt, text);")


def _assert(f: Function, call: ir.ExternCall) -> None:
    place = f"{PurePath(call.loc.file).name}:{call.loc.line}:{call.loc.column}"
    message = f"{place}: {call.function} failed"
    f.out.line(f"if (!({f.value(_expr(f, call, 0))}) && p4_log_enabled(pkt)) p4_log(pkt, {c_string(message)});")


_WRITERS: dict[str, Callable[[Function, ir.ExternCall], None]] = {
    "register.read": _register_read,
    "register.write": _register_write,
    "counter.count": _counter_count,
    "direct_counter.count": _done_by_the_table,
    "meter.execute_meter": _meter_execute,
    "direct_meter.read": _done_by_the_table,
    "hash": _hash,
    "verify_checksum": _checksum,
    "verify_checksum_with_payload": _checksum,
    "update_checksum": _checksum,
    "update_checksum_with_payload": _checksum,
    "random": _random,
    "mark_to_drop": _mark_to_drop,
    "clone": _clone,
    "clone_preserving_field_list": _clone,
    "resubmit_preserving_field_list": _resubmit,
    "recirculate_preserving_field_list": _recirculate,
    "truncate": _truncate,
    "digest": _digest,
    "log_msg": _log_msg,
    "assert": _assert,
    "assume": _assert,
}
