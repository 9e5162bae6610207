/* Loops that do not end for some frames: they are left, and the packet goes on. */
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.h.c = 0;
        for (bit<8> i = 0; i <= hdr.h.a; i = i + 1) {     // for ever with 255
            hdr.h.c = hdr.h.c + 1;
            for (bit<8> j = 0; j <= hdr.h.b; j = j + 1) { hdr.h.d = hdr.h.d + 1; }
        }
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        for (bit<8> i = 0; i < 3; i = i + 1) { hdr.h.d = hdr.h.d + 0x10000000; }     // egress has rounds of its own
    }
}
SWITCH(OneHeader, I, E)
