// Arrays of data that is no header: in headers, in metadata, local, constant, nested, written as in C.
#define HEADERS data_t h;
#define METADATA bit<16>[3] m; bool flags[2]; bit<200> wide[2];
struct pair_t { bit<8> a; bit<8>[2] b; }
header data_t {
    bit<8>    at;
    bit<8>[4] values;
    pair_t[2] pairs;
    bit<4>[2] halves;
    bit<8>    square[2][2];
}
#include "common.p4"

typedef bit<8> quad_t[4];

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.h); transition accept; }
}

bit<8> total(in quad_t values) {
    bit<8> sum = 0;
    for (bit<8> value in values) { sum = sum + value; }
    return sum;
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        quad_t copy = hdr.h.values;
        const bit<8> powers[4] = { 1, 2, 4, 8 };
        hdr.h.values[hdr.h.at] = 0xAA;
        hdr.h.values[0][3:0] = 0x5;
        hdr.h.square[1][hdr.h.at] = powers[hdr.h.at];
        hdr.h.square[hdr.h.at][0] = total(copy);
        hdr.h.pairs[1] = { 7, { 8, 9 } };
        hdr.h.pairs[hdr.h.at].b[1] = 0x77;
        meta.m = { 1, 2, 3 };
        meta.wide[hdr.h.at] = 5;
        if (meta.wide[1] == 5 && copy == (quad_t) { 1, 2, 3, 4 }) { hdr.h.halves[1] = 0xf; }
        if (meta.m[2] == 3 && !meta.flags[1]) { hdr.h.halves[0] = 4; }
    }
}

SWITCH(P, I, NoEgress)
