/* In-band telemetry and a sketch: a hop's record is pushed onto a header stack, and flows are counted in a count-min sketch of three
 * registers. */
#include <core.p4>
#include <v1model.p4>

const bit<32> CELLS = 65536;

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header shim_t { bit<8> hops; bit<24> flow; bit<16> type; }
header hop_t { bit<16> switch_id; bit<48> time; bit<16> depth; }
struct headers_t { ethernet_t ethernet; shim_t shim; hop_t[4] hops; }
struct metadata_t { bit<32> least; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    bit<8> left;
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { 0x88b6: shim; default: accept; }
    }
    state shim {
        packet.extract(hdr.shim);
        left = hdr.shim.hops;
        transition select(left) { 0: accept; default: hop; }
    }
    state hop {
        packet.extract(hdr.hops.next);
        left = left - 1;
        transition select(left) { 0: accept; default: hop; }
    }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control Forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(CELLS) row0;
    register<bit<32>>(CELLS) row1;
    register<bit<32>>(CELLS) row2;
    action drop() { mark_to_drop(std); }
    action to_port(bit<9> port) { std.egress_spec = port; }
    table forward {
        key = { hdr.ethernet.dst : exact; }
        actions = { to_port; drop; }
        default_action = drop();
        size = 16384;
    }
    apply {
        if (hdr.shim.isValid()) {
            bit<32> at;
            bit<32> count;
            hash(at, HashAlgorithm.crc32, 32w0, { hdr.shim.flow, 8w1 }, CELLS);
            row0.read(count, at);
            row0.write(at, count + 1);
            meta.least = count;
            hash(at, HashAlgorithm.crc32, 32w0, { hdr.shim.flow, 8w2 }, CELLS);
            row1.read(count, at);
            row1.write(at, count + 1);
            if (count < meta.least) { meta.least = count; }
            hash(at, HashAlgorithm.crc32, 32w0, { hdr.shim.flow, 8w3 }, CELLS);
            row2.read(count, at);
            row2.write(at, count + 1);
            if (count < meta.least) { meta.least = count; }
        }
        forward.apply();
    }
}

control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.shim.isValid() && hdr.shim.hops < 4) {
            hdr.hops.push_front(1);
            hdr.hops[0].setValid();
            hdr.hops[0].switch_id = 1;
            hdr.hops[0].time = std.egress_global_timestamp;
            hdr.hops[0].depth = (bit<16>)std.deq_qdepth;
            hdr.shim.hops = hdr.shim.hops + 1;
        }
    }
}
control Compute(inout headers_t hdr, inout metadata_t meta) { apply { } }
control Emit(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), Forward(), Out(), Compute(), Emit()) main;
