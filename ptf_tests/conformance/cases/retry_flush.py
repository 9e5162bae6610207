"""LLR-03, LLR-06, LLR-08: acknowledgements that never come, until the switch gives up, and what it does then.

The switch's ticks stand where frames are counted, as each keepalive would number a CC_UPDATE; its replay timer goes on.
"""

from __future__ import annotations

from typing import Final

from codec.constants import Kind
from controller.retries import TransmitState
from ptf_tests.conformance.records import Figure, at_least, exact
from ptf_tests.conformance.retry_case import Counts, RetryCase
from ptf_tests.conformance.retry_end import RetryEnd
from ptf_tests.conformance.wire import Harm
from ptf_tests.retry import BLOCK, DISCARD

FRAMES: Final = 100
FEW: Final = 4
REPLAYS: Final = 3
SIZE: Final = 512
TIMER_US: Final = 300_000
"""So long that each replay has ended, on a busy machine too, before the next one is due."""
ACKNOWLEDGING: Final = (Kind.LLR_ACK, Kind.LLR_NACK, Kind.CF_UPDATE)
"""What a peer that sends no data acknowledges with."""


class FlushCase(RetryCase):
    """What the cases below share."""

    case = ""

    def gives_up(self, port: int, before: Counts) -> bool:
        """Wait until the switch has given up once more on a port, and then until one more replay would have begun."""
        flushed = self.run_until(lambda: self.count("llr_flushes", port) > before["llr_flushes"], 20.0)
        self.run_for(1.5 * TIMER_US * 1e-6)
        return flushed

    def of_replays(self, sink: RetryEnd, before: Counts, seqs: range) -> list[Figure]:
        """Return the figures of three whole replays of these frames, and of FLUSH after them."""
        again = sink.again
        return [
            *self.figures(
                2, before, llr_tx_replay=REPLAYS, llr_replay_timeouts=REPLAYS + 1, llr_flushes=1,
                llr_tx_replayed=REPLAYS * len(seqs), llr_tx_ok=seqs.stop,
            ),
            exact("whole replays, of just these frames, in order", 1, int(again == REPLAYS * list(seqs)), "(1: yes)"),
            exact("llr_rx_replay of the tester", REPLAYS, sink.counters["llr_rx_replay"], "times"),
            *self.states(2, tx=TransmitState.FLUSH),
        ]  # fmt: skip


class NoAcknowledgements(FlushCase):
    """ACKs blocked for good: three replays, then FLUSH."""

    case = "LLR-03"

    def runTest(self) -> None:
        source, sink = self.retry_ends(1, 2, replay_timer=TIMER_US, replay_count_max=REPLAYS)
        flow = self.flow(1, 2, SIZE, 0)
        before = self.counts(2)
        sink.out.harm(Harm.DROP, ACKNOWLEDGING)
        with self.clock_stopped():
            self.burst(source, flow, FRAMES)
            self.gives_up(2, before)
        self.record(
            SIZE,
            self.about(2, frames=FRAMES, acknowledgements="blocked"),
            [*self.of_replays(sink, before, range(FRAMES)), *self.no_loss(flow)],
        )
        self.conclude()


