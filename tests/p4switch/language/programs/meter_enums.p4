// A meter's colour as an enum's value: its members are numbered as colours are.
enum Color { GREEN, YELLOW, RED }
#define METADATA Color color; Color again;
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_meter<Color>(MeterType.packets) direct;
    meter(4, MeterType.bytes) indirect;
    action measure() { direct.read(meta.color); }
    table t {
        key = { hdr.h.a : exact; }
        actions = { measure; NoAction; }
        default_action = NoAction;
        meters = direct;
    }
    apply {
        std.egress_spec = 2;
        meta.color = Color.RED;
        meta.again = Color.YELLOW;
        t.apply();
        if (hdr.h.a == 3) {
            indirect.execute_meter(32w1, meta.again);
        }
        hdr.h.b = meta.color == Color.GREEN ? 8w1 : (meta.color == Color.YELLOW ? 8w2 : 8w3);
        hdr.h.c = meta.again == Color.GREEN ? 16w1 : 16w2;
    }
}
MAIN(I)
