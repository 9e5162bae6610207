#define HEADERS h_t h; r_t r;
header r_t {
    bit<8>  add;
    bit<8>  sub;
    int<8>  sadd;
    int<8>  ssub;
    bit<32> add32;
    int<16> sadd16;
}
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.r.setValid();
        hdr.r.add = hdr.h.a |+| hdr.h.b;
        hdr.r.sub = hdr.h.a |-| hdr.h.b;
        hdr.r.sadd = (int<8>)hdr.h.a |+| (int<8>)hdr.h.b;
        hdr.r.ssub = (int<8>)hdr.h.a |-| (int<8>)hdr.h.b;
        hdr.r.add32 = hdr.h.d |+| 32w0xFFFFFFF0;
        hdr.r.sadd16 = (int<16>)hdr.h.c |+| -16s1;
    }
}
MAIN(I)
