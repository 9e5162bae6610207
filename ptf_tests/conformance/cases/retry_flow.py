"""LLR-07, LLR-09, LLR-10 and LLR-loss: what flows over a link that retries, however long, bad or mixed it is."""

from __future__ import annotations

from random import Random
from statistics import median
from typing import Any, Final

from codec.constants import Kind
from ptf_tests.conformance.flows import Flow
from ptf_tests.conformance.records import at_least, at_most, close, exact, near
from ptf_tests.conformance.retry_case import RetryCase, retrying
from ptf_tests.conformance.retry_end import RetryEnd, RetrySettings
from ptf_tests.conformance.settings import DEFINED_RATE, FULL_RATE
from ptf_tests.conformance.tester import cost, sizes
from ptf_tests.conformance.wire import Harm, Rule
from ptf_tests.frames import SIZES
from ptf_tests.links import Profile

SIZE: Final = 512
DELAY_S: Final = 0.2
WINDOW_S: Final = 1.0
ENDS: Final = (64, 4134)
MORE_THAN_ANY: Final = 100_000.0
"""Frames per second that no tester in Python sends."""
UNDER_WAY: Final = 64
"""Frames on their way at most: half a window, so that none has to wait in the switch for a place in it."""
CREDITS_OF_LARGEST: Final = 2000
NARROW, WIDE = 0.4, 1.5
"""Windows, as a share of what full rate needs to cover the delay."""
HELD_FRAMES: Final = 40
"""What the switch holds for its source at most: a round of the hold loop, which adds to the round trip, stays short."""
BYTES_MAX: Final = 512 * 4146
OF_EACH_SIZE: Final = 16
LOSS: Final = 0.02
PAIRS: Final = 200
ALIKE: Final = 1.5
MIXED: Final = 600
"""Frames of each of two flows."""
REPAIR: Final = RetrySettings(replay_timer_s=0.1, nack_repeat_s=0.01, replay_count_max=1000)
"""Of a tester among whose frames several may be lost in a row, replays and all."""
REPAIR_US: Final = 100_000


