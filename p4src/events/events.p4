#ifndef EVENTS_P4
#define EVENTS_P4

#include "../headers.p4"
#include "../registers.p4"

/* Makes an EVENT of the frame in hand.
 *
 * A state change, and its repeats: a notice, or the peer's credit update that made its link ready, goes to all who are
 * to hear of the link, by multicast. What the link itself is to send then (an LLR_INIT at a keepalive) leaves as a
 * clone. A link that the table does not know is nobody's business.
 *
 * A frame for a dead port turns around: it becomes an EVENT to its source, about its destination, and leaves where it
 * came in. One per source and tick is enough; the others are dropped, as are events and probes, which nobody resends.
 *
 * Events are soft state. Each says which state change of this switch it is about, so that an old one is known; VC 7
 * needs no credit, so that nothing can hold it up. */
control Events(inout headers_t hdr, inout metadata_t meta) {
    counter(PORTS, CounterType.packets) frames_turned_around;
    endpoint_t speaker = NOBODY;
    bit<8> of_plane = 0;
    bit<16> about = 0;
    bit<16> hearers = 0;
    endpoint_t asker = NOBODY; // the source of a frame that turns around
    ticks_t now = 0;

    action tell_of_link(endpoint_t source, bit<8> plane, bit<16> subject, bit<16> group) {
        speaker = source;
        of_plane = plane;
        about = subject;
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
        if (meta.verdict == REASON_DEAD_PORT && (hdr.lsu.isValid() || hdr.tma.isValid())
            && meta.link_port != CPU_PORT) {
            ticks_t before = 0;
            asker = hdr.oefh.src;
            ticks.read(now, 0);
            answered.read(before, (bit<32>)asker);
            if (before != now + 1) {
                meta.event_type = EVENT_LINK_DOWN;
                meta.event_port = meta.egress_port;
            }
        }
        if (meta.event_type != 0) {
            bool known = link_events.apply().hit;
            if (known && asker != NOBODY) {
                answered.write((bit<32>)asker, now + 1);
                frames_turned_around.count((bit<32>)meta.link_port);
                meta.verdict = VERDICT_ANSWER;
                about = (bit<16>)hdr.oefh.dst;
            } else if (known && hearers != 0) {
                if (meta.verdict == VERDICT_ANSWER) {
                    meta.clone_make = meta.make;
                    clone_preserving_field_list(CloneType.I2E, (bit<32>)meta.link_port, CLONE_FIELDS);
                }
                meta.verdict = VERDICT_TELL;
                meta.hearers = hearers;
            } else {
                meta.event_type = 0;
            }
        }
        if (meta.event_type != 0) {
            meta.make = MAKE_EVENT;
            hdr.link.kind = KIND_DATA;
            hdr.oefh.setValid();
            hdr.oefh.version = OEFH_VERSION;
            hdr.oefh.vc = VC_CONTROL;
            hdr.oefh.ecn = ECN_NOT_CAPABLE;
            hdr.oefh.f = 0;
            hdr.oefh.dst = asker; // nobody: each copy is addressed as it leaves
            hdr.oefh.src = speaker;
            hdr.oefh.next = NEXT_EVENT;
            hdr.oefh.hops = HOPS_INITIAL;
            hdr.oefh.entropy = 0;
            hdr.event.setValid();
            hdr.event.type = meta.event_type;
            hdr.event.plane = of_plane;
            hdr.event.subject = about;
            link_sequence.read(hdr.event.sequence, (bit<32>)meta.event_port);
            hdr.event.detail = (bit<16>)meta.event_port;
        }
    }
}

#endif
