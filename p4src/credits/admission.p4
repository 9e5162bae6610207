#ifndef ADMISSION_P4
#define ADMISSION_P4

#include "../headers.p4"
#include "../registers.p4"
#include "../retry/send_window.p4"

/* Whether a frame may leave by its managed link now. On a lossless VC it needs credit, where the link retries a place
 * in the window as well, and nothing else may be waiting for the same port and VC: otherwise it is held. A frame with
 * F = 0 then draws a ticket, so that it leaves in its turn. A link that is being brought up anew keeps its peer's
 * frames waiting too; one that has had no peer takes none. Nothing waits for a dead port, of either mode: events.p4 has
 * the frame.
 *
 * Frames of managed ports have taken credits, so that never more than those are held. An open port's source knows no
 * bounds: what it sends when the hold is full is dropped, before the hold's queue would drop what has a ticket.
 *
 * Best-effort VCs and VC 7 need no credit, only a link. VC 7 is limited by a meter per port that it comes in on. */
control Admission(in headers_t hdr, inout metadata_t meta) {
    meter(PORTS, MeterType.packets) control_rate_limit;
    counter(PORTS, CounterType.packets) frames_held;
    SendWindow() send_window;
    bit<2> color = 0;
    window_t window = WINDOW_OPEN;

    apply {
        if (meta.verdict == VERDICT_FORWARD && meta.to_dead_port == 1) {
            meta.verdict = REASON_DEAD_PORT;
        }
        if (meta.verdict == VERDICT_FORWARD && hdr.oefh.isValid() && hdr.oefh.vc == VC_CONTROL) {
            control_rate_limit.execute_meter((bit<32>)meta.link_port, color);
            if (color != 0) {
                meta.verdict = REASON_CONTROL_RATE;
            }
        }
        if (meta.verdict == VERDICT_FORWARD && meta.egress_mode != MODE_OPEN) {
            bit<32> port = (bit<32>)meta.egress_port;
            format_t format = 0;
            vc_t vc = mapped(meta.egress_vc_map, hdr.oefh.vc);
            sender_session.read(meta.session, port);
            link_format.read(format, port);
            if (hdr.link.kind != KIND_DATA || !hdr.oefh.isValid()) {
                meta.verdict = REASON_UNEXPECTED_CONTROL; // of a packet-out: the link makes its own
            } else if (hdr.oefh.vc != VC_CONTROL && has_vc(format[23:16], vc)) {
                lanes_t consumed = 0;
                lanes_t freed = 0;
                lanes_t limit = 0;
                lanes_t held = 0;
                bit<24> total = 0;
                bit<24> depth = 0;
                bit<8> lane = lane_of(vc);
                credits_t credits = credits_of(meta.frame_bytes, format[15:8], format[7:0]);
                sender_credits_consumed.read(consumed, port);
                sender_credits_freed.read(freed, port);
                sender_credit_limit.read(limit, port);
                held_frames.read(held, port);
                held_frames_total.read(total, port);
                hold_depth.read(depth, 0);
                credits_t used = lane_value(consumed, lane) - lane_value(freed, lane) + credits;
                if (retries(format) && meta.session != 0) {
                    bit<32> granted_frames = 0;
                    bit<32> granted_bytes = 0;
                    bit<32> returned_frames = 0;
                    bit<32> returned_bytes = 0;
                    llr_returned_frames.read(returned_frames, port);
                    llr_returned_bytes.read(returned_bytes, port);
                    llr_granted_frames.read(granted_frames, port);
                    llr_granted_bytes.read(granted_bytes, port);
                    send_window.apply(port, meta.session, meta.frame_bytes, granted_frames - returned_frames,
                        granted_bytes - returned_bytes, window);
                    if (window == WINDOW_OPEN) {
                        meta.numbered = 1;
                    }
                }
                if (credits > lane_value(limit, lane)) {
                    meta.verdict = REASON_EXCEEDS_LIMIT;
                } else if (window == WINDOW_DISCARDS) {
                    meta.verdict = REASON_LLR_FLUSHED;
                } else {
                    if (meta.ecn_threshold != 0 && total >= meta.ecn_threshold) {
                        meta.congested = 1;
                    }
                    if (meta.session != 0 && lane_value(held, lane) == 0 && used <= lane_value(limit, lane)
                        && window != WINDOW_CLOSED) {
                        lanes_t watermark = 0;
                        sender_credits_consumed.write(port, lane_plus(consumed, lane, credits));
                        sender_credits_used_watermark.read(watermark, port);
                        if (used > lane_value(watermark, lane)) {
                            sender_credits_used_watermark.write(
                                port, lane_plus(watermark, lane, used - lane_value(watermark, lane)));
                        }
                    } else if (depth >= HELD_MOST) {
                        meta.verdict = REASON_HOLD_FULL;
                    } else {
                        ticks_t now = 0;
                        bit<32> queue = (bit<32>)(meta.egress_port ++ vc);
                        meta.verdict = VERDICT_HOLD;
                        meta.held = 1;
                        meta.sender_vc = vc;
                        frames_held.count(port);
                        if (hdr.oefh.f == 0) {
                            if (lane_value(held, lane) == 0) {
                                // Nothing waits: the tickets start where the head is, so that lost ones are forgotten.
                                ticket_t back = 0;
                                ticket_head.read(meta.ticket, queue);
                                tickets_returned.read(back, queue);
                                meta.ticket = meta.ticket - back;
                            } else {
                                ticket_tail.read(meta.ticket, queue);
                            }
                            ticket_tail.write(queue, meta.ticket + 1);
                        }
                        held_frames.write(port, lane_plus(held, lane, 1));
                        held_frames_total.write(port, total + 1);
                        ticks.read(now, 0);
                        held_entered.write(port, now);
                        buffered_entered.write((bit<32>)meta.link_port, now);
                    }
                }
            } else if (meta.session == 0) {
                meta.verdict = REASON_LINK_NOT_UP;
            } else if (hdr.oefh.vc != VC_CONTROL) {
                meta.best_effort = 1;
            }
        }
    }
}

#endif
