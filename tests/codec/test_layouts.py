"""The Python layouts and constants equal p4src's, and the generic packer checks what it is given."""

from __future__ import annotations

import re
from enum import IntEnum, IntFlag
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec import constants, layouts
from codec.layouts import LAYOUTS, Field, Layout
from codec.scapy_layers import LSU, OEFH, TMA, CreditUpdate, Event, Link, LinkInit, LlrControl, Notice, Probe

P4SRC = Path(__file__).resolve().parents[2] / "p4src"
NUMBER = r"(0[xX][0-9a-fA-F]+|\d+)"


def p4_text(name: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", (P4SRC / name).read_text(), flags=re.S)


def p4_headers() -> dict[str, dict[str, int]]:
    """Return the fields of every header of headers.p4 with their widths."""
    widths = {n: int(w) for w, n in re.findall(r"typedef\s+bit<(\d+)>\s+(\w+)\s*;", p4_text("constants.p4"))}
    found: dict[str, dict[str, int]] = {}
    for name, body in re.findall(r"\bheader\s+(\w+)\s*\{(.*?)\}", p4_text("headers.p4"), flags=re.S):
        found[name] = {
            field: widths[type_name] if type_name in widths else int(type_name[4:-1])
            for type_name, field in re.findall(r"(bit<\d+>|\w+)\s+(\w+)\s*;", body)
        }
    return found


def p4_constants() -> dict[str, int]:
    text = p4_text("constants.p4")
    return {name: int(value, 0) for name, value in re.findall(rf"const\s+\S+\s+(\w+)\s*=\s*{NUMBER}\s*;", text)}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_layout_equals_p4(layout: Layout) -> None:
    assert list(p4_headers()[layout.name].items()) == [(f.name, f.bits) for f in layout.fields]


def test_every_p4_header_has_a_layout() -> None:
    inside_the_switch = {"packet_in_t", "packet_out_t"}  # P4Runtime clients take these from P4Info
    assert p4_headers().keys() - inside_the_switch == {layout.name for layout in LAYOUTS}


ENUMS: dict[str, type[IntEnum] | type[IntFlag]] = {
    "KIND": constants.Kind,
    "FLAG": constants.LinkFlag,
    "VC": constants.Vc,
    "ECN": constants.Ecn,
    "NEXT": constants.Next,
    "LSU": constants.LsuOpcode,
    "LSU_STATUS": constants.LsuStatus,
    "TMA": constants.TmaOpcode,
    "TMA_FLAG": constants.TmaFlag,
    "EVENT": constants.EventType,
    "PROBE": constants.ProbeOp,
    "LINK": constants.LinkState,
    "NOTICE": constants.NoticeType,
    "CAPABILITY": constants.Capability,
}


@pytest.mark.parametrize("prefix", ENUMS)
def test_enum_equals_p4(prefix: str) -> None:
    known = p4_constants()
    values = {member.name: int(member) for member in ENUMS[prefix]}
    assert {name: known.get(f"{prefix}_{name}") for name in values} == values


def test_single_constants_equal_p4() -> None:
    known = p4_constants()
    assert known["OEFH_VERSION"] == constants.OEFH_VERSION
    assert known["HOPS_INITIAL"] == constants.HOPS
    assert known["FIRST_SWITCH_ID"] == constants.FIRST_SWITCH_ID == constants.MAX_GPU_ID + 1
    assert known["NOBODY"] == constants.NOBODY == constants.MAX_SWITCH_ID + 1
    assert known["LINK_INIT_VERSION"] == constants.INIT_VERSION
    assert known["LSU_STATUS_ECN_ECHO"] == constants.LSU_STATUS_ECN_ECHO
    sizes = {"LINK": layouts.LINK, "OEFH": layouts.OEFH, "LSU": layouts.LSU, "TMA": layouts.TMA}
    assert {name: known[f"{name}_BYTES"] for name in sizes} == {name: layout.size for name, layout in sizes.items()}
    assert known["END_TO_END_CRC_BYTES"] == constants.CRC_BYTES
    largest = layouts.LINK.size + layouts.OEFH.size + layouts.TMA.size + constants.TMA_MAX_BYTES + constants.CRC_BYTES
    assert largest == constants.MAX_FRAME


def test_scapy_layers_have_the_layouts_fields() -> None:
    layers = (Link, OEFH, LSU, TMA, Event, Probe, LinkInit, CreditUpdate, LlrControl, Notice)
    by_layout = zip(layers, (layouts.LINK, layouts.OEFH, layouts.LSU, layouts.TMA, layouts.EVENT, layouts.PROBE,
        layouts.LINK_INIT, layouts.CREDIT_UPDATE, layouts.LLR_CONTROL, layouts.NOTICE), strict=True)  # fmt: skip
    for layer, layout in by_layout:
        names = [f.name for f in layer.fields_desc]
        assert names[: len(layout.fields)] == [f.name for f in layout.fields]


@st.composite
def filled(draw: st.DrawFn) -> tuple[Layout, dict[str, layouts.Value]]:
    layout = draw(st.sampled_from(LAYOUTS))
    values: dict[str, layouts.Value] = {}
    for f in layout.fields:
        width = f.bits // f.parts
        low, high = (-(1 << width - 1), (1 << width - 1) - 1) if f.signed else (0, (1 << width) - 1)
        part = st.integers(low, high)
        values[f.name] = draw(part) if f.parts == 1 else draw(st.tuples(*[part] * f.parts))
    return layout, values


@given(filled())
def test_packing_is_reversible(case: tuple[Layout, dict[str, layouts.Value]]) -> None:
    layout, values = case
    packed = layout.pack(**values)
    assert len(packed) == layout.size
    assert layout.unpack(packed + b"more") == values


def test_packer_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"oefh_t\.dst = 4096 does not fit: 0 to 4095"):
        layouts.OEFH.pack(dst=4096)
    with pytest.raises(ValueError, match=r"link_init_t\.packet_overhead = -129 does not fit: -128 to 127"):
        layouts.LINK_INIT.pack(packet_overhead=-129)
    with pytest.raises(ValueError, match=r"credit_update_t\.credits takes 8 values, got 2"):
        layouts.CREDIT_UPDATE.pack(credits=(1, 2))
    with pytest.raises(ValueError, match="llr_control_t has no field ack; it has zero"):
        layouts.LLR_CONTROL.pack(ack=1)
    with pytest.raises(ValueError, match="lsu_t takes 18 bytes, got 17"):
        layouts.LSU.unpack(bytes(17))
    with pytest.raises(ValueError, match="layout odd: 3 bits are not a whole number of bytes"):
        Layout("odd", (Field("a", 3),))
