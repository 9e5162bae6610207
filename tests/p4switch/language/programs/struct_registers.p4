// Registers of structs: a cell holds the fields side by side.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> op; bit<8> index; bit<8> a; bit<8> b; }
struct headers_t { h_t h; }
struct metadata_t { }
struct inner_t { bit<4> low; bool flag; }
struct cell_t { bit<8> a; inner_t inner; int<5> number; bit<100> wide; }
parser P(packet_in p, out headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t m) { apply { } }
control I(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {
    register<cell_t>(4) cells;
    register<tuple<bit<8>, bit<8>>>(2) pairs;
    apply {
        s.egress_spec = 2;
        if (hdr.h.op == 0) {
            cell_t cell;
            cells.read(cell, (bit<32>)hdr.h.index);
            hdr.h.a = cell.a;
            hdr.h.b = cell.inner.low ++ (bit<4>)(bit<1>)cell.inner.flag;
            if (cell.number < 0) { hdr.h.op = 0xFF; }
            if (cell.wide[99:96] == 4w0xC) { hdr.h.index = 0xCC; }
        } else if (hdr.h.op == 1) {
            cells.write((bit<32>)hdr.h.index, { hdr.h.a, { hdr.h.b[3:0], true }, -5s3, 100w0xC << 96 });
        } else {
            tuple<bit<8>, bit<8>> pair;
            pairs.read(pair, 1);
            pairs.write(1, { pair[1], hdr.h.a });
            hdr.h.b = pair[0];
        }
    }
}
control E(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t hdr, inout metadata_t m) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