class FrozenAcknowledgements(FlushCase):
    """ACKs that go on saying the same: three replays of what they do not acknowledge, then FLUSH."""

    case = "LLR-03"

    def runTest(self) -> None:
        source, sink = self.retry_ends(1, 2, replay_timer=TIMER_US, replay_count_max=REPLAYS)
        flow = self.flow(1, 2, SIZE, 0)
        before = self.counts(2)
        with self.clock_stopped():
            self.burst(source, flow, FRAMES // 2)
            self.run_until(lambda: self.retry_state(2)["unacknowledged_seq"] == FRAMES // 2)
            sink.freeze()
            acknowledged = self.count("llr_rx_ack_ctl_os", 2)
            self.burst(source, flow, FRAMES // 2)
            self.gives_up(2, before)
        frozen = sink.frozen
        oldest = self.retry_state(2)["unacknowledged_seq"]
        told = self.count("llr_rx_ack_ctl_os", 2) - acknowledged
        self.record(
            SIZE,
            self.about(2, frames=FRAMES, acknowledgements=f"frozen at {frozen}"),
            [
                *self.of_replays(sink, before, range(FRAMES // 2, FRAMES)),
                at_least("llr_rx_ack_ctl_os that say it, port 2", 1, told, "messages"),
                exact("unacknowledged_seq, port 2", FRAMES // 2, oldest, "(sequence)"),
                *self.no_loss(flow),
            ],
        )
        self.conclude()


class FewOutstanding(FlushCase):
    """outstanding_frames_max = 4 and flush action discard: four frames go out, again and again, then FLUSH."""

    case = "LLR-06"

    def runTest(self) -> None:
        source, sink = self.retry_ends(
            1, 2, outstanding_frames_max=FEW, flush_action=DISCARD, replay_timer=TIMER_US, replay_count_max=REPLAYS
        )  # fmt: skip
        flow = self.flow(1, 2, SIZE, 0)
        before, dropped = self.counts(2), self.counts(1)["llr_flushed"]
        sink.out.harm(Harm.DROP, ACKNOWLEDGING)
        most = 0
        with self.clock_stopped():
            for _ in range(FRAMES // 2):
                self.burst(source, flow, 2)
                self.run_for(0.001)
                most = max(most, self.outstanding(2))
            self.gives_up(2, before)
        freed = self.freed(source, 0)
        self.record(
            SIZE,
            self.about(2, frames=FRAMES, acknowledgements="dropped"),
            [
                exact("outstanding frames, at most", FEW, most, "frames"),
                *self.of_replays(sink, before, range(FEW)),
                exact("frames_received", FEW, flow.received, "frames"),
                exact("frames_wrong", 0, flow.wrong + flow.repeated + flow.disordered, "frames"),
                exact("llr_flushed, port 1", FRAMES - FEW, self.counts(1)["llr_flushed"] - dropped, "frames"),
                exact("sender_credits_used of the source", 0, source.senders[0].used),
                exact("held_frames after FLUSH", 0, sum(self.credits_at(2).held_frames), "frames"),
            ],
            "" if freed else "the source did not get its credits back",
        )
        self.conclude()


class ComesBack(FlushCase):
    """re_init_on_flush: after FLUSH the switch sends INIT by itself, and the link recovers."""

    case = "LLR-08"

    def runTest(self) -> None:
        source, sink = self.retry_ends(
            1, 2, flush_action=BLOCK, re_init_on_flush=1, replay_timer=TIMER_US, replay_count_max=REPLAYS
        )  # fmt: skip
        flow = self.flow(1, 2, SIZE, 0)
        before, session = self.counts(2), sink.session
        sink.out.harm(Harm.DROP, ACKNOWLEDGING)
        self.burst(source, flow, FRAMES)
        self.run_until(lambda: self.count("llr_flushes", 2) > before["llr_flushes"], 20.0)
        started = self.now()
        sink.out.heal()
        self.run_until(lambda: sink.is_ready and sink.session not in (0, session), 10.0)
        recovered = self.now() - started
        grown = self.grow(2, before, link_ups=1)
        again = self.flow(1, 2, SIZE, 0)
        self.burst(source, again, FRAMES)
        self.delivered(again)
        numbers = [one.seq for one in sink.heard if one.numbered and one.kind == Kind.DATA]
        self.record(
            SIZE,
            self.about(2, frames=FRAMES, acknowledgements="dropped until FLUSH"),
            [
                exact("llr_flushes, port 2", 1, grown["llr_flushes"], "times"),
                exact("link_ups, port 2", 1, grown["link_ups"], "times"),
                exact("llr_tx_init_ctl_os, sent", 1, int(grown["llr_tx_init_ctl_os"] > 0), "(1: yes)"),
                exact("another session", 1, int(sink.session != session), "(1: yes)"),
                exact("first sequence after it", 0, numbers[0] if numbers else -1, "(sequence)"),
                *self.states(2, tx=TransmitState.ADVANCE),
                *self.no_loss(flow, again),
            ],
            f"up again {recovered * 1000:.0f} ms after FLUSH",
        )
        self.conclude()


del FlushCase  # ptf would run it
