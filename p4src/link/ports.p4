#ifndef PORTS_P4
#define PORTS_P4

#include "../headers.p4"

/* Who is on the other side of the port. A frame means something only with its port's configuration: whether the link is
 * managed, whether a GPU or a switch is on it, and whose GPU that is. A port that nobody configured passes nothing.
 *
 * Internal ports are configured by their nature. The CPU port is trusted like a fabric port; a packet-out that
 * names an egress port goes straight there, any other is routed like a frame from another switch. The event port
 * carries what the switch senses, and what it then tells itself comes back from inside: see bring_up.p4. */
control Ports(inout headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets_and_bytes) port_rx;

    action set_port(mode_t mode, role_t role, tenant_t tenant) {
        meta.mode = mode;
        meta.role = role;
        meta.tenant = tenant;
    }

    table port_config {
        key = {
            standard_metadata.ingress_port: exact @name("ingress_port");
        }
        actions = {
            set_port;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        if (meta.held == 1) {
            return; // it has been looked at, and comes from inside
        }
        port_rx.count((bit<32>)standard_metadata.ingress_port);
        meta.frame_bytes = standard_metadata.packet_length;
        meta.link_port = standard_metadata.ingress_port;
        if (standard_metadata.ingress_port == CPU_PORT) {
            meta.frame_bytes = standard_metadata.packet_length - PACKET_OUT_BYTES;
            meta.mode = MODE_OPEN;
            meta.role = ROLE_FABRIC;
            if (hdr.packet_out.egress_port != 0) {
                meta.egress_port = hdr.packet_out.egress_port;
                meta.verdict = VERDICT_FORWARD;
            }
        } else if (standard_metadata.ingress_port == EVENT_PORT || standard_metadata.ingress_port == INSIDE) {
            meta.verdict = VERDICT_CONSUMED;
            if (standard_metadata.ingress_port == EVENT_PORT
                && (hdr.notice.type > NOTICE_TICK || hdr.notice.port >= (bit<16>)FIRST_INTERNAL_PORT)) {
                hdr.notice.setInvalid(); // a keepalive only comes from inside, a port status is a data port's
            }
        } else if (!port_config.apply().hit) {
            meta.verdict = REASON_UNKNOWN_PORT;
        }
    }
}

#endif
