#ifndef FAULT_DELAY_P4
#define FAULT_DELAY_P4

#include "../headers.p4"

/* Where frames wait that a link fault delays: they go round, in the egress of a port without a link, until they are
 * due, and then into their port's queue. Nothing is done to them there any more. */
control FaultDelay(inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        bit<32> early = meta.due - (bit<32>)standard_metadata.egress_global_timestamp;
        if (early[31:31] == 1 || early == 0) {
            meta.impaired = 1;
            clone_preserving_field_list(CloneType.E2E, (bit<32>)meta.egress_port, COPY_FIELDS);
        } else {
            clone_preserving_field_list(CloneType.E2E, (bit<32>)DELAY_PORT, COPY_FIELDS);
        }
        mark_to_drop(standard_metadata);
    }
}

#endif
