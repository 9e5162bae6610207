#ifndef RETRY_PROBES_P4
#define RETRY_PROBES_P4

#include "../headers.p4"
#include "../registers.p4"

/* A probe to this switch that asks for the link-layer retry of a port, answered like one that asks for credits. States
 * are SAI's. */
control RetryProbes(inout headers_t hdr, in metadata_t meta) {
    apply {
        if (meta.verdict == VERDICT_LOCAL && hdr.probe.op == PROBE_READ_RETRY) {
            bit<32> port = (bit<32>)hdr.probe.port;
            epoch_t own = 0;
            format_t format = 0;
            session_t current = 0;
            session_t flushed = 0;
            session_t last = 0;
            llr_settings_t settings = 0;
            receiver_state_t receiver = SEND_ACKS;
            bit<1> replaying = 0;
            bit<32> acknowledged = 0;
            seq_t oldest = 0;
            seq_t next_seq = 0;
            seq_t pointer = 0;
            seq_t expected = 0;
            hdr.probe.op = PROBE_RETRY;
            hdr.probe_retry.setValid();
            own_epoch.read(own, port);
            link_format.read(format, port);
            session.read(current, port);
            llr_settings.read(settings, port);
            llr_flushed_session.read(flushed, port);
            llr_line_session.read(last, port);
            llr_replaying.read(replaying, port);
            llr_receiver_state.read(receiver, port);
            llr_unacknowledged_seq.read(oldest, port);
            llr_next_seq.read(next_seq, port);
            llr_replay_seq.read(pointer, port);
            llr_expected_seq.read(expected, port);
            llr_bytes_acknowledged.read(acknowledged, port);
            llr_bytes_numbered.read(hdr.probe_retry.outstanding_bytes, port);
            llr_replays.read(hdr.probe_retry.replays, port);
            hdr.probe_retry.outstanding_bytes = hdr.probe_retry.outstanding_bytes - acknowledged;
            hdr.probe_retry.outstanding_frames_max = frames_max_of(settings);
            hdr.probe_retry.session = current;
            hdr.probe_retry.next_seq = (bit<32>)next_seq;
            hdr.probe_retry.unacknowledged_seq = (bit<32>)oldest;
            hdr.probe_retry.replay_seq = (bit<32>)pointer;
            hdr.probe_retry.expected_seq = (bit<32>)expected;
            hdr.probe_retry.zero = 0;
            hdr.probe_retry.tx_state = LLR_TX_OFF;
            hdr.probe_retry.rx_state = LLR_RX_OFF;
            if (current == 0) {
                if (own != 0) {
                    hdr.probe_retry.tx_state = LLR_TX_INIT;
                }
            } else if (retries(format)) {
                hdr.probe_retry.rx_state = LLR_RX_SEND_ACKS + (bit<8>)receiver;
                if (flushed == current) {
                    hdr.probe_retry.tx_state = LLR_TX_FLUSH;
                } else if (replaying == 1 && last == current && oldest != next_seq) {
                    hdr.probe_retry.tx_state = LLR_TX_REPLAY;
                } else {
                    hdr.probe_retry.tx_state = LLR_TX_ADVANCE;
                }
            }
        }
    }
}

#endif
