#include "common.p4"
struct digest_t { bit<8> a; bit<32> d; }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        log_msg("a frame");
        log_msg("a = {}, d = {}", { hdr.h.a, hdr.h.d });
        assert(hdr.h.a != 0xFF);
        assume(hdr.h.d != 1);
        digest<digest_t>(1, { hdr.h.a, hdr.h.d });
        bit<16> r;
        random(r, 5, 9);
        hdr.h.b = (r >= 5 && r <= 9) ? 8w1 : 8w0;
        random(r, 7, 7);
        hdr.h.c = r;
    }
}
MAIN(I)
