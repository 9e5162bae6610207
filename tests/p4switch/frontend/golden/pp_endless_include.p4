#include "pp_endless_include.p4"
