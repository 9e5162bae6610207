#include "common.p4"
/* p4c for BMv2 refuses division of values that are not known at compile time; here they are allowed, and by zero gives 0. */
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.h.c[15:8] = hdr.h.a / hdr.h.b;
        hdr.h.c[7:0] = hdr.h.a % hdr.h.b;
        hdr.h.d = (hdr.h.d / 1000) ^ (hdr.h.d % 1000);
    }
}
MAIN(I)
