#include "common.p4"
action top(inout bit<8> x, bit<8> by) { x = x + by; }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    bit<8> local = 3;
    action both(inout bit<8> x, in bit<8> y, out bit<16> z, bit<8> data) {
        x = x + y;
        z = (bit<16>)(x ++ data)[15:0];
    }
    action use_local(bit<8> by) { local = local * by; }
    action nested(bit<8> n) { use_local(n); top(hdr.h.b, n); }
    table directions {
        key = { hdr.h.a : exact; }
        actions = { both(hdr.h.b, 7, hdr.h.c); top(hdr.h.b); nested; NoAction; }
        default_action = NoAction();
    }
    table defaulted {
        actions = { use_local; }
        default_action = use_local(2);
    }
    apply {
        std.egress_spec = 2;
        directions.apply();
        defaulted.apply();
        hdr.h.d = (bit<32>)local;
    }
}
MAIN(I)
