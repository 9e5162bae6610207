/* Every layout of the protocol, in wire order; docs/protocol.md explains the fields. The Python codec, the Scapy
 * layers and the documentation's tables are tested against this file. */
#ifndef HEADERS_P4
#define HEADERS_P4

#include "constants.p4"

// ------------------------------------------------------------------------------------------------- on every frame
// Stands for the preamble and FCS that a veth does not show.
header link_t {
    kind_t kind;
    bit<4> flags;
    bit<20> seq;
    bit<20> ack;
    bit<16> session;
    bit<32> crc; // CRC-32 over everything but this field
}

// ------------------------------------------------------------------------------------------------------ DATA frames
// The forwarding header, in place of Ethernet, IP and UDP.
header oefh_t {
    bit<2> version;
    bit<3> vc;
    bit<2> ecn;
    bit<1> f; // 1: entropy takes part in path choice; 0: one path per (src, dst), in order
    endpoint_t dst;
    endpoint_t src;
    next_t next;
    bit<4> hops;
    bit<8> entropy;
}

// Load/store. Data and the end-to-end CRC follow.
header lsu_t {
    bit<4> opcode;
    bit<4> status;
    bit<8> length; // bytes - 1
    bit<16> incarnation;
    bit<32> request;
    bit<16> key;
    bit<64> address;
}

// RDMA. Payload and the end-to-end CRC follow.
header tma_t {
    bit<4> opcode;
    bit<4> flags;
    bit<8> block; // log2 of the block size
    bit<16> incarnation;
    bit<32> message;
    bit<16> key;
    bit<16> length; // payload bytes in this frame
    bit<32> offset;
    bit<32> total;
    bit<64> address;
}

header event_t {
    bit<8> type;
    bit<8> plane;
    bit<16> subject;
    bit<16> sequence;
    bit<16> detail;
    bit<48> timestamp; // microseconds of the switch's clock
}

header probe_t {
    bit<8> op;
    bit<8> state;
    bit<16> port;
    bit<8> vc;
    bit<24> zero;
}

// What a switch adds to a PROBE that asks for the credits of a port. Credits are laid out as in LLR_INIT.
header probe_credits_t {
    bit<32> own_epoch;
    bit<32> peer_epoch;
    bit<16> session;
    bit<16> zero;
    bit<192> sender_credits_consumed;
    bit<192> sender_credits_freed;
    bit<192> sender_credit_limit;
    bit<192> sender_credits_used_watermark;
    bit<192> receiver_credits_consumed;
    bit<192> receiver_credits_freed;
    bit<192> receiver_credits_in_use;
    bit<192> held_frames;
}

// What a switch adds to a PROBE that asks for the link-layer retry of a port.
header probe_retry_t {
    bit<8> tx_state;
    bit<8> rx_state;
    bit<16> session;
    bit<16> outstanding_frames_max;
    bit<8> replays; // in a row, without progress
    bit<8> zero;
    bit<32> next_seq;
    bit<32> unacknowledged_seq;
    bit<32> replay_seq;
    bit<32> outstanding_bytes;
    bit<32> expected_seq;
}

// --------------------------------------------------------------------------------------------------- control frames
// Body of LLR_ACK and LLR_NACK: all they say is in the link header.
header llr_control_t {
    bit<48> zero;
}

// Body of LLR_INIT and LLR_INIT_ECHO. The credit fields hold 8 values of 24 bits, VC 0 in the most significant ones.
header link_init_t {
    bit<8> version;
    bit<8> capabilities;
    bit<32> own_epoch;
    bit<32> peer_epoch;
    bit<8> credit_size;     // log2
    bit<8> packet_overhead; // two's complement
    bit<16> max_frame;
    bit<8> lossless_vcs; // bit v: VC v
    bit<16> outstanding_frames_max;
    bit<192> credit_limit;
    bit<192> credits_in_use;
}

// Body of CF_UPDATE (credits freed) and CC_UPDATE (credits consumed). Credits are laid out as in LLR_INIT.
header credit_update_t {
    bit<24> zero;
    bit<16> losses; // that this side has found on the link; cyclic
    bit<8> vc_mask; // bit v: VC v is reported
    bit<192> credits;
}

// --------------------------------------------------------------------------------------- inside the switch, no wire
// What the switch senses, on EVENT_PORT: a link header of zeros, then this.
header notice_t {
    bit<8> type;
    bit<8> state; // of a port: 1 up, 0 down
    bit<16> port;
}

@controller_header("packet_in")
header packet_in_t {
    port_t ingress_port;
    verdict_t reason; // a REASON_, or VERDICT_LOCAL
}

@controller_header("packet_out")
header packet_out_t {
    port_t egress_port; // 0: through the pipeline, as if it came in on a fabric port
    bit<7> padding;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    link_t link;
    oefh_t oefh;
    lsu_t lsu;
    tma_t tma;
    event_t event;
    probe_t probe;
    probe_credits_t probe_credits;
    probe_retry_t probe_retry;
    llr_control_t llr_control;
    link_init_t link_init;
    credit_update_t credit_update;
    notice_t notice;
}

