// An exit in an action that a table runs with bound arguments: they are copied out before it.
#include "common.p4"
control Inner(inout bit<8> v) {
    action leave(inout bit<8> mine, in bit<8> n) {
        mine = mine + n;
        if (n == 5) { exit; }
        mine = mine + 1;
    }
    table t {
        key = { v : exact; }
        actions = { leave(v, v); NoAction; }
        default_action = NoAction();
        const entries = { 5 : leave(v, v); 6 : leave(v, v); }
    }
    apply {
        t.apply();
        v = v | 0x80;
    }
}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Inner() inner;
    apply {
        std.egress_spec = 2;
        inner.apply(hdr.h.b);
        hdr.h.c = 1;
    }
}
MAIN(I)
