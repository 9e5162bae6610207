#ifndef DEPARTURES_P4
#define DEPARTURES_P4

#include "../headers.p4"

/* What changes in a frame that goes on, at once or after it has waited: it has taken a hop, and where many frames wait
 * for its port it says so, if its endpoints listen. */
control Departures(inout headers_t hdr, inout metadata_t meta) {
    counter(PORTS, CounterType.packets) frames_marked;

    apply {
        if (meta.verdict == VERDICT_FORWARD || meta.verdict == VERDICT_HOLD) {
            if (meta.routed == 1) {
                hdr.oefh.hops = hdr.oefh.hops - 1;
            }
            if (meta.congested == 1 && hdr.oefh.ecn != ECN_NOT_CAPABLE
                && hdr.oefh.ecn != ECN_CONGESTION_EXPERIENCED) {
                hdr.oefh.ecn = ECN_CONGESTION_EXPERIENCED;
                frames_marked.count((bit<32>)meta.egress_port);
            }
        }
    }
}

#endif
