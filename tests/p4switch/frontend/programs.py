"""Small v1model programs for tests: a skeleton with holes."""

from __future__ import annotations

from pathlib import Path

from p4switch import ir
from p4switch.frontend import compile_p4

_SKELETON = """#include <core.p4>
#include <v1model.p4>
{declarations}
header h_t {{ bit<8> a; bit<16> b; }}
header n_t {{ bit<8> n; }}
struct headers_t {{ h_t h; h_t k; n_t[3] stack; {headers} }}
struct meta_t {{ bit<8> m; bit<16> w; bool flag; int<8> s; {meta} }}
{after_types}
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
    {parser_locals}
    state start {{ {start} }}
    {states}
}}
control V(inout headers_t hdr, inout meta_t meta) {{ apply {{ {verify} }} }}
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
    {locals}
    apply {{ {apply} }}
}}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{ apply {{ {egress} }} }}
control C(inout headers_t hdr, inout meta_t meta) {{ apply {{ {compute} }} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr.h); {deparser} }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
_HOLES = (
    *("declarations", "headers", "meta", "after_types", "parser_locals", "states"),
    *("verify", "locals", "apply", "egress", "compute", "deparser"),
)


def source(start: str = "packet.extract(hdr.h); transition accept;", **parts: str) -> str:
    """Fill the skeleton; `parts` are by the names of _HOLES."""
    unknown = set(parts) - set(_HOLES)
    assert not unknown, unknown
    return _SKELETON.format(start=start, **{hole: parts.get(hole, "") for hole in _HOLES})


def compiled(directory: Path, **parts: str) -> ir.Program:
    """Compile the filled skeleton."""
    path = directory / "program.p4"
    path.write_text(source(**parts))
    return compile_p4(path)
