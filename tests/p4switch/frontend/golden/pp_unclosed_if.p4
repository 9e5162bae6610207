#include <core.p4>
#ifdef A
const bit<8> x = 1;
