/* Every kind of control-plane object of v1model. */
#include <core.p4>
#include <v1model.p4>

typedef bit<9> port_t;
@controller_header("packet_in")
header packet_in_t { port_t ingress_port; @hidden bit<7> pad; @name("why") bit<8> reason; }
@controller_header("packet_out")
header packet_out_t { @id(7) bit<16> egress_port; bit<8> flags; }
header h_t { bit<8> a; bit<16> b; }
struct headers_t { packet_in_t packet_in; packet_out_t packet_out; h_t h; }
struct learn_t { bit<8> a; bit<16> b; error e; }
struct meta_t { bit<2> color; bit<8> x; }
struct set_t { bit<8> f; @match(ternary) bit<16> g; }

parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    value_set<bit<8>>(4) plain_set;
    @name("pairs") value_set<set_t>(8) pair_set;
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a, hdr.h.b) { pair_set: accept; default: next; }
    }
    state next { transition select(hdr.h.a) { plain_set: accept; default: reject; } }
}
control V(inout headers_t hdr, inout meta_t meta) { apply { } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<2>>(MeterType.bytes) rate;
    meter(10, MeterType.packets) policers;
    counter(64, CounterType.packets_and_bytes) both;
    register<bit<192>>(512) wide;
    register<bool>(2) flags;
    @max_group_size(8) action_selector(HashAlgorithm.crc16, 32w128, 32w16) selector;
    @selector_size_semantics("sum_of_members") @max_member_weight(4000) @max_group_size(4)
    action_selector(HashAlgorithm.crc32, 32w64, 32w16) by_members;
    @selector_size_semantics("SUM_OF_WEIGHTS")
    action_selector(HashAlgorithm.crc32, 32w64, 32w16) by_weights;
    action_profile(64) profile;
    action set(bit<16> b) { hdr.h.b = b; rate.read(meta.color); }
    action learn() { digest<learn_t>(1, { hdr.h.a, hdr.h.b, sm.parser_error }); hits.count(); }
    table direct {
        key = { hdr.h.a : ternary; }
        actions = { set; learn; }
        counters = hits;
        meters = rate;
        support_timeout = true;
    }
    table members {
        key = { hdr.h.a : exact; hdr.h.b : selector; }
        actions = { set; NoAction; }
        implementation = selector;
    }
    table more_members {
        key = { hdr.h.a : exact; hdr.h.b : selector; }
        actions = { set; NoAction; }
        implementation = by_members;
    }
    table weights {
        key = { hdr.h.a : exact; hdr.h.b : selector; }
        actions = { set; NoAction; }
        implementation = by_weights;
    }
    table indirect {
        key = { hdr.h.a : exact; }
        actions = { set; }
        implementation = profile;
    }
    table in_place {
        key = { hdr.h.a : exact; }
        actions = { set; }
        @name("own_profile") implementation = action_profile(32);
        @name("own_counter") counters = direct_counter(CounterType.packets);
    }
    table fixed {
        key = { hdr.h.a : exact; }
        actions = { set; }
        const entries = { 1 : set(2); 3 : set(4); }
    }
    table initial {
        key = { hdr.h.a : ternary; }
        actions = { set; }
        entries = { 1 &&& 3 : set(2); const _ : set(4); }
        default_action = set(9);
    }
    apply {
        direct.apply();
        members.apply();
        more_members.apply();
        weights.apply();
        indirect.apply();
        in_place.apply();
        fixed.apply();
        initial.apply();
        bit<2> c;
        policers.execute_meter(3, c);
        both.count(1);
        wide.write(0, 0);
        flags.write(0, true);
    }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
