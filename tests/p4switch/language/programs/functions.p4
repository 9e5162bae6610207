#define METADATA pair_t pair; tuple<bit<8>, bit<16>> both;
struct pair_t { bit<8> x; bit<8> y; }
#include "common.p4"
bit<8> biggest(in bit<8> a, in bit<8> b) {
    if (a > b) { return a; }
    return b;
}
void swap(inout bit<8> a, inout bit<8> b) { bit<8> t = a; a = b; b = t; }
pair_t make(in bit<8> x) { return { x, x + 1 }; }
const pair_t FIXED = { 0x30, 0x40 };
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    bit<8> counter_ = 5;
    action bump() { counter_ = counter_ + 1; }
    apply {
        std.egress_spec = 2;
        hdr.h.c[15:8] = biggest(hdr.h.a, hdr.h.b);
        swap(hdr.h.a, hdr.h.b);
        meta.pair = make(hdr.h.a);
        pair_t copy = meta.pair;
        copy.y = copy.y + FIXED.x;
        meta.both = { hdr.h.a, 16w0xBEEF };
        hdr.h.d = copy.x ++ copy.y ++ meta.both[1];
        if (copy == meta.pair) { hdr.h.c[7:0] = 1; } else { hdr.h.c[7:0] = 2; }
        bump();
        bump();
    }
}
MAIN(I)
