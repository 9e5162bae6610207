#ifndef UPKEEP_P4
#define UPKEEP_P4

#include "../headers.p4"
#include "../registers.p4"
#include "../retry/send_window.p4"

/* What a link's keepalive does besides the sign of life. While credits are in use the peer is told how many were
 * consumed, by a CC_UPDATE that goes the way of data, so that it can write off what the link lost; where the link
 * retries it is numbered, and left out when the window is full or a NACK is due. And what the switch itself lost is
 * written off: frames count as held, and their buffer as taken, until they leave, so one that a queue of the switch
 * dropped would count for good. When none of them has come round for long, none is left. */
control Upkeep(inout headers_t hdr, inout metadata_t meta) {
    counter(PORTS, CounterType.packets) holds_written_off;
    counter(PORTS, CounterType.packets) buffers_written_off;
    SendWindow() send_window;
    window_t window = WINDOW_OPEN;

    apply {
        if (hdr.notice.isValid() && hdr.notice.type == KEEPALIVE_NOTICE) {
            bit<32> port = (bit<32>)meta.link_port;
            ticks_t now = 0;
            ticks_t entered = 0;
            ticks_t passed = 0;
            lanes_t consumed = 0;
            lanes_t freed = 0;
            lanes_t held = 0;
            bit<32> window_frames = 0;
            bit<32> window_bytes = 0;
            ticks.read(now, 0);

            held_frames.read(held, port);
            held_entered.read(entered, port);
            held_passed.read(passed, port);
            if (held != 0 && now - entered > HELD_ABSENT_TICKS && now - passed > HELD_ABSENT_TICKS) {
                lanes_t granted = 0;
                credits_granted.read(granted, port);
                credits_returned.write(port, granted);
                llr_granted_frames.read(window_frames, port);
                llr_granted_bytes.read(window_bytes, port);
                llr_returned_frames.write(port, window_frames);
                llr_returned_bytes.write(port, window_bytes);
                held_frames.write(port, 0);
                held_frames_total.write(port, 0);
                holds_written_off.count(port);
            }

            receiver_credits_consumed.read(consumed, port);
            receiver_credits_freed.read(freed, port);
            buffered_entered.read(entered, port);
            buffered_passed.read(passed, port);
            if (consumed != freed && now - entered > HELD_ABSENT_TICKS && now - passed > HELD_ABSENT_TICKS) {
                receiver_credits_freed.write(port, consumed);
                buffers_written_off.count(port);
            }

            // Else the clone is another's: replies.p4's, or events.p4's.
            if (meta.make == MAKE_CF_UPDATE && meta.reply == MAKE_NOTHING && meta.event_type == 0) {
                sender_credits_consumed.read(consumed, port);
                sender_credits_freed.read(freed, port);
                session.read(meta.session, port);
                if (retries(meta.format)) {
                    send_window.apply(port, meta.session, CREDIT_UPDATE_FRAME_BYTES, 0, 0, window);
                }
                if (consumed != freed && (window == WINDOW_OPEN || window == WINDOW_UNNUMBERED)) {
                    if (retries(meta.format) && window == WINDOW_OPEN) {
                        meta.numbered = 1;
                        meta.egress_port = meta.link_port;
                        meta.frame_bytes = CREDIT_UPDATE_FRAME_BYTES;
                    }
                    hdr.credit_update.setValid();
                    hdr.credit_update.credits = consumed;
                    meta.make = MAKE_CC_UPDATE;
                    meta.clone_make = MAKE_CF_UPDATE;
                    clone_preserving_field_list(CloneType.I2E, port, CLONE_FIELDS);
                }
            }
        }
    }
}

#endif
