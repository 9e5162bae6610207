/* Stacks of header unions: next, last, indices, validity of one member at a time, emission. */
header byte_h { bit<8> kind; bit<8> value; }
header word_h { bit<8> kind; bit<16> value; }
header_union options_u { byte_h byte; word_h word; }
header h_t { bit<8> count; bit<8> b; }
struct headers_t { h_t h; options_u[3] options; h_t tail; }
struct metadata_t { bit<8> left; }
#include <core.p4>
#include <v1model.p4>
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        meta.left = hdr.h.count;
        transition next;
    }
    state next {
        transition select(meta.left, packet.lookahead<bit<8>>()) {
            (0, _): tail;
            (_, 1): byte;
            (_, 2): word;
        }
    }
    state byte {
        packet.extract(hdr.options.next.byte);
        meta.left = meta.left - 1;
        transition next;
    }
    state word {
        packet.extract(hdr.options.next.word);
        hdr.h.b = hdr.options.last.word.kind;
        meta.left = meta.left - 1;
        transition next;
    }
    state tail { packet.extract(hdr.tail); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        if (std.parser_error != error.NoError) { std.egress_spec = 3; }
        if (hdr.options[0].byte.isValid() && hdr.options[0].byte.value == 0xAA) {
            hdr.options[0].word.setValid();               // which makes the byte invalid
            hdr.options[0].word = { 9, 0xBEEF };
        }
        if (hdr.options[1].isValid()) { hdr.tail.b = 0xEE; }
        if (hdr.options[1] == hdr.options[2]) { hdr.tail.count = 0xDD; }
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
