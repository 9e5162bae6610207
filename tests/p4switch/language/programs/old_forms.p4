/* clone3, resubmit and recirculate of the older v1model, which list the metadata to keep. */
#define METADATA bit<8> mark; bit<8> lost;
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        if (std.instance_type == 6 || std.instance_type == 4) {
            hdr.h.b = meta.mark;
            hdr.h.c[7:0] = meta.lost;
            return;
        }
        meta.mark = 0x55;
        meta.lost = 0x66;
        if (hdr.h.a == 1) { resubmit({ meta.mark }); }
        if (hdr.h.a == 2) { clone3(CloneType.I2E, 5, { meta.mark, std.ingress_port }); }
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.h.a == 3 && hdr.h.d == 0) {
            hdr.h.d = 7;
            recirculate({ meta.mark });
        }
        if (std.instance_type == 1) { hdr.h.b = meta.mark; hdr.h.c = meta.lost ++ 8w9; hdr.h.d = (bit<32>)std.ingress_port; }
    }
}
SWITCH(OneHeader, I, E)
