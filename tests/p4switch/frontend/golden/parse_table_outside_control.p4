#include <core.p4>
table t { actions = { NoAction; } }
