// Entries that the program gives, some of which a controller may change.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; }
struct headers_t { h_t h; }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets) hits;
    action set_port(bit<9> port) { std.egress_spec = port; }
    table mixed {
        key = { hdr.h.a : exact; }
        actions = { set_port; }
        default_action = set_port(1);
        entries = {
            const 1 : set_port(11);
            2 : set_port(12);
        }
        size = 2;
        counters = hits;
    }
    apply { mixed.apply(); }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
