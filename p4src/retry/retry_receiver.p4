#ifndef RETRY_RECEIVER_P4
#define RETRY_RECEIVER_P4

#include "../headers.p4"
#include "../registers.p4"

/* Takes numbered frames in their order, each once. What comes after a missing one is dropped, as the peer sends all
 * again from the missing one on; it is asked to by one NACK per gap, and by another one only when there is reason to
 * believe that the first was lost, or its replay (a duplicate came, a replay began, a keepalive passed), as each NACK
 * makes the peer begin anew. A frame with a bad CRC may have been a numbered one, so it counts as a gap. Neither takes
 * credits: it will come again.
 *
 * The newest frame, come again, is the end of a replay for an acknowledgement that was lost: it is answered. */
control RetryReceiver(in headers_t hdr, inout metadata_t meta) {
    counter(PORTS, CounterType.packets) llr_rx_ok;
    counter(PORTS, CounterType.packets) llr_rx_poisoned;
    counter(PORTS, CounterType.packets) llr_rx_bad;
    counter(PORTS, CounterType.packets) llr_rx_expected_seq_good;
    counter(PORTS, CounterType.packets) llr_rx_expected_seq_poisoned;
    counter(PORTS, CounterType.packets) llr_rx_expected_seq_bad;
    counter(PORTS, CounterType.packets) llr_rx_missing_seq;
    counter(PORTS, CounterType.packets) llr_rx_replay;

    bit<32> port = 0;
    receiver_state_t state = SEND_ACKS;
    seq_t expected = 0;

    apply {
        port = (bit<32>)meta.link_port;
        if (meta.counts == 1 && retries(meta.format)) {
            bool poisoned = hdr.link.flags & FLAG_POISON != 0;
            if (meta.verdict == VERDICT_UNDECIDED && hdr.link.flags & FLAG_LLR != 0
                && (hdr.link.kind == KIND_DATA || hdr.link.kind == KIND_CC_UPDATE)) {
                bit<21> newest = 0;
                llr_expected_seq.read(expected, port);
                llr_receiver_state.read(state, port);
                llr_newest.read(newest, port);
                seq_t ahead = hdr.link.seq - expected;
                seq_t advance = hdr.link.seq - newest[19:0] - 1;
                bool replay = hdr.link.flags & FLAG_REPLAY != 0;
                bool replay_begins = replay && (newest[20:20] == 0 || advance[19:19] == 1);
                llr_newest.write(port, (replay ? 1w1 : 1w0) ++ hdr.link.seq);
                if (poisoned) {
                    llr_rx_poisoned.count(port);
                } else {
                    llr_rx_ok.count(port);
                }
                if (replay_begins) {
                    llr_rx_replay.count(port);
                }
                if (ahead == 0) {
                    seq_t given = 0;
                    seq_t asked = 0;
                    expected = expected + 1;
                    llr_expected_seq.write(port, expected);
                    llr_acks_due.write(0, 1);
                    if (state != SEND_ACKS) {
                        llr_receiver_state.write(port, SEND_ACKS);
                    }
                    if (poisoned) {
                        llr_rx_expected_seq_poisoned.count(port);
                    } else {
                        llr_rx_expected_seq_good.count(port);
                    }
                    llr_ack_given.read(given, port);
                    llr_ack_asked.read(asked, port);
                    if (expected - given >= ACK_EVERY && expected - asked >= ACK_EVERY) {
                        meta.reply = MAKE_LLR_ACK;
                        llr_ack_asked.write(port, expected);
                    }
                } else {
                    meta.counts = 0;
                    if (ahead[19:19] == 1) {
                        meta.verdict = REASON_LLR_RX_DUPLICATE_SEQ;
                        if (state == NACK_SENT) {
                            llr_receiver_state.write(port, SEND_NACK);
                        } else if (state == SEND_ACKS && ahead == 0xFFFFF) {
                            meta.reply = MAKE_LLR_ACK;
                        }
                    } else {
                        meta.verdict = REASON_LLR_OUT_OF_SEQUENCE;
                        if (state == SEND_ACKS) {
                            llr_rx_missing_seq.count(port);
                            meta.loss_found = 1;
                        }
                        if (state != NACK_SENT || replay_begins) {
                            llr_receiver_state.write(port, NACK_SENT);
                            meta.reply = MAKE_LLR_NACK;
                            meta.clone_seq = expected;
                        }
                    }
                }
            }
            if (meta.verdict == VERDICT_UNDECIDED && poisoned) {
                meta.verdict = REASON_POISONED;
            }
        } else if (meta.verdict == REASON_BAD_CRC) {
            session_t link_session = 0;
            link_format.read(meta.format, port);
            session.read(link_session, port);
            if (link_session != 0 && retries(meta.format)) {
                llr_rx_bad.count(port);
                llr_receiver_state.read(state, port);
                if (state == SEND_ACKS) {
                    llr_rx_expected_seq_bad.count(port);
                }
                if (state != NACK_SENT) {
                    llr_expected_seq.read(meta.clone_seq, port);
                    llr_receiver_state.write(port, NACK_SENT);
                    meta.reply = MAKE_LLR_NACK;
                }
            }
        }
    }
}

#endif
