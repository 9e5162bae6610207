// A value set with a field of every kind of match, one of them wider than a machine word.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; bit<16> c; bit<16> d; bit<80> e; }
struct headers_t { h_t h; }
struct metadata_t { bit<1> found; }
struct member_t {
    bit<8> a;
    @match(ternary) bit<8> b;
    @match(lpm) bit<16> c;
    @match(range) bit<16> d;
    @match(range) bit<80> e;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    value_set<member_t>(3) wanted;
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e) {
            wanted: found;
            default: accept;
        }
    }
    state found { meta.found = 1; transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { std.egress_spec = 1 + (bit<9>) meta.found; }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
