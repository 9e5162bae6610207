"""Scapy layers of every EthLink header, for tests, captures and packets made by hand.

`Link()/OEFH()/LSU(opcode="STORE", address=64, data=b"12345678")` builds a whole frame: lengths and both CRCs are
filled in unless given. `Link(frame_bytes)` dissects one, `read_capture(file)` a capture; `crc_ok()` of `Link`, `LSU`
and `TMA` tells whether the CRCs hold. The fields are made from `codec.layouts`. What differs from the bits on the
wire: `LSU.length` counts bytes (1 to 256, not bytes - 1), and the `data` and `crc` that end an LSU or TMA frame are
fields of those layers.

Importing this module imports Scapy, which takes most of a second: the endpoint's run-time code does not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import IntEnum, IntFlag
from typing import Any, ClassVar, Final

from scapy.fields import (
    BitEnumField,
    BitField,
    Field,
    FieldListField,
    FlagsField,
    SignedByteField,
    StrLenField,
    X3BytesField,
    XBitField,
    XIntField,
)
from scapy.packet import Packet, bind_bottom_up, bind_layers
from scapy.utils import RawPcapReader

from codec import layouts
from codec.constants import (
    ATOMIC_BYTES,
    CRC_BYTES,
    Capability,
    EventType,
    Kind,
    LinkFlag,
    LinkState,
    LsuOpcode,
    LsuStatus,
    Next,
    NoticeType,
    ProbeOp,
    TmaFlag,
    TmaOpcode,
)

# How fields are shown, here and in Wireshark: by the name of a value, by the names of their bits, in hexadecimal.
ENUMS: Final[Mapping[tuple[str, str], type[IntEnum]]] = {
    ("link_t", "kind"): Kind,
    ("oefh_t", "next"): Next,
    ("lsu_t", "opcode"): LsuOpcode,
    ("lsu_t", "status"): LsuStatus,
    ("tma_t", "opcode"): TmaOpcode,
    ("event_t", "type"): EventType,
    ("probe_t", "op"): ProbeOp,
    ("probe_t", "state"): LinkState,
    ("notice_t", "type"): NoticeType,
}
FLAGS: Final[Mapping[tuple[str, str], type[IntFlag]]] = {
    ("link_t", "flags"): LinkFlag,
    ("tma_t", "flags"): TmaFlag,
    ("link_init_t", "capabilities"): Capability,
}
HEX: Final = frozenset(
    {"crc", "session", "key", "address", "own_epoch", "peer_epoch", "vc_mask", "dst", "src", "subject"}
)


class _BytesMinusOneField(BitField):
    """A count of 1 to 256 bytes that travels as the count - 1; None means: as many as there are data."""

    def i2m(self, pkt: Packet | None, value: int | None) -> int:
        return 0 if value is None else value - 1

    def m2i(self, pkt: Packet | None, value: int) -> int:
        return value + 1


def _names(flags: type[IntFlag], bits: int) -> list[str]:
    known = {int(flag): flag.name or "" for flag in flags}
    return [known.get(1 << bit, f"bit{bit}") for bit in range(bits)]


def _field(layout: layouts.Layout, f: layouts.Field) -> Field[Any, Any]:
    """Return the Scapy field for one field of a layout."""
    where = layout.name, f.name
    if where == ("link_t", "crc"):
        return XBitField(f.name, None, f.bits)
    if where == ("lsu_t", "length"):
        return _BytesMinusOneField(f.name, None, f.bits)
    if where == ("tma_t", "length"):
        return BitField(f.name, None, f.bits)
    if f.parts > 1:
        part: Any = X3BytesField("", 0)
        parts = f.parts
        default: list[Any] = [f.default] * parts
        return FieldListField(f.name, default, part, count_from=lambda _pkt: parts)
    if where in ENUMS:
        return BitEnumField(f.name, f.default, f.bits, {int(member): member.name for member in ENUMS[where]})
    if where in FLAGS:
        return FlagsField(f.name, f.default, f.bits, _names(FLAGS[where], f.bits))
    if f.signed:
        return SignedByteField(f.name, f.default)
    kind: Callable[..., Field[Any, Any]] = XBitField if f.name in HEX else BitField
    return kind(f.name, f.default, f.bits)


def _fields(layout: layouts.Layout) -> list[Any]:
    return [_field(layout, f) for f in layout.fields]


class Link(Packet):
    """Link header; `crc` is computed at build unless given."""

    name = "Link"
    fields_desc = _fields(layouts.LINK)

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        frame = pkt + pay
        if self.crc is None:
            crc = layouts.link_crc(frame)
            frame = frame[: layouts.CRC_OFFSET] + crc.to_bytes(CRC_BYTES, "big") + frame[layouts.LINK.size :]
        return frame

    def crc_ok(self) -> bool:
        """Tell whether the link header's CRC holds for the frame as it is (of a frame that was dissected)."""
        return bool(self.crc == layouts.link_crc(bytes(self)))

    def mysummary(self) -> str:
        return self.sprintf("Link %Link.kind%")


