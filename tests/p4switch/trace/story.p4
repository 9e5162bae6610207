// Something of everything that a trace tells: what happens to a packet is chosen by its first byte.
#include <core.p4>
#include <v1model.p4>

header request_t { bit<8> what; bit<8> a; bit<16> b; }
header label_t { bit<7> value; bit<1> more; }
header options_t { bit<8> length; varbit<64> data; }
header wide_t { bit<136> number; }
header sum_t { bit<16> value; }
struct headers_t { request_t request; label_t[3] labels; options_t options; wide_t wide; sum_t sum; }
struct metadata_t { @field_list(1) bit<8> kept; bit<16> hash; bit<2> color; bit<32> cell; }
struct news_t { bit<8> a; bit<16> b; }

parser Labels(packet_in packet, inout headers_t hdr) {
    state start { packet.extract(hdr.labels.next); transition select(hdr.labels.last.more) { 1: start; default: accept; } }
}
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Labels() labels;
    state start {
        packet.extract(hdr.request);
        transition select(hdr.request.what, hdr.request.a) {
            (0x10, _): stack;
            (0x11, _): variable;
            (0x12, 1 .. 9): wide;
            (0x13, _): summed;
            (0x14, _): strict;
            default: accept;
        }
    }
    state stack { labels.apply(packet, hdr); transition accept; }
    state variable {
        bit<8> length = packet.lookahead<bit<8>>();
        packet.extract(hdr.options, (bit<32>)length * 8);
        packet.advance(8);
        transition accept;
    }
    state wide { packet.extract(hdr.wide); transition accept; }
    state summed { packet.extract(hdr.sum); transition accept; }
    state strict { verify(hdr.request.a == 7, error.HeaderTooShort); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.sum.isValid(), { hdr.request.what, hdr.request.a, hdr.request.b }, hdr.sum.value, HashAlgorithm.csum16);
    }
}
control Count(inout headers_t hdr, in bit<8> by) {
    apply { hdr.request.b = hdr.request.b + (bit<16>)by; }
}
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<40>>(4) seen;
    counter(4, CounterType.packets) counted;
    meter(2, MeterType.packets) paced;
    direct_counter(CounterType.packets) hits;
    Count() count;
    action drop() { mark_to_drop(std); }
    action send(bit<9> port, bit<8> mark) { std.egress_spec = port; meta.kept = mark; }
    action leave() { exit; }
    action set_port(bit<9> port) { std.egress_spec = port; }
    table routes {
        key = { hdr.request.b : lpm @name("b"); hdr.request.a : exact; }
        actions = { send; drop; leave; }
        default_action = drop();
        const entries = {
            (0x0a00 &&& 0xff00, 1) : send(2, 0x77);
            (0x0b00 &&& 0xff00, 1) : leave();
        }
        counters = hits;
    }
    table classes {
        key = { hdr.request.what : ternary; hdr.request.a : range; hdr.request.b : optional; }
        actions = { set_port; drop; NoAction; }
        default_action = NoAction();
        size = 16;
    }
    table always { actions = { set_port; } const default_action = set_port(3); }
    apply {
        std.egress_spec = 1;
        if (hdr.request.what == 0) {
            if (routes.apply().hit) { counted.count((bit<32>)hdr.request.a); }
        } else if (hdr.request.what == 1) {
            switch (classes.apply().action_run) {
                set_port: { always.apply(); }
                default: { drop(); }
            }
        } else if (hdr.request.what == 2) {
            clone_preserving_field_list(CloneType.I2E, 5, 1);
            clone(CloneType.I2E, (bit<32>)hdr.request.a);
        } else if (hdr.request.what == 3) {
            std.mcast_grp = (bit<16>)hdr.request.a;
        } else if (hdr.request.what == 4 && std.instance_type == 0) {
            resubmit_preserving_field_list(1);
        } else if (hdr.request.what == 5) {
            digest<news_t>(1, { hdr.request.a, hdr.request.b });
            log_msg("a is {}", { hdr.request.a });
            assert(hdr.request.a == 1);
        } else if (hdr.request.what == 6) {
            bit<40> last;
            seen.read(last, (bit<32>)hdr.request.a);
            seen.write((bit<32>)hdr.request.a, last + 1);
            paced.execute_meter((bit<32>)hdr.request.a, meta.color);
            hash(meta.hash, HashAlgorithm.crc16, 16w0, { hdr.request.b }, 16w1000);
            count.apply(hdr, 5);
            truncate(3);
        } else if (hdr.request.what == 0x10) {
            hdr.labels.pop_front(1);
            hdr.request.setInvalid();
        } else if (hdr.request.what == 0x13) {
            if (std.checksum_error == 1) { drop(); }
            hdr.request.a = 0x55;
        }
    }
}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.request.what == 7 && meta.kept == 0) {
            meta.kept = 1;
            recirculate_preserving_field_list(1);
        }
        if (hdr.request.what == 8 && std.instance_type == 0) { clone(CloneType.E2E, 5); mark_to_drop(std); }
    }
}
control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.sum.isValid(), { hdr.request.what, hdr.request.a, hdr.request.b }, hdr.sum.value, HashAlgorithm.csum16);
    }
}
control Emit(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.request);
        packet.emit(hdr.labels);
        packet.emit(hdr.options);
        packet.emit(hdr.wide);
        packet.emit(hdr.sum);
    }
}
V1Switch(Parse(), Verify(), In(), Out(), Compute(), Emit()) main;
