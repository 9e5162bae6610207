#ifndef DROPS_P4
#define DROPS_P4

#include "../headers.p4"

/* Nothing disappears without a name: each reason to drop has a counter of its own, indexed by the port that the
 * frame came in on, whether or not the frame is trapped to the controller afterwards. */
control Drops(in metadata_t meta) {
    counter(PORTS, CounterType.packets) unknown_port;
    counter(PORTS, CounterType.packets) truncated;
    counter(PORTS, CounterType.packets) bad_crc;
    counter(PORTS, CounterType.packets) odd_byte_0;
    counter(PORTS, CounterType.packets) high_byte_12;
    counter(PORTS, CounterType.packets) unknown_kind;
    counter(PORTS, CounterType.packets) link_not_up;
    counter(PORTS, CounterType.packets) wrong_session;
    counter(PORTS, CounterType.packets) poisoned;
    counter(PORTS, CounterType.packets) unexpected_control;
    counter(PORTS, CounterType.packets) unknown_version;
    counter(PORTS, CounterType.packets) unknown_next;
    counter(PORTS, CounterType.packets) unknown_opcode;
    counter(PORTS, CounterType.packets) overlong;
    counter(PORTS, CounterType.packets) reserved_vc;
    counter(PORTS, CounterType.packets) forged_event;
    counter(PORTS, CounterType.packets) spoofed_source;
    counter(PORTS, CounterType.packets) unknown_source;
    counter(PORTS, CounterType.packets) reserved_destination;
    counter(PORTS, CounterType.packets) not_a_probe;
    counter(PORTS, CounterType.packets) no_route;
    counter(PORTS, CounterType.packets) other_tenant;
    counter(PORTS, CounterType.packets) no_member;
    counter(PORTS, CounterType.packets) bad_egress_port;
    counter(PORTS, CounterType.packets) hop_expired;
    counter(PORTS, CounterType.packets) bad_init;
    counter(PORTS, CounterType.packets) over_limit;
    counter(PORTS, CounterType.packets) control_rate;
    counter(PORTS, CounterType.packets) exceeds_limit;
    counter(PORTS, CounterType.packets) no_room;
    counter(PORTS, CounterType.packets) llr_rx_duplicate_seq;
    counter(PORTS, CounterType.packets) llr_out_of_sequence;
    counter(PORTS, CounterType.packets) llr_flushed;
    counter(PORTS, CounterType.packets) dead_port;
    counter(PORTS, CounterType.packets) bad_retry_profile;
    counter(PORTS, CounterType.packets) hold_full;

    apply {
        bit<32> port = (bit<32>)meta.link_port;
        if (meta.verdict == REASON_UNKNOWN_PORT) {
            unknown_port.count(port);
        } else if (meta.verdict == REASON_TRUNCATED) {
            truncated.count(port);
        } else if (meta.verdict == REASON_BAD_CRC) {
            bad_crc.count(port);
        } else if (meta.verdict == REASON_ODD_BYTE_0) {
            odd_byte_0.count(port);
        } else if (meta.verdict == REASON_HIGH_BYTE_12) {
            high_byte_12.count(port);
        } else if (meta.verdict == REASON_UNKNOWN_KIND) {
            unknown_kind.count(port);
        } else if (meta.verdict == REASON_LINK_NOT_UP) {
            link_not_up.count(port);
        } else if (meta.verdict == REASON_WRONG_SESSION) {
            wrong_session.count(port);
        } else if (meta.verdict == REASON_POISONED) {
            poisoned.count(port);
        } else if (meta.verdict == REASON_UNEXPECTED_CONTROL) {
            unexpected_control.count(port);
        } else if (meta.verdict == REASON_UNKNOWN_VERSION) {
            unknown_version.count(port);
        } else if (meta.verdict == REASON_UNKNOWN_NEXT) {
            unknown_next.count(port);
        } else if (meta.verdict == REASON_UNKNOWN_OPCODE) {
            unknown_opcode.count(port);
        } else if (meta.verdict == REASON_OVERLONG) {
            overlong.count(port);
        } else if (meta.verdict == REASON_RESERVED_VC) {
            reserved_vc.count(port);
        } else if (meta.verdict == REASON_FORGED_EVENT) {
            forged_event.count(port);
        } else if (meta.verdict == REASON_SPOOFED_SOURCE) {
            spoofed_source.count(port);
        } else if (meta.verdict == REASON_UNKNOWN_SOURCE) {
            unknown_source.count(port);
        } else if (meta.verdict == REASON_RESERVED_DESTINATION) {
            reserved_destination.count(port);
        } else if (meta.verdict == REASON_NOT_A_PROBE) {
            not_a_probe.count(port);
        } else if (meta.verdict == REASON_NO_ROUTE) {
            no_route.count(port);
        } else if (meta.verdict == REASON_OTHER_TENANT) {
            other_tenant.count(port);
        } else if (meta.verdict == REASON_NO_MEMBER) {
            no_member.count(port);
        } else if (meta.verdict == REASON_BAD_EGRESS_PORT) {
            bad_egress_port.count(port);
        } else if (meta.verdict == REASON_HOP_EXPIRED) {
            hop_expired.count(port);
        } else if (meta.verdict == REASON_BAD_INIT) {
            bad_init.count(port);
        } else if (meta.verdict == REASON_OVER_LIMIT) {
            over_limit.count(port);
        } else if (meta.verdict == REASON_CONTROL_RATE) {
            control_rate.count(port);
        } else if (meta.verdict == REASON_EXCEEDS_LIMIT) {
            exceeds_limit.count(port);
        } else if (meta.verdict == REASON_NO_ROOM) {
            no_room.count(port);
        } else if (meta.verdict == REASON_LLR_RX_DUPLICATE_SEQ) {
            llr_rx_duplicate_seq.count(port);
        } else if (meta.verdict == REASON_LLR_OUT_OF_SEQUENCE) {
            llr_out_of_sequence.count(port);
        } else if (meta.verdict == REASON_LLR_FLUSHED) {
            llr_flushed.count(port);
        } else if (meta.verdict == REASON_DEAD_PORT) {
            dead_port.count(port);
        } else if (meta.verdict == REASON_BAD_RETRY_PROFILE) {
            bad_retry_profile.count(port);
        } else if (meta.verdict == REASON_HOLD_FULL) {
            hold_full.count(port);
        }
    }
}

#endif
