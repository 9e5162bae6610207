#ifndef FORWARDING_P4
#define FORWARDING_P4

#include "headers.p4"
#include "registers.p4"

const bit<64> HASH_VALUES = 0x100000000; // modulo this a CRC-32 stays as it is

/* Where a frame goes. Routes are per tenant: there is no way to name another tenant's endpoint. Nothing is learnt; what
 * the controller did not install is dropped. Of several equal paths a frame with F = 1 takes one by source, destination
 * and entropy, a frame with F = 0 one by source and destination alone, so that it stays in order whatever its entropy
 * says. The slot is the CRC-32 of these as a fraction of the group's size. Its low bits would do badly: of 64
 * neighbouring ids they reach half the slots of a group of 8, as a CRC is linear and only a few of its input bits
 * differ.
 *
 * Frames for this switch itself are probes and go to the controller. */
control Forwarding(in headers_t hdr, inout metadata_t meta) {
    tenant_t destination = 0;
    group_t group = 0;
    slot_t slots = 0;
    slot_t slot = 0;
    bit<8> entropy = 0;
    bit<32> flow = 0;
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

    action to_group(group_t group_id, slot_t size) {
        group = group_id;
        slots = size;
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

    // The ports of a group, slots 0 to size - 1.
    table group_member {
        key = {
            group: exact @name("group");
            slot: exact @name("slot");
        }
        actions = {
            to_port;
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
                if (slots != 0) {
                    if (hdr.oefh.f == 1) {
                        entropy = hdr.oefh.entropy;
                    }
                    hash(flow, HashAlgorithm.crc32, 32w0, { hdr.oefh.dst, hdr.oefh.src, entropy }, HASH_VALUES);
                    bit<48> scaled = (bit<48>)flow * (bit<48>)slots;
                    slot = scaled[47:32];
                    if (!group_member.apply().hit) {
                        meta.verdict = REASON_NO_MEMBER;
                    }
                }
                dead_ports.read(dead, 0);
                if (dead != 0) {
                    port_dead.read(meta.to_dead_port, (bit<32>)meta.egress_port);
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
