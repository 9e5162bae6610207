#define METADATA Color color; bool flag; error seen;
#include <core.p4>
enum Color { RED, GREEN, BLUE }
enum bit<16> Ether { A = 0x0800, B = 0x86DD }
error { Custom }
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action set_b(bit<8> v) { hdr.h.b = v; }
    table t {
        key = { meta.color : exact; meta.flag : exact; }
        actions = { set_b; NoAction; }
        default_action = NoAction();
        const entries = {
            (Color.GREEN, true) : set_b(0x11);
            (Color.BLUE, false) : set_b(0x22);
        }
    }
    apply {
        std.egress_spec = 2;
        if (hdr.h.a == 1) { meta.color = Color.GREEN; }
        if (hdr.h.a == 2) { meta.color = Color.BLUE; }
        meta.flag = hdr.h.c == Ether.A;
        hdr.h.d = meta.flag ? 32w1 : 0;
        meta.seen = hdr.h.a == 3 ? error.Custom : error.NoError;
        if (meta.seen == error.Custom) { hdr.h.d = 3; }
        if (meta.color != Color.RED && !meta.flag || hdr.h.a == 9) { hdr.h.c = Ether.B; }
        t.apply();
    }
}
MAIN(I)
