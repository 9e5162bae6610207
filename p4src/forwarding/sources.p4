#ifndef SOURCES_P4
#define SOURCES_P4

#include "../headers.p4"

/* Whose frame this is. Endpoints act on the source id alone, so an id may enter the fabric only on a port that it
 * belongs to, and the port says its tenant. Between switches the id has been checked already, and it tells the
 * tenant. An EVENT comes from a switch, which is no tenant's: it is for the tenant of whom it is for. */
control Sources(in headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata) {
    endpoint_t owner = NOBODY;

    action allow() {}

    table source_guard {
        key = {
            standard_metadata.ingress_port: exact @name("ingress_port");
            hdr.oefh.src: exact @name("src");
        }
        actions = {
            allow;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 4096;
    }

    action set_tenant(tenant_t tenant) {
        meta.tenant = tenant;
    }

    table fabric_tenant {
        key = {
            owner: exact @name("owner");
        }
        actions = {
            set_tenant;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 4096;
    }

    apply {
        if (meta.verdict == VERDICT_UNDECIDED) {
            if (meta.role == ROLE_FABRIC) {
                owner = hdr.oefh.src;
                if (hdr.event.isValid()) {
                    owner = hdr.oefh.dst;
                }
                if (!fabric_tenant.apply().hit) {
                    meta.verdict = REASON_UNKNOWN_SOURCE;
                }
            } else if (!source_guard.apply().hit) {
                meta.verdict = REASON_SPOOFED_SOURCE;
            }
        }
    }
}

#endif
