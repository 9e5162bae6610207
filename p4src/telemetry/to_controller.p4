#ifndef TO_CONTROLLER_P4
#define TO_CONTROLLER_P4

#include "../headers.p4"

/* What the controller gets to see: frames addressed to this switch, and dropped frames of the reasons that it asked
 * for, as they came in, with their port and the reason in front. A meter per reason bounds what a flood of one kind
 * can take from the controller and from the other kinds; what exceeds it is dropped and counted. Without a rate the
 * meter passes everything. */
control ToController(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    meter(VERDICTS, MeterType.packets) packet_in_rate;
    counter(VERDICTS, CounterType.packets) packet_in_refused;
    bit<2> color = 0;

    action to_cpu() {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = standard_metadata.ingress_port;
        hdr.packet_in.reason = meta.verdict;
        standard_metadata.egress_spec = CPU_PORT;
    }

    table trap {
        key = {
            meta.verdict: exact @name("reason");
        }
        actions = {
            to_cpu;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 128;
    }

    apply {
        if (meta.verdict == VERDICT_LOCAL) {
            to_cpu();
        } else {
            trap.apply();
        }
        if (hdr.packet_in.isValid()) {
            packet_in_rate.execute_meter((bit<32>)meta.verdict, color);
            if (color != 0) {
                packet_in_refused.count((bit<32>)meta.verdict);
                mark_to_drop(standard_metadata);
            }
        }
    }
}

#endif
