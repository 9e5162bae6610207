"""CBFC-04, CBFC-08, CBFC-09: a receiver that drains slowly slows its sources and nobody else, and nothing is lost."""

from __future__ import annotations

from typing import Final

from ptf_tests.conformance.link_end import AT_ONCE
from ptf_tests.conformance.records import at_least, close, exact, near
from ptf_tests.conformance.settings import FULL_RATE
from ptf_tests.conformance.tester import ConformanceTest, cost, describe, patient, sizes
from ptf_tests.frames import SIZES
from ptf_tests.links import Profile

WINDOW_FRAMES: Final = 16
WINDOW_S: Final = 0.5
FILL_S: Final = 0.25
ONE_LIMIT: Final = (0,) * 8


class Drained(ConformanceTest):
    """Full rate in, and a peer that drains its buffer at a part of it."""

    case = "CBFC-04"
    share = 1.0

    def runTest(self) -> None:
        for size in sizes(SIZES):
            self._with(size)
        self.conclude()

    def _with(self, size: int) -> None:
        each = cost(size, Profile())
        limit = max(40, WINDOW_FRAMES * each)
        profile = patient(credit_limit=limit, update_threshold=limit // 4)
        source, sink = self.link_ends(1, 2, profile=profile)
        flow = self.flow(1, 2, size, 0)
        held = self.count("frames_held", 2)
        sink.drain(self.share * FULL_RATE if self.share < 1 else AT_ONCE)
        self.offer(source, flow, FULL_RATE)
        # Both buffers have to be full before the source feels it.
        full = 2 * limit / each / FULL_RATE / (1 - self.share) if self.share < 1 else 0.05
        self.run_for(full + FILL_S)
        expected = self.share * FULL_RATE
        sent, received = self.rates(
            lambda: (flow.sent, flow.received), WINDOW_S, lambda rates: all(near(expected, rate) for rate in rates)
        )
        held = self.count("frames_held", 2) - held
        used = source.senders[0].used
        self.stop()
        sink.drain(AT_ONCE)
        whole = self.no_loss(flow)
        figures = [*self._of_rates(sent, received), *whole]
        if self.share < 1:
            figures += [
                at_least("frames_held", 1, held, "frames"),
                at_least("sender_credits_used of the source", limit - 2 * limit // 4 - each, used),
            ]
        self.record(
            size, describe(profile, vc=0, offered=f"{FULL_RATE:g} frames/s", drained=f"{self.share:.0%}"), figures
        )

    def _of_rates(self, sent: float, received: float) -> list:
        if not self.share:
            return [
                exact("rate to the receiver", 0, received, "frames/s"),
                exact("rate of the source", 0, sent, "frames/s"),
            ]
        return [
            close("rate to the receiver", self.share * FULL_RATE, received, "frames/s"),
            close("rate of the source", self.share * FULL_RATE, sent, "frames/s"),
        ]


class DrainedFully(Drained):
    """At 100% everything flows."""

    share = 1.0


class DrainedByHalf(Drained):
    """At 50% half the rate flows."""

    share = 0.5


class NotDrained(Drained):
    """At 0% everything is paused, the source included."""

    share = 0.0


del Drained  # ptf would run it


class LimitPerVc(ConformanceTest):
    """Two lossless VCs with a limit each; one is not drained, the other flows on untouched."""

    case = "CBFC-08"

    def runTest(self) -> None:
        profile = patient(lossless_vcs=0b11, credit_limit=40)
        source, sink = self.link_ends(1, 2, profile=profile)
        stuck, free = self.flow(1, 2, 512, 0), self.flow(1, 2, 512, 1)
        sink.drain(0, 0)
        for flow in (stuck, free):
            self.offer(source, flow, FULL_RATE)
        self.run_for(0.1 + FILL_S)
        stuck_rate, free_rate = self.rates(
            lambda: (stuck.received, free.received), WINDOW_S, lambda rates: near(FULL_RATE, rates[1])
        )
        held = self.credits_at(2).held_frames
        self.stop()
        sink.drain(AT_ONCE)
        self.record(
            512,
            describe(profile, lossless_vcs="0, 1", not_drained="VC 0", offered=f"{FULL_RATE:g} frames/s per VC"),
            [
                exact("rate of VC 0", 0, stuck_rate, "frames/s"),
                close("rate of VC 1", FULL_RATE, free_rate, "frames/s"),
                at_least("held_frames of VC 0", 1, held[0], "frames"),
                exact("held_frames of VC 1", 0, held[1], "frames"),
                *self.no_loss(stuck, free),
            ],
        )
        self.conclude()


class LimitPerPort(ConformanceTest):
    """Two lossless VCs on one limit: both flow while it is drained, and share whatever backpressure there is."""

    case = "CBFC-09"

    def runTest(self) -> None:
        profile = patient(lossless_vcs=0b1, vc_map=ONE_LIMIT, credit_limit=80, update_threshold=20)
        source, sink = self.link_ends(1, 2, profile=profile)
        flows = [self.flow(1, 2, 512, vc) for vc in (0, 1)]

        def received() -> list[int]:
            return [flow.received for flow in flows]

        for flow in flows:
            self.offer(source, flow, FULL_RATE / 2)
        self.run_for(0.05)
        drained = self.rates(received, WINDOW_S, lambda rates: all(near(FULL_RATE / 2, rate) for rate in rates))
        sink.drain(FULL_RATE / 2, 0, 1)
        self.run_for(2 * 80 / (FULL_RATE / 2) + FILL_S)
        slow = self.rates(received, WINDOW_S, lambda rates: near(FULL_RATE / 2, sum(rates)))
        sink.drain(0, 0)
        sink.drain(AT_ONCE, 1)
        self.run_for(4 * 80 / (FULL_RATE / 2) + FILL_S)
        stuck = self.rates(received, WINDOW_S)
        credits = self.credits_at(2)
        self.stop()
        sink.drain(AT_ONCE)
        whole = self.no_loss(*flows)
        self.record(
            512,
            describe(profile, vc_map="all to VC 0", offered=f"{FULL_RATE / 2:g} frames/s per VC"),
            [
                close("rate of VC 0, drained", FULL_RATE / 2, drained[0], "frames/s"),
                close("rate of VC 1, drained", FULL_RATE / 2, drained[1], "frames/s"),
                close("rate of both, drained at 50%", FULL_RATE / 2, sum(slow), "frames/s"),
                at_least("rate of the lesser, drained at 50%", 1, min(slow), "frames/s"),
                exact("rate of both, VC 0 not drained", 0, sum(stuck), "frames/s"),
                exact("credits used of lanes but VC 0", 0, sum(credits.sender_credits_used[1:])),
                exact("sender_credits_used, VC 0 not drained", 80, credits.sender_credits_used[0]),
                *whole,
            ],
            "one limit per port: what one VC does not drain stops the other too",
        )
        self.conclude()
