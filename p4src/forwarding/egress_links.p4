#ifndef EGRESS_LINKS_P4
#define EGRESS_LINKS_P4

#include "../headers.p4"

/* Whether the chosen port may carry a frame. Only a port that is configured is a data port, so that no route and no
 * packet-out can reach the switch's internal ports. Whether a managed link is up, and has credit, is the next steps'
 * business. */
control EgressLinks(inout metadata_t meta) {
    action set_link(mode_t mode) {
        meta.egress_mode = mode;
    }

    // A managed link: how the VCs of frames map to those with credits, and from how many held frames on ECN is set.
    action set_managed_link(bit<24> vc_map, bit<24> ecn_threshold) {
        meta.egress_mode = MODE_MANAGED;
        meta.egress_vc_map = vc_map;
        meta.ecn_threshold = ecn_threshold;
    }

    table egress_config {
        key = {
            meta.egress_port: exact @name("egress_port");
        }
        actions = {
            set_link;
            set_managed_link;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        if (meta.verdict == VERDICT_FORWARD) {
            if (!egress_config.apply().hit) {
                meta.verdict = REASON_BAD_EGRESS_PORT;
            }
        }
    }
}

#endif
