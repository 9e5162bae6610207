#define HEADERS h_t h; r_t r;
header r_t {
    bit<4>  high;
    bit<4>  low;
    bit<16> swapped;
    bit<24> joined;
    bit<8>  patched;
    bit<1>  one;
    bit<7>  seven;
}
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.r.setValid();
        hdr.r.high = hdr.h.a[3:0];
        hdr.r.low = hdr.h.a[7:4];
        hdr.r.swapped = hdr.h.c[7:0] ++ hdr.h.c[15:8];
        hdr.r.joined = hdr.h.a ++ hdr.h.d[31:24] ++ hdr.h.b;
        hdr.r.patched = 0xFF;
        hdr.r.patched[5:2] = hdr.h.b[3:0];
        hdr.r.one = hdr.h.d[0:0];
        hdr.r.seven = hdr.h.d[30:4][10:4];
        hdr.h.d[31:28] = 4w0xA;
    }
}
MAIN(I)
