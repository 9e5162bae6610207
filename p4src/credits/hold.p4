#ifndef HOLD_P4
#define HOLD_P4

#include "../headers.p4"
#include "../registers.p4"
#include "../retry/send_window.p4"

/* Where frames wait for credit, or for a place in the window of what is not acknowledged: in the egress of a port
 * without a link, whose queue has a pace. Each round a frame looks whether it may go; if so it returns to the
 * ingress, which sends it; if not, an egress clone of it takes its place at the end of the same queue. No parser, no
 * CRC and no table is asked in a round. Frames for different ports and VCs never wait for each other longer than
 * that.
 *
 * A granted frame's credits are reserved until it is back in the ingress and consumes them: what has been granted and
 * not returned is no longer free. Frames with F = 0 go by tickets. A ticket at the head that stays away while later
 * ones come round belongs to a lost frame and is passed over; should it come after all, it is granted at once. Time
 * alone does not tell: a switch that was held up takes many ticks at once. A later frame must have gone round as well.
 *
 * How many wait is known from the queue itself: more than it can keep are never let in (admission.p4).
 *
 * What waits for a dead port leaves in its next round, as if granted, without credits; the ingress has it then. */
control Hold(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets) tickets_skipped;
    SendWindow() send_window;
    window_t window = WINDOW_OPEN;

    apply {
        bit<32> port = (bit<32>)meta.egress_port;
        bit<32> queue = (bit<32>)(meta.egress_port ++ meta.sender_vc);
        bit<8> lane = lane_of(meta.sender_vc);
        ticks_t now = 0;
        ticket_t head = 0;
        bool go = true;
        session_t link_session = 0;
        bit<1> dead = 0;
        ticks.read(now, 0);
        hold_depth.write(0, (bit<24>)standard_metadata.deq_qdepth);
        held_passed.write(port, now);
        buffered_passed.write((bit<32>)meta.link_port, now);
        meta.in_turn = 0;
        meta.granted = 0;
        meta.granted_window = 0;
        sender_session.read(link_session, port);
        if (link_session == 0) {
            port_dead.read(dead, port);
        }
        if (hdr.oefh.f == 0) {
            tickets_returned.read(meta.returned, queue);
            ticket_head.read(head, queue);
            ticket_t ahead = meta.ticket - (head - meta.returned);
            if (dead == 1) {
                if (ahead[15:15] == 0) { // those before it have left, or are about to
                    ticket_head.write(queue, meta.ticket + 1 + meta.returned - (ticket_t)meta.came_back);
                }
            } else if (ahead == 0) {
                bit<16> heads = 0;
                meta.in_turn = 1;
                head_seen.write(queue, now);
                heads_seen.read(heads, queue);
                heads_seen.write(queue, heads + 1);
            } else if (ahead[15:15] == 0) {
                ticks_t seen = 0;
                bit<16> heads = 0;
                go = false;
                head_seen.read(seen, queue);
                heads_seen.read(heads, queue);
                if (now - seen > HEAD_ABSENT_TICKS && meta.went_round == 1 && meta.heads_then == heads) {
                    ticket_head.write(queue, head + 1);
                    head_seen.write(queue, now);
                    tickets_skipped.count(port);
                }
                meta.heads_then = heads;
                meta.went_round = 1;
            }
        }
        if (go && dead == 0) {
            if (link_session == 0) {
                go = false;
            } else {
                format_t format = 0;
                lanes_t granted = 0;
                link_format.read(format, port);
                if (has_vc(format[23:16], meta.sender_vc)) {
                    lanes_t consumed = 0;
                    lanes_t freed = 0;
                    lanes_t limit = 0;
                    lanes_t returned = 0;
                    meta.granted = credits_of(meta.frame_bytes, format[15:8], format[7:0]);
                    credits_returned.read(returned, port); // before what its frames consume
                    sender_credits_freed.read(freed, port);
                    sender_credits_consumed.read(consumed, port);
                    sender_credit_limit.read(limit, port);
                    credits_granted.read(granted, port);
                    credits_t used = lane_value(consumed, lane) - lane_value(freed, lane);
                    credits_t reserved = lane_value(granted, lane) - lane_value(returned, lane);
                    bit<32> granted_frames = 0;
                    bit<32> granted_bytes = 0;
                    if (retries(format)) {
                        bit<32> returned_frames = 0;
                        bit<32> returned_bytes = 0;
                        llr_returned_frames.read(returned_frames, port);
                        llr_returned_bytes.read(returned_bytes, port);
                        llr_granted_frames.read(granted_frames, port);
                        llr_granted_bytes.read(granted_bytes, port);
                        send_window.apply(port, link_session, meta.frame_bytes, granted_frames - returned_frames,
                            granted_bytes - returned_bytes, window);
                    }
                    if (window != WINDOW_CLOSED && used + reserved + meta.granted <= lane_value(limit, lane)) {
                        credits_granted.write(port, lane_plus(granted, lane, meta.granted));
                        if (retries(format)) {
                            meta.granted_window = 1;
                            llr_granted_frames.write(port, granted_frames + 1);
                            llr_granted_bytes.write(port, granted_bytes + meta.frame_bytes);
                        }
                    } else {
                        go = false;
                    }
                }
            }
        }
        if (go) {
            if (meta.in_turn == 1) {
                meta.came_back = 0;
                ticket_head.write(queue, head + 1);
            }
            recirculate_preserving_field_list(HELD_FIELDS);
        } else {
            clone_preserving_field_list(CloneType.E2E, (bit<32>)HOLD_PORT, HELD_FIELDS);
            mark_to_drop(standard_metadata);
        }
    }
}

#endif
