// Two tables that share an action profile, and one with an action selector.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t { }

parser ProfilesParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control ProfilesVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Profiles(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action_profile(4) shared;
    action_selector(HashAlgorithm.crc16, 32w16, 32w10) paths;

    action mark(bit<48> value) {
        hdr.ethernet.src = value;
        standard_metadata.egress_spec = CPU_PORT;
    }
    action deny() {
        mark_to_drop(standard_metadata);
    }

    table first {
        key = { hdr.ethernet.dst: exact; }
        actions = { mark; deny; @defaultonly NoAction; }
        implementation = shared;
        size = 16;
    }
    table second {
        key = { hdr.ethernet.type: lpm; }
        actions = { mark; deny; @defaultonly NoAction; }
        implementation = shared;
        size = 16;
    }
    table third {
        key = { hdr.ethernet.dst: exact; hdr.ethernet.src: selector; }
        actions = { mark; deny; @defaultonly NoAction; }
        implementation = paths;
        size = 16;
    }

    apply {
        if (!first.apply().hit) {
            second.apply();
        }
        third.apply();
    }
}

control ProfilesEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

control ProfilesCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ProfilesDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(ProfilesParser(), ProfilesVerify(), Profiles(), ProfilesEgress(), ProfilesCompute(), ProfilesDeparser()) main;
