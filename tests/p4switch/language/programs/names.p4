/* @name gives the control plane other names; the program goes on with its own. */
#include "common.p4"
@name("everywhere.count") counter(4, CounterType.packets) seen;
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    @name(".cells") register<bit<8>>(4) kept;
    @name("blue")
    action set_port(@name("hdr") bit<9> port, @name("port") bit<8> value) {
        std.egress_spec = port;
        hdr.h.b = value;
        kept.write(1, value);
    }
    @name("nested.red")
    table ports {
        key = { hdr.h.a : exact @name("green"); hdr.h.c[7:0] : ternary @name("low.byte"); }
        actions = { @name("yellow") set_port; NoAction; }
        default_action = NoAction();
    }
    @hidden table unseen {
        key = { hdr.h.b : exact; }
        actions = { NoAction; }
    }
    apply {
        ports.apply();
        unseen.apply();
        seen.count(2);
    }
}
MAIN(I)
