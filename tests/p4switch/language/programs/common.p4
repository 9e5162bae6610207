/* What the programs here share. A program may define HEADERS and METADATA (fields) before it includes this file, and then its
 * ingress control; MAIN(I) and SWITCH(P, I, E) make the package. */
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  a;
    bit<8>  b;
    bit<16> c;
    bit<32> d;
}

#ifndef HEADERS
#define HEADERS h_t h;
#endif
#ifndef METADATA
#define METADATA bit<32> unused;
#endif

struct headers_t { HEADERS }
struct metadata_t { METADATA }

control NoVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control NoCompute(inout headers_t hdr, inout metadata_t meta) { apply { } }
control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control EmitAll(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

parser OneHeader(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

#define SWITCH(P, I, E) V1Switch(P(), NoVerify(), I(), E(), NoCompute(), EmitAll()) main;
#define MAIN(I) SWITCH(OneHeader, I, NoEgress)
