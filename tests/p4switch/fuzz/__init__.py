"""Fuzz tests of p4switch: seeded, so that a failure comes again; $P4SWITCH_FUZZ makes them that many times longer."""

import os

TIMES = int(os.environ.get("P4SWITCH_FUZZ", "1"))
