#define HEADERS h_t h; sums_t s; extra_t extra;
header extra_t { bit<4> x; bit<4> y; }
header sums_t { bit<16> csum; bit<16> crc16; bit<32> crc32; bit<32> with_payload; bit<16> csum_payload; }
#include <core.p4>
#include "common.p4"
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.s);
        transition accept;
    }
}
control V(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.h.b[0:0] == 1, { hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d }, hdr.s.csum, HashAlgorithm.csum16);
        verify_checksum_with_payload(hdr.h.b[1:1] == 1, { hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d }, hdr.s.with_payload,
                                     HashAlgorithm.crc32);
    }
}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.h.a = (bit<8>)std.checksum_error;
    }
}
control C(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(true, { hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d }, hdr.s.csum, HashAlgorithm.csum16);
        update_checksum(true, { hdr.h.a, hdr.h.b, hdr.extra.x, hdr.extra.y, hdr.h.c, hdr.h.d }, hdr.s.crc16,
                        HashAlgorithm.crc16);
        update_checksum(true, { hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d }, hdr.s.crc32, HashAlgorithm.crc32);
        update_checksum_with_payload(true, { hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d }, hdr.s.with_payload,
                                     HashAlgorithm.crc32);
        update_checksum_with_payload(hdr.h.c != 0, { hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d }, hdr.s.csum_payload,
                                     HashAlgorithm.csum16);
    }
}
V1Switch(P(), V(), I(), NoEgress(), C(), EmitAll()) main;
