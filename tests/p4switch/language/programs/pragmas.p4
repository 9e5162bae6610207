/* Pragmas and annotations that nobody knows are kept or passed over, wherever they stand. */
#pragma whatever "some text" 17
#include "common.p4"
@unknown(1, { 2, "three" }, x.y) struct extra_t { @anything bit<8> f; @more[1, 2] bit<8> g; }
@pragma once more
@inline @noSideEffects bit<8> same(@odd in bit<8> x) { return x; }
@pragma stage 4
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    @pragma action_pragma
    @deprecated("nothing is wrong with it") action mark(@pad bit<8> v) { hdr.h.b = v; }
    @stage(3) @alpm
    table t {
        key = { hdr.h.a : exact @match_note("x") @pragma2; }
        actions = { @note mark; NoAction; }
        @size_note const default_action = NoAction();
        const entries = { 1 : mark(7) @entry_note; }
        @what_is_this top_secret = 5;
    }
    apply {
        @atomic {
            std.egress_spec = 2;
            t.apply();
        }
        if (same(hdr.h.b) == 7) { hdr.h.c = 1; }
    }
}
MAIN(I)
