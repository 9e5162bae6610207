#ifndef ACKNOWLEDGEMENTS_P4
#define ACKNOWLEDGEMENTS_P4

#include "../headers.p4"
#include "../registers.p4"

/* What the peer says it has got. Every frame of a link with retry carries the newest number that came in order; it may
 * lie anywhere from the last one known to the newest sent. An older one was overtaken and says nothing new; a later one
 * is impossible. A NACK asks for a replay of all that it does not acknowledge, which the line then begins. */
control Acknowledgements(in headers_t hdr, inout metadata_t meta) {
    counter(PORTS, CounterType.packets) llr_rx_ack_ctl_os;
    counter(PORTS, CounterType.packets) llr_rx_nack_ctl_os;
    counter(PORTS, CounterType.packets) llr_rx_ack_nack_seq_error;

    apply {
        if (meta.counts == 1 && retries(meta.format)) {
            bit<32> port = (bit<32>)meta.link_port;
            seq_t oldest = 0;
            seq_t next_seq = 0;
            seq_t sent = 0;
            seq_t told = hdr.link.ack + 1;
            llr_unacknowledged_seq.read(oldest, port);
            llr_next_seq.read(next_seq, port);
            llr_sent_seq.read(sent, port);
            bool possible = told - oldest <= next_seq - oldest && (told == oldest || told - oldest <= sent - oldest);
            if (possible && told != oldest) {
                bit<32> bytes = 0;
                llr_bytes_through.read(bytes, (bit<32>)(meta.link_port ++ hdr.link.ack[8:0]));
                llr_bytes_acknowledged.write(port, bytes);
                llr_unacknowledged_seq.write(port, told);
            }
            if (hdr.llr_control.isValid() && hdr.link.flags & FLAG_POISON == 0) {
                meta.verdict = VERDICT_CONSUMED;
                if (hdr.link.kind == KIND_LLR_ACK) {
                    llr_rx_ack_ctl_os.count(port);
                } else {
                    llr_rx_nack_ctl_os.count(port);
                }
                if (!possible) {
                    seq_t ahead = told - oldest;
                    if (ahead[19:19] == 0) {
                        llr_rx_ack_nack_seq_error.count(port);
                    }
                } else if (hdr.link.kind == KIND_LLR_NACK && told != next_seq) {
                    bit<8> nacks = 0;
                    llr_nacks.read(nacks, port);
                    llr_nacks.write(port, nacks + 1);
                }
            }
        }
    }
}

#endif
