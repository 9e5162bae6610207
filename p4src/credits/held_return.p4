#ifndef HELD_RETURN_P4
#define HELD_RETURN_P4

#include "../headers.p4"
#include "../registers.p4"
#include "../retry/send_window.p4"

/* A held frame that was granted credit is back in the ingress, which alone consumes credits. It leaves now, unless its
 * link was brought up anew since the grant: then there may be no credit for it any more, and it waits again, with its
 * ticket. Every frame that must not overtake it and was granted after it goes back too, which it sees by the number of
 * tickets that have come back since. One whose port is dead is dropped, unless events.p4 turns it around. */
control HeldReturn(in headers_t hdr, inout metadata_t meta) {
    counter(PORTS, CounterType.packets) frames_released;
    counter(PORTS, CounterType.packets) frames_returned;
    SendWindow() send_window;
    window_t window = WINDOW_OPEN;

    apply {
        bit<32> port = (bit<32>)meta.egress_port;
        bit<32> queue = (bit<32>)(meta.egress_port ++ meta.sender_vc);
        bit<8> lane = lane_of(meta.sender_vc);
        format_t format = 0;
        lanes_t consumed = 0;
        lanes_t freed = 0;
        lanes_t limit = 0;
        lanes_t returned = 0;
        ticket_t back = 0;
        bit<1> dead = 0;
        sender_session.read(meta.session, port);
        if (meta.session == 0) {
            port_dead.read(dead, port);
        }
        link_format.read(format, port);
        sender_credits_consumed.read(consumed, port);
        sender_credits_freed.read(freed, port);
        sender_credit_limit.read(limit, port);
        tickets_returned.read(back, queue);
        bool needs_credit = has_vc(format[23:16], meta.sender_vc);
        credits_t credits = credits_of(meta.frame_bytes, format[15:8], format[7:0]);
        credits_t used = lane_value(consumed, lane) - lane_value(freed, lane) + credits;
        if (needs_credit && retries(format) && meta.session != 0) {
            send_window.apply(port, meta.session, meta.frame_bytes, 0, 0, window);
            if (window == WINDOW_OPEN) {
                meta.numbered = 1;
            }
        }
        if (dead == 1 || (meta.session != 0 && window != WINDOW_CLOSED && (hdr.oefh.f == 1 || meta.returned == back)
            && (!needs_credit || used <= lane_value(limit, lane)))) {
            lanes_t held = 0;
            bit<24> total = 0;
            meta.verdict = VERDICT_FORWARD;
            if (dead == 1) {
                meta.verdict = REASON_DEAD_PORT;
            } else if (window == WINDOW_DISCARDS) {
                meta.verdict = REASON_LLR_FLUSHED;
            }
            frames_released.count(port);
            if (meta.came_back == 1) {
                // Granted ahead of its turn, as later ones were out when it came back: they need not come back.
                tickets_returned.write(queue, back - 1);
            }
            if (needs_credit && meta.verdict == VERDICT_FORWARD) {
                lanes_t watermark = 0;
                sender_credits_consumed.write(port, lane_plus(consumed, lane, credits));
                sender_credits_used_watermark.read(watermark, port);
                if (used > lane_value(watermark, lane)) {
                    sender_credits_used_watermark.write(
                        port, lane_plus(watermark, lane, used - lane_value(watermark, lane)));
                }
            }
            held_frames.read(held, port);
            held_frames_total.read(total, port);
            if (lane_value(held, lane) != 0) { // 0: it had been given up for lost
                held_frames.write(port, lane_minus(held, lane, 1));
                held_frames_total.write(port, total - 1);
            }
        } else {
            meta.verdict = VERDICT_HOLD;
            frames_returned.count(port);
            if (meta.in_turn == 1) {
                meta.came_back = 1;
                tickets_returned.write(queue, back + 1);
            }
        }
        // Last: until then the egress sees these credits reserved.
        credits_returned.read(returned, port);
        credits_returned.write(port, lane_plus(returned, lane, meta.granted));
        if (meta.granted_window == 1) {
            bit<32> frames = 0;
            bit<32> bytes = 0;
            llr_returned_frames.read(frames, port);
            llr_returned_bytes.read(bytes, port);
            llr_returned_frames.write(port, frames + 1);
            llr_returned_bytes.write(port, bytes + meta.frame_bytes);
        }
    }
}

#endif
