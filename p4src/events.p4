#ifndef EVENTS_P4
#define EVENTS_P4

#include "headers.p4"
#include "registers.p4"

/* Makes an EVENT of the frame in hand: a notice, or the peer's credit update that made its link ready, goes to all who
 * are to hear of the link, by multicast. What the link itself is to send then (an LLR_INIT at a keepalive) leaves as a
 * clone. A link that the table does not know is nobody's business.
 *
 * Events are soft state. Each says which state change of this switch it is about, so that an old one is known; VC 7
 * needs no credit, so that nothing can hold it up. */
control Events(inout headers_t hdr, inout metadata_t meta) {
    bit<16> hearers = 0;

    action tell_of_link(endpoint_t source, bit<8> plane, bit<16> subject, bit<16> group) {
        hdr.oefh.src = source;
        hdr.event.plane = plane;
        hdr.event.subject = subject;
        hearers = group;
    }

    // What is behind a port, and the multicast group of those that hear of it; 0: nobody.
    table link_events {
        key = {
            meta.event_port: exact @name("port");
        }
        actions = {
            tell_of_link;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        if (meta.event_type != 0) {
            hdr.oefh.setValid();
            hdr.event.setValid();
            if (link_events.apply().hit && hearers != 0) {
                if (meta.verdict == VERDICT_ANSWER) {
                    meta.clone_make = meta.make;
                    clone_preserving_field_list(CloneType.I2E, (bit<32>)meta.link_port, CLONE_FIELDS);
                }
                meta.verdict = VERDICT_TELL;
                meta.make = MAKE_EVENT;
                meta.hearers = hearers;
                hdr.link.kind = KIND_DATA;
                hdr.oefh.version = OEFH_VERSION;
                hdr.oefh.vc = VC_CONTROL;
                hdr.oefh.ecn = ECN_NOT_CAPABLE;
                hdr.oefh.f = 0;
                hdr.oefh.dst = NOBODY; // each copy is addressed as it leaves
                hdr.oefh.next = NEXT_EVENT;
                hdr.oefh.hops = HOPS_INITIAL;
                hdr.oefh.entropy = 0;
                hdr.event.type = meta.event_type;
                link_sequence.read(hdr.event.sequence, (bit<32>)meta.event_port);
                hdr.event.detail = (bit<16>)meta.event_port;
            } else {
                hdr.oefh.setInvalid();
                hdr.event.setInvalid();
            }
        }
    }
}

#endif
