#ifndef LINK_LAYER_P4
#define LINK_LAYER_P4

#include "../headers.p4"
#include "../registers.p4"

/* Whether the link delivered a frame that may be believed. A bad CRC comes first: nothing in such a frame means
 * anything. Then the rules that keep a Linux host's own stack away from the frames, then whether the link is in a state
 * to carry this frame at all.
 *
 * An open port has no bring-up: session 0, no LLR, no credits, so that only DATA can mean something on it. On a managed
 * port only bring-up itself goes without a session; every other frame must carry that of the link, and is then a sign
 * of life of the peer. */
control LinkLayer(in headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata) {
    session_t link_session = 0;
    ticks_t now = 0;

    apply {
        if (meta.verdict == VERDICT_UNDECIDED) {
            if (!hdr.link.isValid()) {
                meta.verdict = REASON_TRUNCATED;
            } else if (standard_metadata.checksum_error == 1) {
                meta.verdict = REASON_BAD_CRC;
            } else if (hdr.link.flags & FLAG_RESERVED != 0) {
                meta.verdict = REASON_ODD_BYTE_0;
            } else if (meta.byte_12 > 0x7F) {
                meta.verdict = REASON_HIGH_BYTE_12;
            } else if (hdr.link.kind < KIND_DATA || hdr.link.kind > KIND_CC_UPDATE) {
                meta.verdict = REASON_UNKNOWN_KIND;
            } else if (standard_metadata.parser_error != error.NoError) {
                meta.verdict = REASON_TRUNCATED;
            } else if (meta.mode == MODE_OPEN) {
                if (hdr.link.session != 0) {
                    meta.verdict = REASON_WRONG_SESSION;
                } else if (hdr.link.flags & FLAG_POISON != 0) {
                    meta.verdict = REASON_POISONED;
                } else if (hdr.link.kind != KIND_DATA) {
                    meta.verdict = REASON_UNEXPECTED_CONTROL;
                }
            } else if (hdr.link_init.isValid()) {
                if (hdr.link.session != 0) {
                    meta.verdict = REASON_WRONG_SESSION;
                }
            } else {
                session.read(link_session, (bit<32>)meta.link_port);
                if (link_session == 0) {
                    meta.verdict = REASON_LINK_NOT_UP;
                } else if (hdr.link.session != link_session) {
                    meta.verdict = REASON_WRONG_SESSION;
                } else {
                    meta.counts = 1;
                    ticks.read(now, 0);
                    last_heard.write((bit<32>)meta.link_port, now);
                    link_format.read(meta.format, (bit<32>)meta.link_port);
                    if (!retries(meta.format)) { // else retry_receiver.p4 looks at the sequence first
                        if (hdr.link.flags & FLAG_POISON != 0) {
                            meta.verdict = REASON_POISONED;
                        } else if (hdr.llr_control.isValid()) {
                            meta.verdict = REASON_UNEXPECTED_CONTROL; // LLR was not negotiated
                        }
                    }
                }
            }
        }
    }
}

#endif
