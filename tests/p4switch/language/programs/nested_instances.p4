// Instances inside of instances that are applied more than once, and instances that are arguments of constructors.
#include "common.p4"

control Adder(in bit<8> n, inout bit<8> v);

control Leaf(in bit<8> n, inout bit<8> v) {
    counter(256, CounterType.packets) met;
    apply {
        met.count((bit<32>)n);
        v = v + n;
    }
}
control Middle(in bit<8> n, inout bit<8> v) {
    Leaf() leaf;
    apply { leaf.apply(n + 1, v); }
}
control Outer(in bit<8> n, inout bit<8> v) {
    Middle() middle;
    apply { middle.apply(n ^ 3, v); }
}
control Once(in bit<8> n, inout bit<8> v)(Adder adder) {
    apply { adder.apply(n, v); }
}
control Twice(in bit<8> n, inout bit<8> v)(Adder adder) {
    apply {
        adder.apply(n + 1, v);
        adder.apply(n + 2, v);
    }
}
control Both(in bit<8> n, inout bit<8> v)(Adder first, Adder second) {
    apply {
        first.apply(n + 10, v);
        second.apply(n + 20, v);
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Middle() middle;
    Outer() outer;
    Leaf() leaf;
    Once(leaf) once;
    Twice(leaf) twice;
    Both(once, twice) both;
    apply {
        std.egress_spec = 2;
        middle.apply(hdr.h.a, hdr.h.b);
        middle.apply(hdr.h.a + 10, hdr.h.c[15:8]);
        outer.apply(100, hdr.h.c[7:0]);
        outer.apply(hdr.h.a, hdr.h.c[7:0]);
        both.apply(hdr.h.a, hdr.h.d[7:0]);
    }
}
MAIN(I)
