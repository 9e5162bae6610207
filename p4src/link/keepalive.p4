#ifndef KEEPALIVE_P4
#define KEEPALIVE_P4

#include "../headers.p4"

/* A tick that was multicast to a port turns back, as a notice for that port: what the link sends now depends
 * on its state, which is the ingress's, and a CC_UPDATE must report just what has entered the port's queue before
 * it. */
control Keepalive(inout headers_t hdr, in standard_metadata_t standard_metadata) {
    apply {
        hdr.notice.type = KEEPALIVE_NOTICE;
        hdr.notice.port = (bit<16>)standard_metadata.egress_port;
        recirculate_preserving_field_list(CLONE_FIELDS);
    }
}

#endif
