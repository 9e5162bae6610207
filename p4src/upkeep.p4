#ifndef UPKEEP_P4
#define UPKEEP_P4

#include "headers.p4"
#include "registers.p4"

/* What a link's keepalive does besides the sign of life. While credits are in use the peer is told how many were
 * consumed, by a CC_UPDATE that goes the way of data, so that it can write off what the link lost. And what the
 * switch itself lost is written off: frames count as held, and their buffer as taken, until they leave, so one that a
 * queue of the switch dropped would count for good. When none of them has come round for long, none is left. */
control Upkeep(inout headers_t hdr, inout metadata_t meta) {
    counter(PORTS, CounterType.packets) holds_written_off;
    counter(PORTS, CounterType.packets) buffers_written_off;

    apply {
        if (hdr.notice.isValid() && hdr.notice.type == KEEPALIVE_NOTICE) {
            bit<32> port = (bit<32>)meta.link_port;
            ticks_t now = 0;
            ticks_t entered = 0;
            ticks_t passed = 0;
            lanes_t consumed = 0;
            lanes_t freed = 0;
            lanes_t held = 0;
            ticks.read(now, 0);

            held_frames.read(held, port);
            held_entered.read(entered, port);
            held_passed.read(passed, port);
            if (held != 0 && now - entered > HELD_ABSENT_TICKS && now - passed > HELD_ABSENT_TICKS) {
                lanes_t granted = 0;
                credits_granted.read(granted, port);
                credits_returned.write(port, granted);
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

            if (meta.make == MAKE_CF_UPDATE && meta.event_type == 0) { // else the clone is events.p4's
                sender_credits_consumed.read(consumed, port);
                sender_credits_freed.read(freed, port);
                if (consumed != freed) {
                    session.read(meta.session, port);
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
