// Action selectors whose groups have limits: one sums up weights, the other counts members.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> value; }
struct headers_t { h_t h; }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    @max_group_size(4) action_selector(HashAlgorithm.crc16, 32w16, 32w16) by_weights;
    @max_group_size(3) @selector_size_semantics("sum_of_members") @max_member_weight(5)
    action_selector(HashAlgorithm.crc16, 32w16, 32w16) by_members;
    action set(bit<8> value) { hdr.h.value = value; }
    table weighed {
        key = { hdr.h.a : exact; hdr.h.value : selector; }
        actions = { set; @defaultonly NoAction; }
        implementation = by_weights;
    }
    table counted {
        key = { hdr.h.a : exact; hdr.h.value : selector; }
        actions = { set; @defaultonly NoAction; }
        implementation = by_members;
    }
    apply {
        weighed.apply();
        counted.apply();
        std.egress_spec = 1;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
