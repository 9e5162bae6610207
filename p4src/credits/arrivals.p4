#ifndef ARRIVALS_P4
#define ARRIVALS_P4

#include "../headers.p4"
#include "../registers.p4"

/* What a frame takes of the buffer of the port and VC that it came in on. The peer has counted it, so it counts here
 * whatever becomes of it, malformed and poisoned ones included. More than the limit cannot come from a peer that
 * keeps to its credits; it is dropped, as a buffer that exists would. */
control Arrivals(in headers_t hdr, inout metadata_t meta) {
    apply {
        if (meta.counts == 1 && hdr.oefh.isValid() && hdr.oefh.vc != VC_CONTROL) {
            bit<32> port = (bit<32>)meta.link_port;
            vc_t vc = mapped(meta.profile.vc_map, hdr.oefh.vc);
            if (has_vc(meta.format[23:16], vc)) {
                lanes_t consumed = 0;
                lanes_t freed = 0;
                bit<8> lane = lane_of(vc);
                credits_t credits = credits_of(
                    meta.frame_bytes, meta.profile.credit_size, meta.profile.packet_overhead);
                receiver_credits_consumed.read(consumed, port);
                receiver_credits_freed.read(freed, port);
                if (lane_value(consumed, lane) - lane_value(freed, lane) + credits
                    > lane_value(meta.profile.credit_limit, lane)) {
                    meta.verdict = REASON_OVER_LIMIT;
                } else {
                    receiver_credits_consumed.write(port, lane_plus(consumed, lane, credits));
                    meta.receiver_vc = vc;
                    meta.receiver_credits = credits;
                }
            }
        }
    }
}

#endif
