"""Packet tests of the switch program: the same for every target. `python -m ptf_tests.run --help` tells how to run them."""
