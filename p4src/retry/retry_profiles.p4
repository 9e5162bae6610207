#ifndef RETRY_PROFILES_P4
#define RETRY_PROFILES_P4

#include "../headers.p4"
#include "../registers.p4"

/* What a port's link-layer retry is to be like, asked for when the peer wants to bring the link up. A window of nothing
 * would keep every frame waiting for good, and one above what the switch remembers would lose count of bytes: with
 * such a profile the link does not come up, and its peer's frames say why. */
control RetryProfiles(in headers_t hdr, inout metadata_t meta) {
    action set_retry(
        bit<16> outstanding_frames_max,
        bit<32> outstanding_bytes_max,
        bit<32> replay_timer,
        bit<8> replay_count_max,
        bit<2> flush_action,
        bit<1> re_init_on_flush,
        bit<16> degraded_replays
    ) {
        meta.retry_offered = 1;
        meta.degraded_replays = degraded_replays;
        meta.retry_settings = outstanding_frames_max ++ outstanding_bytes_max ++ replay_timer ++ replay_count_max
            ++ flush_action ++ re_init_on_flush ++ 5w0;
    }

    table llr_profile {
        key = {
            meta.link_port: exact @name("port");
        }
        actions = {
            set_retry;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        if (meta.verdict == VERDICT_UNDECIDED && hdr.link_init.isValid() && llr_profile.apply().hit) {
            bit<16> frames = frames_max_of(meta.retry_settings);
            bit<32> bytes = bytes_max_of(meta.retry_settings);
            if (frames == 0 || frames > OUTSTANDING_FRAMES_MOST || bytes == 0 || bytes > OUTSTANDING_BYTES_MOST) {
                meta.verdict = REASON_BAD_RETRY_PROFILE;
            }
        }
    }
}

#endif
