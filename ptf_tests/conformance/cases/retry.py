"""LLR-01 to LLR-05: retry on a good link, one frame lost, damaged or poisoned, in either direction.

The switch's clock stands while counters have to be exact, as a keepalive repeats a NACK and may add a CC_UPDATE.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from codec.constants import Kind
from controller.retries import ReceiveState, TransmitState
from ptf_tests.conformance.records import at_least, exact
from ptf_tests.conformance.retry_case import RetryCase
from ptf_tests.conformance.wire import Harm

FRAMES: Final = 100
MANY: Final = 1000
SIZE: Final = 512
ODD: Final = 50
"""Frames that pass before the one to which harm is done."""
ACK_FRAMES: Final = 16
BURST: Final = 50
"""Frames sent at once where many are: so others are on their way behind one that is harmed."""


class GoodFrames(RetryCase):
    """Both modes on, 100 good frames: all arrive once, and both sides' counters say so."""

    case = "LLR-01"

    def runTest(self) -> None:
        source, sink = self.retry_ends(1, 2)
        flow = self.flow(1, 2, SIZE, 0)
        into, out = self.counts(1), self.counts(2)
        with self.clock_stopped():
            self.burst(source, flow, FRAMES)
            arrived = self.delivered(flow)
            self.record(
                SIZE,
                self.about(2, frames=FRAMES, links="1 and 2 retry"),
                [
                    exact("frames_received", FRAMES, flow.received, "frames"),
                    *self.figures(
                        1, into, llr_rx_ok=FRAMES, llr_rx_expected_seq_good=FRAMES, llr_rx_missing_seq=0, llr_rx_bad=0,
                        llr_tx_nack_ctl_os=0,
                    ),
                    *self.figures(2, out, llr_tx_ok=FRAMES, llr_tx_replay=0, llr_rx_nack_ctl_os=0),
                    exact("llr_tx_ok of the tester", FRAMES, source.counters["llr_tx_ok"], "frames"),
                    exact("llr_rx_ok of the tester", FRAMES, sink.counters["llr_rx_ok"], "frames"),
                    *self.states(2, TransmitState.ADVANCE, ReceiveState.SEND_ACKS),
                    *self.states(1, TransmitState.ADVANCE, ReceiveState.SEND_ACKS),
                ],
                "" if arrived else "not all frames arrived",
            )  # fmt: skip
        told = self.grown(1, into)["llr_tx_ack_ctl_os"]
        self.record(
            SIZE,
            self.about(2, frames=FRAMES, then="all acknowledged"),
            [
                *self.no_loss(flow),
                exact("outstanding of the tester", 0, _outstanding(source.sender), "frames"),
                exact("outstanding_bytes", 0, self.retry_state(2)["outstanding_bytes"], "bytes"),
                at_least("llr_tx_ack_ctl_os of the tester", 1, sink.counters["llr_tx_ack_ctl_os"], "messages"),
                at_least("llr_tx_ack_ctl_os, port 1", FRAMES // (2 * ACK_FRAMES), told, "messages"),
            ],
            f"an LLR_ACK is asked for {ACK_FRAMES} frames after what the last one said, and says what has come when it "
            f"leaves: {FRAMES // ACK_FRAMES} where none came meanwhile",
        )
        self.conclude()


class OneFrameLost(RetryCase):
    """One of 100 frames lost on the way to the tester, which NACKs: one replay, from the missing frame on."""

    case = "LLR-02"

    def runTest(self) -> None:
        source, sink = self.retry_ends(1, 2)
        flow = self.flow(1, 2, SIZE, 0)
        out = self.counts(2)
        lost = sink.into.harm(Harm.DROP, {Kind.DATA}, count=1, after=ODD)
        with self.clock_stopped():
            self.burst(source, flow, FRAMES)
            self.delivered(flow)
            again = sink.again
            figures = [
                exact("frames dropped", 1, lost.done, "frames"),
                *self.figures(2, out, llr_rx_nack_ctl_os=1, llr_tx_replay=1, llr_tx_ok=FRAMES, llr_replay_timeouts=0),
                exact("llr_tx_nack_ctl_os of the tester", 1, sink.counters["llr_tx_nack_ctl_os"], "messages"),
                exact("llr_rx_replay of the tester", 1, sink.counters["llr_rx_replay"], "times"),
                exact("first frame of the replay", ODD, again[0] if again else -1, "(sequence number)"),
                exact("replayed frames out of order", 0, _breaks(again), "frames"),
                exact("llr_tx_replayed, port 2", len(again), self.grown(2, out)["llr_tx_replayed"], "frames"),
            ]
        self.record(SIZE, self.about(2, frames=FRAMES, lost=f"number {ODD}"), [*figures, *self.no_loss(flow)])
        self.conclude()


class OneFrameBad(RetryCase):
    """1,000 frames with one bad CRC, then 1,000 with one missing: asked for once, sent again once."""

    case = "LLR-04"

    def runTest(self) -> None:
        self._with(Harm.CORRUPT, "bad CRC", llr_rx_expected_seq_bad=1, llr_rx_bad=1, llr_rx_missing_seq=0)
        self._with(Harm.DROP, "sequence gap", llr_rx_expected_seq_bad=0, llr_rx_bad=0, llr_rx_missing_seq=1)
        self.conclude()

    def _with(self, harm: Harm, what: str, **expected: int) -> None:
        source, _ = self.fresh_ends(1, 2)
        flow = self.flow(1, 2, SIZE, 0)
        into = self.counts(1)
        done = source.out.harm(harm, {Kind.DATA}, count=1, after=MANY // 2 + BURST // 5)
        with self.clock_stopped():
            for _ in range(MANY // BURST):
                self.burst(source, flow, BURST)
                self.delivered(flow)
            figures = [
                exact("frames harmed", 1, done.done, "frames"),
                *self.figures(
                    1, into, **expected, llr_tx_nack_ctl_os=1, llr_rx_replay=1, llr_rx_expected_seq_good=MANY,
                    llr_rx_duplicate_seq=0,
                ),
                exact("llr_rx_nack_ctl_os of the tester", 1, source.counters["llr_rx_nack_ctl_os"], "messages"),
                exact("llr_tx_replay of the tester", 1, source.counters["llr_tx_replay"], "times"),
                *self.states(1, rx=ReceiveState.SEND_ACKS),
            ]  # fmt: skip
        self.record(SIZE, self.about(1, frames=MANY, harm=what), [*figures, *self.no_loss(flow)])


class OneFramePoisoned(RetryCase):
    """One frame of 100 with a poisoned CRC: it takes its number and goes no further, and is not asked for."""

    case = "LLR-05"

    def runTest(self) -> None:
        source, _ = self.retry_ends(1, 2)
        flow = self.flow(1, 2, SIZE, 0)
        into = self.counts(1)
        done = source.out.harm(Harm.POISON, {Kind.DATA}, count=1, after=ODD)
        with self.clock_stopped():
            self.burst(source, flow, FRAMES)
            self.run_until(lambda: flow.received >= FRAMES - 1, 2.0)
            figures = [
                exact("frames poisoned", 1, done.done, "frames"),
                *self.figures(
                    1, into, llr_rx_expected_seq_poisoned=1, llr_rx_poisoned=1, llr_rx_ok=FRAMES - 1,
                    llr_rx_expected_seq_good=FRAMES - 1, llr_tx_nack_ctl_os=0, llr_rx_replay=0,
                ),
                exact("llr_tx_replay of the tester", 0, source.counters["llr_tx_replay"], "times"),
            ]  # fmt: skip
        self.settle()
        self.record(
            SIZE,
            self.about(1, frames=FRAMES, poisoned=f"number {ODD}"),
            [
                *figures,
                exact("frames_received", FRAMES - 1, flow.received, "frames"),
                exact("frames_wrong", 0, flow.wrong + flow.repeated + flow.disordered, "frames"),
                exact("sender_credits_used of the tester", 0, source.senders[0].used),
            ],
        )
        self.conclude()


def _breaks(numbers: list[int]) -> int:
    """Return how many numbers are not the one after the one before."""
    return sum(after != before + 1 for before, after in pairwise(numbers))


def _outstanding(sender: object) -> int:
    return getattr(sender, "outstanding", -1)
