#include "common.p4"
action by_copy(inout standard_metadata_t m) { mark_to_drop(m); }
control Dropper(inout standard_metadata_t m, in bit<8> why) {
    apply { if (why == 2) { mark_to_drop(m); } }
}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Dropper() dropper;
    table t {
        key = { hdr.h.a : exact; }
        actions = { by_copy(std); NoAction; }
        default_action = NoAction();
        const entries = { 1 : by_copy(std); }
    }
    apply {
        std.egress_spec = 2;
        std.mcast_grp = 7;
        t.apply();
        dropper.apply(std, hdr.h.a);
        if (hdr.h.a == 3) { mark_to_drop(std); std.egress_spec = 3; }
        if (hdr.h.a != 3 && std.egress_spec != 511) { std.mcast_grp = 0; }
        hdr.h.c = std.mcast_grp;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.h.a == 4) { mark_to_drop(std); }
        if (hdr.h.a == 5) { mark_to_drop(); }
    }
}
SWITCH(OneHeader, I, E)
