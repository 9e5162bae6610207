#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_meter<bit<8>>(MeterType.packets) color;
    action measure(bit<16> c) { hdr.h.c = c; color.read(hdr.h.b); }
    table t {
        key = { hdr.h.a : exact; }
        actions = { measure; NoAction; }
        default_action = NoAction;
        meters = color;
    }
    apply {
        std.egress_spec = 2;
        hdr.h.b = 9;
        if (t.apply().miss) { hdr.h.d = 0xFF; }
    }
}
MAIN(I)
