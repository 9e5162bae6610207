#ifndef LINK_STAMP_P4
#define LINK_STAMP_P4

#include "headers.p4"

/* The link header belongs to one link, so it is written anew for the one that the frame leaves on. On an open port
 * it says nothing but the kind. */
control LinkStamp(inout headers_t hdr, inout metadata_t meta) {
    apply {
        hdr.link.flags = 0;
        hdr.link.seq = 0;
        hdr.link.ack = 0;
        hdr.link.session = 0;
        meta.renew_crc = 1;
    }
}

#endif
