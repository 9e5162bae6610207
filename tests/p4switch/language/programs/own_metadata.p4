/* For a v1model.p4 whose standard metadata has qid, clone_spec and known besides; see test_features.py. */
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        std.priority = (bit<3>)hdr.h.a;
        std.clone_spec = 0x0102030400000000;
        std.known = true;
        clone(CloneType.I2E, 1);
        hdr.h.b = (bit<8>)std.qid;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        standard_metadata_t copy = std;
        hdr.h.c = (bit<16>)copy.qid;
        hdr.h.d = copy.known ? copy.clone_spec[63:32] : 0;
    }
}
SWITCH(OneHeader, I, E)
