#ifndef CREDIT_UPDATES_P4
#define CREDIT_UPDATES_P4

#include "../headers.p4"
#include "../registers.p4"

/* What the peer says of credits. CF_UPDATE: how much of its buffer is free again; it may lie anywhere between what
 * was known to be freed and what was consumed, so that a lost, repeated or late one changes nothing for good.
 * CC_UPDATE: how much the peer has sent; what did not arrive of it was lost on the link and is written off as freed.
 * Whatever is impossible is ignored and counted; after three impossible CF_UPDATEs in a row the two sides do not mean
 * the same session, and the link is brought up anew. */
control CreditUpdates(in headers_t hdr, inout metadata_t meta) {
    counter(PORTS, CounterType.packets) cbfc_num_cf_update_messages_rx;
    counter(PORTS, CounterType.packets) cbfc_num_cc_update_messages_rx;
    counter(PORTS, CounterType.packets) wrong_cf_updates;
    counter(PORTS, CounterType.packets) wrong_cc_updates;
    counter(PORTS, CounterType.packets) losses_written_off; // CC_UPDATEs that told of lost frames

    apply {
        if (meta.counts == 1 && meta.verdict == VERDICT_UNDECIDED && hdr.credit_update.isValid()) {
            bit<32> port = (bit<32>)meta.link_port;
            lanes_t consumed = 0;
            lanes_t freed = 0;
            lanes_t told = 0;
            lanes_t reported = lanes_in(hdr.credit_update.vc_mask);
            meta.verdict = VERDICT_CONSUMED;
            if (hdr.link.kind == KIND_CF_UPDATE) {
                cbfc_num_cf_update_messages_rx.count(port);
                sender_credits_consumed.read(consumed, port);
                sender_credits_freed.read(freed, port);
                told = (hdr.credit_update.credits & reported) | (freed & ~reported);
                if (told & LANE_SPARES == 0
                    && lanes_at_most(lanes_minus(told, freed), lanes_minus(consumed, freed))) {
                    session_t link_session = 0;
                    session_t ready = 0;
                    sender_credits_freed.write(port, told);
                    wrong_updates.write(port, 0);
                    session.read(link_session, port);
                    sender_session.read(ready, port);
                    if (ready == 0) {
                        sender_session.write(port, link_session);
                        meta.link_ready = 1;
                    }
                } else {
                    bit<8> wrong = 0;
                    wrong_cf_updates.count(port);
                    wrong_updates.read(wrong, port);
                    wrong_updates.write(port, wrong + 1);
                    if (wrong + 1 >= WRONG_UPDATES_MAX) {
                        meta.redraw = 1;
                    }
                }
            } else {
                cbfc_num_cc_update_messages_rx.count(port);
                receiver_credits_consumed.read(consumed, port);
                receiver_credits_freed.read(freed, port);
                told = (hdr.credit_update.credits & reported) | (consumed & ~reported);
                if (told & LANE_SPARES == 0
                    && lanes_at_most(lanes_minus(told, freed), meta.profile.credit_limit)
                    && lanes_at_most(lanes_minus(consumed, freed), lanes_minus(told, freed))) {
                    if (told != consumed) {
                        losses_written_off.count(port);
                        meta.loss_found = 1;
                        receiver_credits_freed.write(port, lanes_plus(freed, lanes_minus(told, consumed)));
                        receiver_credits_consumed.write(port, told);
                        meta.verdict = VERDICT_ANSWER; // tell the peer at once
                        meta.make = MAKE_CF_UPDATE;
                    }
                } else {
                    wrong_cc_updates.count(port);
                }
            }
        }
    }
}

#endif
