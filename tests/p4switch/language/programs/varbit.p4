#define HEADERS h_t h; options_t options; options_t copy;
header options_t { bit<8> length; varbit<64> data; bit<8> tail; }
#include "common.p4"
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.options, (bit<32>)hdr.h.a);
        transition accept;
    }
}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.h.b = 0;
        if (hdr.options.isValid()) {
            hdr.options.tail = hdr.options.tail + 1;
            if (hdr.h.c == 1) {
                hdr.copy = hdr.options;
                hdr.copy.length = 0xCC;
                if (hdr.copy.data == hdr.options.data) { hdr.h.b = 0xEE; }
            }
        }
        if (std.parser_error == error.HeaderTooShort) { hdr.h.b = 4; }
        if (std.parser_error == error.PacketTooShort) { hdr.h.b = 1; }
        if (std.parser_error == error.ParserInvalidArgument) { hdr.h.b = 6; }
    }
}
SWITCH(P, I, NoEgress)
