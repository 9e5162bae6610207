"""CBFC-05 to CBFC-07: which VC a frame enters.

The standard speaks of VLAN priority and DSCP; the OEFH carries neither. In their place: the OEFH's vc itself
(CBFC-05), a map per port on the way in (CBFC-06), and another map on the way out (CBFC-07).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ptf_tests.conformance.records import exact
from ptf_tests.conformance.tester import ConformanceTest, describe, patient
from ptf_tests.links import IDENTITY_MAP

FRAMES: Final = 2
SIZE: Final = 256
VALUES: Final = range(7)
"""VC 7 has no credits."""
BEST_EFFORT: Final = 6
LOSSLESS: Final = 0x7F & ~(1 << BEST_EFFORT)
TURNED: Final = (3, 2, 1, 0, 5, 4, 6, 7)
PAIRED: Final = (0, 0, 1, 1, 2, 2, 6, 7)


class Mapped(ConformanceTest):
    """Every value of vc takes credits of the VC that it is mapped to, and of no other, at both ports."""

    way_in: Sequence[int] = IDENTITY_MAP
    way_out: Sequence[int] = IDENTITY_MAP

    def runTest(self) -> None:
        incoming = patient(lossless_vcs=LOSSLESS, vc_map=self.way_in)
        outgoing = patient(lossless_vcs=LOSSLESS, vc_map=self.way_out)
        (source,) = self.link_ends(1, profile=incoming)
        (sink,) = self.link_ends(2, profile=outgoing)
        sink.drain(0)
        for vc in VALUES:
            flow = self.flow(1, 2, SIZE, vc)
            before_in, before_out = self.credits_at(1), self.credits_at(2)
            self.burst(source, flow, FRAMES)
            self.delivered(flow)
            after_in, after_out = self.credits_at(1), self.credits_at(2)
            figures = []
            for lane in range(8):
                arrived = after_in.receiver_credits_consumed[lane] - before_in.receiver_credits_consumed[lane]
                sent = after_out.sender_credits_used[lane] - before_out.sender_credits_used[lane]
                costs = FRAMES if vc != BEST_EFFORT else 0
                into = costs if self.way_in[vc] == lane else 0
                out = costs if self.way_out[vc] == lane else 0
                figures += [
                    exact(f"receiver_credits_consumed of VC {lane}", into, arrived),
                    exact(f"sender_credits_used of VC {lane}", out, sent),
                ]
            figures.append(exact("frames_lost", 0, flow.outstanding, "frames"))
            maps = {"vc_map_in": list(self.way_in), "vc_map_out": list(self.way_out)}
            notes = f"VC {vc} is best effort: no credits" if vc == BEST_EFFORT else ""
            self.record(SIZE, describe(incoming, vc=vc, frames=FRAMES, **maps), figures, notes)
        self.conclude()


class TheVcItself(Mapped):
    """Without a map, the frame's vc."""

    case = "CBFC-05"


class MappedOnTheWayIn(Mapped):
    """The map of the port that it came in on decides whose buffer it takes."""

    case = "CBFC-06"
    way_in = TURNED


class MappedOnTheWayOut(Mapped):
    """The map of the port that it leaves by decides whose credits it needs."""

    case = "CBFC-07"
    way_in = PAIRED
    way_out = TURNED


del Mapped  # ptf would run it
