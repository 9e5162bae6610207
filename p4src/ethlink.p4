/* The EthLink switch, for v1model targets. What a frame looks like: docs/protocol.md. What the controller installs, and
 * what the counters mean: docs/pipeline.md.
 *
 * Each step below is a control in a file of its own, which opens with the policy that it implements. A frame starts
 * undecided (meta.verdict); the first step that decides about it settles what becomes of it. */
#include <core.p4>
#include <v1model.p4>

#include "constants.p4"
#include "headers.p4"
#include "parser.p4"
#include "link_crc.p4"
#include "ports.p4"
#include "link_layer.p4"
#include "frame_check.p4"
#include "sources.p4"
#include "forwarding.p4"
#include "egress_links.p4"
#include "hop_limit.p4"
#include "drops.p4"
#include "to_controller.p4"
#include "link_stamp.p4"

control EthlinkIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Ports() ports;
    LinkLayer() link_layer;
    FrameCheck() frame_check;
    Sources() sources;
    Forwarding() forwarding;
    EgressLinks() egress_links;
    HopLimit() hop_limit;
    Drops() drops;
    ToController() to_controller;

    apply {
        ports.apply(hdr, meta, standard_metadata);       // who is on the other side?
        link_layer.apply(hdr, meta, standard_metadata);  // did the link deliver a frame to be believed?
        frame_check.apply(hdr, meta);                    // is it well formed?
        sources.apply(hdr, meta, standard_metadata);     // whose is it?
        forwarding.apply(hdr, meta);                     // where does it go?
        egress_links.apply(meta);                        // can that port carry it?
        hop_limit.apply(hdr, meta);                      // has it come too far?

        if (meta.verdict == VERDICT_FORWARD) {
            standard_metadata.egress_spec = meta.egress_port;
        } else {
            mark_to_drop(standard_metadata);
            drops.apply(meta, standard_metadata);              // count why not
            to_controller.apply(hdr, meta, standard_metadata); // show it to the controller, if it is to see it
        }
    }
}

control EthlinkEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets_and_bytes) port_tx;
    LinkStamp() link_stamp;

    apply {
        port_tx.count((bit<32>)standard_metadata.egress_port);
        if (standard_metadata.egress_port != CPU_PORT && hdr.link.isValid()) {
            link_stamp.apply(hdr, meta); // the link header of the link that it leaves on
        }
    }
}

V1Switch(FrameParser(), VerifyLinkCrc(), EthlinkIngress(), EthlinkEgress(), RenewLinkCrc(), FrameDeparser()) main;
