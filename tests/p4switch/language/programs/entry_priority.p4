#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action set_b(bit<8> value) { hdr.h.b = value; }
    table by_annotation {
        key = { hdr.h.a : ternary; }
        actions = { set_b; NoAction; }
        default_action = NoAction();
        const entries = {
            0x10 &&& 0xF0 : set_b(1) @priority(3);
            0x12          : set_b(2);
            0x12 &&& 0x1F : set_b(3) @priority(1);
        }
    }
    apply {
        std.egress_spec = 2;
        by_annotation.apply();
    }
}
MAIN(I)
