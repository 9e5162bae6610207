#define HEADERS h_t h; r_t r;
header r_t {
    bit<8>  less;
    int<16> extended;
    bit<16> zero_extended;
    int<8>  shifted;
    int<8>  product;
    bit<8>  min;
    bit<8>  flags;
    int<4>  small;
    bit<4>  pad;
}
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.r.setValid();
        int<8> a = (int<8>)hdr.h.a;
        int<8> b = (int<8>)hdr.h.b;
        hdr.r.less = (a < b) ? 8w1 : 8w0;
        hdr.r.extended = (int<16>)a;
        hdr.r.zero_extended = (bit<16>)hdr.h.a;
        hdr.r.shifted = a >> 2;
        hdr.r.product = a * b;
        hdr.r.min = (bit<8>)(a <= b ? a : b);
        hdr.r.flags = 7w0 ++ (bit<1>)(a >= -1 && b != -128);
        hdr.r.small = (int<4>)a;
        hdr.r.pad = 0;
    }
}
MAIN(I)
