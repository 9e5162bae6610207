#ifndef HELD_RETURN_P4
#define HELD_RETURN_P4

#include "headers.p4"
#include "registers.p4"

/* A held frame that was granted credit is back in the ingress, which alone consumes credits. It leaves now, unless its
 * link was brought up anew since the grant: then there may be no credit for it any more, and it waits again, with its
 * ticket. Every frame that must not overtake it and was granted after it goes back too, which it sees by the number of
 * tickets that have come back since. */
control HeldReturn(in headers_t hdr, inout metadata_t meta) {
    counter(PORTS, CounterType.packets) frames_released;
    counter(PORTS, CounterType.packets) frames_returned;

    apply {
        bit<32> port = (bit<32>)meta.egress_port;
        bit<32> queue = (bit<32>)(meta.egress_port ++ meta.sender_vc);
        bit<8> lane = lane_of(meta.sender_vc);
        bit<24> format = 0;
        lanes_t consumed = 0;
        lanes_t freed = 0;
        lanes_t limit = 0;
        lanes_t returned = 0;
        ticket_t back = 0;
        sender_session.read(meta.session, port);
        link_format.read(format, port);
        sender_credits_consumed.read(consumed, port);
        sender_credits_freed.read(freed, port);
        sender_credit_limit.read(limit, port);
        tickets_returned.read(back, queue);
        bool needs_credit = has_vc(format[23:16], meta.sender_vc);
        credits_t credits = credits_of(meta.frame_bytes, format[15:8], format[7:0]);
        credits_t used = lane_value(consumed, lane) - lane_value(freed, lane) + credits;
        if (meta.session != 0 && (hdr.oefh.f == 1 || meta.returned == back)
            && (!needs_credit || used <= lane_value(limit, lane))) {
            lanes_t held = 0;
            bit<24> total = 0;
            meta.verdict = VERDICT_FORWARD;
            frames_released.count(port);
            if (meta.came_back == 1) {
                // Granted ahead of its turn, as later ones were out when it came back: they need not come back.
                tickets_returned.write(queue, back - 1);
            }
            if (needs_credit) {
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
    }
}

#endif
