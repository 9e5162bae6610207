#ifndef FRAME_CHECK_P4
#define FRAME_CHECK_P4

#include "../headers.p4"

/* Whether a DATA frame is well formed. The switch forwards only what an endpoint could make sense of: a known version,
 * a known transaction, exactly the bytes that its headers announce. A malformed frame is stopped and counted at the
 * first switch, where the port says who sent it.
 *
 * VC 7 is never held for credits, so memory traffic may not travel on it; EVENT and PROBE may use any VC. An EVENT
 * closes paths at whoever believes it, so it must come from a switch. The end-to-end CRC is the endpoints' business:
 * it is to find what a switch corrupted. */
control FrameCheck(in headers_t hdr, inout metadata_t meta) {
    bit<32> announced = 0; // bytes of the whole frame, as its headers say

    apply {
        if (meta.verdict == VERDICT_UNDECIDED) {
            if (hdr.oefh.version != OEFH_VERSION) {
                meta.verdict = REASON_UNKNOWN_VERSION;
            } else if (hdr.lsu.isValid()) {
                announced = LINK_BYTES + OEFH_BYTES + LSU_BYTES + END_TO_END_CRC_BYTES;
                if (hdr.lsu.opcode == LSU_STORE || hdr.lsu.opcode == LSU_LOAD_DATA || hdr.lsu.opcode == LSU_ATOMIC_ADD
                    || hdr.lsu.opcode == LSU_ATOMIC_SWAP || hdr.lsu.opcode == LSU_ATOMIC_DATA) {
                    announced = announced + (bit<32>)hdr.lsu.length + 1;
                } else if (hdr.lsu.opcode == LSU_ATOMIC_CAS) {
                    announced = announced + (((bit<32>)hdr.lsu.length + 1) << 1); // compare, then swap
                } else if (hdr.lsu.opcode != LSU_LOAD && hdr.lsu.opcode != LSU_ACK && hdr.lsu.opcode != LSU_NAK) {
                    meta.verdict = REASON_UNKNOWN_OPCODE;
                }
            } else if (hdr.tma.isValid()) {
                announced = LINK_BYTES + OEFH_BYTES + TMA_BYTES + END_TO_END_CRC_BYTES + (bit<32>)hdr.tma.length;
                if (hdr.tma.opcode != TMA_WRITE && hdr.tma.opcode != TMA_READ && hdr.tma.opcode != TMA_READ_DATA
                    && hdr.tma.opcode != TMA_ACK && hdr.tma.opcode != TMA_NAK) {
                    meta.verdict = REASON_UNKNOWN_OPCODE;
                }
            } else if (hdr.event.isValid()) {
                if (meta.role != ROLE_FABRIC || hdr.oefh.src < FIRST_SWITCH_ID || hdr.oefh.src == NOBODY) {
                    meta.verdict = REASON_FORGED_EVENT;
                }
            } else if (!hdr.probe.isValid()) {
                meta.verdict = REASON_UNKNOWN_NEXT;
            }
        }
        if (meta.verdict == VERDICT_UNDECIDED && announced != 0) {
            if (meta.frame_bytes < announced) {
                meta.verdict = REASON_TRUNCATED;
            } else if (meta.frame_bytes > announced) {
                meta.verdict = REASON_OVERLONG;
            } else if (hdr.oefh.vc == VC_CONTROL) {
                meta.verdict = REASON_RESERVED_VC;
            }
        }
    }
}

#endif
