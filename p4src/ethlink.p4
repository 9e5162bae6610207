/* The EthLink switch, for v1model targets. What a frame looks like: docs/protocol.md. What the controller installs, and
 * what the counters mean: docs/pipeline.md.
 *
 * Each step below is a control in a file of its own, which opens with the policy that it implements. The folders are
 * the mechanisms: link (bring-up, time, CRC), forwarding, credits (CBFC), retry (LLR), events, faults, telemetry. A
 * frame starts undecided (meta.verdict); the first step that decides about it settles what becomes of it. */
#include <core.p4>
#include <v1model.p4>

#include "constants.p4"
#include "headers.p4"
#include "parser.p4"
#include "link/link_crc.p4"
#include "lanes.p4"
#include "registers.p4"
#include "link/ports.p4"
#include "link/link_profiles.p4"
#include "link/link_layer.p4"
#include "retry/acknowledgements.p4"
#include "retry/retry_receiver.p4"
#include "link/senses.p4"
#include "credits/credit_updates.p4"
#include "link/losses.p4"
#include "retry/retry_watch.p4"
#include "credits/stalls.p4"
#include "retry/retry_profiles.p4"
#include "link/bring_up.p4"
#include "retry/retry_start.p4"
#include "retry/send_window.p4"
#include "events/link_states.p4"
#include "link/upkeep.p4"
#include "credits/arrivals.p4"
#include "forwarding/frame_check.p4"
#include "forwarding/reachability.p4"
#include "forwarding/sources.p4"
#include "forwarding/path_choice.p4"
#include "forwarding/forwarding.p4"
#include "forwarding/egress_links.p4"
#include "forwarding/hop_limit.p4"
#include "credits/admission.p4"
#include "credits/departures.p4"
#include "credits/queue_share.p4"
#include "credits/held_return.p4"
#include "events/events.p4"
#include "retry/numbering.p4"
#include "credits/releases.p4"
#include "retry/replies.p4"
#include "telemetry/drops.p4"
#include "telemetry/to_controller.p4"
#include "telemetry/probes.p4"
#include "telemetry/retry_probes.p4"
#include "credits/queue_exit.p4"
#include "credits/hold.p4"
#include "retry/delay_line.p4"
#include "faults/fault_delay.p4"
#include "link/keepalive.p4"
#include "link/control_frames.p4"
#include "events/event_frames.p4"
#include "link/link_stamp.p4"
#include "retry/retry_sender.p4"
#include "faults/link_fault.p4"
#include "link/copies.p4"

control EthlinkIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Ports() ports;
    LinkProfiles() link_profiles;
    LinkLayer() link_layer;
    Acknowledgements() acknowledgements;
    RetryReceiver() retry_receiver;
    Senses() senses;
    CreditUpdates() credit_updates;
    Losses() losses;
    RetryWatch() retry_watch;
    Stalls() stalls;
    RetryProfiles() retry_profiles;
    BringUp() bring_up;
    RetryStart() retry_start;
    LinkStates() link_states;
    Upkeep() upkeep;
    Arrivals() arrivals;
    FrameCheck() frame_check;
    Reachability() reachability;
    Sources() sources;
    Forwarding() forwarding;
    EgressLinks() egress_links;
    HopLimit() hop_limit;
    Admission() admission;
    Departures() departures;
    QueueShare() queue_share;
    HeldReturn() held_return;
    Events() events;
    Numbering() numbering;
    Releases() releases;
    Replies() replies;
    Drops() drops;
    Probes() probes;
    RetryProbes() retry_probes;
    ToController() to_controller;

    apply {
        ports.apply(hdr, meta, standard_metadata);          // who is on the other side?
        link_profiles.apply(hdr, meta);                     // what buffer is there for it?
        if (meta.held == 0) {
            link_layer.apply(hdr, meta, standard_metadata); // did the link deliver a frame to be believed?
            if (meta.mode != MODE_OPEN || hdr.notice.isValid()) {
                acknowledgements.apply(hdr, meta);          // what has the peer got of what was sent?
                retry_receiver.apply(hdr, meta);            // is it the frame that is next?
                senses.apply(hdr, meta);                    // has time passed, has a carrier changed?
                credit_updates.apply(hdr, meta);            // does the peer speak of credits?
                losses.apply(hdr, meta);                    // what has the link lost?
                retry_watch.apply(hdr, meta);               // has the link given up on a frame?
                stalls.apply(hdr, meta);                    // does it free none, for too long?
                retry_profiles.apply(hdr, meta);            // could it retry, once it is up?
                bring_up.apply(hdr, meta);                  // or of the link itself?
                retry_start.apply(hdr, meta);               // will it retry, now that it is up?
                link_states.apply(hdr, meta);               // has it died, or come back?
                upkeep.apply(hdr, meta);                    // what else does a keepalive do?
                arrivals.apply(hdr, meta);                  // what does the frame take of the buffer?
            }
            frame_check.apply(hdr, meta);                   // is it well formed?
            reachability.apply(hdr, meta);                  // does a neighbour say what it has lost?
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
        numbering.apply(meta);                              // which number has it on its link?
        releases.apply(meta);                               // what of the buffer is free again?
        replies.apply(meta);                                // is an acknowledgement or a NACK due?

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
        } else if (meta.verdict == VERDICT_ACKS) {
            standard_metadata.mcast_grp = RETRY_GROUP;
        } else {
            mark_to_drop(standard_metadata);
            drops.apply(meta);                                 // count why not
            probes.apply(hdr, meta);                           // answer what is asked of this switch: credits,
            retry_probes.apply(hdr, meta);                     // retries
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
    RetrySender() retry_sender;
    LinkFault() link_fault;
    Copies() copies;
    DelayLine() delay_line;
    FaultDelay() fault_delay;

    apply {
        if (standard_metadata.egress_port == HOLD_PORT) {
            hold.apply(hdr, meta, standard_metadata); // one more round, or back to the ingress with credit
        } else if (standard_metadata.egress_port == LINE_PORT || standard_metadata.egress_port == FAST_LINE_PORT) {
            delay_line.apply(hdr, meta, standard_metadata); // one more round, or to its port once more
        } else if (standard_metadata.egress_port == DELAY_PORT) {
            fault_delay.apply(meta, standard_metadata);     // one more round, or to its port
        } else if (meta.make == MAKE_KEEPALIVE) {
            keepalive.apply(hdr, standard_metadata);  // back to the ingress as a notice for this port
        } else {
            queue_exit.apply(meta, standard_metadata);              // its place in the queue is free
            if (standard_metadata.instance_type == INGRESS_CLONE) {
                meta.make = meta.clone_make;
            }
            if (standard_metadata.instance_type == EGRESS_CLONE && standard_metadata.egress_rid == PORT_REPLICA) {
                meta.impaired = 1; // a frame that a link fault has made twice
            }
            if (meta.make == MAKE_EVENT) {
                event_frames.apply(hdr, meta, standard_metadata);   // what this switch tells of its links
            } else if (meta.make != MAKE_NOTHING) {
                control_frames.apply(hdr, meta, standard_metadata); // the link's own frames
            }
            if (standard_metadata.egress_port != CPU_PORT && hdr.link.isValid()) {
                link_stamp.apply(hdr, meta, standard_metadata);     // the link header of the link that it leaves on
                retry_sender.apply(hdr, meta, standard_metadata);   // a copy until it is acknowledged
                link_fault.apply(hdr, meta, standard_metadata);     // what a bad link does to it
                copies.apply(meta, standard_metadata);              // the clones that these ask for
            }
            if (standard_metadata.egress_spec != DROP_PORT) {
                port_tx.count((bit<32>)standard_metadata.egress_port);
            }
        }
    }
}

V1Switch(FrameParser(), VerifyLinkCrc(), EthlinkIngress(), EthlinkEgress(), RenewLinkCrc(), FrameDeparser()) main;
