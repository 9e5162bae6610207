#ifndef QUEUE_SHARE_P4
#define QUEUE_SHARE_P4

#include "../headers.p4"
#include "../registers.p4"

/* How much of a managed port's queue best effort may fill. All VCs share it. Lossless frames in it have credit, which
 * bounds them, but nothing bounds best effort: it would fill the queue, which then drops whatever comes. So best-effort
 * frames are numbered as they enter; those between the newest and the last one that has left are inside, and what
 * comes is dropped here when they are too many. What the queue itself lost is made up for by the next that leaves. Only
 * when none has left for long may all inside be lost: then one more is let in, and its leaving tells. */
control QueueShare(inout metadata_t meta) {
    apply {
        if (meta.verdict == VERDICT_FORWARD && meta.best_effort == 1) {
            bit<32> port = (bit<32>)meta.egress_port;
            bit<32> entered = 0;
            bit<32> left = 0;
            best_effort_entered.read(entered, port);
            best_effort_left.read(left, port);
            if (entered - left >= BEST_EFFORT_MOST) {
                ticks_t now = 0;
                ticks_t passed = 0;
                ticks_t tried = 0;
                ticks.read(now, 0);
                best_effort_passed.read(passed, port);
                best_effort_tried.read(tried, port);
                if (now - passed > HELD_ABSENT_TICKS && now - tried > HELD_ABSENT_TICKS) {
                    best_effort_tried.write(port, now);
                } else {
                    meta.verdict = REASON_NO_ROOM;
                }
            }
            if (meta.verdict == VERDICT_FORWARD) {
                meta.best_effort_place = entered + 1;
                best_effort_entered.write(port, entered + 1);
            }
        }
    }
}

#endif
