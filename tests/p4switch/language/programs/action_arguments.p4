// Arguments of a table's actions that change something: evaluated when the action runs, and only then.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { h_t h; }
struct metadata_t { bit<8> n; }
bit<8> next(inout bit<8> n) { n = n + 1; return n; }
parser P(packet_in p, out headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t m) { apply { } }
control I(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {
    action bump(in bit<8> by) { hdr.h.b = by; }
    action other() { hdr.h.b = 0xBB; }
    table t { key = { hdr.h.a : exact; } actions = { bump(next(m.n)); other; } default_action = other();
              const entries = { 1 : bump(next(m.n)); } }
    apply {
        s.egress_spec = 2;
        m.n = hdr.h.d;
        t.apply();
        hdr.h.c = m.n;
    }
}
control E(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t hdr, inout metadata_t m) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
