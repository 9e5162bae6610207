"""Which locals have to be zeroed: those that some way through a control uses before it assigns them."""

from __future__ import annotations

from pathlib import Path

import pytest

from p4switch.emit.context import Unit
from p4switch.emit.initialization import zeroed_locals
from p4switch.frontend import compile_p4

FRAME = """
#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<8> a; bit<8> b; }}
struct headers_t {{ h_t h; }}
struct meta_t {{ bit<8> x; }}
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {{
    state start {{ p.extract(h.h); transition accept; }}
}}
control None(inout headers_t h, inout meta_t m) {{ apply {{}} }}
control In(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{
    {declarations}
    apply {{ {body} }}
}}
control Out(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{ apply {{}} }}
control D(packet_out p, in headers_t h) {{ apply {{ p.emit(h.h); }} }}
V1Switch(P(), None(), In(), Out(), None(), D()) main;
"""
TABLE = (
    "bit<8> v; action set() { v = 1; } action use() { m.x = v; }"
    "table t { key = { h.h.a : exact; } actions = { set; use; NoAction; } default_action = NoAction(); }"
)
CASES = {
    "assigned, then used": ("", "bit<8> v = h.h.a; m.x = v;", False),
    "never assigned": ("bit<8> v;", "m.x = v;", True),
    "used in its own assignment": ("bit<8> v;", "v = v + 1; m.x = v;", True),
    "assigned in one branch": ("bit<8> v;", "if (h.h.a == 1) { v = 2; } m.x = v;", True),
    "used in the other branch": ("bit<8> v;", "if (h.h.a == 1) { v = 2; m.x = v; } else { m.x = v; }", True),
    "only inside a branch": ("", "if (h.h.a == 1) { bit<8> v = 2; m.x = v; }", False),
    "assigned before the branch": ("bit<8> v;", "v = 3; if (h.h.a == 1) { v = 2; } m.x = v;", False),
    "a part assigned": ("bit<8> v;", "v[3:0] = 1; m.x = v;", True),
    "in an action": (TABLE, "t.apply();", True),
    "before the table": (TABLE, "v = 7; t.apply(); m.x = v;", False),
    "after leaving a scope": ("bit<8> v;", "if (h.h.a == 1) { return; } v = 1; m.x = v;", False),
}


@pytest.mark.parametrize(("declarations", "body", "zeroed"), CASES.values(), ids=list(CASES))
def test_zeroed(tmp_path: Path, declarations: str, body: str, zeroed: bool) -> None:
    path = tmp_path / "program.p4"
    path.write_text(FRAME.format(declarations=declarations, body=body))
    unit = Unit(compile_p4(path))
    assert any(v.name.startswith("v") for v in unit.locals_of("ingress"))
    assert any(v.name.startswith("v") for v in zeroed_locals(unit, "ingress")) == zeroed
