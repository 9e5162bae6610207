/* Type parameters: of functions, structs, headers, controls and extern calls, given and inferred. */
#include <core.p4>
#include <v1model.p4>
struct pair_t<T> { T first; T second; }
header wrapped_h<T> { T value; }
struct inner_t { bit<8> x; bit<8> y; }
struct headers_t { wrapped_h<pair_t<bit<8>>> p; wrapped_h<bit<16>> w; wrapped_h<inner_t> s; }
struct metadata_t { pair_t<bit<16>> words; }
T pick<T>(in bool first, in T a, in T b) {
    if (first) { return a; }
    return b;
}
void exchange<T>(inout T a, inout T b) {
    T kept = a;
    a = b;
    b = kept;
}
U second<T, U>(in T a, in U b) { return b; }
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.p);
        packet.extract<wrapped_h<bit<16>>>(hdr.w);
        packet.extract(hdr.s);
        transition accept;
    }
}
control Exchange<T>(inout T a, inout T b) {
    apply {
        T kept = a;
        a = b;
        b = kept;
    }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<16>>(2) cells;
    Exchange<bit<8>>() bytes;
    apply {
        std.egress_spec = 2;
        exchange(hdr.p.value.first, hdr.p.value.second);
        exchange<bit<8>>(hdr.s.value.x, hdr.s.value.y);
        hdr.w.value = pick(hdr.p.value.first == 2, hdr.w.value, 16w0xFFFF);
        meta.words = { 5, 6 };
        pair_t<bit<16>> copy = pick<pair_t<bit<16>>>(false, { 1, 2 }, meta.words);
        hdr.w.value = hdr.w.value + copy.second + second(true, 16w0x100);
        cells.write(1, hdr.w.value);
        bit<16> back;
        cells.read(back, 1);
        bit<8> bound;
        hash(bound, HashAlgorithm.crc16, 8w7, { back }, 8w1);
        hdr.s.value.x = hdr.s.value.x + bound;
        bytes.apply(hdr.p.value.first, hdr.p.value.second);
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
