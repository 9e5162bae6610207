/* Every number that the program and its peers agree on. Wire values are those of docs/protocol.md; the Python codec
 * is tested against this file and headers.p4, so a value is written here and nowhere else. What only the peers use
 * is marked unused. */
#ifndef CONSTANTS_P4
#define CONSTANTS_P4

// ------------------------------------------------------------------------------------------------------------ ports
typedef bit<9> port_t;
// Data ports are 1 to 503. Port 0 is never used: BMv2 shows it as ingress_port after a clone or a recirculation.
const port_t FIRST_INTERNAL_PORT = 504;
// Ports without a link, in whose egress frames wait. 504 and 508 share registers: BMv2 serves a port by thread
// (port modulo 4).
const port_t FAST_LINE_PORT = 504; // copies of numbered frames while their port replays
const port_t DELAY_PORT = 505;     // frames that a link fault delays
const port_t LINE_PORT = 508;      // copies of numbered frames that are not acknowledged yet
const port_t HOLD_PORT = 509;      // frames without credit, or without room in the window of what is not acknowledged
const port_t EVENT_PORT = 507;     // port status and ticks enter here
const port_t CPU_PORT = 510;   // packet-in and packet-out
const port_t DROP_PORT = 511;
const port_t INSIDE = 0;       // what a recirculated frame shows as its ingress port
const bit<32> PORTS = 512;     // size of what is indexed by a port
const bit<32> ENDPOINTS = 4096; // of what is indexed by an id
const bit<32> PATHS = 131072;   // of what is indexed by a switch id's last byte ++ port

// ------------------------------------------------------------------------------------------------------ link header
typedef bit<4> kind_t;
const kind_t KIND_DATA = 1;
const kind_t KIND_LLR_ACK = 2;
const kind_t KIND_LLR_NACK = 3;
const kind_t KIND_LLR_INIT = 4;
const kind_t KIND_LLR_INIT_ECHO = 5;
const kind_t KIND_CF_UPDATE = 6;
const kind_t KIND_CC_UPDATE = 7;

// Bits of link_t.flags; bit 0 is always 0 on the wire (it is the group bit of an Ethernet destination address).
const bit<4> FLAG_RESERVED = 1;
const bit<4> FLAG_LLR = 2;
const bit<4> FLAG_REPLAY = 4;
const bit<4> FLAG_POISON = 8;

// ------------------------------------------------------------------------------------------------------------- OEFH
const bit<2> OEFH_VERSION = 0;

@noWarn("unused") const bit<3> VC_REQUEST = 0;
@noWarn("unused") const bit<3> VC_RESPONSE = 1;
const bit<3> VC_CONTROL = 7;

const bit<2> ECN_NOT_CAPABLE = 0;
@noWarn("unused") const bit<2> ECN_CAPABLE_1 = 1;
@noWarn("unused") const bit<2> ECN_CAPABLE_0 = 2;
const bit<2> ECN_CONGESTION_EXPERIENCED = 3;

typedef bit<12> endpoint_t;
const endpoint_t FIRST_SWITCH_ID = 0xF00;
const endpoint_t NOBODY = 0xFFF;

typedef bit<4> next_t;
const next_t NEXT_LSU = 1;
const next_t NEXT_TMA = 2;
const next_t NEXT_EVENT = 3;
const next_t NEXT_PROBE = 4;

const bit<4> HOPS_INITIAL = 8;

// -------------------------------------------------------------------------------------------------------------- LSU
const bit<4> LSU_LOAD = 1;
const bit<4> LSU_STORE = 2;
const bit<4> LSU_ATOMIC_ADD = 3;
const bit<4> LSU_ATOMIC_SWAP = 4;
const bit<4> LSU_ATOMIC_CAS = 5;
const bit<4> LSU_LOAD_DATA = 9;
const bit<4> LSU_ACK = 10;
const bit<4> LSU_ATOMIC_DATA = 11;
const bit<4> LSU_NAK = 15;

// lsu_t.status: bits 0-2 hold a NAK's reason, bit 3 echoes ECN.
@noWarn("unused") const bit<4> LSU_STATUS_OK = 0;
@noWarn("unused") const bit<4> LSU_STATUS_OUT_OF_RANGE = 1;
@noWarn("unused") const bit<4> LSU_STATUS_MISALIGNED = 2;
@noWarn("unused") const bit<4> LSU_STATUS_BAD_OPCODE = 3;
@noWarn("unused") const bit<4> LSU_STATUS_BAD_LENGTH = 4;
@noWarn("unused") const bit<4> LSU_STATUS_BAD_KEY = 5;
@noWarn("unused") const bit<4> LSU_STATUS_ECN_ECHO = 8;

