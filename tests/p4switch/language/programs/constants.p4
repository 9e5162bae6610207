/* What is known when the program is compiled: integers of any size, sizes of headers, asserts, defaults, invalid values. */
#include "common.p4"
const int HUGE = (1 << 100) + 5;
const int NEGATIVE = -(7 / 2 * 2);
const bit<8> CUT = (bit<8>)(HUGE % 256);
const bit<16> MASKED = 16w0xF0F0 & ~16w0xFF;
const tuple<bit<8>, bit<16>> BOTH = { 1, 2 };
const h_t READY = { 1, 2, 3, 4 };
const bool _ok = static_assert(HUGE > 0 && NEGATIVE == -6, "arithmetic of int");
enum bit<8> kind_t { FIRST = 3, OTHER = 4 + 1 }
struct defaults_t { bit<8> a; bit<8> b; kind_t kind; }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        defaults_t d = { a = 9, ... };
        if (hdr.h.a == 1) {
            hdr.h = READY;
            hdr.h.d = (bit<32>)hdr.h.minSizeInBytes() << 8 | (bit<32>)hdr.h.maxSizeInBits();
        } else if (hdr.h.a == 2) {
            hdr.h.b = CUT;
            hdr.h.c = MASKED;
            hdr.h.d = (bit<32>)BOTH[1];
        } else if (hdr.h.a == 3) {
            hdr.h = {#};
        } else if (hdr.h.a == 4) {
            hdr.h = { d = 0xFFFFFFFF, a = d.a, ... };
            hdr.h.b = (bit<8>)(int<8>)NEGATIVE;
            if (hdr.h != READY) { hdr.h.c = (bit<16>)(bit<8>)kind_t.OTHER; }
        }
    }
}
MAIN(I)
