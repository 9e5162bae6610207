#ifndef REPLIES_P4
#define REPLIES_P4

#include "../headers.p4"

/* An acknowledgement or a NACK leaves as a clone of the frame that calls for it, whatever becomes of that. A frame that
 * has been cloned already (for a CF_UPDATE) needs no other: every frame carries the acknowledgement. */
control Replies(inout metadata_t meta) {
    apply {
        if (meta.reply != MAKE_NOTHING && meta.clone_make == MAKE_NOTHING) {
            meta.clone_make = meta.reply;
            clone_preserving_field_list(CloneType.I2E, (bit<32>)meta.link_port, CLONE_FIELDS);
        }
    }
}

#endif
