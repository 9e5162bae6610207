#ifndef PROBES_P4
#define PROBES_P4

#include "../headers.p4"
#include "../registers.p4"

/* A probe to this switch that asks for the credits of a port is filled in on its way to the controller: the way to see
 * the state of links that every target has. */
control Probes(inout headers_t hdr, in metadata_t meta) {
    apply {
        if (meta.verdict == VERDICT_LOCAL && hdr.probe.op == PROBE_READ_CREDITS) {
            bit<32> port = (bit<32>)hdr.probe.port;
            session_t ready = 0;
            hdr.probe.op = PROBE_CREDITS;
            hdr.probe_credits.setValid();
            hdr.probe_credits.zero = 0;
            own_epoch.read(hdr.probe_credits.own_epoch, port);
            peer_epoch.read(hdr.probe_credits.peer_epoch, port);
            session.read(hdr.probe_credits.session, port);
            sender_credits_consumed.read(hdr.probe_credits.sender_credits_consumed, port);
            sender_credits_freed.read(hdr.probe_credits.sender_credits_freed, port);
            sender_credit_limit.read(hdr.probe_credits.sender_credit_limit, port);
            sender_credits_used_watermark.read(hdr.probe_credits.sender_credits_used_watermark, port);
            receiver_credits_consumed.read(hdr.probe_credits.receiver_credits_consumed, port);
            receiver_credits_freed.read(hdr.probe_credits.receiver_credits_freed, port);
            receiver_credits_in_use.read(hdr.probe_credits.receiver_credits_in_use, port);
            held_frames.read(hdr.probe_credits.held_frames, port);
            sender_session.read(ready, port);
            if (ready != 0) {
                hdr.probe.state = LINK_READY;
            } else if (hdr.probe_credits.session != 0) {
                hdr.probe.state = LINK_UP;
            } else if (hdr.probe_credits.own_epoch != 0) {
                hdr.probe.state = LINK_INIT;
            } else {
                hdr.probe.state = LINK_DOWN;
            }
        }
    }
}

#endif
