/* What the switch says of a packet: lengths, times, queues, ports, in ingress and in egress. */
#define METADATA bit<48> came;
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = std.ingress_port + 1;
        meta.came = std.ingress_global_timestamp;
        hdr.h.c = (bit<16>)std.packet_length;
        if (std.enq_timestamp != 0 || std.deq_timedelta != 0 || std.egress_port != 0 || std.egress_rid != 0) {
            hdr.h.a = 0xE1;          // nothing is known of egress yet
        }
        if (std.instance_type != 0 || std.parser_error != error.NoError || std.checksum_error != 0) { hdr.h.a = 0xE2; }
        if (hdr.h.b == 1) { hdr.h.setInvalid(); }
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.h.b == 2) {
            hdr.h.d = std.packet_length;
        } else {
            hdr.h.d = (bit<32>)std.egress_port;
        }
        if (std.ingress_global_timestamp != meta.came || std.egress_global_timestamp < meta.came) { hdr.h.a = 0xE3; }
        if (std.deq_qdepth != 0 || std.enq_qdepth != 0) { hdr.h.a = 0xE4; }
        if ((bit<48>)std.enq_timestamp > std.egress_global_timestamp) { hdr.h.a = 0xE5; }
        if ((bit<48>)std.enq_timestamp + (bit<48>)std.deq_timedelta < std.egress_global_timestamp) { hdr.h.a = 0xE6; }
        if (!hdr.h.isValid()) {
            hdr.h.setValid();
            hdr.h.d = std.packet_length;
        }
    }
}
SWITCH(OneHeader, I, E)
