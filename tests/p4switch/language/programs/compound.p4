/* Compound assignment: every operator, slices and stacks on the left, whose index is evaluated once. */
#define HEADERS h_t h; x_t[4] xs;
header x_t { bit<8> v; }
#define METADATA bit<8> calls;
#include "common.p4"
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.xs.next);
        packet.extract(hdr.xs.next);
        packet.extract(hdr.xs.next);
        packet.extract(hdr.xs.next);
        transition accept;
    }
}
bit<32> turn(inout bit<8> calls) { calls += 1; return (bit<32>)calls; }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.h.a += 3;
        hdr.h.b -= 1;
        hdr.h.c *= 2;
        hdr.h.d <<= 4;
        hdr.h.d >>= 8;
        hdr.h.d |= 0xF0000000;
        hdr.h.d &= 0xFFFFFF0F;
        hdr.h.d ^= 1;
        hdr.h.d[11:8] += 0xF;
        hdr.xs[0].v |+|= 0xF0;
        hdr.xs[1].v |-|= 0x10;
        bit<8> eleven = 11;
        eleven /= 4;
        hdr.xs[turn(meta.calls) + 1].v += eleven;     // 2
        eleven = 11;
        eleven %= 4;
        hdr.xs[turn(meta.calls) + 1].v -= eleven;     // 3
        hdr.h.a += meta.calls;
    }
}
SWITCH(P, I, NoEgress)
