#include "common.p4"
const bit<8> KNOWN = 0x42;
typedef bit<16> value_t;
type bit<16> handle_t;
enum bit<8> Op { READ = 1, WRITE = 2 }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action set_c(value_t value) { hdr.h.c = value; }
    action set_b(bit<8> v) { hdr.h.b = v; }
    table first {
        key = { hdr.h.a : ternary; hdr.h.b : range; }
        actions = { set_c; NoAction; }
        const default_action = NoAction();
        const entries = {
            (KNOWN, 5..7) : set_c(1);
            (0x40 &&& 0xF0, _) : set_c(2);
            (_, 0..100) : set_c(3);
        }
    }
    table second {
        key = { hdr.h.a : exact; }
        actions = { set_b; NoAction; }
        const entries = {
            Op.READ : set_b(0x71);
            Op.WRITE : set_b(0x72);
        }
        default_action = NoAction();
    }
    table third {
        key = { hdr.h.d : lpm; }
        actions = { set_b; NoAction; }
        const entries = {
            0x0A000000 &&& 0xFF000000 : set_b(0x81);
            0x0A0B0000 &&& 0xFFFF0000 : set_b(0x82);
        }
        default_action = NoAction();
    }
    table fourth {
        key = { (Op)hdr.h.d[7:0] : ternary @name("op"); }
        actions = { set_b; NoAction; }
        const entries = {
            Op.READ : set_b(0x91);
            ((bit<8>)Op.WRITE) &&& 0x0F : set_b(0x92);
        }
        default_action = NoAction();
    }
    apply {
        std.egress_spec = 2;
        first.apply();
        second.apply();
        third.apply();
        fourth.apply();
        handle_t h = (handle_t)hdr.h.c;
        hdr.h.c = (bit<16>)h + 0x100;
    }
}
MAIN(I)
