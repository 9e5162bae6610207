#ifndef COPIES_P4
#define COPIES_P4

#include "../headers.p4"

/* The egress clone of a frame that leaves: one call at most, so where two copies are needed (one that waits for its
 * acknowledgement, one that a link fault makes) it goes to a session with two replicas. */
control Copies(inout metadata_t meta, in standard_metadata_t standard_metadata) {
    apply {
        if (meta.to_line == 1 || meta.to_port == 1 || meta.to_delay == 1) {
            bit<32> copies = 0;
            if (meta.to_port == 1) {
                copies = (bit<32>)standard_metadata.egress_port;
            } else if (meta.to_delay == 1) {
                copies = (bit<32>)DELAY_PORT;
            } else {
                copies = (bit<32>)LINE_PORT;
            }
            if (meta.to_line == 1 && copies != (bit<32>)LINE_PORT) {
                copies = copies + COPY_SESSIONS;
            } else if (meta.to_line == 0) {
                meta.impaired = 1; // of two replicas the one for the port knows it by its number
            }
            clone_preserving_field_list(CloneType.E2E, copies, COPY_FIELDS);
        }
    }
}

#endif
