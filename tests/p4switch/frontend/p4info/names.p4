/* Names, aliases and order: instances, direct application, @name with and without a leading dot, top-level actions. */
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; @name("renamed") bit<8> c; }
struct headers_t { h_t h; h_t[2] stack; }
struct meta_t { bit<8> m; }

register<bit<32>>(16) total;
counter(8, CounterType.bytes) per_port;

@brief("Drops the packet") @description("Counted nowhere")
action drop(inout standard_metadata_t sm) { mark_to_drop(sm); }
action common(bit<8> value) { }

control Counted(inout headers_t hdr, inout meta_t meta)(bit<32> size) {
    counter(size, CounterType.packets) c;
    action mark(bit<8> v) { meta.m = v; c.count((bit<32>)v); }
    table t { key = { hdr.h.a : exact; } actions = { mark; NoAction; } }
    apply { t.apply(); }
}
control Plain(inout headers_t hdr, inout meta_t meta) {
    action mark(bit<8> v) { meta.m = v; }
    @name("other") table t { key = { hdr.h.b : lpm; } actions = { mark; } const default_action = mark(3); }
    apply { t.apply(); }
}

parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout meta_t meta) { apply { } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    Counted(16) first;
    @name("second_one") Counted(32) second;
    action inner(bit<8> v) { hdr.h.b = v; }
    action outer(bit<8> v) { inner(v); }
    action called(bit<8> v) { hdr.h.b = v; }
    @name(".absolute") action renamed() { }
    action bound(in bit<8> x, bit<8> y) { hdr.h.c = x + y; }
    table never { actions = { NoAction; } }
    @name(".table_without_prefix") table keys {
        key = {
            hdr.h.a : exact;
            hdr.h.b & 0x0F : ternary;
            hdr.h.c : range;
            hdr.h.c[3:0] : optional;
            hdr.stack[1].a : exact;
            hdr.h.isValid() : exact;
            hdr.h.a + 1 : exact @name("sum");
            sm.ingress_port : exact;
        }
        actions = { outer; renamed; drop(sm); bound(meta.m); common; NoAction; @tableonly inner; }
        default_action = NoAction;
        size = 77;
    }
    apply {
        first.apply(hdr, meta);
        second.apply(hdr, meta);
        called(5);
        Plain.apply(hdr, meta);
        keys.apply();
        if (false) { never.apply(); }
        bit<32> sum;
        total.read(sum, 0);
        total.write(0, sum + 1);
        per_port.count(0);
    }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    action common_here() { }
    table t { key = { hdr.h.a : exact; } actions = { common; common_here; } }
    apply { t.apply(); }
}
control C(inout headers_t hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
