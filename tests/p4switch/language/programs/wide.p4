#define HEADERS w_t h; r_t r;
header w_t {
    bit<192> x;
    bit<8>   index;
}
header r_t {
    bit<24>  third;
    bit<192> stored;
    bit<200> joined;
    bit<136> shifted;
    int<136> signed_shift;
    bit<8>   compare;
}
#include "common.p4"
register<bit<192>>(4) cells;
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        bit<192> old;
        cells.read(old, (bit<32>)hdr.h.index);
        hdr.r.setValid();
        hdr.r.stored = old;
        bit<192> new = hdr.h.x;
        new[71:48] = new[71:48] + 1;
        cells.write((bit<32>)hdr.h.index, new);
        hdr.r.third = new[71:48];
        hdr.r.joined = hdr.h.index ++ (hdr.h.x + 192w1);
        hdr.r.shifted = (bit<136>)(hdr.h.x >> (hdr.h.index << 3));
        hdr.r.signed_shift = (int<136>)(bit<136>)hdr.h.x >> 60;
        hdr.r.compare = (hdr.h.x > old) ? 8w1 : 8w0;
    }
}
MAIN(I)
