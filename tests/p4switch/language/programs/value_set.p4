#define METADATA bit<8> kind;
#include "common.p4"
struct pair_t { bit<8> a; bit<8> b; }
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    value_set<bit<16>>(4) wanted;
    value_set<pair_t>(4) pairs;
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.c) {
            wanted: found;
            default: more;
        }
    }
    state found { meta.kind = 1; transition accept; }
    state more {
        transition select(hdr.h.a, hdr.h.b) {
            pairs: pair;
            default: accept;
        }
    }
    state pair { meta.kind = 2; transition accept; }
}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.h.d = (bit<32>)meta.kind;
    }
}
SWITCH(P, I, NoEgress)
