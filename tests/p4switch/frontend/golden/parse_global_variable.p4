bit<8> counter_value = 0;
