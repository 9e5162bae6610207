#ifndef LINK_STAMP_P4
#define LINK_STAMP_P4

#include "../headers.p4"
#include "../registers.p4"

/* The link header belongs to one link, so it is written anew for the one that the frame leaves on. On an open port it
 * says nothing but the kind. On a managed one it carries the session that the frame was admitted in; one that waited
 * in the port's queue while the link was brought up anew goes no further, as the new session does not count it. With
 * link-layer retry every frame acknowledges what has come in so far. */
control LinkStamp(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets) stale_session;

    apply {
        bit<32> port = (bit<32>)standard_metadata.egress_port;
        meta.renew_crc = CRC_OF_FRAME;
        if (meta.cut != 0) {
            meta.renew_crc = CRC_OF_HEADERS;
            truncate(meta.cut);
        }
        if (meta.impaired == 0) { // else it has been stamped
            hdr.link.flags = 0;
            hdr.link.seq = 0;
            hdr.link.ack = 0;
            hdr.link.session = meta.session;
        }
        if (meta.session != 0) {
            session_t current = 0;
            session.read(current, port);
            if (current != meta.session) {
                stale_session.count(port);
                mark_to_drop(standard_metadata);
            } else if (meta.impaired == 0) {
                format_t format = 0;
                link_format.read(format, port);
                if (retries(format)) {
                    seq_t expected = 0;
                    llr_expected_seq.read(expected, port);
                    llr_ack_given.write(port, expected);
                    hdr.link.ack = expected - 1;
                }
            }
        }
    }
}

#endif
