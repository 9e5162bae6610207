"""The field's conformance cases, run against the switch program: `python -m ptf_tests.conformance`."""
