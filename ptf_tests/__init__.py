"""Packet tests of the switch program, the same for every target: see `python -m ptf_tests.run --help`."""
