#ifndef SENSES_P4
#define SENSES_P4

#include "../headers.p4"
#include "../registers.p4"

/* What the switch senses: time and carriers. Every KEEPALIVE_TICKS a tick goes to all ports by multicast; each replica
 * comes back as a notice for its port (keepalive.p4), because only the ingress may write the link's state. A tick after
 * which acknowledgements are due goes to all ports that may owe one. A port that loses its carrier is down; when it has
 * it back, the next keepalive draws a new epoch. */
control Senses(in headers_t hdr, inout metadata_t meta) {
    apply {
        if (meta.verdict == VERDICT_CONSUMED && hdr.notice.isValid()) {
            if (hdr.notice.type == NOTICE_TICK) {
                ticks_t now = 0;
                bit<8> since = 0;
                bit<1> acks_due = 0;
                ticks.read(now, 0);
                ticks.write(0, now + 1);
                since_keepalive.read(since, 0);
                since = since + 1;
                if (since >= KEEPALIVE_TICKS) {
                    since = 0;
                    meta.verdict = VERDICT_KEEPALIVE;
                    meta.make = MAKE_KEEPALIVE;
                }
                llr_acks_due.read(acks_due, 0);
                if (acks_due == 1) {
                    llr_acks_due.write(0, 0);
                    if (meta.verdict == VERDICT_CONSUMED) { // else the keepalive's CF_UPDATE acknowledges
                        meta.verdict = VERDICT_ACKS;
                        meta.make = MAKE_LLR_ACK_IF_DUE;
                    }
                }
                since_keepalive.write(0, since);
            } else if (hdr.notice.type == NOTICE_PORT_STATUS) {
                bit<32> port = (bit<32>)hdr.notice.port;
                if (hdr.notice.state == 0) {
                    meta.link_lost = 1;
                    carrier_down.write(port, 1);
                    own_epoch.write(port, 0);
                    peer_epoch.write(port, 0);
                    session.write(port, 0);
                    sender_session.write(port, 0);
                    link_format.write(port, 0);
                } else {
                    carrier_down.write(port, 0);
                }
            }
        }
    }
}

#endif
