#define HEADERS h_t h; r_t r;
header r_t {
    bit<8>  sum;
    bit<8>  difference;
    bit<16> product;
    bit<8>  left;
    bit<8>  right;
    bit<8>  beyond;
    bit<8>  negative;
    bit<8>  inverted;
    bit<8>  mixed;
}
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.r.setValid();
        hdr.r.sum = hdr.h.a + hdr.h.b;
        hdr.r.difference = hdr.h.a - hdr.h.b;
        hdr.r.product = hdr.h.c * hdr.h.c;
        hdr.r.left = hdr.h.a << (hdr.h.b & 7);
        hdr.r.right = hdr.h.a >> 4;
        hdr.r.beyond = hdr.h.a << hdr.h.b;
        hdr.r.negative = -hdr.h.a;
        hdr.r.inverted = ~hdr.h.a;
        hdr.r.mixed = (hdr.h.a & 0xF0) | (hdr.h.b ^ 8w0x0F) & 8w0x0F;
    }
}
MAIN(I)
