#define HEADERS h_t h; choice_t choice; choice_t[2] more;
header short_t { bit<8> x; }
header long_t { bit<16> x; bit<8> y; }
header_union choice_t { short_t small; long_t large; }
#include "common.p4"
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a) {
            1: small;
            2: large;
            3: both;
            default: accept;
        }
    }
    state small { packet.extract(hdr.choice.small); transition accept; }
    state large { packet.extract(hdr.choice.large); transition accept; }
    state both {
        packet.extract(hdr.more.next.small);
        packet.extract(hdr.more.next.large);
        transition accept;
    }
}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        if (hdr.choice.isValid()) { hdr.h.b = hdr.h.b | 1; }
        if (hdr.choice.small.isValid()) { hdr.h.b = hdr.h.b | 2; }
        if (hdr.choice.large.isValid()) { hdr.h.b = hdr.h.b | 4; }
        if (hdr.h.c == 1) {
            hdr.choice.large.setValid();
            hdr.choice.large.x = 0xABCD;
        } else if (hdr.h.c == 2) {
            hdr.choice.small.setInvalid();
        } else if (hdr.h.c == 3) {
            hdr.more[1].small.setValid();
            hdr.more[1].small.x = 0x77;
        }
    }
}
SWITCH(P, I, NoEgress)
