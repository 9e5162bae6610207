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
#include "lanes.p4"
#include "registers.p4"
#include "ports.p4"
#include "link_profiles.p4"
#include "link_layer.p4"
#include "senses.p4"
#include "credit_updates.p4"
#include "stalls.p4"
#include "bring_up.p4"
#include "link_states.p4"
#include "upkeep.p4"
#include "arrivals.p4"
#include "frame_check.p4"
#include "sources.p4"
#include "forwarding.p4"
#include "egress_links.p4"
#include "hop_limit.p4"
#include "admission.p4"
#include "departures.p4"
#include "queue_share.p4"
#include "held_return.p4"
#include "events.p4"
#include "releases.p4"
#include "drops.p4"
#include "to_controller.p4"
#include "probes.p4"
#include "queue_exit.p4"
#include "hold.p4"
#include "keepalive.p4"
#include "control_frames.p4"
#include "event_frames.p4"
#include "link_stamp.p4"

control EthlinkIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Ports() ports;
    LinkProfiles() link_profiles;
    LinkLayer() link_layer;
    Senses() senses;
    CreditUpdates() credit_updates;
    Stalls() stalls;
    BringUp() bring_up;
    LinkStates() link_states;
    Upkeep() upkeep;
    Arrivals() arrivals;
    FrameCheck() frame_check;
    Sources() sources;
    Forwarding() forwarding;
    EgressLinks() egress_links;
    HopLimit() hop_limit;
    Admission() admission;
    Departures() departures;
    QueueShare() queue_share;
    HeldReturn() held_return;
    Events() events;
    Releases() releases;
    Drops() drops;
    Probes() probes;
    ToController() to_controller;

    apply {
        ports.apply(hdr, meta, standard_metadata);          // who is on the other side?
        link_profiles.apply(hdr, meta);                     // what buffer is there for it?
        if (meta.held == 0) {
            link_layer.apply(hdr, meta, standard_metadata); // did the link deliver a frame to be believed?
            if (meta.mode != MODE_OPEN || hdr.notice.isValid()) {
                senses.apply(hdr, meta);                    // has time passed, has a carrier changed?
                credit_updates.apply(hdr, meta);            // does the peer speak of credits?
                stalls.apply(hdr, meta);                    // does it free none, for too long?
                bring_up.apply(hdr, meta);                  // or of the link itself?
                link_states.apply(hdr, meta);               // has it died, or come back?
                upkeep.apply(hdr, meta);                    // what else does a keepalive do?
                arrivals.apply(hdr, meta);                  // what does the frame take of the buffer?
            }
            frame_check.apply(hdr, meta);                   // is it well formed?
            sources.apply(hdr, meta, standard_metadata);    // whose is it?
            forwarding.apply(hdr, meta);                    // where does it go?
            egress_links.apply(meta);                       // does that port exist?
            hop_limit.apply(hdr, meta);                     // has it come too far?
            admission.apply(hdr, meta);                     // may it go now?
            queue_share.apply(meta);                        // is there room for it in the queue?
            departures.apply(hdr, meta);                    // what does it take along?
        } else {
            held_return.apply(hdr, meta);                   // may it still go?
        }
        events.apply(hdr, meta);                            // who is to hear of it?
        releases.apply(meta);                               // what of the buffer is free again?

        if (meta.verdict == VERDICT_FORWARD) {
            standard_metadata.egress_spec = meta.egress_port;
        } else if (meta.verdict == VERDICT_HOLD) {
            standard_metadata.egress_spec = HOLD_PORT;
        } else if (meta.verdict == VERDICT_ANSWER) {
            standard_metadata.egress_spec = meta.link_port;
        } else if (meta.verdict == VERDICT_KEEPALIVE) {
            standard_metadata.mcast_grp = KEEPALIVE_GROUP;
        } else if (meta.verdict == VERDICT_TELL) {
            standard_metadata.mcast_grp = meta.hearers;
        } else {
            mark_to_drop(standard_metadata);
            drops.apply(meta);                                 // count why not
            probes.apply(hdr, meta);                           // answer what is asked of this switch
            to_controller.apply(hdr, meta, standard_metadata); // show it to the controller, if it is to see it
        }
    }
}

control EthlinkEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets_and_bytes) port_tx;
    QueueExit() queue_exit;
    Hold() hold;
    Keepalive() keepalive;
    ControlFrames() control_frames;
    EventFrames() event_frames;
    LinkStamp() link_stamp;

    apply {
        if (standard_metadata.egress_port == HOLD_PORT) {
            hold.apply(hdr, meta, standard_metadata); // one more round, or back to the ingress with credit
        } else if (meta.make == MAKE_KEEPALIVE) {
            keepalive.apply(hdr, standard_metadata);  // back to the ingress as a notice for this port
        } else {
            queue_exit.apply(meta, standard_metadata);              // its place in the queue is free
            if (standard_metadata.instance_type == INGRESS_CLONE) {
                meta.make = meta.clone_make;
            }
            if (meta.make == MAKE_EVENT) {
                event_frames.apply(hdr, meta, standard_metadata);   // what this switch tells of its links
            } else if (meta.make != MAKE_NOTHING) {
                control_frames.apply(hdr, meta, standard_metadata); // the link's own frames
            }
            if (standard_metadata.egress_port != CPU_PORT && hdr.link.isValid()) {
                link_stamp.apply(hdr, meta, standard_metadata);     // the link header of the link that it leaves on
            }
            if (standard_metadata.egress_spec != DROP_PORT) {
                port_tx.count((bit<32>)standard_metadata.egress_port);
            }
        }
    }
}

V1Switch(FrameParser(), VerifyLinkCrc(), EthlinkIngress(), EthlinkEgress(), RenewLinkCrc(), FrameDeparser()) main;
