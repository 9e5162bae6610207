// A table inside of an instance inside of one that is applied more than once: each time with the key and data of then.
#include "common.p4"

control Leaf(in bit<8> n, inout bit<8> v) {
    action add() { v = v + n; }
    action set(bit<8> to) { v = to; }
    table t {
        key = { n : exact; }
        actions = { add; set; }
        default_action = add();
        const entries = { 13 : set(0xEE); }
    }
    apply { t.apply(); }
}
control Middle(in bit<8> n, inout bit<8> v) {
    Leaf() leaf;
    apply { leaf.apply(n + 1, v); }
}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Middle() middle;
    apply {
        std.egress_spec = 2;
        middle.apply(hdr.h.a, hdr.h.b);
        middle.apply(hdr.h.a + 10, hdr.h.c[7:0]);
    }
}
MAIN(I)
