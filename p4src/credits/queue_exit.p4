#ifndef QUEUE_EXIT_P4
#define QUEUE_EXIT_P4

#include "../headers.p4"
#include "../registers.p4"

/* Notes which best-effort frame has left a port's queue, for queue_share.p4. The queue keeps the order: whatever
 * entered it before has left too, or was lost. */
control QueueExit(in metadata_t meta, in standard_metadata_t standard_metadata) {
    apply {
        if (meta.best_effort == 1) {
            bit<32> port = (bit<32>)standard_metadata.egress_port;
            ticks_t now = 0;
            best_effort_left.write(port, meta.best_effort_place);
            ticks.read(now, 0);
            best_effort_passed.write(port, now);
        }
    }
}

#endif
