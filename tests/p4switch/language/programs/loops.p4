#define HEADERS h_t h; x_t[4] xs;
header x_t { bit<8> v; }
#include "common.p4"
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.xs.next);
        packet.extract(hdr.xs.next);
        packet.extract(hdr.xs.next);
        transition accept;
    }
}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        bit<16> sum = 0;
        for (bit<8> i = 0; i < hdr.h.a; i = i + 1) {
            if (i == 3) { continue; }
            if (i == 6) { break; }
            sum = sum + (bit<16>)i;
        }
        hdr.h.c = sum;
        for (bit<8> j in 8w1..8w4) { hdr.h.b = hdr.h.b + j; }
    }
}
SWITCH(P, I, NoEgress)
