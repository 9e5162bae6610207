/* A table that is applied in the condition of ?:, in an argument of an action. */
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action note(inout bit<8> to, in bit<16> what) { to = to + 1; hdr.h.c = what; }
    action set(bit<8> to) { hdr.h.b = to; }
    table t {
        key = { hdr.h.a : exact; }
        actions = { set; NoAction; }
        default_action = NoAction();
        const entries = { 1 : set(7); }
    }
    apply {
        std.egress_spec = 2;
        note(hdr.h.b, t.apply().hit ? 16w0x11 : 16w0x22);
    }
}
MAIN(I)
