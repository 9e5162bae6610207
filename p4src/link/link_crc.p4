#ifndef LINK_CRC_P4
#define LINK_CRC_P4

#include "../headers.p4"

/* The CRC-32 of a link covers everything on it but the crc field, so the list of what it covers depends on which
 * headers a frame has: one line per case below, used alike to verify and to renew. A frame that was cut inside a
 * header, or that is of an unknown kind, still has a CRC that can be checked: what was not extracted is payload. */
#define LINK_FIELDS hdr.link.kind, hdr.link.flags, hdr.link.seq, hdr.link.ack, hdr.link.session
#define OEFH_FIELDS hdr.oefh.version, hdr.oefh.vc, hdr.oefh.ecn, hdr.oefh.f, hdr.oefh.dst, hdr.oefh.src, \
                    hdr.oefh.next, hdr.oefh.hops, hdr.oefh.entropy
#define LSU_FIELDS hdr.lsu.opcode, hdr.lsu.status, hdr.lsu.length, hdr.lsu.incarnation, hdr.lsu.request, hdr.lsu.key, \
                   hdr.lsu.address
#define TMA_FIELDS hdr.tma.opcode, hdr.tma.flags, hdr.tma.block, hdr.tma.incarnation, hdr.tma.message, hdr.tma.key, \
                   hdr.tma.length, hdr.tma.offset, hdr.tma.total, hdr.tma.address
#define EVENT_FIELDS hdr.event.type, hdr.event.plane, hdr.event.subject, hdr.event.sequence, hdr.event.detail, \
                     hdr.event.timestamp
#define PROBE_FIELDS hdr.probe.op, hdr.probe.state, hdr.probe.port, hdr.probe.vc, hdr.probe.zero
#define LINK_INIT_FIELDS hdr.link_init.version, hdr.link_init.capabilities, hdr.link_init.own_epoch, \
                         hdr.link_init.peer_epoch, hdr.link_init.credit_size, hdr.link_init.packet_overhead, \
                         hdr.link_init.max_frame, hdr.link_init.lossless_vcs, hdr.link_init.outstanding_frames_max, \
                         hdr.link_init.credit_limit, hdr.link_init.credits_in_use
#define CREDIT_UPDATE_FIELDS hdr.credit_update.zero, hdr.credit_update.losses, hdr.credit_update.vc_mask, \
    hdr.credit_update.credits

#define OEFH_ALONE hdr.oefh.isValid() && !hdr.lsu.isValid() && !hdr.tma.isValid() && !hdr.event.isValid() && \
                   !hdr.probe.isValid()
#define LINK_ALONE hdr.link.isValid() && !hdr.oefh.isValid() && !hdr.llr_control.isValid() && \
                   !hdr.link_init.isValid() && !hdr.credit_update.isValid()

/* Sets standard_metadata.checksum_error. What has crossed no link is not checked: packet-outs, frames that were held,
 * and what the switch tells itself. */
control VerifyLinkCrc(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum_with_payload(meta.crossed_link == 1 && hdr.lsu.isValid(),
            { LINK_FIELDS, OEFH_FIELDS, LSU_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        verify_checksum_with_payload(meta.crossed_link == 1 && hdr.tma.isValid(),
            { LINK_FIELDS, OEFH_FIELDS, TMA_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        verify_checksum_with_payload(meta.crossed_link == 1 && hdr.event.isValid(),
            { LINK_FIELDS, OEFH_FIELDS, EVENT_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        verify_checksum_with_payload(meta.crossed_link == 1 && hdr.probe.isValid(),
            { LINK_FIELDS, OEFH_FIELDS, PROBE_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        verify_checksum_with_payload(meta.crossed_link == 1 && OEFH_ALONE,
            { LINK_FIELDS, OEFH_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        verify_checksum_with_payload(meta.crossed_link == 1 && hdr.llr_control.isValid(),
            { LINK_FIELDS, hdr.llr_control.zero }, hdr.link.crc, HashAlgorithm.crc32);
        verify_checksum_with_payload(meta.crossed_link == 1 && hdr.link_init.isValid(),
            { LINK_FIELDS, LINK_INIT_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        verify_checksum_with_payload(meta.crossed_link == 1 && hdr.credit_update.isValid(),
            { LINK_FIELDS, CREDIT_UPDATE_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        verify_checksum_with_payload(meta.crossed_link == 1 && LINK_ALONE,
            { LINK_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
    }
}

/* Renews the CRC of every frame that leaves on a link, as hop limit and link header have changed. A frame that goes
 * to the controller stays as it came in, so that a trapped one can be studied. A control frame that was made of
 * another frame ends with its body: what may still follow is cut off, and not covered. */
control RenewLinkCrc(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum_with_payload(meta.renew_crc == CRC_OF_FRAME && hdr.lsu.isValid(),
            { LINK_FIELDS, OEFH_FIELDS, LSU_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        update_checksum_with_payload(meta.renew_crc == CRC_OF_FRAME && hdr.tma.isValid(),
            { LINK_FIELDS, OEFH_FIELDS, TMA_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        update_checksum_with_payload(meta.renew_crc == CRC_OF_FRAME && hdr.event.isValid(),
            { LINK_FIELDS, OEFH_FIELDS, EVENT_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        update_checksum_with_payload(meta.renew_crc == CRC_OF_FRAME && hdr.probe.isValid(),
            { LINK_FIELDS, OEFH_FIELDS, PROBE_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        update_checksum_with_payload(meta.renew_crc == CRC_OF_FRAME && OEFH_ALONE,
            { LINK_FIELDS, OEFH_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        update_checksum_with_payload(meta.renew_crc == CRC_OF_FRAME && hdr.llr_control.isValid(),
            { LINK_FIELDS, hdr.llr_control.zero }, hdr.link.crc, HashAlgorithm.crc32);
        update_checksum_with_payload(meta.renew_crc == CRC_OF_FRAME && hdr.link_init.isValid(),
            { LINK_FIELDS, LINK_INIT_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        update_checksum_with_payload(meta.renew_crc == CRC_OF_FRAME && hdr.credit_update.isValid(),
            { LINK_FIELDS, CREDIT_UPDATE_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        update_checksum_with_payload(meta.renew_crc == CRC_OF_FRAME && LINK_ALONE,
            { LINK_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        update_checksum(meta.renew_crc == CRC_OF_HEADERS && hdr.link_init.isValid(),
            { LINK_FIELDS, LINK_INIT_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        update_checksum(meta.renew_crc == CRC_OF_HEADERS && hdr.event.isValid(),
            { LINK_FIELDS, OEFH_FIELDS, EVENT_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        update_checksum(meta.renew_crc == CRC_OF_HEADERS && hdr.credit_update.isValid(),
            { LINK_FIELDS, CREDIT_UPDATE_FIELDS }, hdr.link.crc, HashAlgorithm.crc32);
        update_checksum(meta.renew_crc == CRC_OF_HEADERS && hdr.llr_control.isValid(),
            { LINK_FIELDS, hdr.llr_control.zero }, hdr.link.crc, HashAlgorithm.crc32);
    }
}

#endif
