#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action one() { hdr.h.b = 1; }
    action two(bit<8> x) { hdr.h.b = x; }
    action leave() { hdr.h.c = 0xE0; exit; }
    action early(bit<8> x) { hdr.h.c = 1; if (x == 0) { return; } hdr.h.c = 2; }
    action helper(in bit<8> x, inout bit<16> y, out bit<32> z) { y = y + 1; z = (bit<32>)x; }
    table t {
        key = { hdr.h.a : exact; }
        actions = { one; two; leave; early; NoAction; }
        default_action = NoAction;
        const entries = { 1 : one(); 2 : two(0x22); 3 : leave(); 4 : early(0); 5 : early(1); }
    }
    table bound {
        key = { hdr.h.b : exact; }
        actions = { helper(hdr.h.a, hdr.h.c, hdr.h.d); NoAction; }
        default_action = NoAction;
        const entries = { 1 : helper(hdr.h.a, hdr.h.c, hdr.h.d); }
    }
    table known {
        key = { hdr.h.a : exact; }
        actions = { NoAction; }
        default_action = NoAction;
        const entries = { 1 : NoAction(); 2 : NoAction(); 3 : NoAction(); 4 : NoAction(); 5 : NoAction(); }
    }
    apply {
        std.egress_spec = 2;
        if (hdr.h.a == 0x10) { return; }
        switch (t.apply().action_run) {
            one: { hdr.h.d = 0x11; }
            two:
            early: { hdr.h.d = 0x33; }
            default: { hdr.h.d = 0x99; }
        }
        if (bound.apply().hit) { hdr.h.d = hdr.h.d + 0x100; }
        if (!known.apply().hit) { helper(7, hdr.h.c, hdr.h.d); }
        switch (hdr.h.c) {
            0x0100: { hdr.h.a = 0xA1; }
            0x0200:
            0x0300: { hdr.h.a = 0xA3; }
            default: { hdr.h.a = hdr.h.a; }
        }
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.h.c == 0xE0) { hdr.h.c = 0xE1; exit; }
        hdr.h.b[7:7] = 1;
    }
}
SWITCH(OneHeader, I, E)
