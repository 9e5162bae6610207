/* Random numbers stay within their bounds, both included; hashes by HashAlgorithm.random and the custom CRCs. */
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        bit<16> one;
        random(one, 16w0x1234, 16w0x1234);
        hdr.h.c = one;
        bit<8> low = 0xFF;
        bit<8> high = 0;
        for (bit<16> i in 16w1..16w2000) {
            bit<8> drawn;
            random<bit<8>>(drawn, 5, 7);
            if (drawn < low) { low = drawn; }
            if (drawn > high) { high = drawn; }
        }
        hdr.h.a = low;
        hdr.h.b = high;
        bit<16> hashed;
        hash(hashed, HashAlgorithm.random, 16w10, { hdr.h.d }, 16w1);
        hdr.h.c = hdr.h.c + hashed;
        bit<32> plain;
        bit<32> custom;
        hash(plain, HashAlgorithm.crc32, 32w0, { hdr.h.d }, 32w0xFFFFFFFF);
        hash(custom, HashAlgorithm.crc32_custom, 32w0, { hdr.h.d }, 32w0xFFFFFFFF);
        bit<16> plain16;
        bit<16> custom16;
        hash(plain16, HashAlgorithm.crc16, 16w0, { hdr.h.d }, 16w0xFFFF);
        hash(custom16, HashAlgorithm.crc16_custom, 16w0, { hdr.h.d }, 16w0xFFFF);
        if (plain == custom && plain16 == custom16) { hdr.h.d = plain; }
    }
}
MAIN(I)
