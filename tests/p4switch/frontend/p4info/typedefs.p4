// Objects whose types are called by other names, of which p4c leaves out registers, and names that are not ASCII.
#include <core.p4>
#include <v1model.p4>

typedef counter cells_t;
typedef register<bit<8>> words_t;
typedef meter colours_t;
typedef direct_counter hits_t;
typedef direct_meter<bit<2>> hit_colours_t;

header h_t { bit<8> a; }
struct headers_t { h_t h; }
struct metadata_t { bit<2> colour; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    cells_t(5, CounterType.bytes) cells;
    words_t(7) words;
    colours_t(3, MeterType.bytes) colours;
    hits_t(CounterType.bytes) hits;
    hit_colours_t(MeterType.bytes) hit_colours;
    action count() { hits.count(); }
    action colour() { hit_colours.read(meta.colour); }
    @name("tables.größe→\"1\"")
    table counted {
        key = { hdr.h.a : exact @name("ключ"); }
        actions = { count; NoAction; }
        counters = hits;
    }
    table coloured {
        key = { hdr.h.a : exact; }
        actions = { colour; NoAction; }
        meters = hit_colours;
    }
    apply {
        cells.count(1);
        bit<8> word;
        words.read(word, 1);
        colours.execute_meter<bit<2>>(1, meta.colour);
        counted.apply();
        coloured.apply();
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
