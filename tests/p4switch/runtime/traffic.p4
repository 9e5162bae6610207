/* A frame says what is to be done with it, as in verbs.c, but as a P4 program: for comparing the traffic manager with BMv2's. */
#include <core.p4>
#include <v1model.p4>

header todo_t {
    bit<8> ingress_todo;   // bit 0 clone, 1 resubmit, 2 multicast, 3 drop, 4 add a header, 5 truncate, 6 clone again, 7 exit
    bit<8> egress_todo;    // the same; 1: recirculate
    bit<8> a;              // session or group of ingress
    bit<8> b;              // session of egress
    bit<16> port;
    bit<8> ingress_passes;
    bit<8> egress_passes;
    bit<8> instance;       // from here on: as egress finds it
    bit<8> rid;
    bit<16> length;
    bit<16> mark;
    bit<16> port_in;
}
header extra_t { bit<32> x; }
struct headers_t { todo_t todo; extra_t extra; }
struct meta_t {
    @field_list(1, 2) bit<16> mark;
    @field_list(1) bit<9> port_in;
    bit<8> lost;
}

parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.todo);
        transition accept;
    }
}

control NoVerify(inout headers_t hdr, inout meta_t meta) { apply { } }

control TheIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (std.parser_error != error.NoError) {
            std.egress_spec = 2;
        } else {
            bit<8> todo = hdr.todo.ingress_todo;
            hdr.todo.ingress_passes = hdr.todo.ingress_passes + 1;
            std.egress_spec = (bit<9>)hdr.todo.port;
            meta.lost = 7;
            if (std.instance_type == 0) {
                meta.mark = 0xabcd;
                meta.port_in = std.ingress_port;
                if (todo[0:0] == 1) { clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.todo.a, 1); }
                if (todo[1:1] == 1) { resubmit_preserving_field_list(2); }
                if (todo[2:2] == 1) { std.mcast_grp = (bit<16>)hdr.todo.a; }
                if (todo[3:3] == 1) { mark_to_drop(std); }
                if (todo[4:4] == 1) { hdr.extra.setValid(); hdr.extra.x = 0x11223344; }
                if (todo[5:5] == 1) { truncate((bit<32>)hdr.todo.b + 16); }
                if (todo[6:6] == 1) { clone_preserving_field_list(CloneType.I2E, 2, 2); }
                if (todo[7:7] == 1) { exit; }
            }
        }
    }
}

control TheEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.todo.isValid()) {
            bit<8> todo = hdr.todo.egress_todo;
            hdr.todo.egress_passes = hdr.todo.egress_passes + 1;
            hdr.todo.instance = (bit<8>)std.instance_type;
            hdr.todo.rid = (bit<8>)std.egress_rid;
            hdr.todo.length = (bit<16>)std.packet_length;
            hdr.todo.mark = meta.mark;
            hdr.todo.port_in = (bit<16>)std.ingress_port ^ ((bit<16>)meta.port_in << 9);
            if ((std.instance_type == 0 || std.instance_type == 5) && hdr.todo.ingress_passes == 1) {
                if (todo[0:0] == 1) { clone_preserving_field_list(CloneType.E2E, (bit<32>)hdr.todo.b, 2); }
                if (todo[1:1] == 1) { recirculate_preserving_field_list(1); }
                if (todo[3:3] == 1) { mark_to_drop(std); }
                if (todo[4:4] == 1) { hdr.extra.setValid(); hdr.extra.x = 0x55667788; }
                if (todo[5:5] == 1) { truncate(24); }
                if (todo[6:6] == 1) { clone_preserving_field_list(CloneType.E2E, 3, 1); }
            }
        }
    }
}

control NoCompute(inout headers_t hdr, inout meta_t meta) { apply { } }
control TheDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.todo); packet.emit(hdr.extra); } }
V1Switch(P(), NoVerify(), TheIngress(), TheEgress(), NoCompute(), TheDeparser()) main;
