#define HEADERS h_t h; one_t one; two_t two;
#define METADATA bit<8> state; bit<16> ahead;
#include "parser_types.p4"
#include "common.p4"
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        meta.ahead = packet.lookahead<bit<16>>();
        transition select(hdr.h.a, hdr.h.b) {
            (1, 2): both;
            (0x10 &&& 0xF0, _): mask;
            (5..9, 1): between;
            (Kind.LAST, default): by_name;
            (0xEE, _): checked;
        }
    }
    state both { meta.state = 1; packet.extract(hdr.one); transition accept; }
    state mask {
        meta.state = 2;
        packet.extract(hdr.one);
        transition select(packet.lookahead<two_t>().y) {
            7: two;
            default: accept;
        }
    }
    state two { packet.extract(hdr.two); transition accept; }
    state between { meta.state = 3; packet.advance(16); packet.extract(hdr.one); transition accept; }
    state by_name { meta.state = 4; transition accept; }
    state checked {
        verify(hdr.h.c == 1, error.BadValue);
        meta.state = 6;
        transition accept;
    }
}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.h.a = meta.state;
        hdr.h.b = 0;
        if (hdr.one.isValid()) { hdr.h.b = hdr.h.b | 1; }
        if (hdr.two.isValid()) { hdr.h.b = hdr.h.b | 2; }
        hdr.h.d = 0;
        hdr.h.d[15:0] = meta.ahead;
        if (std.parser_error == error.NoError) { hdr.h.d[31:24] = 0; }
        else if (std.parser_error == error.BadValue) { hdr.h.d[31:24] = 1; }
        else if (std.parser_error == error.NoMatch) { hdr.h.d[31:24] = 2; }
        else if (std.parser_error == error.PacketTooShort) { hdr.h.d[31:24] = 3; }
        else { hdr.h.d[31:24] = 9; }
    }
}
SWITCH(P, I, NoEgress)
