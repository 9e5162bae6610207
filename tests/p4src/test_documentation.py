"""The documentation of the switch program against the program: layouts, constants, tables, actions, counters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from p4switch.frontend import compile_p4
from p4switch.p4info import p4info_of

ROOT = Path(__file__).resolve().parents[2]
P4SRC = ROOT / "p4src"
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text()
PIPELINE = (ROOT / "docs" / "pipeline.md").read_text()


def constants() -> dict[str, int]:
    """Return the numeric constants of constants.p4."""
    text = (P4SRC / "constants.p4").read_text()
    return {name: int(value, 0) for name, value in re.findall(r"\bconst \S+ (\w+) = (\w+);", text, re.MULTILINE)}


def types() -> dict[str, int]:
    """Return the width of each typedef of constants.p4."""
    text = (P4SRC / "constants.p4").read_text()
    return {name: int(width) for width, name in re.findall(r"^typedef bit<(\d+)> (\w+);", text, re.MULTILINE)}


def headers() -> dict[str, list[tuple[str, int]]]:
    """Return the fields (name, bits) of each header of headers.p4."""
    known = types()
    found = {}
    for name, body in re.findall(r"^header (\w+) \{(.*?)^\}", (P4SRC / "headers.p4").read_text(), re.M | re.S):
        fields = re.findall(r"^ {4}(bit<(\d+)>|\w+) (\w+);", body, re.MULTILINE)
        found[name] = [(field, int(width) if width else known[kind]) for kind, width, field in fields]
    return found


def rows(text: str) -> list[list[str]]:
    """Return the cells of the first Markdown table in a text, its heading left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def section(text: str, heading: str) -> str:
    """Return what stands under a heading, up to the next one."""
    found = re.search(rf"^#+ [^\n]*{re.escape(heading)}[^\n]*\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"no heading with {heading!r}"
    return found[1]


WIRE_HEADERS = [name for name in headers() if not name.startswith("packet_")]


@pytest.mark.parametrize("name", WIRE_HEADERS)
def test_layout_tables(name: str) -> None:
    fields = headers()[name]
    documented = [(row[1], int(row[0])) for row in rows(section(PROTOCOL, f"`{name}`"))]
    assert documented == fields
    assert f"`{name}`, {sum(bits for _, bits in fields)} bits" in PROTOCOL


@pytest.mark.parametrize(
    ("header", "field", "prefix"),
    [
        ("link_t", "kind", "KIND_"),
        ("oefh_t", "next", "NEXT_"),
        ("lsu_t", "opcode", "LSU_"),
        ("tma_t", "opcode", "TMA_"),
        ("event_t", "type", "EVENT_"),
    ],
)
def test_named_values(header: str, field: str, prefix: str) -> None:
    (meaning,) = (row[2] for row in rows(section(PROTOCOL, f"`{header}`")) if row[1] == field)
    documented = {name: int(value) for value, name in re.findall(r"(\d+) ([A-Z][A-Z_]+)", meaning)}
    assert documented
    for name, value in documented.items():
        assert constants()[prefix + name] == value


def test_drop_reasons() -> None:
    documented = {row[1].strip("`"): int(row[0]) for row in rows(section(PIPELINE, "Drop reasons"))}
    defined = {name[7:].lower(): value for name, value in constants().items() if name.startswith("REASON_")}
    assert documented == defined
    assert list(documented.values()) == list(range(1, len(documented) + 1))


def test_local_packets_have_the_documented_reason() -> None:
    assert f"Reason {constants()['VERDICT_LOCAL']}:" in section(PIPELINE, "Packet I/O")


class TestP4Info:
    """The names, widths and sizes that pipeline.md gives are those of P4Info."""

    p4info = p4info_of(compile_p4(P4SRC / "ethlink.p4"))

    def test_tables(self) -> None:
        actions = {
            action.preamble.id: (action.preamble.alias, [(param.name, param.bitwidth) for param in action.params])
            for action in self.p4info.actions
        }
        offered = {}
        for table in self.p4info.tables:
            fields = [(field.name, field.bitwidth) for field in table.match_fields]
            usable = [actions[ref.id] for ref in table.action_refs if ref.scope != ref.DEFAULT_ONLY]
            offered[table.preamble.alias] = (fields, sorted(usable), table.size)
        documented = {}
        for name, key, action_text, _miss, size in rows(section(PIPELINE, "Tables")):
            keys = [(field, int(width)) for field, width in re.findall(r"`(\w+)` (\d+)", key)]
            named = []
            for action, params in re.findall(r"`(\w+)\((.*?)\)`", action_text):
                named.append((action, [(p, int(w)) for p, w in re.findall(r"(\w+) (\d+)", params)]))
            documented[name.strip("`")] = (keys, sorted(named), int(size.replace(",", "")))
        assert documented == offered

    def test_counters_and_meters(self) -> None:
        reasons = {row[1].strip("`") for row in rows(section(PIPELINE, "Drop reasons"))}
        others = set(re.findall(r"^\| `(\w+)` \|", section(PIPELINE, "Counters"), re.MULTILINE))
        assert {c.preamble.alias for c in self.p4info.counters} == reasons | others
        assert {m.preamble.alias for m in self.p4info.meters} == {"packet_in_rate", "control_rate_limit"}

    def test_registers(self) -> None:
        named = {
            (name, int(row[1]))
            for row in rows(section(PIPELINE, "Registers"))
            for name in re.findall(r"`(\w+)`", row[0])
        }
        offered = {(r.preamble.alias, r.type_spec.bitstring.bit.bitwidth) for r in self.p4info.registers}
        assert named and named <= offered

    def test_packet_metadata(self) -> None:
        offered = {
            m.preamble.name: [(field.name, field.bitwidth) for field in m.metadata]
            for m in self.p4info.controller_packet_metadata
        }
        text = section(PIPELINE, "Packet I/O")
        for name, header in (("packet_in", "packet-in"), ("packet_out", "packet-out")):
            (line,) = re.findall(rf"\*\*{header}\*\* (.*?)\.", text)
            assert [(field, int(width)) for field, width in re.findall(r"`(\w+)` (\d+)", line)] == offered[name]
