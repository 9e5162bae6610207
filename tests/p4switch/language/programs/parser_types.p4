/* Types of parser_select.p4. */
#include <core.p4>
error { BadValue }
enum bit<8> Kind { FIRST = 0x30, LAST = 0x31 }
header one_t { bit<16> x; }
header two_t { bit<8> x; bit<8> y; }