// -------------------------------------------------------------------------------------------------------------- TMA
const bit<4> TMA_WRITE = 1;
const bit<4> TMA_READ = 2;
const bit<4> TMA_READ_DATA = 3;
const bit<4> TMA_ACK = 4;
const bit<4> TMA_NAK = 15;

@noWarn("unused") const bit<4> TMA_FLAG_LAST = 1;
@noWarn("unused") const bit<4> TMA_FLAG_ACK_REQ = 2;
@noWarn("unused") const bit<4> TMA_FLAG_NOTIFY = 4;
@noWarn("unused") const bit<4> TMA_FLAG_ECN_ECHO = 8;

// ------------------------------------------------------------------------------------------------- EVENT, internal
const bit<8> EVENT_LINK_DOWN = 1;
const bit<8> EVENT_LINK_UP = 2;
const bit<8> EVENT_LINK_DEGRADED = 3;

const bit<8> NOTICE_PORT_STATUS = 1;
const bit<8> NOTICE_TICK = 2;
const bit<8> KEEPALIVE_NOTICE = 3; // made of a tick, one per port; never on the event port

const bit<8> PROBE_READ_CREDITS = 2;
const bit<8> PROBE_CREDITS = 3; // the answer
const bit<8> PROBE_READ_RETRY = 6;
const bit<8> PROBE_RETRY = 7; // the answer

// probe_t.state of an answer
const bit<8> LINK_DOWN = 0;
const bit<8> LINK_INIT = 1;
const bit<8> LINK_UP = 2;    // waits for the first CF_UPDATE
const bit<8> LINK_READY = 3; // carries data

// ---------------------------------------------------------------------------------------------------------- LLR_INIT
const bit<8> LINK_INIT_VERSION = 1;
const bit<8> CAPABILITY_LLR = 1;
const bit<8> CAPABILITY_CBFC = 2;

// -------------------------------------------------------------------------------------------------------------- time
// Measured in ticks of the event port, one per millisecond: a switch that was stopped for a while sees few ticks, and
// does not take its peers for dead.
typedef bit<32> ticks_t;
const bit<8> KEEPALIVE_TICKS = 10;
const ticks_t HEAD_ABSENT_TICKS = 500;  // more than a round of the hold loop: 512 frames at 2,000/s take 256 ms
const ticks_t HELD_ABSENT_TICKS = 1000; // of nothing held for a port, or of its buffer, coming round: it is lost
const ticks_t FAST_TICKS = 2;           // without advance, after which a replay's copies go round at the usual pace
const ticks_t COPY_ABSENT_TICKS = 1000; // of a copy that is due, or of any, not coming round: it is lost
const ticks_t LOST_BEHIND_TICKS = 50; // five keepalives: what a neighbour has not said again is no longer so

// ------------------------------------------------------------------------------------------- sizes on the wire, bytes
const bit<32> LINK_BYTES = 12;
const bit<32> LINK_INIT_FRAME_BYTES = 77;
const bit<32> CREDIT_UPDATE_FRAME_BYTES = 42;
const bit<32> EVENT_FRAME_BYTES = 32;
const bit<32> LLR_CONTROL_FRAME_BYTES = 18;
const bit<32> OEFH_BYTES = 6;
const bit<32> LSU_BYTES = 18;
const bit<32> TMA_BYTES = 28;
const bit<32> END_TO_END_CRC_BYTES = 4;
const bit<32> PACKET_OUT_BYTES = 2;

// ------------------------------------------------------------------------------------------------ port configuration
typedef bit<2> mode_t;
const mode_t MODE_OPEN = 0;    // no bring-up: session 0, best effort
const mode_t MODE_MANAGED = 1; // bring-up, credits, LLR

typedef bit<2> role_t;
@noWarn("unused") const role_t ROLE_ENDPOINT = 1; // a GPU: its source ids are known
const role_t ROLE_FABRIC = 2;   // another switch, or the controller: any source that has a tenant

