#ifndef NUMBERING_P4
#define NUMBERING_P4

#include "../headers.p4"
#include "../registers.p4"

/* Numbers a frame that leaves on a link with retry, in the order in which frames enter the port's queue, and remembers
 * its size, so that an acknowledgement tells how many bytes it frees. Only a frame that nothing has refused gets a
 * number: the peer waits for each. */
control Numbering(inout metadata_t meta) {
    apply {
        if (meta.numbered == 1) {
            if (meta.verdict == VERDICT_FORWARD || meta.verdict == VERDICT_ANSWER) {
                bit<32> port = (bit<32>)meta.egress_port;
                bit<32> bytes = 0;
                ticks_t now = 0;
                llr_next_seq.read(meta.seq, port);
                llr_bytes_numbered.read(bytes, port);
                bytes = bytes + meta.frame_bytes;
                llr_bytes_through.write((bit<32>)(meta.egress_port ++ meta.seq[8:0]), bytes);
                llr_bytes_numbered.write(port, bytes);
                llr_next_seq.write(port, meta.seq + 1);
                ticks.read(now, 0);
                llr_numbered_at.write(port, now);
            } else {
                meta.numbered = 0;
            }
        }
    }
}

#endif
