#ifndef LINK_PROFILES_P4
#define LINK_PROFILES_P4

#include "../headers.p4"

/* What this switch is as a receiver on a managed port: which VCs it never drops on, what a frame takes of its buffer
 * and how much there is. Asked for a frame that comes in, for one that was held and now leaves its buffer, and when
 * the link is looked after. Without a profile a managed port stays down. */
control LinkProfiles(in headers_t hdr, inout metadata_t meta) {
    action set_profile(
        bit<8> lossless_vcs,
        bit<24> vc_map,
        bit<8> credit_size,
        bit<8> packet_overhead,
        bit<192> credit_limit,
        bit<192> update_threshold,
        bit<16> silence,
        bit<16> stall,
        bit<8> generation
    ) {
        meta.has_profile = 1;
        meta.profile.lossless_vcs = lossless_vcs;
        meta.profile.vc_map = vc_map;
        meta.profile.credit_size = credit_size;
        meta.profile.packet_overhead = packet_overhead;
        meta.profile.credit_limit = credit_limit;
        meta.profile.update_threshold = update_threshold;
        meta.profile.silence = silence;
        meta.profile.stall = stall;
        meta.profile.generation = generation;
    }

    table link_profile {
        key = {
            meta.link_port: exact @name("port");
        }
        actions = {
            set_profile;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        if (hdr.notice.isValid() && hdr.notice.type != NOTICE_TICK) {
            meta.link_port = (port_t)hdr.notice.port;
        }
        if (meta.verdict == VERDICT_CONSUMED || meta.mode != MODE_OPEN || meta.held == 1) {
            link_profile.apply();
        }
    }
}

#endif
