control C(inout bit<8> a) {
    apply {
        a = a == 1 ? 8w1 : a == 2 ? 8w2 : 8w3;
    }
}
