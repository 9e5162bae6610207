/* A load balancer behind an access list: ternary rules with counters, flows metered, the server picked by an action selector
 * over the five-tuple. */
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<16> start; bit<16> total_length; bit<32> fragment; bit<8> ttl; bit<8> protocol; bit<16> checksum;
    bit<32> src; bit<32> dst;
}
header udp_t { bit<16> src; bit<16> dst; bit<16> length; bit<16> checksum; }
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; udp_t udp; }
struct metadata_t { bit<2> colour; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) { 17: udp; default: accept; }
    }
    state udp { packet.extract(hdr.udp); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control Forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) matched;
    meter(1024, MeterType.bytes) flows;
    action_selector(HashAlgorithm.crc16, 64, 14) servers;

    action drop() { mark_to_drop(std); }
    action refuse() { matched.count(); mark_to_drop(std); }
    action admit(bit<32> flow) { matched.count(); flows.execute_meter(flow, meta.colour); }
    table rules {
        key = { hdr.ipv4.src : ternary; hdr.ipv4.dst : ternary; hdr.udp.dst : ternary; }
        actions = { admit; refuse; }
        default_action = refuse();
        counters = matched;
        size = 4096;
    }
    action to_server(bit<48> dst, bit<32> address, bit<9> port) {
        hdr.ethernet.dst = dst;
        hdr.ipv4.dst = address;
        std.egress_spec = port;
    }
    table services {
        key = {
            hdr.ipv4.dst : exact; hdr.udp.dst : exact;
            hdr.ipv4.src : selector; hdr.ipv4.dst : selector; hdr.ipv4.protocol : selector;
            hdr.udp.src : selector; hdr.udp.dst : selector;
        }
        actions = { to_server; drop; }
        implementation = servers;
        size = 1024;
    }
    apply {
        if (hdr.udp.isValid()) {
            rules.apply();
            if (meta.colour == 2) { drop(); } else { services.apply(); }
        } else { drop(); }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply { } }
control Emit(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), Forward(), Out(), Compute(), Emit()) main;
