#ifndef QUEUE_EXIT_P4
#define QUEUE_EXIT_P4

#include "headers.p4"
#include "registers.p4"

/* Counts the best-effort frames that leave a port's queue, for queue_share.p4. */
control QueueExit(in metadata_t meta, in standard_metadata_t standard_metadata) {
    apply {
        if (meta.best_effort == 1) {
            bit<32> port = (bit<32>)standard_metadata.egress_port;
            bit<32> left = 0;
            ticks_t now = 0;
            best_effort_left.read(left, port);
            best_effort_left.write(port, left + 1);
            ticks.read(now, 0);
            best_effort_passed.write(port, now);
        }
    }
}

#endif
