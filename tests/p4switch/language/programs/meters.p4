#include "common.p4"
meter(4, MeterType.packets) limit;
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        bit<2> color;
        limit.execute_meter((bit<32>)hdr.h.a, color);
        hdr.h.b = 6w0 ++ color;
    }
}
MAIN(I)
