#include "common.p4"
#define WIDTH 8
#define TWICE(x) ((x) + (x))
#if defined(WIDTH) && WIDTH * 2 == 16 && !defined(OTHER)
#define CHOSEN 1
#elif WIDTH == 7
#define CHOSEN 2
#else
#error "not here"
#endif
#ifdef CHOSEN
#undef WIDTH
#define WIDTH 16
#endif
#ifndef FROM_COMMAND_LINE
#define FROM_COMMAND_LINE 0x55
#endif
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        bit<WIDTH> wide = TWICE(16w0x1234) \
            + 1;
        hdr.h.c = wide;
        hdr.h.b = FROM_COMMAND_LINE;
        hdr.h.a = CHOSEN; // a comment with "quotes
    }
}
MAIN(I)
