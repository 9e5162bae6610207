// Tables whose entries may leave out every match field; each adds up what its entry says.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; bit<32> sum; }
struct headers_t { h_t h; }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action add(bit<32> n) { hdr.h.sum = hdr.h.sum + n; }
    table by_mask { key = { hdr.h.a : ternary; hdr.h.b : ternary; } actions = { add; NoAction; } }
    table by_range { key = { hdr.h.a : range; } actions = { add; NoAction; } }
    table by_option { key = { hdr.h.a : optional; hdr.h.b : optional; } actions = { add; NoAction; } }
    table by_prefix { key = { hdr.h.a : lpm; } actions = { add; NoAction; } }
    table by_prefix_and_mask { key = { hdr.h.a : lpm; hdr.h.b : ternary; } actions = { add; NoAction; } }
    apply {
        by_mask.apply();
        by_range.apply();
        by_option.apply();
        by_prefix.apply();
        by_prefix_and_mask.apply();
        std.egress_spec = 1;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
