#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.mcast_grp = hdr.h.c;
        std.egress_spec = 2;
        if (hdr.h.a == 1) { mark_to_drop(std); }
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.h.b = (bit<8>)std.instance_type;
        hdr.h.d[31:16] = std.egress_rid;
        hdr.h.d[8:0] = std.egress_port;
        if (std.egress_port == std.ingress_port) { mark_to_drop(std); }
    }
}
SWITCH(OneHeader, I, E)
