/* Tuples, list expressions and struct-valued expressions: built, compared, taken apart, gone through. */
#define HEADERS h_t h; x_t[3] xs;
header x_t { bit<8> v; }
#include "common.p4"
struct point_t { bit<8> x; bit<8> y; }
struct line_t { point_t from; point_t to; }
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.xs.next);
        packet.extract(hdr.xs.next);
        transition accept;
    }
}
tuple<bit<8>, bit<16>> swap(in tuple<bit<16>, bit<8>> t) { return { t[1], t[0] }; }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        tuple<bit<8>, bit<16>> swapped = swap({ hdr.h.c, hdr.h.a });
        line_t line = { from = { hdr.h.a, hdr.h.b }, to = (point_t){ y = 2, x = 1 } };
        line_t other = { { 1, 2 }, line.from };
        if (line.from == other.from) { hdr.h.d[31:24] = 0x11; }
        if (line == { { 1, 2 }, { 1, 2 } }) { hdr.h.d[23:16] = 0x22; }
        if (swapped == { 1, 0x0203 }) { hdr.h.d[15:8] = 0x33; }
        bit<8> sum = 0;
        for (x_t x in hdr.xs) { sum = sum + x.v; }
        for (bit<8> v in (list<bit<8>>){ 0x10, hdr.h.a }) { sum = sum + v; }
        hdr.h.d[7:0] = sum;
        line.to.x = swapped[0];
    }
}
SWITCH(P, I, NoEgress)
