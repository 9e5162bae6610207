#define METADATA @field_list(7) bit<8> rounds; bit<8> lost;
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = (bit<9>)hdr.h.a + 1;
        hdr.h.c = hdr.h.c + 1;
        meta.rounds = meta.rounds + 1;
        if (hdr.h.a == 2 && meta.rounds < 3) {
            meta.lost = 9;
            resubmit_preserving_field_list(7);
        }
        hdr.h.b = (bit<8>)std.instance_type;
        hdr.h.d[7:0] = meta.rounds;
        hdr.h.d[15:8] = meta.lost;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.h.a == 1 && meta.rounds < 3) {
            meta.lost = 9;
            recirculate_preserving_field_list(7);
        }
        if (hdr.h.a == 3) { truncate(6); }
    }
}
SWITCH(OneHeader, I, E)
