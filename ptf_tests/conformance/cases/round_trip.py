"""CBFC-12: CF_UPDATEs that take a long round trip; the credits have to cover it for full rate."""

from __future__ import annotations

from typing import Final

from codec.constants import Kind
from ptf_tests.conformance.records import at_least, close, near
from ptf_tests.conformance.settings import FULL_RATE
from ptf_tests.conformance.tester import ConformanceTest, cost, describe, patient
from ptf_tests.conformance.wire import Harm
from ptf_tests.links import Profile

DELAY_S: Final = 0.2
WINDOW_FRAMES: Final = 40
"""What the switch holds for its source at most: a round of the hold loop, which adds to the round trip, stays short."""
WINDOW_S: Final = 1.0
SIZES: Final = (64, 4134)
NARROW, WIDE = 0.4, 1.5
"""Credits, as a share of what full rate needs to cover the delay."""


class LongRoundTrip(ConformanceTest):
    """With credits for a part of the delay that part of the rate flows, with enough of them the full rate; no loss."""

    case = "CBFC-12"

    def runTest(self) -> None:
        for size in SIZES:
            for share in (NARROW, WIDE):
                self._with(size, share)
        self.conclude()

    def _with(self, size: int, share: float) -> None:
        each = cost(size, Profile())
        frames = round(share * FULL_RATE * DELAY_S)
        limit = frames * each
        switch = patient(credit_limit=WINDOW_FRAMES * each)
        tester = patient(credit_limit=limit)
        source, sink = self.link_ends(1, 2, profile=switch, tester=tester)
        flow = self.flow(1, 2, size, 0)
        sink.out.harm(Harm.DELAY, {Kind.CF_UPDATE}, delay_s=DELAY_S)
        self.offer(source, flow, FULL_RATE)
        self.run_for(2 * frames / FULL_RATE + 3 * DELAY_S)
        covered = min(FULL_RATE, frames / DELAY_S)
        (rate,) = self.rates(lambda: [flow.received], WINDOW_S, lambda rates: near(covered, *rates))
        used = self.credits_at(2).sender_credits_used_watermark[0]
        self.stop()
        whole = self.no_loss(flow)
        in_flight = round(0.9 * covered * DELAY_S) * each
        self.record(
            size,
            describe(tester, vc=0, round_trip=f"{DELAY_S * 1000:g} ms", offered=f"{FULL_RATE:g} frames/s"),
            [
                close("rate to the receiver", covered, rate, "frames/s"),
                at_least("sender_credits_used_watermark", in_flight, used),
                *whole,
            ],
            f"the limit is {frames} frames; full rate needs {FULL_RATE * DELAY_S:g} to cover the round trip",
        )  # fmt: skip
