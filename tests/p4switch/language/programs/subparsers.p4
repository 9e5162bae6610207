#define HEADERS h_t h; t_t first; t_t second;
#define METADATA bit<8> seen;
header t_t { bit<8> x; }
#include "common.p4"
parser OneT(packet_in packet, out t_t t, inout bit<8> seen)(bit<8> weight) {
    state start {
        packet.extract(t);
        seen = seen + weight;
        transition accept;
    }
}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    OneT(1) by_one;
    OneT(16) by_sixteen;
    state start {
        packet.extract(hdr.h);
        by_one.apply(packet, hdr.first, meta.seen);
        by_sixteen.apply(packet, hdr.second, meta.seen);
        transition accept;
    }
}
control Adder(inout bit<8> x, in bit<8> y, out bit<8> carry)(bit<8> step) {
    action add() { carry = 0; if (x + y < x) { carry = step; } x = x + y; }
    apply { add(); }
}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Adder(1) one;
    Adder(2) two;
    apply {
        std.egress_spec = 2;
        bit<8> carry;
        one.apply(hdr.first.x, hdr.h.a, carry);
        hdr.h.b = carry;
        two.apply(hdr.second.x, hdr.h.a, hdr.h.a);
        hdr.h.c = (bit<16>)meta.seen;
    }
}
SWITCH(P, I, NoEgress)
