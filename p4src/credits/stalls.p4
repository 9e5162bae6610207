#ifndef STALLS_P4
#define STALLS_P4

#include "../headers.p4"
#include "../registers.p4"

/* The stall watchdog. A peer that is alive but frees no credit on a VC stops all that waits for it, for good if its
 * receiver is stuck. Where the profile gives a time, the link then counts as down and is brought up anew. The time is
 * that of a VC for which frames are held and whose credits are all as they were: measured at keepalives, per VC,
 * so that the others' progress hides nothing. */
control Stalls(in headers_t hdr, inout metadata_t meta) {
    counter(PORTS, CounterType.packets) stalls;

    apply {
        if (meta.has_profile == 1 && meta.profile.stall != 0 && hdr.notice.isValid()
            && hdr.notice.type == KEEPALIVE_NOTICE) {
            bit<32> port = (bit<32>)meta.link_port;
            session_t ready = 0;
            lanes_t held = 0;
            lanes_t consumed = 0;
            lanes_t freed = 0;
            lanes_t before = 0;
            lanes_t ticks_stalled = 0;
            sender_session.read(ready, port);
            held_frames.read(held, port);
            sender_credits_consumed.read(consumed, port);
            sender_credits_freed.read(freed, port);
            freed_at_keepalive.read(before, port);
            stalled.read(ticks_stalled, port);
            if (ready == 0) {
                ticks_stalled = 0; // what comes up is looked after by bring-up itself
            } else {
                // The lanes of VCs where frames wait, credits are in use, and none was freed since the last keepalive.
                lanes_t stuck = lanes_not_zero(held) & lanes_not_zero(lanes_minus(consumed, freed))
                    & ~lanes_not_zero(lanes_minus(freed, before));
                ticks_stalled = lanes_plus(ticks_stalled, lanes_of_all((bit<24>)KEEPALIVE_TICKS)) & stuck;
            }
            if (!lanes_at_most(ticks_stalled, lanes_of_all((bit<24>)meta.profile.stall))) {
                ticks_stalled = 0;
                stalls.count(port);
                meta.redraw = 1;
                meta.link_lost = 1;
            }
            freed_at_keepalive.write(port, freed);
            stalled.write(port, ticks_stalled);
        }
    }
}

#endif
