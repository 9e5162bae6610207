"""P4Info as clients send it: indexed when sound, refused with a reason when not."""

from __future__ import annotations

import pytest
from finsy.proto import p4d, p4i
from google.protobuf import text_format

from p4switch.server import status
from p4switch.server.datatypes import DataType, Types
from p4switch.server.schema import build_schema
from p4switch.server.status import RequestError

SOUND = """
tables {
  preamble { id: 33554433 name: "c.t" alias: "t" }
  match_fields { id: 1 name: "h.a" bitwidth: 16 match_type: EXACT }
  match_fields { id: 2 name: "h.b" bitwidth: 32 match_type: LPM }
  action_refs { id: 16777217 }
  action_refs { id: 16777218 scope: DEFAULT_ONLY }
  direct_resource_ids: 318767105
  size: 64
}
actions { preamble { id: 16777217 name: "c.set" alias: "set" } params { id: 1 name: "port" bitwidth: 9 } }
actions { preamble { id: 16777218 name: "NoAction" alias: "NoAction" } }
direct_counters {
  preamble { id: 318767105 name: "c.hits" alias: "hits" } spec { unit: BOTH } direct_table_id: 33554433
}
registers {
  preamble { id: 369098753 name: "c.r" alias: "r" } type_spec { bitstring { bit { bitwidth: 48 } } } size: 8
}
controller_packet_metadata {
  preamble { id: 1 name: "packet_in" }
  metadata { id: 1 name: "port" bitwidth: 9 }
  metadata { id: 2 name: "pad" bitwidth: 7 }
}
"""


def parse(text: str) -> p4i.P4Info:
    return text_format.Parse(text, p4i.P4Info())


def test_sound() -> None:
    schema = build_schema(parse(SOUND))
    table = schema.tables[33554433]
    assert [key.kind_name for key in table.keys] == ["exact", "lpm"]
    assert not table.needs_priority
    assert not table.actions[16777218].in_entries and table.actions[16777218].as_default
    assert table.direct_counter == 318767105 and table.direct_meter == 0
    assert schema.packet_in is not None and schema.packet_in.length == 2


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("id: 16777218 name", "id: 16777217 name", "belongs to 'c.set' and to 'NoAction'"),
        ('id: 2 name: "h.b"', 'id: 1 name: "h.b"', "id 1 occurs twice in table 'c.t'"),
        ("match_type: LPM", 'other_match_type: "fuzzy"', "match kind fuzzy"),
        ("bitwidth: 32", "bitwidth: -1", "'h.b' of table 'c.t' has bit width -1"),
        ("action_refs { id: 16777217 }", "action_refs { id: 16777299 }", "refers to action 16777299"),
        ("direct_resource_ids: 318767105", "direct_resource_ids: 5", "refers to direct resource 5"),
        ("size: 64", "implementation_id: 9", "refers to action profile 9"),
        ('name: "packet_in"', 'name: "packet_on"', "controller header 'packet_on'"),
        ("bit { bitwidth: 48 }", "varbit { max_bitwidth: 48 }", "holds a varbit"),
    ],
)
def test_unsound(old: str, new: str, reason: str) -> None:
    assert SOUND.count(old) == 1
    with pytest.raises(RequestError) as caught:
        build_schema(parse(SOUND.replace(old, new)))
    assert caught.value.code == status.INVALID_ARGUMENT
    assert reason in caught.value.message


def test_unknown_ids_are_explained() -> None:
    schema = build_schema(parse(SOUND))
    for number, reason in [
        (16777217, "is action 'c.set', not a table"),
        (99, "no table has id 99 in the P4Info; there is 'c.t' (33554433)"),
        (0, "the id of a table is missing"),
    ]:
        with pytest.raises(RequestError) as caught:
            schema.find("table", schema.tables, number)
        assert caught.value.code == status.INVALID_ARGUMENT
        assert reason in caught.value.message


TYPES = """
structs {
  key: "s_t"
  value {
    members { name: "a" type_spec { bitstring { bit { bitwidth: 12 } } } }
    members { name: "ok" type_spec { bool { } } }
    members { name: "n" type_spec { bitstring { int { bitwidth: 8 } } } }
    members { name: "h" type_spec { header { name: "h_t" } } }
    members { name: "e" type_spec { enum { name: "e_t" } } }
  }
}
structs { key: "loop_t" value { members { name: "again" type_spec { struct { name: "loop_t" } } } } }
headers { key: "h_t" value { members { name: "x" type_spec { bit { bitwidth: 16 } } } } }
enums { key: "e_t" value { members { name: "RED" } members { name: "GREEN" } } }
"""


def struct_type(name: str) -> DataType:
    types = text_format.Parse(TYPES, p4i.P4Info().type_info)
    spec = p4i.P4Info().digests.add().type_spec
    spec.struct.name = name
    return DataType.of(spec, Types(types, {}), "digest 'd'")


def test_struct_there_and_back() -> None:
    kind = struct_type("s_t")
    leaves = [0x123, 1, 0x9D, 0xBEEF, 1]
    data = kind.encode(iter(leaves))
    assert data.struct.members[0].bitstring == b"\x01\x23"
    assert data.struct.members[2].bitstring == b"\x9d"
    assert data.struct.members[3].header.is_valid
    assert data.struct.members[4].enum == "GREEN"
    assert kind.decode(data, "d") == leaves


def test_wrong_data_is_refused() -> None:
    kind = struct_type("s_t")
    data = kind.encode(iter([1, 1, 1, 1, 1]))
    data.struct.members[4].enum = "BLUE"
    with pytest.raises(RequestError, match="no member 'BLUE'; there is RED, GREEN"):
        kind.decode(data, "d")
    del data.struct.members[1]
    with pytest.raises(RequestError, match="4 members, where 5 are needed"):
        kind.decode(data, "d")
    with pytest.raises(RequestError, match="kind bitstring, where a struct is needed"):
        kind.decode(p4d.P4Data(bitstring=b"\x01"), "d")


def test_endless_type_is_refused() -> None:
    with pytest.raises(RequestError, match="nested without end"):
        struct_type("loop_t")
