#ifndef REGISTERS_P4
#define REGISTERS_P4

#include "headers.p4"
#include "lanes.p4"

/* What the switch remembers of its managed links. Names of credits are those of SAI.
 *
 * On BMv2 ingress and egress are threads of their own, and a read-modify-write is not atomic between them: so each
 * register has one side that writes it. All are the ingress's, but for those marked: as the egress's, which belong to
 * HOLD_PORT, as the line's (LINE_PORT and FAST_LINE_PORT), and as the port's (the egress of the port itself). */
const bit<32> PORT_VCS = 4096;       // size of what is indexed by port ++ vc
const bit<32> PORT_SEQS = 262144;    // by port ++ the lowest 9 bits of a seq: OUTSTANDING_FRAMES_MOST of them
const bit<32> PORT_CLASSES = 1024;   // by port ++ control

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
register<format_t>(PORTS) link_format;
register<bit<8>>(PORTS) link_generation; // of the profile that the own epoch was drawn by
register<bit<16>>(PORTS) link_losses;    // found on it; cyclic
register<bit<16>>(PORTS) losses_known;   // what the peer has last told of its own

// Dead ports: which, and how many; and the state changes of all ports, of which each port keeps the number of its last.
register<bit<1>>(PORTS) port_dead;
register<bit<32>>(1) dead_ports;
register<bit<16>>(1) state_changes;
register<bit<16>>(PORTS) link_sequence;
// By switch and port: the tick, + 1, at which the neighbour there last said that it has lost that switch; 0: not so.
register<ticks_t>(PATHS) lost_behind;
register<ticks_t>(ENDPOINTS) answered; // by source: the tick, + 1, of the last event that a frame of it turned into

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
register<bit<32>>(PORTS) best_effort_left; // the port's
register<ticks_t>(PORTS) best_effort_tried; // when one was let in because none had left for long
register<ticks_t>(PORTS) best_effort_passed; // the port's: when one last left

// Frames that wait, by the port that they wait for.
register<lanes_t>(PORTS) held_frames;
register<bit<24>>(PORTS) held_frames_total;
register<bit<24>>(1) hold_depth; // the hold's: frames in it, of all ports
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
register<bit<16>>(PORT_VCS) heads_seen;        // the egress's: how often; cyclic

// Link-layer retry, this switch as the sender, by port. Settings are those of the session, as llr_profile had them.
register<llr_settings_t>(PORTS) llr_settings;
register<seq_t>(PORTS) llr_next_seq;             // of the next frame that is numbered
register<seq_t>(PORTS) llr_unacknowledged_seq;   // the oldest without acknowledgement; next_seq: there is none
register<bit<32>>(PORTS) llr_bytes_numbered;     // in this session; cyclic
register<bit<32>>(PORTS) llr_bytes_acknowledged;
register<bit<32>>(PORT_SEQS) llr_bytes_through;  // bytes numbered, up to and with a frame
register<ticks_t>(PORTS) llr_numbered_at;        // when a frame was last numbered
register<bit<16>>(PORTS) llr_degraded_replays;   // of the session: begun within a second, the link is degraded
register<bit<32>>(PORTS) llr_replays_counted;    // begun, when they were last looked at
register<bit<8>>(PORTS) llr_keepalives_counted;  // since then
register<bit<8>>(PORTS) llr_nacks;               // that ask for a replay; cyclic
register<seq_t>(PORTS) llr_sent_seq;             // the port's: next after the newest sent
register<bit<1>>(PORTS) llr_replaying;           // the line's
register<seq_t>(PORTS) llr_replay_seq;           // the line's: the next to send
register<ticks_t>(PORTS) llr_replay_moved;       // the line's
register<bit<8>>(PORTS) llr_nacks_seen;          // the line's
register<bit<32>>(PORTS) llr_replays_begun;      // the line's: ever, cyclic
register<bit<8>>(PORTS) llr_replays;             // the line's: in a row, without progress
register<seq_t>(PORTS) llr_replayed_from;        // the line's: what was the oldest at the last replay
register<session_t>(PORTS) llr_line_session;     // the line's: whose replay the above is about
register<session_t>(PORTS) llr_flushed_session;  // the line's: in which the link gave up
register<session_t>(PORTS) llr_lost_session;     // the line's: in which a copy was lost
register<ticks_t>(PORTS) llr_line_seen;          // the line's: when a copy for the port came round
register<bit<24>>(1) llr_line_depth;             // the line's: copies in it, of all ports

// What the hold has granted of the window, and what of it is back in the ingress; cyclic.
register<bit<32>>(PORTS) llr_granted_frames; // the egress's
register<bit<32>>(PORTS) llr_granted_bytes;  // the egress's
register<bit<32>>(PORTS) llr_returned_frames;
register<bit<32>>(PORTS) llr_returned_bytes;

// Link-layer retry, this switch as the receiver, by port.
register<seq_t>(PORTS) llr_expected_seq;
register<receiver_state_t>(PORTS) llr_receiver_state;
register<bit<21>>(PORTS) llr_newest;     // REPLAY flag and seq of the newest numbered frame, in sequence or not
register<seq_t>(PORTS) llr_ack_asked;    // expected, when an acknowledgement was last asked for
register<seq_t>(PORTS) llr_ack_given;    // the port's: expected, as the peer was last told
register<bit<1>>(1) llr_acks_due;        // some port has got numbered frames since the last tick

// Link faults, by port ++ (1: of control frames): the run that counts, and its frames hit so far. The port's.
register<bit<48>>(PORT_CLASSES) link_fault_run;

// The window, the replay timer in microseconds, replays in a row, and what comes of frames when they are used up.
bit<16> frames_max_of(in llr_settings_t settings) {
    return settings[95:80];
}

bit<32> bytes_max_of(in llr_settings_t settings) {
    return settings[79:48];
}

bit<32> replay_timer_of(in llr_settings_t settings) {
    return settings[47:16];
}

bit<8> replay_count_max_of(in llr_settings_t settings) {
    return settings[15:8];
}

bit<2> flush_action_of(in llr_settings_t settings) {
    return settings[7:6];
}

bool re_init_of(in llr_settings_t settings) {
    return settings[5:5] == 1;
}

bool retries(in format_t format) {
    return format[24:24] == 1;
}

#endif
