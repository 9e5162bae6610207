#ifndef RETRY_WATCH_P4
#define RETRY_WATCH_P4

#include "../headers.p4"
#include "../registers.p4"

/* What a keepalive does for link-layer retry: a frame that is still missing is asked for once more. A link that begins
 * more replays within a second than its profile allows is degraded, and its neighbours are told. A link that has
 * given up is brought up anew if its profile says so, and so is one of whose copies the switch itself has lost one (a
 * queue that is too short): the line saw it missing, or sees none at all although frames are not acknowledged. */
control RetryWatch(in headers_t hdr, inout metadata_t meta) {
    counter(PORTS, CounterType.packets) llr_copies_lost;
    counter(PORTS, CounterType.packets) links_degraded;

    apply {
        if (hdr.notice.isValid() && hdr.notice.type == KEEPALIVE_NOTICE && meta.has_profile == 1) {
            bit<32> port = (bit<32>)meta.link_port;
            session_t current = 0;
            link_format.read(meta.format, port);
            session.read(current, port);
            if (current != 0 && retries(meta.format)) {
                session_t flushed = 0;
                session_t lost = 0;
                llr_settings_t settings = 0;
                seq_t oldest = 0;
                seq_t next_seq = 0;
                ticks_t now = 0;
                ticks_t numbered = 0;
                ticks_t seen = 0;
                receiver_state_t state = SEND_ACKS;
                llr_flushed_session.read(flushed, port);
                llr_lost_session.read(lost, port);
                llr_settings.read(settings, port);
                llr_unacknowledged_seq.read(oldest, port);
                llr_next_seq.read(next_seq, port);
                ticks.read(now, 0);
                llr_numbered_at.read(numbered, port);
                llr_line_seen.read(seen, port);
                llr_receiver_state.read(state, port);
                bit<16> most = 0;
                llr_degraded_replays.read(most, port);
                if (most != 0) {
                    bit<32> begun = 0;
                    bit<32> counted = 0;
                    bit<8> keepalives = 0;
                    llr_replays_begun.read(begun, port);
                    llr_replays_counted.read(counted, port);
                    llr_keepalives_counted.read(keepalives, port);
                    keepalives = keepalives + 1;
                    if (begun - counted >= (bit<32>)most) {
                        meta.link_degraded = 1;
                        links_degraded.count(port);
                    }
                    if (meta.link_degraded == 1 || keepalives >= DEGRADED_KEEPALIVES) {
                        keepalives = 0;
                        llr_replays_counted.write(port, begun);
                    }
                    llr_keepalives_counted.write(port, keepalives);
                }
                if (flushed == current) {
                    if (re_init_of(settings)) {
                        meta.redraw = 1;
                    }
                } else if (lost == current || (oldest != next_seq && now - numbered > COPY_ABSENT_TICKS
                    && now - seen > COPY_ABSENT_TICKS)) {
                    llr_copies_lost.count(port);
                    meta.redraw = 1;
                }
                if (state != SEND_ACKS) {
                    llr_expected_seq.read(meta.clone_seq, port);
                    llr_receiver_state.write(port, NACK_SENT);
                    meta.reply = MAKE_LLR_NACK;
                }
            }
        }
    }
}

#endif
