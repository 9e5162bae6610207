"""CBFC-10 and CBFC-11: many sources, one receiver; lossless traffic is not lost, best effort may be."""

from __future__ import annotations

from typing import Final

from ptf_tests.base import FENCE_DST, REMOTE, UPLINKS
from ptf_tests.conformance.flows import jain
from ptf_tests.conformance.link_end import AT_ONCE
from ptf_tests.conformance.records import at_least, close, exact, near
from ptf_tests.conformance.settings import FULL_RATE, SLOW_PORT, SLOW_RATE
from ptf_tests.conformance.tester import ConformanceTest, describe, patient

SINK: Final = 2
SOURCES: Final = (1, 3, *UPLINKS[:3])
GPUS: Final = {1: 1, 3: 3, **dict(zip(UPLINKS, REMOTE, strict=False))}
"""The GPU behind each source's port."""
SIZE: Final = 1024
EACH: Final = FULL_RATE / 2
EACH_MIXED: Final = SLOW_RATE / 3
WINDOW_S: Final = 1.0
LOSSLESS_VC: Final = 0
BEST_EFFORT_VC: Final = 2


class Incast(ConformanceTest):
    """Five sources at half the rate each, to one receiver that drains at the full rate."""

    case = "CBFC-10"

    def runTest(self) -> None:
        profile = patient(lossless_vcs=0b11, credit_limit=40)
        *sources, sink = self.link_ends(*SOURCES, SINK, profile=profile)
        sink.drain(FULL_RATE)
        held = self.count("frames_held", SINK)
        flows = [self.flow(GPUS[port], SINK, SIZE, LOSSLESS_VC) for port in SOURCES]
        for end, flow in zip(sources, flows, strict=True):
            self.offer(end, flow, EACH)
        self.run_for(0.5)
        rates = self.rates(
            lambda: [flow.received for flow in flows], WINDOW_S, lambda rates: near(FULL_RATE, sum(rates))
        )
        used = self.credits_at(SINK).sender_credits_used_watermark[LOSSLESS_VC]
        self.stop()
        sink.drain(AT_ONCE)
        whole = self.no_loss(*flows)
        self.record(
            SIZE,
            describe(profile, sources=len(flows), offered=f"{EACH:g} frames/s each", drained=f"{FULL_RATE:g} frames/s"),
            [
                close("rate to the receiver", FULL_RATE, sum(rates), "frames/s"),
                at_least("frames_held", 1, self.count("frames_held", SINK) - held, "frames"),
                at_least("sources that had to wait", len(flows), sum(flow.blocked > 0 for flow in flows), "sources"),
                exact("sender_credits_used_watermark", 40, used),
                *whole,
            ],
            f"Jain's index of the sources' rates: {jain(rates):.3f}",
        )
        self.conclude()


class IncastMixed(ConformanceTest):
    """Three lossless and three best-effort sources, to one port that sends no faster than SLOW_RATE."""

    case = "CBFC-11"

    def runTest(self) -> None:
        profile = patient(lossless_vcs=0b11, credit_limit=40)
        ports = (*SOURCES, SINK)
        *sources, _sink = self.link_ends(*ports, SLOW_PORT, profile=profile)
        flows = [
            self.flow(GPUS.get(one, one), FENCE_DST + SLOW_PORT, SIZE, LOSSLESS_VC if index % 2 else BEST_EFFORT_VC)
            for index, one in enumerate(ports)
        ]
        lossless = [flow for flow in flows if flow.packets.vc == LOSSLESS_VC]
        best_effort = [flow for flow in flows if flow.packets.vc == BEST_EFFORT_VC]
        for end, flow in zip(sources, flows, strict=True):
            self.offer(end, flow, EACH_MIXED)
        self.run_for(0.5)
        rates = self.rates(lambda: [flow.received for flow in flows], 2 * WINDOW_S)
        self.stop()
        whole = self.no_loss(*lossless)
        sent, lost = (sum(getattr(flow, what) for flow in best_effort) for what in ("sent", "outstanding"))
        self.record(
            SIZE,
            describe(
                profile, lossless_sources=3, best_effort_sources=3, offered=f"{EACH_MIXED:g} frames/s each",
                port_rate=f"{SLOW_RATE:g} frames/s",
            ),
            [
                *whole,
                at_least("best-effort frames lost", 1, lost, "frames"),
                at_least("rate of the lossless sources", 1, round(sum(rates[1::2])), "frames/s"),
            ],
            f"best effort: {lost} of {sent} frames lost; {sum(rates):.0f} frames/s arrive in all",
        )  # fmt: skip
        self.conclude()