class OEFH(Packet):
    """The 6-byte forwarding header of DATA frames."""

    name = "OEFH"
    fields_desc = _fields(layouts.OEFH)

    def mysummary(self) -> str:
        return self.sprintf("OEFH %OEFH.src% > %OEFH.dst% vc %OEFH.vc%")


class _Transaction(Packet):
    """What LSU and TMA share: a header, data, and a CRC-32 that covers both and the two endpoint ids."""

    layout: layouts.Layout

    def _with_crc(self, pkt: bytes) -> bytes:
        if self.crc is not None:
            return pkt
        return pkt[:-CRC_BYTES] + layouts.end_to_end_crc(*self._ids(), pkt[:-CRC_BYTES]).to_bytes(CRC_BYTES, "big")

    def _ids(self) -> tuple[int, int]:
        oefh = self.underlayer
        return (oefh.src, oefh.dst) if isinstance(oefh, OEFH) else (0, 0)

    def crc_ok(self) -> bool:
        """Tell whether the end-to-end CRC holds (of a frame that was dissected)."""
        covered = self.layout.size + len(self.data)
        return bool(self.crc == layouts.end_to_end_crc(*self._ids(), bytes(self)[:covered]))


def _data_length(layout: layouts.Layout) -> Callable[[Packet], int]:
    """Return what tells Scapy how much of the rest is data: all but the CRC that ends the frame."""

    def length(pkt: Packet) -> int:
        return max(0, len(pkt.original) - layout.size - CRC_BYTES)

    return length


class LSU(_Transaction):
    """Load/store; `length` in bytes (default: that of `data`, half of it for ATOMIC_CAS, else 8), `crc` end to end."""

    name = "LSU"
    layout = layouts.LSU
    fields_desc: ClassVar[list[Any]] = [
        *_fields(layouts.LSU),
        StrLenField("data", b"", length_from=_data_length(layouts.LSU)),
        XIntField("crc", None),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.length is None:
            length = len(self.data) or ATOMIC_BYTES
            if self.data and self.opcode == LsuOpcode.ATOMIC_CAS:  # compare and swap: two operands of `length` bytes
                length //= 2
            pkt = pkt[:1] + bytes([(length - 1) & 0xFF]) + pkt[2:]
        return self._with_crc(pkt) + pay

    def mysummary(self) -> Any:  # with the layers whose summaries go in front
        return self.sprintf("LSU %LSU.opcode% #%LSU.request% %LSU.address%"), [OEFH]


class TMA(_Transaction):
    """RDMA; `length` (bytes of `data`, the default), `crc` end to end."""

    name = "TMA"
    layout = layouts.TMA
    fields_desc: ClassVar[list[Any]] = [
        *_fields(layouts.TMA),
        StrLenField("data", b"", length_from=_data_length(layouts.TMA)),
        XIntField("crc", None),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.length is None:
            pkt = pkt[:10] + len(self.data).to_bytes(2, "big") + pkt[12:]
        return self._with_crc(pkt) + pay

    def mysummary(self) -> Any:  # with the layers whose summaries go in front
        return self.sprintf("TMA %TMA.opcode% #%TMA.message% +%TMA.offset%"), [OEFH]


class Event(Packet):
    """What a switch tells sources about a subject on a plane."""

    name = "Event"
    fields_desc = _fields(layouts.EVENT)


class Probe(Packet):
    """A question to a switch, and its answer."""

    name = "Probe"
    fields_desc = _fields(layouts.PROBE)


class LinkInit(Packet):
    """Body of LLR_INIT and LLR_INIT_ECHO."""

    name = "LinkInit"
    fields_desc = _fields(layouts.LINK_INIT)


class CreditUpdate(Packet):
    """Body of CF_UPDATE and CC_UPDATE."""

    name = "CreditUpdate"
    fields_desc = _fields(layouts.CREDIT_UPDATE)


class LlrControl(Packet):
    """Body of LLR_ACK and LLR_NACK: six zero bytes."""

    name = "LlrControl"
    fields_desc = _fields(layouts.LLR_CONTROL)


class Notice(Packet):
    """What a switch's target tells the switch program on its internal event port, after a link header of zeros."""

    name = "Notice"
    fields_desc = _fields(layouts.NOTICE)


bind_layers(Link, OEFH, kind=Kind.DATA)
for _next, _layer in ((Next.LSU, LSU), (Next.TMA, TMA), (Next.EVENT, Event), (Next.PROBE, Probe)):
    bind_layers(OEFH, _layer, next=_next)
# A body that two kinds share builds as the first of them, unless Link's kind is given.
for _body, _first, _second in (
    (LlrControl, Kind.LLR_ACK, Kind.LLR_NACK),
    (LinkInit, Kind.LLR_INIT, Kind.LLR_INIT_ECHO),
    (CreditUpdate, Kind.CF_UPDATE, Kind.CC_UPDATE),
):
    bind_layers(Link, _body, kind=_first)
    bind_bottom_up(Link, _body, kind=_second)


def read_capture(path: str | os.PathLike[str]) -> list[Link]:
    """Return the frames of a capture file (pcap or pcapng), as tcpdump or the switch writes it, dissected."""
    with RawPcapReader(os.fspath(path)) as frames:
        return [Link(frame) for frame, _metadata in frames]
