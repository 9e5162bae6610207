// A table of every match kind and one of each thing that P4Runtime can reach.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<3> reason;
    bit<4> pad;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> pad;
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
}

struct metadata_t {
    bit<2> color;
    bit<1> special;
    bit<4> paint;
}

struct learn_t {
    bit<48> src;
    bit<9> port;
}

parser FeatureParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    value_set<bit<16>>(4) special_types;

    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: from_cpu;
            default: ethernet;
        }
    }
    state from_cpu {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            special_types: special;
            default: accept;
        }
    }
    state special {
        meta.special = 1;
        transition accept;
    }
}

control FeatureVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Features(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(16, CounterType.packets_and_bytes) port_rx;
    register<bit<48>>(8) last_source;
    register<bit<192>>(4) wide;
    meter(4, MeterType.packets) police;
    direct_counter(CounterType.packets_and_bytes) exact_hits;
    direct_counter(CounterType.packets) const_hits;
    direct_meter<bit<2>>(MeterType.bytes) ternary_rate;

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }
    action counted_forward(bit<9> port) {
        exact_hits.count();
        standard_metadata.egress_spec = port;
    }
    action flood(bit<16> group) {
        standard_metadata.mcast_grp = group;
    }
    action mirror(bit<32> session) {
        clone(CloneType.I2E, session);
    }
    action to_cpu(bit<3> reason) {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = standard_metadata.ingress_port;
        hdr.packet_in.reason = reason;
        hdr.packet_in.pad = meta.paint;
        standard_metadata.egress_spec = CPU_PORT;
    }
    action paint(bit<4> value) {
        meta.paint = value;
    }
    action rated() {
        ternary_rate.read(meta.color);
    }
    action deny() {
        mark_to_drop(standard_metadata);
    }
    action learn() {
        digest<learn_t>(1, { hdr.ethernet.src, standard_metadata.ingress_port });
    }

    table exact_table {
        key = { hdr.ethernet.dst: exact; }
        actions = { counted_forward; @defaultonly deny; }
        default_action = deny();
        counters = exact_hits;
        size = 16384;
    }
    table lpm_table {
        key = { hdr.ethernet.src: lpm; }
        actions = { forward; flood; to_cpu; @tableonly mirror; NoAction; }
        default_action = NoAction();
        size = 64;
    }
    table ternary_table {
        key = { hdr.ethernet.dst: ternary; hdr.ethernet.type: exact; }
        actions = { rated; paint; NoAction; }
        default_action = NoAction();
        meters = ternary_rate;
        size = 8;
    }
    table range_table {
        key = { hdr.ethernet.type: range; }
        actions = { learn; NoAction; }
        const default_action = NoAction();
        size = 8;
    }
    table optional_table {
        key = { standard_metadata.ingress_port: optional; hdr.ethernet.type: optional; }
        actions = { deny; NoAction; }
        default_action = NoAction();
        support_timeout = true;
        size = 8;
    }
    table const_table {
        key = { hdr.ethernet.type: ternary; }
        actions = { deny; NoAction; }
        const entries = {
            0x8100 &&& 0xFFF0: deny();
            0x88A8: deny();
        }
        default_action = NoAction();
        counters = const_hits;
    }
    table keyless_table {
        actions = { learn; NoAction; }
        default_action = NoAction();
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard_metadata.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            port_rx.count((bit<32>) standard_metadata.ingress_port);
            last_source.write((bit<32>) standard_metadata.ingress_port & 7, hdr.ethernet.src);
            wide.write(0, (bit<192>) hdr.ethernet.src << 144);
            police.execute_meter((bit<32>) standard_metadata.ingress_port & 3, meta.color);
            exact_table.apply();
            ternary_table.apply();
            range_table.apply();
            keyless_table.apply();
            lpm_table.apply();
            if (meta.color == 2) {
                mark_to_drop(standard_metadata);
            }
            if (meta.special == 1) {
                to_cpu(7);
            }
            optional_table.apply();
            const_table.apply();
        }
    }
}

control FeatureEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

control FeatureCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control FeatureDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(FeatureParser(), FeatureVerify(), Features(), FeatureEgress(), FeatureCompute(), FeatureDeparser()) main;
