#define HEADERS h_t h; x_t x; x_t y; pair_t pair;
header x_t { bit<8> v; }
header pair_t { bit<8> a; bit<8> b; }
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.x.setValid();
        hdr.x.v = 0x11;
        if (hdr.h.a == 1) {
            hdr.y = hdr.x;
        } else if (hdr.h.a == 2) {
            hdr.x.setInvalid();
            hdr.y = hdr.x;
        } else if (hdr.h.a == 3) {
            hdr.x.setInvalid();
            hdr.x.setValid();
        } else if (hdr.h.a == 4) {
            hdr.pair = { 0xA1, 0xB2 };
        } else if (hdr.h.a == 5) {
            hdr.pair.setValid();
            hdr.pair = { b = 0xB2, a = 0xA1 };
            if (hdr.x == hdr.y) { hdr.h.b = 1; }
            hdr.y = hdr.x;
            if (hdr.x == hdr.y) { hdr.h.b = hdr.h.b + 2; }
        }
    }
}
MAIN(I)
