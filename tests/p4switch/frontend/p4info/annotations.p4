/* Annotations: kept, shown as documentation, as ids, or structured. */
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers_t { h_t h; }
struct meta_t { }

parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout meta_t meta) { apply { } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    @id(0x01000042) @brief("Set b") @my_tag @other(1, "two", x.y) @list[1, "two", true] @pairs[k=1, s="x"]
    action set(@id(5) bit<16> b, @tag("param") @brief("Unused") bit<8> unused, bit<8> third) { hdr.h.b = b; }
    @hidden action secret() { }
    @id(77) @description("All of it")
    table t {
        key = {
            hdr.h.a : exact @id(3) @tag;
            hdr.h.b : ternary @name("bee") @brief("B field");
        }
        actions = { @tableonly @tag2("ref") set; @defaultonly secret; NoAction; }
        default_action = secret();
    }
    apply { t.apply(); }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
@pkginfo(name = "annotations.p4", version = "2", organization = "Example", contact = "a@example.com", url = "example.com")
@platform_property(multicast_group_table_size = 10, multicast_group_table_total_replicas = 0x20, multicast_group_table_max_replicas_per_entry = 3)
@brief("A test") @custom
V1Switch(P(), V(), I(), E(), C(), D()) main;
