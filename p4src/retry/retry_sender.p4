#ifndef RETRY_SENDER_P4
#define RETRY_SENDER_P4

#include "../headers.p4"
#include "../registers.p4"

/* A numbered frame at the end of its port's queue: it is stamped and sent, and a copy goes into the line until the
 * peer has acknowledged it. While a replay goes on, a frame that was not sent yet would overtake what is sent again;
 * so it is only put into the line, and the replay sends it in its turn. What was acknowledged on its way here, or
 * belongs to a link that has given up, ends. */
control RetrySender(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets) llr_tx_ok;
    counter(PORTS, CounterType.packets) llr_tx_replayed;
    counter(PORTS, CounterType.packets) llr_tx_postponed;
    counter(PORTS, CounterType.packets) llr_tx_discard;

    apply {
        if (meta.numbered == 1 && meta.impaired == 0 && standard_metadata.egress_spec != DROP_PORT) {
            bit<32> port = (bit<32>)standard_metadata.egress_port;
            session_t flushed = 0;
            seq_t oldest = 0;
            bit<1> replaying = 0;
            bit<8> nacks = 0;
            bit<8> nacks_seen = 0;
            llr_flushed_session.read(flushed, port);
            llr_unacknowledged_seq.read(oldest, port);
            llr_replaying.read(replaying, port);
            llr_nacks.read(nacks, port);
            llr_nacks_seen.read(nacks_seen, port);
            seq_t ahead = meta.seq - oldest;
            meta.egress_port = standard_metadata.egress_port;
            meta.sent_at = (bit<32>)standard_metadata.egress_global_timestamp;
            hdr.link.seq = meta.seq;
            hdr.link.flags = FLAG_LLR;
            if (flushed == meta.session) {
                llr_tx_discard.count(port);
                mark_to_drop(standard_metadata);
            } else if (ahead[19:19] == 1) {
                mark_to_drop(standard_metadata);
            } else if (meta.replay == 0 && (replaying == 1 || nacks != nacks_seen)) {
                llr_tx_postponed.count(port);
                meta.unsent = 1;
                meta.to_line = 1;
                mark_to_drop(standard_metadata);
            } else {
                if (meta.replay == 0 || meta.unsent == 1) {
                    llr_tx_ok.count(port);
                    llr_sent_seq.write(port, meta.seq + 1);
                } else {
                    llr_tx_replayed.count(port);
                    hdr.link.flags = FLAG_LLR | FLAG_REPLAY;
                }
                meta.replay = 0;
                meta.unsent = 0;
                meta.to_line = 1;
            }
        }
    }
}

#endif
