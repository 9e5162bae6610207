#ifndef CONTROL_FRAMES_P4
#define CONTROL_FRAMES_P4

#include "../headers.p4"
#include "../registers.p4"

/* Makes the link's control frames out of whatever frame the ingress sent for it: a keepalive, the peer's own control
 * frame, a clone of data. What they say is read here, so it is as new as can be: a NACK whose frame has come
 * meanwhile becomes an ACK, and between a NACK and the frame that it asks for no ACK leaves. */
control ControlFrames(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets) llr_tx_init_ctl_os;
    counter(PORTS, CounterType.packets) llr_tx_init_echo_ctl_os;
    counter(PORTS, CounterType.packets) cbfc_num_cf_update_messages_tx;
    counter(PORTS, CounterType.packets) cbfc_num_cc_update_messages_tx;
    counter(PORTS, CounterType.packets) llr_tx_ack_ctl_os;
    counter(PORTS, CounterType.packets) llr_tx_nack_ctl_os;

    action announce(
        bit<8> capabilities,
        bit<8> credit_size,
        bit<8> packet_overhead,
        bit<16> max_frame,
        bit<8> lossless_vcs,
        bit<16> outstanding_frames_max,
        bit<192> credit_limit
    ) {
        hdr.link_init.capabilities = capabilities;
        hdr.link_init.credit_size = credit_size;
        hdr.link_init.packet_overhead = packet_overhead;
        hdr.link_init.max_frame = max_frame;
        hdr.link_init.lossless_vcs = lossless_vcs;
        hdr.link_init.outstanding_frames_max = outstanding_frames_max;
        hdr.link_init.credit_limit = credit_limit;
    }

    // What this switch says of itself in LLR_INIT and its echo.
    table link_announcement {
        key = {
            standard_metadata.egress_port: exact @name("egress_port");
        }
        actions = {
            announce;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        bit<32> port = (bit<32>)standard_metadata.egress_port;
        lanes_t consumed = hdr.credit_update.credits; // of a CC_UPDATE, as the ingress has read it
        hdr.packet_out.setInvalid();
        hdr.oefh.setInvalid();
        hdr.lsu.setInvalid();
        hdr.tma.setInvalid();
        hdr.event.setInvalid();
        hdr.probe.setInvalid();
        hdr.llr_control.setInvalid();
        hdr.link_init.setInvalid();
        hdr.credit_update.setInvalid();
        hdr.notice.setInvalid();
        hdr.link.setValid();
        if (meta.make == MAKE_LLR_INIT || meta.make == MAKE_LLR_INIT_ECHO) {
            hdr.link_init.setValid();
            hdr.link_init.version = LINK_INIT_VERSION;
            // Epochs first: the ingress writes them after the credits that belong to them.
            own_epoch.read(hdr.link_init.own_epoch, port);
            peer_epoch.read(hdr.link_init.peer_epoch, port);
            receiver_credits_in_use.read(hdr.link_init.credits_in_use, port);
            meta.session = 0;
            meta.cut = LINK_INIT_FRAME_BYTES;
            if (!link_announcement.apply().hit) {
                mark_to_drop(standard_metadata);
            } else if (meta.make == MAKE_LLR_INIT) {
                hdr.link.kind = KIND_LLR_INIT;
                llr_tx_init_ctl_os.count(port);
            } else {
                hdr.link.kind = KIND_LLR_INIT_ECHO;
                llr_tx_init_echo_ctl_os.count(port);
            }
        } else if (meta.make == MAKE_LLR_ACK || meta.make == MAKE_LLR_NACK || meta.make == MAKE_LLR_ACK_IF_DUE) {
            seq_t expected = 0;
            seq_t given = 0;
            format_t format = 0;
            receiver_state_t state = SEND_ACKS;
            hdr.llr_control.setValid();
            hdr.llr_control.zero = 0;
            meta.cut = LLR_CONTROL_FRAME_BYTES;
            session.read(meta.session, port);
            link_format.read(format, port);
            llr_expected_seq.read(expected, port);
            llr_receiver_state.read(state, port);
            llr_ack_given.read(given, port);
            if (meta.session == 0 || !retries(format)) {
                mark_to_drop(standard_metadata);
            } else if (meta.make == MAKE_LLR_NACK && meta.clone_seq == expected) {
                hdr.link.kind = KIND_LLR_NACK;
                llr_tx_nack_ctl_os.count(port);
            } else if (state != SEND_ACKS || (meta.make == MAKE_LLR_ACK_IF_DUE && expected == given)) {
                mark_to_drop(standard_metadata);
            } else {
                hdr.link.kind = KIND_LLR_ACK;
                llr_tx_ack_ctl_os.count(port);
            }
        } else {
            hdr.credit_update.setValid();
            hdr.credit_update.zero = 0;
            link_losses.read(hdr.credit_update.losses, port);
            hdr.credit_update.vc_mask = 0xFF;
            meta.cut = CREDIT_UPDATE_FRAME_BYTES;
            if (meta.make == MAKE_CC_UPDATE) {
                hdr.link.kind = KIND_CC_UPDATE;
                hdr.credit_update.credits = consumed;
                cbfc_num_cc_update_messages_tx.count(port);
            } else {
                hdr.link.kind = KIND_CF_UPDATE;
                session.read(meta.session, port);
                receiver_credits_freed.read(hdr.credit_update.credits, port);
                if (meta.session == 0) {
                    mark_to_drop(standard_metadata); // a link that is down has no use for it
                } else {
                    cbfc_num_cf_update_messages_tx.count(port);
                }
            }
        }
    }
}

#endif
