#if 1 + 1 == 2
#error "this target is not supported"
#endif
