#ifndef LANES_P4
#define LANES_P4

#include "constants.p4"

/* Credit counters of all 8 VCs of a port in one word: 8 lanes of 24 bits, VC 0 in the most significant ones, each
 * with a cyclic value of 20 bits. Everything that wraps is done here. The 4 spare bits of a lane keep a carry or a
 * borrow out of the next lane; then they are cleared. */
typedef bit<192> lanes_t;
typedef bit<20> credits_t;
const lanes_t LANE_VALUES = 0x0FFFFF0FFFFF0FFFFF0FFFFF0FFFFF0FFFFF0FFFFF0FFFFF;
const lanes_t LANE_CARRIES = 0x100000100000100000100000100000100000100000100000;
const lanes_t LANE_SPARES = 0xF00000F00000F00000F00000F00000F00000F00000F00000;
const lanes_t ABOVE_LIMITS = 0xF80000F80000F80000F80000F80000F80000F80000F80000; // a limit is below 2^19

// How far the lane of a VC is from the right.
bit<8> lane_of(in vc_t vc) {
    return (8w7 - (bit<8>)vc) * 24;
}

credits_t lane_value(in lanes_t lanes, in bit<8> lane) {
    return (credits_t)(lanes >> lane);
}

lanes_t lane_plus(in lanes_t lanes, in bit<8> lane, in credits_t amount) {
    return (lanes + ((lanes_t)amount << lane)) & LANE_VALUES;
}

lanes_t lane_minus(in lanes_t lanes, in bit<8> lane, in credits_t amount) {
    return ((lanes | LANE_CARRIES) - ((lanes_t)amount << lane)) & LANE_VALUES;
}

lanes_t lanes_plus(in lanes_t left, in lanes_t right) {
    return (left + right) & LANE_VALUES;
}

lanes_t lanes_minus(in lanes_t left, in lanes_t right) {
    return ((left | LANE_CARRIES) - right) & LANE_VALUES;
}

// Whether no lane of `left` is greater than that of `right`, as plain numbers.
bool lanes_at_most(in lanes_t left, in lanes_t right) {
    return (((right | LANE_CARRIES) - left) & LANE_CARRIES) == LANE_CARRIES;
}

// The same value in every lane.
lanes_t lanes_of_all(in bit<24> value) {
    return value ++ value ++ value ++ value ++ value ++ value ++ value ++ value;
}

// All value bits of the lanes that are not 0.
lanes_t lanes_not_zero(in lanes_t lanes) {
    lanes_t carries = (lanes + LANE_VALUES) & LANE_CARRIES;
    return carries - (carries >> 20);
}

// All bits of the lanes of the VCs in a mask.
lanes_t lanes_in(in bit<8> vcs) {
    return (24w0 - (bit<24>)vcs[0:0]) ++ (24w0 - (bit<24>)vcs[1:1]) ++ (24w0 - (bit<24>)vcs[2:2])
        ++ (24w0 - (bit<24>)vcs[3:3]) ++ (24w0 - (bit<24>)vcs[4:4]) ++ (24w0 - (bit<24>)vcs[5:5])
        ++ (24w0 - (bit<24>)vcs[6:6]) ++ (24w0 - (bit<24>)vcs[7:7]);
}

// What a frame costs: its bytes after the link header and an overhead (two's complement), in units of 2^size bytes,
// rounded up; at least one.
credits_t credits_of(in bit<32> frame_bytes, in bit<8> size, in bit<8> overhead) {
    bit<32> counted = frame_bytes - LINK_BYTES + (bit<32>)(int<32>)(int<8>)overhead;
    if (counted[31:31] == 1 || counted == 0) {
        counted = 1;
    }
    return (credits_t)((counted + (32w1 << size) - 1) >> size);
}

// The VC whose credits a VC uses.
vc_t mapped(in bit<24> vc_map, in vc_t vc) {
    return (vc_t)(vc_map >> ((8w7 - (bit<8>)vc) * 3));
}

bool has_vc(in bit<8> vcs, in vc_t vc) {
    return (bit<1>)(vcs >> vc) == 1;
}

#endif
