/* Distinct types, translations, enums, and what digests and registers say of them. */
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("example.com/port", bit<32>) type bit<9> port_id_t;
@p4runtime_translation("example.com/vrf", string) type bit<10> vrf_t;
type bit<16> plain_t;
@tagged type bit<8> tagged_t;
enum bit<8> kind_t { A = 1, B = 2, LAST = 255 }
enum mode_t { FAST, SLOW }
header h_t { bit<8> a; bit<16> p; int<8> k; }
struct inner_t { plain_t p; bool flag; }
struct learn_t { port_id_t port; inner_t inner; kind_t kind; h_t h; h_t[2] stack; tuple<bit<8>, bit<4>> pair; int<8> i; }
struct headers_t { h_t h; h_t[2] stack; }
struct meta_t { port_id_t port; vrf_t vrf; tagged_t tag; kind_t kind; }

parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout meta_t meta) { apply { } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    register<plain_t>(4) cells;
    register<kind_t>(4) kinds;
    action set(port_id_t port, vrf_t vrf, plain_t p, kind_t k, bool flag, int<7> i) { meta.port = port; meta.vrf = vrf; }
    table t {
        key = {
            meta.port : exact;
            meta.vrf : exact;
            meta.tag : exact;
            meta.kind : exact;
            hdr.h.p : lpm;
            meta.port : ternary @name("port_again");
            sm.parser_error : exact;
        }
        actions = { set; }
    }
    apply {
        t.apply();
        plain_t p;
        cells.read(p, 0);
        digest<learn_t>(1, { meta.port, { p, true }, meta.kind, hdr.h, hdr.stack, { 8w1, 4w2 }, 8s3 });
    }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
