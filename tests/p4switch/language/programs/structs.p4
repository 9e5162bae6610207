#define HEADERS nested_t h; group_t group;
#define METADATA outer_t outer;
struct inner_t { bit<4> a; bit<12> b; }
struct outer_t { inner_t first; inner_t second; bool set; }
header nested_t { bit<8> kind; inner_t in_header; bit<8> last; }
header x_t { bit<8> v; }
struct group_t { x_t one; x_t two; }
#include "common.p4"
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.group.one);
        packet.extract(hdr.group.two);
        transition accept;
    }
}
control Swap(inout group_t g, inout inner_t i) {
    apply {
        group_t old = g;
        g.one = old.two;
        g.two = old.one;
        i = { b = 12w1 + i.b, a = i.a };
    }
}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Swap() swap;
    apply {
        std.egress_spec = 2;
        meta.outer.first = { a = hdr.h.in_header.a, b = 5 };
        meta.outer.second = meta.outer.first;
        meta.outer.second.b = meta.outer.second.b + 1;
        meta.outer.set = meta.outer.first != meta.outer.second;
        swap.apply(hdr.group, meta.outer.second);
        if (meta.outer.set) { hdr.h.in_header.b = meta.outer.second.b; }
        hdr.h.last = 4w0 ++ meta.outer.second.a;
    }
}
SWITCH(P, I, NoEgress)
