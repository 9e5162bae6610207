#include "common.p4"
register<bit<32>>(16) sums;
register<bit<9>>(4) ports;
register<int<8>>(2) signed_cells;
counter(16, CounterType.packets_and_bytes) frames;
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets) per_entry;
    action count() { per_entry.count(); }
    table t {
        key = { hdr.h.a : exact; }
        actions = { count; NoAction; }
        default_action = NoAction;
        counters = per_entry;
    }
    apply {
        std.egress_spec = 2;
        bit<32> sum;
        sums.read(sum, (bit<32>)hdr.h.a);
        sum = sum + hdr.h.d;
        sums.write((bit<32>)hdr.h.a, sum);
        hdr.h.d = sum;
        frames.count((bit<32>)hdr.h.a);
        bit<9> port;
        ports.read(port, 0);
        ports.write(0, std.ingress_port);
        hdr.h.c = (bit<16>)port;
        int<8> s;
        signed_cells.read(s, 1);
        signed_cells.write(1, s - 1);
        hdr.h.b = (bit<8>)(s >> 1);
        t.apply();
    }
}
MAIN(I)
