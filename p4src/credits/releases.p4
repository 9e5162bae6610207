#ifndef RELEASES_P4
#define RELEASES_P4

#include "../headers.p4"
#include "../registers.p4"

/* A frame that is not held leaves the buffer of the port that it came in on: it enters a port's queue, or is dropped,
 * or goes to the controller. When enough has been freed on its VC the peer is told at once, by a clone that becomes a
 * CF_UPDATE. */
control Releases(inout metadata_t meta) {
    apply {
        if (meta.receiver_credits != 0 && meta.verdict != VERDICT_HOLD) {
            bit<32> port = (bit<32>)meta.link_port;
            bit<8> lane = lane_of(meta.receiver_vc);
            lanes_t freed = 0;
            lanes_t advertised = 0;
            receiver_credits_freed.read(freed, port);
            receiver_credits_advertised.read(advertised, port);
            freed = lane_plus(freed, lane, meta.receiver_credits);
            receiver_credits_freed.write(port, freed);
            if (meta.has_profile == 1 && lane_value(freed, lane) - lane_value(advertised, lane)
                >= lane_value(meta.profile.update_threshold, lane)) {
                receiver_credits_advertised.write(port, freed);
                meta.clone_make = MAKE_CF_UPDATE;
                clone_preserving_field_list(CloneType.I2E, port, CLONE_FIELDS);
            }
        }
    }
}

#endif
