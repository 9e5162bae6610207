#ifndef LINK_STATES_P4
#define LINK_STATES_P4

#include "../headers.p4"
#include "../registers.p4"

/* Which ports are dead, so that nothing waits for them and their neighbours are told. The carrier decides about an open
 * port. A managed link is dead when it has lost its carrier, its peer is silent or stalled, or it has never had one;
 * it lives again when data may be sent on it. One that is only brought up anew, as its peer has restarted quickly, does
 * not die of that: its frames wait.
 *
 * A change of state is told at once, a dead port again at every keepalive (events.p4). That a living link is degraded
 * is told each time that it has been found so (retry_watch.p4). */
control LinkStates(in headers_t hdr, inout metadata_t meta) {
    counter(PORTS, CounterType.packets) links_lost;
    counter(PORTS, CounterType.packets) links_restored;

    apply {
        if (meta.link_ready == 1 || (hdr.notice.isValid() && hdr.notice.type != NOTICE_TICK)) {
            bit<32> port = (bit<32>)meta.link_port;
            bit<1> was_dead = 0;
            bit<1> dead = 0;
            port_dead.read(was_dead, port);
            dead = was_dead;
            if (meta.has_profile == 0) {
                carrier_down.read(dead, port);
            } else if (meta.link_lost == 1) {
                dead = 1;
            } else if (meta.link_ready == 1) {
                dead = 0;
            }
            if (dead != was_dead) {
                bit<32> count = 0;
                bit<16> changes = 0;
                dead_ports.read(count, 0);
                state_changes.read(changes, 0);
                state_changes.write(0, changes + 1);
                link_sequence.write(port, changes + 1);
                port_dead.write(port, dead);
                if (dead == 1) {
                    dead_ports.write(0, count + 1);
                    links_lost.count(port);
                } else {
                    dead_ports.write(0, count - 1);
                    links_restored.count(port);
                }
            }
            meta.event_port = meta.link_port;
            if (dead == 1) {
                meta.event_type = EVENT_LINK_DOWN;
            } else if (was_dead == 1) {
                meta.event_type = EVENT_LINK_UP;
            } else if (meta.link_degraded == 1) {
                bit<16> changes = 0;
                state_changes.read(changes, 0);
                state_changes.write(0, changes + 1);
                link_sequence.write(port, changes + 1);
                meta.event_type = EVENT_LINK_DEGRADED;
            }
        }
    }
}

#endif
