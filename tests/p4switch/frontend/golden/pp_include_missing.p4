#include <core.p4>
#include <v1modle.p4>
