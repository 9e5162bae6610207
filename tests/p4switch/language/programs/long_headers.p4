/* More bytes of headers than came in, as many as a frame holds, and more than that: such a frame is dropped. */
header long_t { bit<8192> x; }
#define HEADERS h_t h; long_t[10] x;
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        if (hdr.h.a > 0) { hdr.x[0] = { (bit<8192>)hdr.h.d << 8160 }; }
        if (hdr.h.a > 1) { hdr.x[1] = { 8w1 ++ 8184w0 }; }
        if (hdr.h.a > 2) {
            hdr.x[2].setValid(); hdr.x[3].setValid(); hdr.x[4].setValid(); hdr.x[5].setValid();
            hdr.x[6].setValid(); hdr.x[7].setValid(); hdr.x[8] = { 8192w5 };
        }
        if (hdr.h.a > 3) { hdr.x[9].setValid(); }
        hdr.h.c = hdr.h.c + 1;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.h.b == 1) { hdr.h.b = 0; hdr.h.a = 0; recirculate_preserving_field_list(0); }
    }
}
SWITCH(OneHeader, I, E)