typedef bit<16> session_t; // of a link that is up; never 0
typedef bit<32> epoch_t;   // 0: none
typedef bit<3> vc_t;
typedef bit<16> ticket_t;
typedef bit<20> seq_t;     // of a numbered frame; cyclic
// What both sides of a link have in common: capabilities, lossless VCs; then the peer's credit size and packet
// overhead. 8 bits each; all 0 while there has been no peer.
typedef bit<32> format_t;
typedef bit<96> llr_settings_t; // of a port: registers.p4 says what is where
typedef bit<16> tenant_t;
typedef bit<16> group_t;
typedef bit<144> members_t; // ports of a group, 16 slots of 9 bits, slot 0 in the most significant ones; 0: empty
const bit<8> GROUP_MOST = 16;

// ------------------------------------------------------------------------- inside the switch: sessions, groups, lists
const bit<16> KEEPALIVE_GROUP = 1;   // all ports
const bit<16> RETRY_GROUP = 2;       // those that may retry
const bit<32> COPY_SESSIONS = 512;   // + port: a copy to the line, and one to the port
const bit<16> PORT_REPLICA = 2;      // egress_rid of the latter
const bit<8> HELD_FIELDS = 1;        // field lists, in metadata_t
const bit<8> CLONE_FIELDS = 2;
const bit<8> COPY_FIELDS = 3;
const bit<32> INGRESS_CLONE = 1;     // standard_metadata.instance_type
const bit<32> EGRESS_CLONE = 2;
const bit<8> WRONG_UPDATES_MAX = 3;
const bit<24> HELD_MOST = 16384;     // frames in the hold, for all ports, above which no other is held
const bit<32> BEST_EFFORT_MOST = 48; // frames of best-effort VCs in a managed port's queue
const bit<32> EPOCH_MIN = 0x100; // so that a redraw may change the bits below without reaching 0

// --------------------------------------------------------------------------------------------------------------- LLR
// What may be sent and not acknowledged: of so many frames the sizes are remembered. A profile that wants more is
// refused.
const bit<16> OUTSTANDING_FRAMES_MOST = 512;
const bit<32> OUTSTANDING_BYTES_MOST = 2122752; // of as many largest frames
const bit<24> LINE_MOST = 4096;      // copies in the line, of all ports, above which no new frame is numbered
const seq_t ACK_EVERY = 16;          // frames
const bit<8> DEGRADED_KEEPALIVES = 100; // over which replays are counted: a second
const bit<2> FLUSH_DISCARD = 0;
@noWarn("unused") const bit<2> FLUSH_BLOCK = 1;
const bit<2> FLUSH_BEST_EFFORT = 2;

// What a link fault does to a frame.
typedef bit<3> fault_t;
const fault_t FAULT_NONE = 0;
const fault_t FAULT_DROP = 1;
const fault_t FAULT_CORRUPT = 2;
const fault_t FAULT_DUPLICATE = 3;
const fault_t FAULT_DELAY = 4;

// How far the receiver of a link is: it acknowledges; a frame is missing and a NACK may go; it has gone.
typedef bit<2> receiver_state_t;
const receiver_state_t SEND_ACKS = 0;
const receiver_state_t SEND_NACK = 1;
const receiver_state_t NACK_SENT = 2;

// What the window says of a frame.
typedef bit<2> window_t;
const window_t WINDOW_OPEN = 0;
const window_t WINDOW_CLOSED = 1;      // it waits
const window_t WINDOW_UNNUMBERED = 2;  // the link has given up, and sends best effort
const window_t WINDOW_DISCARDS = 3;    // the link has given up, and sends nothing

// probe_retry_t
const bit<8> LLR_TX_OFF = 0;
const bit<8> LLR_TX_INIT = 1;
const bit<8> LLR_TX_ADVANCE = 2;
const bit<8> LLR_TX_REPLAY = 3;
const bit<8> LLR_TX_FLUSH = 4;
const bit<8> LLR_RX_OFF = 0;
const bit<8> LLR_RX_SEND_ACKS = 1; // SEND_ACKS + 1, and so on
@noWarn("unused") const bit<8> LLR_RX_SEND_NACK = 2;
@noWarn("unused") const bit<8> LLR_RX_NACK_SENT = 3;

// What the egress is to make of a frame; MAKE_NOTHING: it stays what it is.
typedef bit<4> make_t;
const make_t MAKE_NOTHING = 0;
const make_t MAKE_LLR_INIT = 1;
const make_t MAKE_LLR_INIT_ECHO = 2;
const make_t MAKE_CF_UPDATE = 3;
const make_t MAKE_CC_UPDATE = 4;
const make_t MAKE_KEEPALIVE = 5;
const make_t MAKE_LLR_ACK = 6;
const make_t MAKE_LLR_NACK = 7;
const make_t MAKE_LLR_ACK_IF_DUE = 8;
const make_t MAKE_EVENT = 9;

