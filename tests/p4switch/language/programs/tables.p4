#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action set_b(bit<8> value) { hdr.h.b = value; }
    action set_c(bit<16> value) { hdr.h.c = value; }
    action set_d(bit<32> value) { hdr.h.d = value; }
    action drop() { mark_to_drop(std); }
    table exact_t {
        key = { hdr.h.a : exact @name("a"); hdr.h.isValid() : exact; }
        actions = { set_b; drop; NoAction; }
        default_action = NoAction;
        size = 8;
    }
    table lpm_t {
        key = { hdr.h.d : lpm; }
        actions = { set_c; }
        default_action = set_c(0xDEAD);
    }
    table ternary_t {
        key = { hdr.h.a : ternary; hdr.h.c : ternary; }
        actions = { set_d; @defaultonly NoAction; }
        default_action = NoAction;
    }
    table range_t {
        key = { hdr.h.a : range; }
        actions = { set_b; NoAction; }
        default_action = NoAction;
    }
    table optional_t {
        key = { hdr.h.a : optional; hdr.h.b : optional; }
        actions = { set_c; NoAction; }
        default_action = NoAction;
    }
    apply {
        std.egress_spec = 2;
        exact_t.apply();
        lpm_t.apply();
        ternary_t.apply();
        range_t.apply();
        if (hdr.h.a[7:7] == 1) { optional_t.apply(); }
    }
}
MAIN(I)