// ------------------------------------------------------------------------------- what the switch knows of a frame
// The link profile of a managed port: what this switch is as a receiver on it.
struct profile_t {
    bit<8> lossless_vcs;
    bit<24> vc_map; // 8 VCs of 3 bits, that of VC 0 in the most significant ones
    bit<8> credit_size;
    bit<8> packet_overhead;
    bit<192> credit_limit;
    bit<192> update_threshold;
    bit<16> silence; // ticks
    bit<16> stall;   // ticks
    bit<8> generation; // another one brings the link up anew
}

struct metadata_t {
    verdict_t verdict;
    bit<8> byte_12;
    bit<1> crossed_link; // so its CRC is to be checked
    // of the port that the frame came in on
    mode_t mode;
    role_t role;
    tenant_t tenant;
    profile_t profile; // of link_port
    bit<1> has_profile;
    bit<1> redraw; // the link is to be brought up anew
    bit<1> link_lost;  // it counts as down
    bit<1> link_ready; // data may be sent on it from now on
    bit<1> counts; // a frame of the link's session
    bit<1> loss_found; // the link has lost a frame of the peer's
    format_t format; // of the link of such a frame
    bit<1> came_up; // the link has, by this frame
    bit<1> retry_offered; // by the port's profile, which is this:
    llr_settings_t retry_settings;
    bit<16> degraded_replays;
    make_t reply; // what the link's receiver owes its peer for this frame, as an ingress clone
    // where it goes
    mode_t egress_mode;
    bit<24> egress_vc_map;
    bit<24> ecn_threshold;
    bit<1> to_dead_port;
    bit<1> routed;    // by address: each switch on the way takes one from the hop limit
    bit<1> congested; // many frames wait for the port
    bit<1> best_effort; // and counted in its port's queue
    bit<32> best_effort_place; // its number in that queue
    make_t make;
    bit<1> link_degraded; // it replays too often
    bit<8> event_type; // not 0: an event is due
    port_t event_port; // it is about
    bit<16> hearers;   // the multicast group that it goes to
    bit<1> to_line;    // egress clones that a frame needs when it leaves
    bit<1> to_port;
    bit<1> to_delay;
    bit<2> renew_crc; // it leaves on a link: the CRC covers what has been changed
    @field_list(CLONE_FIELDS)
    make_t clone_make; // what the ingress clone is to become
    @field_list(CLONE_FIELDS)
    seq_t clone_seq; // the number that a NACK asks for
    // what the copies of a frame that leaves on a link take along
    @field_list(COPY_FIELDS)
    session_t session; // of the link it leaves on
    @field_list(COPY_FIELDS)
    bit<32> cut; // bytes that leave, of a frame that was made here; 0: all
    @field_list(COPY_FIELDS)
    bit<1> numbered; // it has seq
    @field_list(COPY_FIELDS)
    seq_t seq;
    @field_list(COPY_FIELDS)
    bit<32> sent_at; // microseconds
    @field_list(COPY_FIELDS)
    bit<1> replay; // the line sends it
    @field_list(COPY_FIELDS)
    bit<1> unsent; // and for the first time
    @field_list(COPY_FIELDS)
    bit<1> impaired; // a fault has been made of it already
    @field_list(COPY_FIELDS)
    bit<32> due; // microseconds: when it leaves, if it is delayed
    // what a frame that waits for credit takes along
    @field_list(HELD_FIELDS)
    bit<1> held;
    @field_list(HELD_FIELDS)
    bit<32> frame_bytes; // without the controller's header
    @field_list(HELD_FIELDS)
    port_t link_port; // it came in on, or a control frame is about
    @field_list(HELD_FIELDS)
    vc_t receiver_vc;
    @field_list(HELD_FIELDS)
    bit<20> receiver_credits; // taken of the buffer of (link_port, receiver_vc)
    @field_list(HELD_FIELDS, COPY_FIELDS)
    port_t egress_port;
    @field_list(HELD_FIELDS)
    vc_t sender_vc;
    @field_list(HELD_FIELDS)
    ticket_t ticket;
    @field_list(HELD_FIELDS)
    bit<20> granted; // credits reserved of (egress_port, sender_vc)
    @field_list(HELD_FIELDS)
    bit<1> in_turn; // the grant moved the head of the tickets
    @field_list(HELD_FIELDS)
    bit<1> granted_window; // and took room in the window
    @field_list(HELD_FIELDS)
    bit<1> came_back; // its ticket counts in tickets_returned
    @field_list(HELD_FIELDS)
    ticket_t returned; // tickets that had come back when it was granted
    @field_list(HELD_FIELDS)
    bit<16> heads_then; // times that the head had come round when this frame did last
    @field_list(HELD_FIELDS)
    bit<1> went_round;
}

#endif
