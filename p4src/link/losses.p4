#ifndef LOSSES_P4
#define LOSSES_P4

#include "../headers.p4"
#include "../registers.p4"

/* What the link has lost, as far as each side can know: a frame with a bad CRC, a gap in the numbers, credits that the
 * peer has consumed for what did not come (a frame that was damaged shows twice, where it had credits). Only the
 * receiver sees that, but it is the sender who could retry: so every update of credits says how many losses its sender
 * has found since it started, and the controller, which reads this switch, learns of both directions. */
control Losses(in headers_t hdr, in metadata_t meta) {
    counter(PORTS, CounterType.packets) link_losses_found;
    counter(PORTS, CounterType.packets) link_losses_told; // CF_UPDATEs that told of losses

    apply {
        bit<32> port = (bit<32>)meta.link_port;
        bool found = meta.loss_found == 1;
        if (meta.verdict == REASON_BAD_CRC) {
            session_t link_session = 0;
            session.read(link_session, port);
            found = link_session != 0;
        }
        if (found) {
            bit<16> losses = 0;
            link_losses_found.count(port);
            link_losses.read(losses, port);
            link_losses.write(port, losses + 1);
        }
        if (meta.counts == 1 && hdr.credit_update.isValid() && hdr.link.kind == KIND_CF_UPDATE
            && meta.verdict == VERDICT_CONSUMED) {
            bit<16> known = 0;
            losses_known.read(known, port);
            if (hdr.credit_update.losses != known) {
                losses_known.write(port, hdr.credit_update.losses);
                if (meta.link_ready == 0) { // else it is the session's first one: the peer may have started anew
                    link_losses_told.count(port);
                }
            }
        }
    }
}

#endif
