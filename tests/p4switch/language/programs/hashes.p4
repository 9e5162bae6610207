#define HEADERS h_t h; r_t r; r_t absent;
header r_t { bit<32> crc32; bit<16> crc16; bit<16> csum; bit<32> identity; bit<16> xor; bit<8> bounded; bit<16> no_max; bit<32> partly; }
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.r.setValid();
        hash(hdr.r.crc32, HashAlgorithm.crc32, 32w0, { hdr.h.a, hdr.h.c, hdr.h.d }, 64w0x100000000);
        hash(hdr.r.crc16, HashAlgorithm.crc16, 16w0, { hdr.h.a, hdr.h.c, hdr.h.d }, 32w0x10000);
        hash(hdr.r.csum, HashAlgorithm.csum16, 16w0, { hdr.h.c, hdr.h.d }, 32w0x10000);
        hash(hdr.r.identity, HashAlgorithm.identity, 32w0, { hdr.h.a, hdr.h.c }, 64w0x100000000);
        hash(hdr.r.xor, HashAlgorithm.xor16, 16w0, { hdr.h.c, hdr.h.d }, 32w0x10000);
        hash(hdr.r.bounded, HashAlgorithm.crc32, 8w100, { hdr.h.a, hdr.h.c, hdr.h.d }, 8w10);
        hash(hdr.r.no_max, HashAlgorithm.crc32, 16w5, { hdr.h.a }, 16w0);
        hash(hdr.r.partly, HashAlgorithm.crc32, 32w0, { hdr.h.a, hdr.absent.crc16, hdr.h.c[11:0] }, 64w0x100000000);
    }
}
MAIN(I)
