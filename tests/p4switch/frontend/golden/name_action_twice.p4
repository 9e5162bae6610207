#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> x; bit<16> y; int<8> z; }
struct headers_t { h_t h; h_t[4] stack; }
struct meta_t { bit<8> a; bit<16> b; bool flag; }

parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        transition accept;
    }
}
control V(inout headers_t hdr, inout meta_t meta) { apply { } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) {
    action mark() { meta.a = 1; }
    @name("mark") action other(bit<8> a) { meta.a = a; }
    table t {
        key = { meta.a : exact; meta.b : ternary; }
        actions = { mark; other; }
    }
    apply {
        t.apply();
    }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) { apply {  } }
control C(inout headers_t hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
