// Ports as controllers name them: 32-bit numbers and strings, in keys, parameters, packet metadata and digests.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("example.org/port_number", bit<32>)
type bit<9> port_number_t;
@p4runtime_translation("example.org/port_name", string)
type bit<9> port_name_t;
@p4runtime_translation("example.org/color", string)
type bit<4> color_t;

@controller_header("packet_in")
header packet_in_t {
    port_number_t ingress_port;
    bit<7> pad;
}

@controller_header("packet_out")
header packet_out_t {
    port_number_t egress_port;
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
    port_number_t number;
    port_name_t name;
    color_t color;
}

struct seen_t {
    port_number_t number;
    port_name_t name;
}

parser TranslatedParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    state start {
        meta.number = (port_number_t) standard_metadata.ingress_port;
        meta.name = (port_name_t) standard_metadata.ingress_port;
        transition select(standard_metadata.ingress_port) {
            510: from_cpu;
            default: ethernet;
        }
    }
    state from_cpu {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control TranslatedVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Translated(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action to_number(port_number_t port) {
        standard_metadata.egress_spec = (bit<9>) port;
    }
    action to_name(port_name_t port) {
        standard_metadata.egress_spec = (bit<9>) port;
    }
    action paint(color_t color) {
        meta.color = color;
        digest<seen_t>(1, { meta.number, meta.name });
    }
    action punt() {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = meta.number;
        standard_metadata.egress_spec = 510;
    }

    table by_number {
        key = { meta.number: exact; }
        actions = { to_number; to_name; paint; punt; NoAction; }
        default_action = NoAction();
    }
    table by_name {
        key = { meta.name: exact; }
        actions = { to_number; to_name; paint; punt; NoAction; }
        default_action = NoAction();
    }
    table by_mask {
        key = { meta.number: ternary; meta.name: optional; }
        actions = { punt; NoAction; }
        default_action = NoAction();
    }
    table by_color {
        key = { meta.color: exact; }
        actions = { punt; NoAction; }
        default_action = NoAction();
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard_metadata.egress_spec = (bit<9>) hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            by_number.apply();
            by_name.apply();
            by_mask.apply();
            by_color.apply();
        }
    }
}

control TranslatedEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

control TranslatedCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TranslatedDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(
    TranslatedParser(),
    TranslatedVerify(),
    Translated(),
    TranslatedEgress(),
    TranslatedCompute(),
    TranslatedDeparser()
) main;
