#ifndef FORWARDING_P4
#define FORWARDING_P4

#include "../headers.p4"
#include "../registers.p4"
#include "path_choice.p4"

/* Where a frame goes. Routes are per tenant: there is no way to name another tenant's endpoint. Nothing is learnt; what
 * the controller did not install is dropped. Of several equal paths path_choice.p4 takes one.
 *
 * Frames for this switch itself are probes and go to the controller. */
control Forwarding(in headers_t hdr, inout metadata_t meta) {
    tenant_t destination = 0;
    PathChoice() path_choice;
    bool in_group = false;
    group_t group = 0;
    endpoint_t behind = NOBODY;
    bit<32> dead = 0;

    action local() {
        meta.verdict = VERDICT_LOCAL;
    }

    // The ids of this switch.
    table station {
        key = {
            hdr.oefh.dst: exact @name("dst");
        }
        actions = {
            local;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 16;
    }

    action to_port(port_t port) {
        meta.egress_port = port;
    }

    // `home` is the switch that the destination is on, if it has one alone; else nobody.
    action to_group(group_t group_id, endpoint_t home) {
        in_group = true;
        group = group_id;
        behind = home;
    }

    table forward {
        key = {
            meta.tenant: exact @name("tenant");
            hdr.oefh.dst: exact @name("dst");
        }
        actions = {
            to_port;
            to_group;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 8192;
    }

    action belongs_to(tenant_t tenant) {
        destination = tenant;
    }

    // Only asked for a frame without a route, to tell a foreign destination from an unknown one.
    table destination_tenant {
        key = {
            hdr.oefh.dst: exact @name("dst");
        }
        actions = {
            belongs_to;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 4096;
    }

    apply {
        if (meta.verdict == VERDICT_UNDECIDED) {
            if (hdr.oefh.dst == NOBODY) {
                meta.verdict = REASON_RESERVED_DESTINATION;
            } else if (hdr.oefh.dst >= FIRST_SWITCH_ID && station.apply().hit) {
                if (!hdr.probe.isValid()) {
                    meta.verdict = REASON_NOT_A_PROBE;
                }
            } else if (forward.apply().hit) {
                meta.verdict = VERDICT_FORWARD;
                meta.routed = 1;
                if (in_group) {
                    path_choice.apply(hdr, meta, group, behind);
                } else {
                    dead_ports.read(dead, 0);
                    if (dead != 0) {
                        port_dead.read(meta.to_dead_port, (bit<32>)meta.egress_port);
                    }
                }
            } else if (destination_tenant.apply().hit && destination != meta.tenant) {
                meta.verdict = REASON_OTHER_TENANT;
            } else {
                meta.verdict = REASON_NO_ROUTE;
            }
        }
    }
}

#endif
