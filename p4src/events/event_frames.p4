#ifndef EVENT_FRAMES_P4
#define EVENT_FRAMES_P4

#include "../headers.p4"
#include "../registers.p4"

/* Finishes an EVENT of this switch for the port that it leaves by: addresses a copy of a multicast to who is there,
 * puts it into the link's session, and cuts off what is left of the frame that it was made of. The port that it is
 * about does not hear of itself, and neither does one whose link takes no data now: it will hear the next repeat. */
control EventFrames(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets) events_sent;
    mode_t mode = MODE_MANAGED;
    endpoint_t listener = NOBODY;

    action address_to(endpoint_t dst, mode_t link_mode) {
        listener = dst;
        mode = link_mode;
    }

    // Who is on a port, to be told of the others.
    table event_listener {
        key = {
            standard_metadata.egress_port: exact @name("egress_port");
        }
        actions = {
            address_to;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        bit<32> port = (bit<32>)standard_metadata.egress_port;
        event_listener.apply();
        hdr.packet_out.setInvalid();
        hdr.lsu.setInvalid();
        hdr.tma.setInvalid();
        hdr.credit_update.setInvalid();
        hdr.notice.setInvalid();
        meta.cut = EVENT_FRAME_BYTES;
        meta.session = 0;
        if (mode != MODE_OPEN) {
            sender_session.read(meta.session, port);
        }
        if (listener == NOBODY || standard_metadata.egress_port == meta.event_port
            || (mode != MODE_OPEN && meta.session == 0)) {
            mark_to_drop(standard_metadata);
        } else {
            if (hdr.oefh.dst == NOBODY) {
                hdr.oefh.dst = listener;
            }
            // A recirculated notice has no other time.
            hdr.event.timestamp = standard_metadata.egress_global_timestamp;
            events_sent.count(port);
        }
    }
}

#endif
