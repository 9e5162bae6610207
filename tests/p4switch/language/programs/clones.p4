#define METADATA @field_list(1) bit<8> kept; bit<8> lost; @field_list(2) bit<8> other;
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        meta.kept = 0x11;
        meta.lost = 0x22;
        meta.other = 0x33;
        std.egress_spec = 2;
        if (hdr.h.a == 1) { clone_preserving_field_list(CloneType.I2E, 5, 1); hdr.h.d = 0xAAAAAAAA; }
        if (hdr.h.a == 2) { clone(CloneType.I2E, 5); }
        if (hdr.h.a == 3) { clone_preserving_field_list(CloneType.I2E, 6, 2); mark_to_drop(std); }
        if (hdr.h.a == 4) { clone(CloneType.I2E, 5); clone_preserving_field_list(CloneType.I2E, 6, 1); }
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.h.b = meta.kept;
        hdr.h.c = (bit<16>)(meta.lost ++ meta.other);
        if (std.instance_type == 1) { hdr.h.d[7:0] = 1; hdr.h.d[15:8] = (bit<8>)std.egress_rid; }
        if (hdr.h.a == 5 && std.instance_type == 0) {
            hdr.h.d = 0x55;
            clone_preserving_field_list(CloneType.E2E, 5, 1);
        }
        if (std.instance_type == 2) { hdr.h.d[31:24] = 2; }
    }
}
SWITCH(OneHeader, I, E)
