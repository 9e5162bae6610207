#ifndef RETRY_START_P4
#define RETRY_START_P4

#include "../headers.p4"
#include "../registers.p4"

/* Decides when a link comes up whether it retries: if both sides offer it. Then sequences start at 0 in both
 * directions, and the settings of the profile hold until the link is brought up anew. Of the two sides' windows the
 * smaller one counts, where the peer names one. */
control RetryStart(in headers_t hdr, inout metadata_t meta) {
    apply {
        if (meta.came_up == 1 && hdr.link_init.capabilities & CAPABILITY_LLR != 0 && meta.retry_offered == 1) {
            bit<32> port = (bit<32>)meta.link_port;
            bit<16> frames = frames_max_of(meta.retry_settings);
            bit<32> begun = 0;
            if (hdr.link_init.outstanding_frames_max != 0 && hdr.link_init.outstanding_frames_max < frames) {
                frames = hdr.link_init.outstanding_frames_max;
            }
            llr_settings.write(port, frames ++ meta.retry_settings[79:0]);
            llr_degraded_replays.write(port, meta.degraded_replays);
            llr_replays_begun.read(begun, port);
            llr_replays_counted.write(port, begun);
            llr_keepalives_counted.write(port, 0);
            llr_next_seq.write(port, 0);
            llr_unacknowledged_seq.write(port, 0);
            llr_bytes_numbered.write(port, 0);
            llr_bytes_acknowledged.write(port, 0);
            llr_expected_seq.write(port, 0);
            llr_receiver_state.write(port, SEND_ACKS);
            llr_newest.write(port, 0x0FFFFF);
            llr_ack_asked.write(port, 0);
            link_format.read(meta.format, port);
            link_format.write(port, meta.format | 0x01000000); // last: now it is on
        }
    }
}

#endif
