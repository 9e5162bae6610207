#ifndef REGISTERS_P4
#define REGISTERS_P4

#include "headers.p4"
#include "lanes.p4"

/* What the switch remembers of its managed links. Names of credits are those of SAI.
 *
 * On BMv2 ingress and egress are threads of their own, and a read-modify-write is not atomic between them: so each
 * register has one side that writes it. All are the ingress's, but for those marked as the egress's, which belong to
 * HOLD_PORT. */
const bit<32> PORT_VCS = 4096; // size of what is indexed by port ++ vc

// The clock: ticks ever, and since the last keepalive.
register<ticks_t>(1) ticks;
register<bit<8>>(1) since_keepalive;

// The link, by port. Epochs and sessions are 0 where there are none.
register<epoch_t>(PORTS) own_epoch;
register<epoch_t>(PORTS) peer_epoch;
register<session_t>(PORTS) session;        // not 0: the link is up
register<session_t>(PORTS) sender_session; // the session once its first CF_UPDATE has come: data may be sent
register<session_t>(PORTS) last_session;
register<ticks_t>(PORTS) last_heard;
register<bit<1>>(PORTS) carrier_down;

// Dead ports: which, and how many; and the state changes of all ports, of which each port keeps the number of its last.
register<bit<1>>(PORTS) port_dead;
register<bit<32>>(1) dead_ports;
register<bit<16>>(1) state_changes;
register<bit<16>>(PORTS) link_sequence;
// Lossless VCs of both sides, the peer's credit size and packet overhead; 0 while there has been no peer.
register<bit<24>>(PORTS) link_format;

// This switch as the receiver on a link, by port.
register<lanes_t>(PORTS) receiver_credits_consumed;
register<lanes_t>(PORTS) receiver_credits_freed;
register<lanes_t>(PORTS) receiver_credits_advertised; // freed, when a threshold last caused a CF_UPDATE
register<lanes_t>(PORTS) receiver_credits_in_use;     // at the last reset

// This switch as the sender on a link, by port.
register<lanes_t>(PORTS) sender_credits_consumed;
register<lanes_t>(PORTS) sender_credits_freed;
register<lanes_t>(PORTS) sender_credit_limit;
register<lanes_t>(PORTS) sender_credits_used_watermark;
register<bit<8>>(PORTS) wrong_updates; // in a row

// The stall watchdog, by port: what was freed at the last keepalive, and for how many ticks each VC has been stuck.
register<lanes_t>(PORTS) freed_at_keepalive;
register<lanes_t>(PORTS) stalled;

// Best-effort frames of a port's queue: the number of the newest, and of the last one that has left it; cyclic.
register<bit<32>>(PORTS) best_effort_entered;
register<bit<32>>(PORTS) best_effort_left; // the egress's
register<ticks_t>(PORTS) best_effort_tried; // when one was let in because none had left for long
register<ticks_t>(PORTS) best_effort_passed; // the egress's: when one last left

// Frames that wait, by the port that they wait for.
register<lanes_t>(PORTS) held_frames;
register<bit<24>>(PORTS) held_frames_total;
register<lanes_t>(PORTS) credits_granted;  // the egress's; ever, cyclic
register<lanes_t>(PORTS) credits_returned; // those of granted frames that are back in the ingress
register<ticks_t>(PORTS) held_entered;     // when a frame last began to wait for the port
register<ticks_t>(PORTS) held_passed;      // the egress's: when one was last seen
register<ticks_t>(PORTS) buffered_entered; // likewise by the port that they came in on
register<ticks_t>(PORTS) buffered_passed;  // the egress's

// Order of the frames that wait and must not overtake, by port ++ vc: tickets are drawn at the tail, the next one to be
// granted is head - returned.
register<ticket_t>(PORT_VCS) ticket_tail;
register<ticket_t>(PORT_VCS) ticket_head;      // the egress's
register<ticket_t>(PORT_VCS) tickets_returned; // granted, but had to wait again
register<ticks_t>(PORT_VCS) head_seen;         // the egress's

#endif
