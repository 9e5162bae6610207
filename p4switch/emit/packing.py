"""Between values and bytes on the wire: C text that packs a list of values into bytes, and back, 64 bits at a time.

Bit offsets are compile-time constants: each run of up to eight bytes is loaded or stored once, and each value is cut
out of or put into those runs by shifts.
"""

from __future__ import annotations

from dataclasses import dataclass

from p4switch.emit.layout import compute_type, compute_width, masked, native, storage_type, words


@dataclass(frozen=True)
class Item:
    """A value to pack: its C text and its width in bits."""

    text: str
    width: int

    def low_bits(self, shift: int) -> str:
        """C text of type uint64_t: the value from bit `shift` on (the caller deals with bits above the wanted ones)."""
        if not native(self.width):
            return f"p4_words_at(({self.text}).w, {words(self.width)}, {shift})"
        text = f"({compute_type(self.width)})({self.text})"
        return f"(uint64_t)({text} >> {shift})" if shift else f"(uint64_t)({text})"


def total_bytes(widths: list[int]) -> int:
    return (sum(widths) + 7) // 8


def _runs(total: int) -> list[tuple[int, int]]:
    """Split `total` bytes into runs (first byte, bytes) of at most eight."""
    return [(at, min(8, total - at)) for at in range(0, total, 8)]


def pack(items: list[Item], buffer: str) -> list[str]:
    """Store items one after the other, most significant bit first, zero bits filling up the last byte."""
    spans, position = [], 0
    for item in items:
        spans.append((position, position + item.width, item))
        position += item.width
    lines = []
    for first, size in _runs((position + 7) // 8):
        start, end = first * 8, (first + size) * 8
        parts = []
        for low, high, item in spans:
            if high <= start or low >= end:
                continue
            cut = min(high, end)  # the last bit of the item in this run
            # Bits above the item's part of this run are shifted out, or lie above the bytes that are stored.
            part = item.low_bits(high - cut)
            parts.append(f"{part} << {end - cut}" if end - cut else part)
        lines.append(f"p4_store_be({buffer} + {first}, {' | '.join(parts) or '0'}, {size});")
    return lines


@dataclass(frozen=True)
class Slot:
    """A place to unpack to: its C text (assignable), its width, and its C type."""

    text: str
    width: int


def unpack(slots: list[Slot], buffer: str, prefix: str = "b") -> list[str]:
    """Load slots from bytes; `prefix` names the local constants that hold the runs."""
    runs = _runs(total_bytes([s.width for s in slots]))
    lines = [f"const uint64_t {prefix}{i} = p4_load_be({buffer} + {at}, {size});" for i, (at, size) in enumerate(runs)]
    position = 0
    for slot in slots:
        if not slot.width:  # bit<0>
            lines.append(f"{slot.text} = 0;")
            continue
        low, high = position, position + slot.width
        position = high
        if native(slot.width):
            value = _gather(runs, prefix, low, high)
            lines.append(f"{slot.text} = ({storage_type(slot.width)}){masked(value, slot.width)};")
            continue
        for word in range(words(slot.width)):
            top, bottom = max(low, high - 64 * (word + 1)), high - 64 * word
            value = masked(f"(uint64_t){_gather(runs, prefix, top, bottom)}", bottom - top)
            lines.append(f"{slot.text}.w[{word}] = {value};")
    return lines


def _gather(runs: list[tuple[int, int]], prefix: str, low: int, high: int) -> str:
    """C text of the bits low..high-1 of the runs, with rubbish above them."""
    c_type = compute_type(high - low)
    parts = []
    for number, (first, size) in enumerate(runs):
        start, end = first * 8, (first + size) * 8
        if high <= start or low >= end:
            continue
        if end >= high:
            text = f"{prefix}{number} >> {end - high}" if end > high else f"{prefix}{number}"
            parts.append(f"({c_type})({text})")
        elif high - end < compute_width(high - low):
            wide = c_type if compute_width(high - low) > 32 else "uint64_t"
            parts.append(f"({c_type})(({wide}){prefix}{number} << {high - end})")
    return f"({' | '.join(parts)})"