// renew_crc of metadata_t
const bit<2> CRC_KEPT = 0;
const bit<2> CRC_OF_FRAME = 1;
const bit<2> CRC_OF_HEADERS = 2; // of a frame that was made here, and cut to its headers

// ------------------------------------------------------------------------------------------------------------ verdict
/* What is to become of a frame: one field, so that each step of the ingress needs one comparison. A step acts on frames
 * that are still undecided; it drops one by writing a REASON_ as its verdict.
 *
 * Each reason has a counter of its own (drops.p4) and shows in packet_in_t.reason when it is trapped. A frame with
 * several faults counts under the one that is found first: checks run in the order of the values, but for
 * REASON_TRUNCATED, which is found as soon as a header is missing (a cut frame whose CRC is wrong counts as
 * REASON_BAD_CRC), and REASON_LINK_NOT_UP, which the outgoing link may cause as well. */
typedef bit<7> verdict_t;
const verdict_t VERDICT_UNDECIDED = 0;
const verdict_t REASON_UNKNOWN_PORT = 1;
const verdict_t REASON_TRUNCATED = 2;
const verdict_t REASON_BAD_CRC = 3;
const verdict_t REASON_ODD_BYTE_0 = 4;
const verdict_t REASON_HIGH_BYTE_12 = 5;
const verdict_t REASON_UNKNOWN_KIND = 6;
const verdict_t REASON_LINK_NOT_UP = 7;
const verdict_t REASON_WRONG_SESSION = 8;
const verdict_t REASON_POISONED = 9;
const verdict_t REASON_UNEXPECTED_CONTROL = 10;
const verdict_t REASON_UNKNOWN_VERSION = 11;
const verdict_t REASON_UNKNOWN_NEXT = 12;
const verdict_t REASON_UNKNOWN_OPCODE = 13;
const verdict_t REASON_OVERLONG = 14;
const verdict_t REASON_RESERVED_VC = 15;
const verdict_t REASON_FORGED_EVENT = 16;
const verdict_t REASON_SPOOFED_SOURCE = 17;
const verdict_t REASON_UNKNOWN_SOURCE = 18;
const verdict_t REASON_RESERVED_DESTINATION = 19;
const verdict_t REASON_NOT_A_PROBE = 20;
const verdict_t REASON_NO_ROUTE = 21;
const verdict_t REASON_OTHER_TENANT = 22;
const verdict_t REASON_NO_MEMBER = 23;
const verdict_t REASON_BAD_EGRESS_PORT = 24;
const verdict_t REASON_HOP_EXPIRED = 25;
const verdict_t REASON_BAD_INIT = 26;
const verdict_t REASON_OVER_LIMIT = 27;
const verdict_t REASON_CONTROL_RATE = 28;
const verdict_t REASON_EXCEEDS_LIMIT = 29;
const verdict_t REASON_NO_ROOM = 30;
const verdict_t REASON_LLR_RX_DUPLICATE_SEQ = 31;
const verdict_t REASON_LLR_OUT_OF_SEQUENCE = 32;
const verdict_t REASON_LLR_FLUSHED = 33;
const verdict_t REASON_DEAD_PORT = 34;
const verdict_t REASON_BAD_RETRY_PROFILE = 35;
const verdict_t REASON_HOLD_FULL = 36;
const verdict_t VERDICT_TELL = 120;      // an event for all who are to hear of a link
const verdict_t VERDICT_ACKS = 121;      // a tick that goes to all ports that may owe an acknowledgement
const verdict_t VERDICT_KEEPALIVE = 122; // a tick that goes to all ports
const verdict_t VERDICT_HOLD = 123;      // waits for credit
const verdict_t VERDICT_ANSWER = 124;    // leaves by meta.link_port, as what meta.make says
const verdict_t VERDICT_CONSUMED = 125; // an internal frame that has done its work
const verdict_t VERDICT_FORWARD = 126;  // leaves by meta.egress_port
const verdict_t VERDICT_LOCAL = 127;    // addressed to this switch: goes to the controller
const bit<32> VERDICTS = 128;           // size of what is indexed by a verdict

#endif
