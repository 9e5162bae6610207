"""Field lists as bytes: what hashes and checksums run over.

As on BMv2, a field of an invalid header contributes nothing, and zero bits fill up the last byte. The usual case, all
headers valid and no varbit, is packed at constant offsets; the other one is written bit by bit.
"""

from __future__ import annotations

from p4switch import ir
from p4switch.emit.context import Function
from p4switch.emit.layout import bit_width, native, words
from p4switch.emit.packing import Item, pack, total_bytes


def _max_width(e: ir.Expr) -> int:
    return e.type.max_width if isinstance(e.type, ir.Varbits) else bit_width(e.type)


def _validity(f: Function, e: ir.Expr) -> str | None:
    """C text of the validity that an item depends on."""
    if isinstance(e, ir.Field) and isinstance(e.base.type, ir.HeaderType):
        return f"{f.value(e.base)}.valid_"
    return None


def write_bytes(f: Function, fields: ir.FieldList) -> tuple[str, str]:
    """Serialize a field list into a local array; give C text of the array and of its length in bytes."""
    out, items = f.out, fields.items
    bytes_name, size_name = f.fresh("bytes"), f.fresh("size")
    capacity = total_bytes([_max_width(e) for e in items])
    out.line(f"uint8_t {bytes_name}[{max(capacity, 1)}];")
    checks = list(dict.fromkeys(check for e in items if (check := _validity(f, e))))
    varying = any(isinstance(e.type, ir.Varbits) for e in items)
    if not varying and not checks:
        _write_packed(f, items, bytes_name)
        return bytes_name, str(capacity)
    out.line(f"uint32_t {size_name} = {capacity};")
    if varying:
        with out.block():
            _write_bitwise(f, items, bytes_name, size_name)
        return bytes_name, size_name
    with out.block(f"if (__builtin_expect({' && '.join(checks)}, 1))"):
        _write_packed(f, items, bytes_name)
    with out.block("else"):
        _write_bitwise(f, items, bytes_name, size_name)
    return bytes_name, size_name


def _write_packed(f: Function, items: tuple[ir.Expr, ...], bytes_name: str) -> None:
    for line in pack([Item(f.value(e), bit_width(e.type)) for e in items], bytes_name):
        f.out.line(line)


def _write_bitwise(f: Function, items: tuple[ir.Expr, ...], bytes_name: str, size_name: str) -> None:
    out = f.out
    out.line(f"struct p4_bit_writer w = {{{bytes_name}, 0}};")
    for e in items:
        check = _validity(f, e)
        guard = f"if ({check}) " if check else ""
        if isinstance(e.type, ir.Varbits):
            out.line(f"{guard}p4_put_bytes(&w, {f.value(e)}.data, {f.value(e)}.bits);")
            continue
        width = bit_width(e.type)
        if width <= 64:
            out.line(f"{guard}p4_put_bits(&w, {f.value(e)}, {width});")
        elif native(width):
            pointer, _ = f.expressions.word_list(e)
            out.line(f"{guard}p4_put_words(&w, {pointer}, {width});")
        else:
            out.line(f"{guard}p4_put_words(&w, ({f.value(e)}).w, {width}); /* {words(width)} words */")
    out.line(f"{size_name} = (w.bits + 7) / 8;")
