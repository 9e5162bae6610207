#define HEADERS h_t h; label_t[4] labels;
#define METADATA bit<8> last; bit<32> last_index;
header label_t { bit<7> value; bit<1> bottom; }
#include "common.p4"
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.b) {
            0: accept;
            default: labels;
        }
    }
    state labels {
        packet.extract(hdr.labels.next);
        meta.last_index = hdr.labels.lastIndex;
        meta.last = (bit<8>)hdr.labels.last.value;
        transition select(hdr.labels.last.bottom) {
            0: labels;
            1: accept;
        }
    }
}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        if (hdr.h.a == 1) {
            hdr.labels.push_front(1);
            hdr.labels[0].setValid();
            hdr.labels[0].value = 0x55;
        } else if (hdr.h.a == 2) {
            hdr.labels.pop_front(2);
        } else if (hdr.h.a == 3) {
            hdr.labels[1] = hdr.labels[0];
            hdr.labels[0].setInvalid();
        } else if (hdr.h.a == 4) {
            bit<32> i = (bit<32>)hdr.h.b;
            hdr.labels[i].value = 0x7F;
            hdr.h.c = (bit<16>)hdr.labels[i - 1].value;
        } else if (hdr.h.a == 5) {
            hdr.h.c = (bit<16>)meta.last_index;
        }
        hdr.h.d = (bit<32>)meta.last;
        if (std.parser_error == error.StackOutOfBounds) { hdr.h.d = 0xFFFFFFFF; }
    }
}
SWITCH(P, I, NoEgress)
