#ifndef QUEUE_SHARE_P4
#define QUEUE_SHARE_P4

#include "headers.p4"
#include "registers.p4"

/* How much of a managed port's queue best effort may fill. All VCs share it. Lossless frames in it have credit, which
 * bounds them, but nothing bounds best effort: it would fill the queue, which then drops whatever comes. So best-effort
 * frames are counted in and out, and dropped here when their share is taken. Where none has left for a long time
 * although all of it is taken, they were lost on the way, and it is free. */
control QueueShare(inout metadata_t meta) {
    apply {
        if (meta.verdict == VERDICT_FORWARD && meta.best_effort == 1) {
            bit<32> port = (bit<32>)meta.egress_port;
            bit<32> entered = 0;
            bit<32> left = 0;
            best_effort_entered.read(entered, port);
            best_effort_left.read(left, port);
            bit<32> inside = entered - left;
            if (inside[31:31] == 1) {
                inside = 0; // more have left: some were given up for lost too early
            }
            if (inside >= BEST_EFFORT_MOST) {
                ticks_t now = 0;
                ticks_t passed = 0;
                ticks.read(now, 0);
                best_effort_passed.read(passed, port);
                if (now - passed > HELD_ABSENT_TICKS) {
                    best_effort_entered.write(port, left + 1);
                } else {
                    meta.verdict = REASON_NO_ROOM;
                }
            } else {
                best_effort_entered.write(port, entered + 1);
            }
        }
    }
}

#endif
