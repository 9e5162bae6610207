"""Headers between the packet and the phv: one C function to extract and one to emit per header type."""

from __future__ import annotations

from p4switch import ir
from p4switch.emit.layout import Layout, bit_width, c_name, member
from p4switch.emit.packing import Item, Slot, pack, unpack
from p4switch.emit.writer import Writer


def varbit_of(t: ir.HeaderType) -> tuple[str, ir.Varbits] | None:
    """Give the name and type of the header's varbit field, if it has one."""
    return next(((name, field) for name, field in t.fields if isinstance(field, ir.Varbits)), None)


def fixed_bits(t: ir.HeaderType) -> int:
    """Width of a header without its varbit, in bits."""
    return sum(slot.width for slot in _leaves([f for f in t.fields if not isinstance(f[1], ir.Varbits)]))


def max_bytes(t: ir.HeaderType) -> int:
    """Most bytes that a header takes on the wire."""
    varbit = varbit_of(t)
    return (fixed_bits(t) + (varbit[1].max_width if varbit else 0) + 7) // 8


def scalar_leaves(t: ir.Type, text: str) -> list[Slot]:
    """Flatten a scalar, header, struct or stack type at the C place `text` to its scalars."""
    inner = parts(t, text)
    if inner is None:
        return [Slot(text, bit_width(t))]
    return [leaf for part, place in inner for leaf in scalar_leaves(part, place)]


def header_places(t: ir.Type, text: str) -> list[str]:
    """C places of the headers in a header, struct or stack."""
    inside = [place for part, at in parts(t, text) or [] for place in header_places(part, at)]
    return [text, *inside] if isinstance(t, ir.HeaderType) else inside


def parts(t: ir.Type, text: str) -> list[tuple[ir.Type, str]] | None:
    """Members of a compound type at the C place `text`, with their places; None for scalars."""
    if isinstance(t, ir.StackType):
        return [(t.element, f"{text}.at[{i}]") for i in range(t.size)]
    if isinstance(t, ir.HeaderType | ir.StructType):
        return [(field, f"{text}.{member(t, name)}") for name, field in t.fields]
    return None


def _leaves(fields: list[tuple[str, ir.Type]]) -> list[Slot]:
    """Flatten fields of the header `h` points to: a header may hold structs."""
    return [leaf for name, field in fields for leaf in scalar_leaves(field, f"h->{c_name(name)}")]


def _bits(fields: list[tuple[str, ir.Type]]) -> int:
    return sum(leaf.width for leaf in _leaves(fields))


def _segments(t: ir.HeaderType) -> tuple[list[tuple[str, ir.Type]], list[tuple[str, ir.Type]]]:
    """Split the fields at the varbit."""
    names = [name for name, field in t.fields if isinstance(field, ir.Varbits)]
    if not names:
        return list(t.fields), []
    at = [name for name, _ in t.fields].index(names[0])
    return list(t.fields[:at]), list(t.fields[at + 1 :])


class HeaderFunctions:
    """Write extract_<header> and emit_<header>, each on first use."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.out = Writer()
        self._done: set[str] = set()

    def extract(self, t: ir.HeaderType) -> str:
        """Name the function (header *h, const uint8_t *p, uint32_t varbits) that fills h from the bytes at p."""
        c_type = self.layout.c_type(t)
        name = f"extract_{c_type.removeprefix('struct header_')}"
        if name not in self._done:
            self._done.add(name)
            self._write_extract(t, c_type, name)
        return name

    def emit(self, t: ir.HeaderType) -> str:
        """Name the function (uint8_t *p, const header *h) that writes h to p and returns the bytes written."""
        c_type = self.layout.c_type(t)
        name = f"emit_{c_type.removeprefix('struct header_')}"
        if name not in self._done:
            self._done.add(name)
            self._write_emit(t, c_type, name)
        return name

    def _write_extract(self, t: ir.HeaderType, c_type: str, name: str) -> None:
        before, after = _segments(t)
        varbit = varbit_of(t)
        with self.out.block(f"static inline void {name}({c_type} *h, const uint8_t *p, uint32_t varbits)"):
            self._unpack(before, 0, "b")
            if varbit:
                field, bits = f"h->{c_name(varbit[0])}", _bits(before)
                self.out.line(f"{field}.bits = varbits;")
                self.out.line(f"p4_copy_bits({field}.data, 0, p, {bits}, varbits);")
                if after:
                    tail = _bits(after)
                    self.out.line(f"uint8_t tail[{(tail + 7) // 8}] = {{0}};")
                    self.out.line(f"p4_copy_bits(tail, 0, p, {bits} + varbits, {tail});")
                    self.out.line("p = tail;")
                    self._unpack(after, 0, "c")
            else:
                self.out.line("(void)varbits;")
            self.out.line("h->valid_ = true;")
        self.out.line()

    def _unpack(self, fields: list[tuple[str, ir.Type]], at: int, prefix: str) -> None:
        for line in unpack(_leaves(fields), f"p + {at}" if at else "p", prefix):
            self.out.line(line)

    def _write_emit(self, t: ir.HeaderType, c_type: str, name: str) -> None:
        before, after = _segments(t)
        varbit = varbit_of(t)
        with self.out.block(f"static inline uint32_t {name}(uint8_t *p, const {c_type} *h)"):
            self._pack(before, "p")
            if varbit:
                field, bits = f"h->{c_name(varbit[0])}", _bits(before)
                self.out.line(f"p4_copy_bits(p, {bits}, {field}.data, 0, {field}.bits);")
                if after:
                    tail = _bits(after)
                    self.out.line(f"uint8_t tail[{(tail + 7) // 8}];")
                    self._pack(after, "tail")
                    self.out.line(f"p4_copy_bits(p, {bits} + {field}.bits, tail, 0, {tail});")
                self.out.line(f"return ({fixed_bits(t)} + {field}.bits + 7) / 8;")
            else:
                self.out.line(f"return {max_bytes(t)};")
        self.out.line()

    def _pack(self, fields: list[tuple[str, ir.Type]], buffer: str) -> None:
        for line in pack([Item(leaf.text, leaf.width) for leaf in _leaves(fields)], buffer):
            self.out.line(line)
