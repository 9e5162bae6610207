/* The program of bench/tables.py: one table of each kind, and frames that go round inside the switch. */
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header probe_t {
    bit<8>  kind;      // which table looks the frame up, or how it goes round
    bit<8>  class;
    bit<16> unused;
    bit<32> number;    // what the tables match on
    bit<32> low;
}

const bit<8> EXACT = 1;
const bit<8> LPM = 2;
const bit<8> TERNARY = 3;
const bit<8> RANGE = 4;
const bit<8> RECIRCULATE = 5;
const bit<8> CLONE = 6;
const bit<32> CLONE_SESSION = 1;

struct headers_t { ethernet_t ethernet; probe_t probe; }
struct metadata_t { }

counter(1, CounterType.packets) rounds;

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.probe);
        transition accept;
    }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control Forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action drop() { mark_to_drop(std); }
    action to_port(bit<9> port) { std.egress_spec = port; }
    table exact_table {
        key = { hdr.probe.number : exact; }
        actions = { to_port; drop; }
        default_action = drop();
        size = 200000;
    }
    table lpm_table {
        key = { hdr.probe.number ++ hdr.probe.low : lpm @name("number"); }
        actions = { to_port; drop; }
        default_action = drop();
        size = 200000;
    }
    table ternary_table {
        key = {
            hdr.probe.number ++ hdr.probe.low : ternary @name("number");
            hdr.probe.class : ternary @name("class");
        }
        actions = { to_port; drop; }
        default_action = drop();
        size = 200000;
    }
    table range_table {
        key = { hdr.probe.number : range @name("number"); }
        actions = { to_port; drop; }
        default_action = drop();
        size = 200000;
    }
    apply {
        if (hdr.probe.kind == EXACT) { exact_table.apply(); }
        else if (hdr.probe.kind == LPM) { lpm_table.apply(); }
        else if (hdr.probe.kind == TERNARY) { ternary_table.apply(); }
        else if (hdr.probe.kind == RANGE) { range_table.apply(); }
        else { std.egress_spec = 3; }
    }
}

control GoRound(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.probe.kind == RECIRCULATE) {
            rounds.count(0);
            recirculate_preserving_field_list(0);
        } else if (hdr.probe.kind == CLONE) {
            rounds.count(0);
            clone(CloneType.E2E, CLONE_SESSION);
            mark_to_drop(std);
        }
    }
}
control Compute(inout headers_t hdr, inout metadata_t meta) { apply { } }
control Emit(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), Forward(), GoRound(), Compute(), Emit()) main;
