/* Arguments are evaluated left to right and copied in before the call, results copied out left to right after it. */
#include "common.p4"
bit<8> step(inout bit<8> n, in bit<8> by) { n = n + by; return n; }
void both(out bit<8> first, out bit<8> second) { first = 1; second = 2; }
void through(inout bit<8> x, inout bit<8> y) { x = x + 1; y = y + 10; }
void sees(in bit<8> before, inout bit<8> now, in bit<8> after) { now = before ^ after; }
control Sub(inout bit<8> x, in bit<8> y) {
    apply { x = x + 1; x = x + y; }
}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Sub() sub;
    action twice(inout bit<8> x, inout bit<8> y) { x = x + 1; y = y + 10; }
    apply {
        std.egress_spec = 2;
        bit<8> n = hdr.h.b;
        if (hdr.h.a == 1) {
            hdr.h.b = step(n, 1) - step(n, 2);              // (n + 1) - (n + 3)
            hdr.h.c[7:0] = n;
        } else if (hdr.h.a == 2) {
            both(n, n);                                     // the second is copied out last
            hdr.h.b = n;
        } else if (hdr.h.a == 3) {
            through(n, n);                                  // both start from the old value
            hdr.h.b = n;
        } else if (hdr.h.a == 4) {
            sees(n, n, step(n, 4));                         // in arguments are copies of their moment
            hdr.h.b = n;
        } else if (hdr.h.a == 5) {
            sub.apply(n, n);                                // y is the old n
            hdr.h.b = n;
        } else if (hdr.h.a == 6) {
            twice(n, n);
            hdr.h.b = n;
        } else if (hdr.h.a == 7) {
            if (n == 0 && step(n, 1) == 1 || step(n, 2) == 9) { hdr.h.c = 1; }
            hdr.h.b = n;
        } else if (hdr.h.a == 8) {
            n[3:0] = step(n, 0x11)[7:4];                    // the right side comes first
            hdr.h.b = n;
        }
    }
}
MAIN(I)
