// Meters of each type that P4Runtime 1.4 has; the last byte of a frame shows the colour.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; bit<8> color; }
struct headers_t { h_t h; }
struct metadata_t { bit<2> color; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    @two_rate_three_color meter(2, MeterType.packets) two_rates;
    @single_rate_three_color meter(2, MeterType.packets) three_colors;
    @single_rate_two_color meter(2, MeterType.packets) two_colors;
    @single_rate_three_color direct_meter<bit<2>>(MeterType.bytes) direct;
    action metered() { direct.read(meta.color); }
    table by_kind {
        key = { hdr.h.kind : exact; }
        actions = { metered; NoAction; }
        meters = direct;
    }
    apply {
        std.egress_spec = 1;
        if (!by_kind.apply().hit) {
            if (hdr.h.kind == 1) { two_rates.execute_meter(32w0, meta.color); }
            if (hdr.h.kind == 2) { three_colors.execute_meter(32w0, meta.color); }
            if (hdr.h.kind == 3) { two_colors.execute_meter(32w0, meta.color); }
        }
        hdr.h.color = (bit<8>) meta.color;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
