// a ? b : c ? d : e groups from the left; in the middle, and after operators, there is nothing to choose.
#include "common.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        bool a = hdr.h.a == 1;
        bool b = hdr.h.b == 1;
        bool c = hdr.h.c == 1;
        bool chain = a ? b : c ? false : true; // (a ? b : c) ? false : true
        bool inner = a ? b ? true : c : false;
        bool operators = a || b ? c : b && c;
        hdr.h.d = (chain ? 32w1 : 0) + (inner ? 32w2 : 0) + (operators ? 32w4 : 0);
    }
}
MAIN(I)
