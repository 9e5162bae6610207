"""What the runner and the cases, two processes, have to agree on."""

from __future__ import annotations

from typing import Final

JOURNAL: Final = "ETHLINK_CONFORMANCE_JOURNAL"
"""Environment: the file that records are added to."""
QUICK: Final = "ETHLINK_CONFORMANCE_QUICK"
"""Environment: set to run each case with a few sizes only."""

SWITCH_PID: Final = "ETHLINK_CONFORMANCE_SWITCH"
"""Environment: the process id of the switch."""

THRIFT_PORT: Final = "ETHLINK_CONFORMANCE_THRIFT"
"""Environment: BMv2's Thrift port."""

PATIENT_TICKS: Final = 2000
"""Silence after which a link is brought up anew, in cases that do not test it."""
FULL_RATE: Final = 1000.0
"""Frames per second that stand for a link's full rate: far below what a target forwards, so that credits decide."""
DEFINED_RATE: Final = f"full rate is {FULL_RATE:g} frames/s by definition, as a cable of a virtual network has none"
"""What a record says where full rate decides."""
SLOW_PORT: Final = 8
SLOW_RATE: Final = 1000
"""Frames per second that this port of the switch sends at most."""
SLOW_DEPTH: Final = 80 + 48 + 128
"""Its queue, as docs/pipeline.md asks: the peer's limits (40 on each of two VCs), best effort, control frames."""
