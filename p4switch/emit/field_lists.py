"""Field lists as bytes: what hashes and checksums run over.

As on BMv2, in checksums a field of an invalid header contributes nothing (in hash() it does), and zero bits fill up the
last byte. The usual case, all headers valid and no varbit, is packed at constant offsets; the other one bit by bit.
"""

from __future__ import annotations

import itertools

from p4switch import ir
from p4switch.emit.context import Function
from p4switch.emit.layout import bit_width
from p4switch.emit.packing import Item, pack, total_bytes


def _max_width(e: ir.Expr) -> int:
    return e.type.max_width if isinstance(e.type, ir.Varbits) else bit_width(e.type)


def _validity(f: Function, e: ir.Expr) -> str | None:
    """C text of the validity that an item depends on."""
    if isinstance(e, ir.Field) and isinstance(e.base.type, ir.HeaderType):
        return f"{f.value(e.base)}.valid_"
    return None


def write_bytes(f: Function, fields: ir.FieldList, skip_invalid: bool) -> tuple[str, str]:
    """Serialize a field list into a local array; give C text of the array and of its length in bytes.

    skip_invalid: fields of invalid headers contribute nothing.
    """
    out, items = f.out, fields.items
    bytes_name, size_name = f.fresh("bytes"), f.fresh("size")
    capacity = total_bytes([_max_width(e) for e in items])
    out.line(f"uint8_t {bytes_name}[{max(capacity, 1)}];")
    checks = list(dict.fromkeys(check for e in items if skip_invalid and (check := _validity(f, e))))
    varying = any(isinstance(e.type, ir.Varbits) for e in items)
    if not varying and not checks:
        _write_packed(f, items, bytes_name)
        return bytes_name, str(capacity)
    out.line(f"uint32_t {size_name} = {capacity};")
    if varying:
        with out.block():
            _write_bitwise(f, items, bytes_name, size_name, skip_invalid)
        return bytes_name, size_name
    with out.block(f"if (__builtin_expect({' && '.join(checks)}, 1))"):
        _write_packed(f, items, bytes_name)
    with out.block("else"):
        _write_bitwise(f, items, bytes_name, size_name, skip_invalid)
    return bytes_name, size_name


def _write_packed(f: Function, items: tuple[ir.Expr, ...], bytes_name: str) -> None:
    for line in pack([Item(f.value(e), bit_width(e.type)) for e in items], bytes_name):
        f.out.line(line)


def _write_bitwise(
    f: Function, items: tuple[ir.Expr, ...], bytes_name: str, size_name: str, skip_invalid: bool
) -> None:
    """Append what belongs to one header, or to none, as one run of bits."""
    out = f.out
    out.line(f"struct p4_bit_writer w = {{{bytes_name}, 0}};")
    groups = itertools.groupby(items, key=lambda e: (_validity(f, e), isinstance(e.type, ir.Varbits)))
    for (validity, varying), group in groups:
        check = validity if skip_invalid else None
        with out.block(f"if ({check})" if check else ""):
            if varying:
                for e in group:
                    out.line(f"p4_put_bytes(&w, {f.value(e)}.data, {f.value(e)}.bits);")
                continue
            members = tuple(group)
            widths = [bit_width(e.type) for e in members]
            out.line(f"uint8_t part[{total_bytes(widths)}];")
            _write_packed(f, members, "part")
            out.line(f"p4_put_bytes(&w, part, {sum(widths)});")
    out.line(f"{size_name} = (w.bits + 7) / 8;")
