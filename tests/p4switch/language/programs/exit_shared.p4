// Errors declared before core.p4; an exit in a table of a control that is applied twice.
error { Early, Mine }
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { h_t h; }
struct metadata_t { bit<8> seen; }
parser P(packet_in p, out headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); verify(hdr.h.a != 9, error.Mine); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t m) { apply { } }
control Shared(inout bit<8> x) {
    action leave() { x = x + 1; exit; }
    action stay() { x = x + 2; }
    table t { key = { x : exact; } actions = { leave; stay; } default_action = stay();
              const entries = { 5 : leave(); } }
    apply { x = x | 1; t.apply(); x = x + 16; }
}
control I(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {
    Shared() shared;
    apply {
        s.egress_spec = 2;
        if (s.parser_error == error.Mine) { hdr.h.d = 0xEE; }
        else if (s.parser_error == error.NoError) {
            shared.apply(hdr.h.b);
            shared.apply(hdr.h.c);
            hdr.h.d = 0x77;
        } else { hdr.h.d = 0xDD; }
    }
}
control E(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t hdr, inout metadata_t m) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
