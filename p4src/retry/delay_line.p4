#ifndef DELAY_LINE_P4
#define DELAY_LINE_P4

#include "../headers.p4"
#include "../registers.p4"

/* Where the copies of numbered frames wait for their acknowledgement: in the egress of ports without a link, going
 * round by egress clones. An acknowledged copy ends. A replay is a pointer that runs from the oldest frame to the
 * newest numbered one; the copy that it points at goes straight into its port's queue. It begins when a NACK has
 * come, or when a copy has been waiting for longer than the replay timer; while it advances, the copies of its port
 * go round without a pace (while it does not, the due frame is in its port's queue, and haste would find nothing).
 * Copies that were never sent, as a replay went on, are sent by the pointer in their turn.
 *
 * Replays in a row without progress are limited: then the link gives up, and its copies end. A copy that stays away
 * although it is due has been lost by a queue, and the link is brought up anew (retry_watch.p4). */
control DelayLine(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets) llr_line_rounds;
    counter(PORTS, CounterType.packets) llr_line_ended;
    counter(PORTS, CounterType.packets) llr_tx_replay;
    counter(PORTS, CounterType.packets) llr_replay_timeouts;
    counter(PORTS, CounterType.packets) llr_flushes;

    bit<32> port = 0;
    ticks_t now = 0;
    session_t current = 0;
    session_t flushed = 0;
    session_t last = 0;
    seq_t oldest = 0;
    seq_t next_seq = 0;
    seq_t pointer = 0;
    bit<1> replaying = 0;
    bit<8> nacks = 0;
    bit<8> nacks_seen = 0;

    apply {
        port = (bit<32>)meta.egress_port;
        llr_line_rounds.count(port);
        ticks.read(now, 0);
        llr_line_seen.write(port, now);
        if (standard_metadata.egress_port == LINE_PORT) {
            llr_line_depth.write(0, (bit<24>)standard_metadata.deq_qdepth);
        }
        session.read(current, port);
        llr_flushed_session.read(flushed, port);
        if (meta.session != current || flushed == current) {
            llr_line_ended.count(port);
        } else {
            bool moved = false;
            llr_unacknowledged_seq.read(oldest, port);
            llr_next_seq.read(next_seq, port);
            llr_nacks.read(nacks, port);
            llr_line_session.read(last, port);
            if (last != current) {
                llr_line_session.write(port, current);
                llr_replays.write(port, 0);
                nacks_seen = nacks;
            } else {
                llr_replaying.read(replaying, port);
                llr_replay_seq.read(pointer, port);
                llr_nacks_seen.read(nacks_seen, port);
            }
            seq_t ahead = meta.seq - oldest;
            if (ahead[19:19] == 1) {
                if (oldest == next_seq) {
                    replaying = 0;
                    nacks_seen = nacks;
                }
            } else {
                llr_settings_t settings = 0;
                bool begins = false;
                bool alive = true;
                llr_settings.read(settings, port);
                bit<32> waited = (bit<32>)standard_metadata.egress_global_timestamp - meta.sent_at;
                seq_t behind = pointer - oldest;
                if (behind[19:19] == 1) {
                    pointer = oldest;
                    moved = true;
                }
                if (nacks != nacks_seen) {
                    nacks_seen = nacks;
                    begins = replaying == 0 || pointer != oldest;
                } else if (meta.unsent == 1 && replaying == 0) {
                    replaying = 1; // the replay that it came in has ended: it is the next one's first
                    pointer = meta.seq;
                    moved = true;
                } else if (waited[31:31] == 0 && waited >= replay_timer_of(settings)
                    && (replaying == 0 || (ahead == 0 && pointer != oldest))) {
                    llr_replay_timeouts.count(port);
                    begins = true;
                }
                if (begins) {
                    bit<8> replays = 0;
                    seq_t from = 0;
                    replaying = 1;
                    pointer = oldest;
                    moved = true;
                    llr_replays.read(replays, port);
                    llr_replayed_from.read(from, port);
                    if (from != oldest) {
                        replays = 0;
                    }
                    if (replays >= replay_count_max_of(settings)) {
                        llr_flushes.count(port);
                        llr_flushed_session.write(port, current);
                        replaying = 0;
                        alive = false;
                    } else {
                        bit<32> begun = 0;
                        llr_tx_replay.count(port);
                        llr_replays_begun.read(begun, port);
                        llr_replays_begun.write(port, begun + 1);
                        llr_replays.write(port, replays + 1);
                        llr_replayed_from.write(port, oldest);
                    }
                }
                if (!alive) {
                    llr_line_ended.count(port);
                } else if (replaying == 1 && meta.seq == pointer) {
                    pointer = pointer + 1;
                    moved = true;
                    meta.replay = 1;
                    if (pointer == next_seq) {
                        replaying = 0;
                    }
                    clone_preserving_field_list(CloneType.E2E, port, COPY_FIELDS);
                } else {
                    bit<32> line = (bit<32>)LINE_PORT;
                    if (replaying == 1) {
                        ticks_t since = 0;
                        llr_replay_moved.read(since, port);
                        if (moved || now - since <= FAST_TICKS) {
                            line = (bit<32>)FAST_LINE_PORT;
                        } else if (now - since > COPY_ABSENT_TICKS) {
                            llr_lost_session.write(port, current);
                        }
                    }
                    clone_preserving_field_list(CloneType.E2E, line, COPY_FIELDS);
                }
            }
            llr_replaying.write(port, replaying);
            llr_replay_seq.write(port, pointer);
            llr_nacks_seen.write(port, nacks_seen);
            if (moved) {
                llr_replay_moved.write(port, now);
            }
        }
        mark_to_drop(standard_metadata);
    }
}

#endif
