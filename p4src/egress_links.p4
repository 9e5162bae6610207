#ifndef EGRESS_LINKS_P4
#define EGRESS_LINKS_P4

#include "headers.p4"

/* Whether the chosen port may carry a frame. Only a port that is configured is a data port, so that no route and no
 * packet-out can reach the switch's internal ports; a managed link carries nothing until it is up. */
control EgressLinks(inout metadata_t meta) {
    mode_t link_mode = MODE_OPEN;

    action set_link(mode_t mode) {
        link_mode = mode;
    }

    table egress_config {
        key = {
            meta.egress_port: exact @name("egress_port");
        }
        actions = {
            set_link;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        if (meta.verdict == VERDICT_FORWARD) {
            if (!egress_config.apply().hit) {
                meta.verdict = REASON_BAD_EGRESS_PORT;
            } else if (link_mode != MODE_OPEN) {
                meta.verdict = REASON_LINK_NOT_UP;
            }
        }
    }
}

#endif