class LongWay(RetryCase):
    """ACKs take a long round trip: a part of the rate with a window for a part of it, full rate once it is covered."""

    case = "LLR-07"

    def runTest(self) -> None:
        for size in ENDS[:1] if self.quick else ENDS:
            for share in (NARROW, WIDE):
                self._with(size, share)
        self.conclude()

    def _with(self, size: int, share: float) -> None:
        each = cost(size, Profile())
        window = round(share * FULL_RATE * DELAY_S)
        covered = min(FULL_RATE, window / DELAY_S)
        far = retrying(credit_limit=8 * HELD_FRAMES * HELD_FRAMES, outstanding_frames_max=window)
        near_by = retrying(credit_limit=HELD_FRAMES * each, update_threshold=HELD_FRAMES * each // 4)
        if 1 in self.ends:
            self.change_retry(2, outstanding_frames_max=window)
            source, sink = self.link_ends(1, 2, profile=near_by, tester=far)
        else:
            source, sink = self.retry_ends(
                1, 2, profile=near_by, tester=far, outstanding_frames_max=window, outstanding_bytes_max=BYTES_MAX
            )
        flow = self.flow(1, 2, size, 0)
        before = self.counts(2)
        sink.out.harm(Harm.DELAY, delay_s=DELAY_S)
        self.offer(source, flow, FULL_RATE)
        self.run_for(2 * window / FULL_RATE + 3 * DELAY_S)
        wide = covered == FULL_RATE

        def arrived() -> int:  # CC_UPDATEs have a share of a narrow window
            return flow.received if wide else sink.counters["llr_rx_ok"]

        (rate,) = self.rates(lambda: [arrived()], WINDOW_S, lambda rates: near(covered, *rates))
        out = self.outstanding(2)
        self.stop()
        whole = self.no_loss(flow)
        self.run_until(lambda: self.outstanding(2) == 0)
        self.record(
            size,
            self.about(2, round_trip=f"{DELAY_S * 1000:g} ms", offered=f"{FULL_RATE:g} frames/s"),
            [
                close(f"rate to the receiver, of {'data' if wide else 'all with a number'}", covered, rate, "frames/s"),
                at_least("outstanding frames", round(0.9 * covered * DELAY_S), out, "frames"),
                at_most("outstanding frames, of the window", window, out, "frames"),
                *self.figures(2, before, llr_tx_replay=0, llr_flushes=0),
                *whole,
            ],
            f"{DEFINED_RATE}; it needs {FULL_RATE * DELAY_S:g} frames to cover the round trip",
        )


class HighestRate(RetryCase):
    """Without a delay, each frame as soon as there is room: the rate that tester and switch reach, beside full rate."""

    case = "LLR-07"

    def runTest(self) -> None:
        for size in ENDS[:1] if self.quick else ENDS:
            source, _ = self.fresh_ends(1, 2, profile=retrying(credit_limit=CREDITS_OF_LARGEST))
            flow = self.flow(1, 2, size, 0)
            flow.most_outstanding = UNDER_WAY
            self.offer(source, flow, MORE_THAN_ANY)
            self.run_for(0.2)

            def moved(flow: Flow = flow) -> tuple[int, int]:
                return flow.sent, flow.received

            sent, received = self.rates(moved, WINDOW_S, lambda rates: rates[1] >= FULL_RATE)
            self.stop()
            self.record(
                size,
                self.about(2, round_trip="not delayed", offered=f"as fast as {UNDER_WAY} under way allow"),
                [
                    at_least("rate of the source", FULL_RATE, round(sent), "frames/s"),
                    at_least("rate to the receiver", FULL_RATE, round(received), "frames/s"),
                    *self.no_loss(flow),
                ],
                f"{DEFINED_RATE}: {FULL_RATE / max(received, 1):.0%} of what the tester and this switch reach here, on "
                "the processors that they share",
            )
        self.conclude()


class EverySize(RetryCase):
    """Every size arrives, none is dropped."""

    case = "LLR-09"

    def runTest(self) -> None:
        profile = retrying(credit_limit=600)
        source, sink = self.retry_ends(1, 2, profile=profile)
        for size in sizes(SIZES):
            flow = self.flow(1, 2, size, 0)
            into, out, drops = self.counts(1), self.counts(2), self.drops((1, 2))
            received = sink.counters["llr_rx_ok"]
            with self.clock_stopped():
                self.burst(source, flow, OF_EACH_SIZE)
                self.delivered(flow)
                figures = [
                    *self.figures(1, into, llr_rx_ok=OF_EACH_SIZE, llr_rx_expected_seq_good=OF_EACH_SIZE),
                    *self.figures(2, out, llr_tx_ok=OF_EACH_SIZE, llr_tx_replay=0),
                    exact("llr_rx_ok of the tester", OF_EACH_SIZE, sink.counters["llr_rx_ok"] - received, "frames"),
                ]
            whole = self.no_loss(flow)
            dropped = sum(self.new_drops(drops).values())
            self.record(
                size,
                self.about(2, frames=OF_EACH_SIZE),
                [*figures, exact("frames dropped", 0, dropped, "frames"), *whole],
            )
        self.conclude()


class MixedCase(RetryCase):
    """What the cases of LLR-10 share: VC 0 retries, VC 1 is best effort and does not."""

    case = ""

    def mixed(self, **settings: Any) -> tuple[RetryEnd, RetryEnd, Flow, Flow]:
        """Bring two links up; return both ends, and a flow of each kind."""
        source, sink = self.retry_ends(1, 2, profile=retrying(lossless_vcs=0b1), **settings)
        return source, sink, self.flow(1, 2, SIZE, 0), self.flow(1, 2, SIZE, 1)


class MixedWithoutErrors(MixedCase):
    """Without errors nothing is lost, and both kinds take a like time."""

    case = "LLR-10"

    def runTest(self) -> None:
        source, sink, retried, plain = self.mixed()
        before = self.counts(2)

        def latencies() -> tuple[float, float]:
            took: dict[int, list[float]] = {0: [], 1: []}
            for _ in range(PAIRS):
                for flow in (retried, plain):
                    started = self.now()
                    self.burst(source, flow, 1)
                    self.delivered(flow)
                    took[flow.packets.vc].append(self.now() - started)
            return median(took[0]), median(took[1])

        with_retry, without = self.measured(latencies, lambda took: took[0] <= ALIKE * took[1])
        for flow in (retried, plain):
            self.offer(source, flow, FULL_RATE)
        self.run_for(MIXED / FULL_RATE)
        self.stop()
        whole = self.no_loss(retried, plain)
        unnumbered = sum(one.kind == Kind.DATA and not one.numbered for one in sink.heard)
        self.record(
            SIZE,
            self.about(2, frames=retried.sent + plain.sent, retried="VC 0", not_retried="VC 1"),
            [
                *self.figures(2, before, llr_tx_replay=0, llr_rx_nack_ctl_os=0),
                exact("frames without a number", plain.sent, unnumbered, "frames"),
                at_most("latency, of that without retry", ALIKE, round(with_retry / without, 2), "times"),
                *whole,
            ],
            f"medians of {PAIRS} round trips through the tester: {with_retry * 1e6:.0f} us with retry, "
            f"{without * 1e6:.0f} us without",
        )
        self.conclude()


class MixedWithErrors(MixedCase):
    """With errors in both directions, what is lost is all of it without retry."""

    case = "LLR-10"
    tester_settings = REPAIR

    def runTest(self) -> None:
        source, sink, retried, plain = self.mixed(replay_timer=REPAIR_US)
        into, out = self.counts(1), self.counts(2)
        rng = Random(10)
        lost: dict[bool, list[Rule]] = {
            numbered: [
                source.out.harm_some(Harm.CORRUPT, {Kind.DATA}, LOSS, rng, numbered=numbered),
                sink.into.harm_some(Harm.DROP, {Kind.DATA}, LOSS, rng, numbered=numbered),
            ]
            for numbered in (True, False)
        }
        for flow in (retried, plain):
            self.offer(source, flow, FULL_RATE / 2)
        self.run_until(lambda: min(retried.sent, plain.sent) >= MIXED, 20.0)
        self.stop()
        gone = sum(rule.done for rule in lost[False])
        self.run_until(lambda: retried.outstanding == 0, 10.0)
        self.run_until(lambda: plain.outstanding == gone, 2.0)
        self.record(
            SIZE,
            self.about(2, frames=retried.sent + plain.sent, retried="VC 0", not_retried="VC 1", harmed=f"{LOSS:.0%}"),
            [
                at_least("frames with a number harmed", 1, sum(rule.done for rule in lost[True]), "frames"),
                at_least("frames without a number harmed", 1, gone, "frames"),
                exact("frames lost, with retry", 0, retried.outstanding, "frames"),
                exact("frames lost, without retry", gone, plain.outstanding, "frames"),
                exact(
                    "frames wrong, repeated or disordered", 0,
                    sum(flow.wrong + flow.repeated + flow.disordered for flow in (retried, plain)), "frames",
                ),
                at_least("llr_tx_nack_ctl_os, port 1", 1, self.grown(1, into)["llr_tx_nack_ctl_os"], "messages"),
                at_least("llr_tx_replay, port 2", 1, self.grown(2, out)["llr_tx_replay"], "times"),
                exact("llr_flushes", 0, self.grown(2, out)["llr_flushes"], "times"),
            ],
        )  # fmt: skip
        self.conclude()


class TwoPercentLost(RetryCase):
    """2% of data and of control lost, both ways of both links, at full rate: all of it arrives, and at full rate."""

    case = "LLR-loss"
    tester_settings = REPAIR

    def runTest(self) -> None:
        source, sink = self.retry_ends(1, 2, replay_timer=REPAIR_US, replay_count_max=255)
        flow = self.flow(1, 2, SIZE, 0)
        out = self.counts(2)
        rng = Random(2)
        wires = (source.out, source.into, sink.out, sink.into)
        rules = [wire.harm_some(Harm.DROP, frozenset(Kind), LOSS, rng) for wire in wires]
        self.offer(source, flow, FULL_RATE)
        self.run_for(0.2)
        sent, received = self.rates(
            lambda: (flow.sent, flow.received), 2 * WINDOW_S, lambda rates: all(near(FULL_RATE, rate) for rate in rates)
        )
        self.stop()
        whole = self.no_loss(flow)
        grown = self.grown(2, out)
        self.record(
            SIZE,
            self.about(2, lost=f"{LOSS:.0%}", offered=f"{FULL_RATE:g} frames/s"),
            [
                close("rate of the source", FULL_RATE, sent, "frames/s"),
                close("rate to the receiver", FULL_RATE, received, "frames/s"),
                at_least("frames lost on the links", 1, sum(rule.done for rule in rules), "frames"),
                at_least("llr_tx_replay, port 2", 1, grown["llr_tx_replay"], "times"),
                exact("llr_flushes, port 2", 0, grown["llr_flushes"], "times"),
                *whole,
            ],
            f"{DEFINED_RATE}; {flow.sent} frames, {sum(rule.done for rule in rules)} lost; "
            f"{grown['llr_tx_replay']} replays of {grown['llr_tx_replayed']} frames to the tester, "
            f"{grown['llr_replay_timeouts']} of them by the timer",
        )
        self.conclude()


del MixedCase  # ptf would run it
