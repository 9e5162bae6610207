#ifndef HOP_LIMIT_P4
#define HOP_LIMIT_P4

#include "../headers.p4"

/* A frame that goes in circles, by a mistake in the routes, must end: each switch that routes it takes one from its hop
 * limit, and one whose limit comes to 0 goes no further. A limit of 0 has expired already. What still may be dropped
 * keeps its limit, so that the controller sees it as it came in: departures.p4 takes the hop. */
control HopLimit(in headers_t hdr, inout metadata_t meta) {
    apply {
        if (meta.verdict == VERDICT_FORWARD && meta.routed == 1 && hdr.oefh.hops <= 1) {
            meta.verdict = REASON_HOP_EXPIRED;
        }
    }
}

#endif
