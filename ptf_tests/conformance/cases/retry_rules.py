"""What the public test plans of link-layer retry ask for beside the numbered cases: the rules one by one."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Final

from codec.constants import Kind, LinkFlag
from codec.profile import MAX_OUTSTANDING_BYTES, MAX_OUTSTANDING_FRAMES, LinkProfile, ProfileError
from controller.retries import ReceiveState, TransmitState
from ptf_tests.conformance.arrivals import ArrivalTimes
from ptf_tests.conformance.link_end import LinkEnd
from ptf_tests.conformance.processor_waits import WaitLog
from ptf_tests.conformance.records import Figure, at_least, at_most, close, exact, near
from ptf_tests.conformance.retry_case import RetryCase, retrying
from ptf_tests.conformance.retry_end import RetryEnd, RetrySettings
from ptf_tests.conformance.settings import DEFINED_RATE, FULL_RATE, SWITCH_PID
from ptf_tests.conformance.wire import Harm
from ptf_tests.links import Profile
from ptf_tests.retry import SEQS

SIZE: Final = 512
FRAMES: Final = 100
ODD: Final = 50
LINK_AND_BODY: Final = 12 + SIZE
ACKNOWLEDGING: Final = (Kind.LLR_ACK, Kind.LLR_NACK, Kind.CF_UPDATE)
WAIT_S: Final = 0.5
BEFORE_WRAP: Final = 60
STATE: Final = ("llr_next_seq", "llr_unacknowledged_seq", "llr_expected_seq", "llr_ack_asked")
TIMER_US: Final = 200_000
REPLAYS: Final = 8
INVALID: Final = (
    ("outstanding_frames_max", 0),
    ("outstanding_frames_max", MAX_OUTSTANDING_FRAMES + 1),
    ("outstanding_bytes_max", 0),
    ("outstanding_bytes_max", MAX_OUTSTANDING_BYTES + 1),
)
REFUSED_S: Final = 0.2
MOST_PATIENT_TICKS: Final = 60_000
STAMPED_US: Final = 200
"""What may pass from when the switch stamps a frame until it is on the cable: so much later it seems to come."""


class KeptUntilAcknowledged(RetryCase):
    """Frames stay buffered until they are acknowledged, however long that takes, and can be had again until then."""

    case = "LLR-keep"

    def runTest(self) -> None:
        source, sink = self.retry_ends(1, 2)
        flow = self.flow(1, 2, SIZE, 0)
        out = self.counts(2)
        lost = sink.into.harm(Harm.DROP, {Kind.DATA})
        sink.out.harm(Harm.DROP, ACKNOWLEDGING)
        with self.clock_stopped():
            self.burst(source, flow, FRAMES)
            self.run_until(lambda: lost.done == FRAMES)
            self.run_for(WAIT_S)
            kept, kept_bytes = self.outstanding(2), self.retry_state(2)["outstanding_bytes"]
            sink.into.rules.clear()
            sink.out.rules.clear()
            sink.freeze()
            sink.ask(SEQS - 1)
            self.delivered(flow)
            replayed, first = self.outstanding(2), sink.again
            sink.ask(ODD - 1)
            self.run_until(lambda: len(sink.again) >= FRAMES + FRAMES - ODD)
            half = self.outstanding(2)
            sink.frozen = None
            sink.ask(FRAMES - 1)
            self.run_until(lambda: self.outstanding(2) == 0)
            self.record(
                SIZE,
                self.about(2, frames=FRAMES, acknowledged=f"none for {WAIT_S:g} s, then {ODD}, then all"),
                [
                    exact("outstanding frames after a while", FRAMES, kept, "frames"),
                    exact("outstanding bytes after a while", FRAMES * LINK_AND_BODY, kept_bytes, "bytes"),
                    exact("first replay: all, in order", 1, int(first == list(range(FRAMES))), "(1: yes)"),
                    exact("outstanding frames after it", FRAMES, replayed, "frames"),
                    exact("outstanding frames when half is acknowledged", FRAMES - ODD, half, "frames"),
                    exact(
                        "second replay: the rest, in order", 1,
                        int(sink.again[FRAMES:] == list(range(ODD, FRAMES))), "(1: yes)",
                    ),
                    exact("outstanding frames when all is", 0, self.outstanding(2), "frames"),
                    exact("outstanding bytes then", 0, self.retry_state(2)["outstanding_bytes"], "bytes"),
                    *self.figures(2, out, llr_tx_ok=FRAMES, llr_tx_replay=2, llr_tx_replayed=FRAMES + FRAMES - ODD),
                    *self.no_loss(flow),
                ],
            )  # fmt: skip
        self.conclude()


class NoAckAfterNack(RetryCase):
    """No ACK leaves between a NACK and the expected frame, which is kept away for a while; keepalives ask again."""

    case = "LLR-nack"
    tester_settings = RetrySettings(replay_count_max=10_000)

    def runTest(self) -> None:
        source, _ = self.retry_ends(1, 2)
        flow = self.flow(1, 2, SIZE, 0)
        into = self.counts(1)
        source.out.harm(Harm.DROP, {Kind.DATA}, count=1, after=ODD)
        kept_away = source.out.harm(Harm.DROP, {Kind.DATA}, after=FRAMES - 1)
        source.heard.clear()
        self.burst(source, flow, FRAMES)
        self.run_for(WAIT_S)
        refused = self.grow(1, into, llr_out_of_sequence=FRAMES - ODD - 1)
        source.out.rules.clear()
        whole = self.no_loss(flow)
        self.burst(source, flow, 2 * 16)
        whole = self.no_loss(flow)
        kinds = [one.kind for one in source.heard]
        begin = kinds.index(Kind.LLR_NACK) if Kind.LLR_NACK in kinds else 0
        gap = [one for one in source.heard[begin:] if one.ack == ODD - 1]
        asked = [one.kind for one in gap].count(Kind.LLR_NACK)
        keepalives = 1 + [one.kind for one in gap].count(Kind.CF_UPDATE)
        last = [index for index, one in enumerate(source.heard) if one.ack == ODD - 1][-1]
        self.record(
            SIZE,
            self.about(1, frames=flow.sent, missing=f"number {ODD}", for_so_long=f"{WAIT_S:g} s"),
            [
                exact("LLR_ACKs in the gap", 0, [one.kind for one in gap].count(Kind.LLR_ACK), "messages"),
                exact(
                    "frames in the gap that acknowledge something else", 0,
                    sum(one.ack != ODD - 1 for one in source.heard[begin:last]), "frames",
                ),
                at_least("NACKs in the gap: the first, then by keepalives", 2, asked, "messages"),
                at_most("NACKs in the gap, of keepalives", 1 + keepalives, asked, "messages"),
                at_least("replays that were kept away", 1, kept_away.done, "frames"),
                exact("llr_out_of_sequence, port 1", FRAMES - ODD - 1, refused["llr_out_of_sequence"], "frames"),
                exact("llr_rx_missing_seq, port 1", 1, refused["llr_rx_missing_seq"], "times"),
                at_least("LLR_ACKs after the gap", 1, kinds[last:].count(Kind.LLR_ACK), "messages"),
                *self.states(1, rx=ReceiveState.SEND_ACKS),
                *whole,
            ],
        )  # fmt: skip
        self.conclude()


class Duplicates(RetryCase):
    """A duplicate is discarded, counted, and not delivered; nobody is asked for anything because of it."""

    case = "LLR-duplicate"

    def runTest(self) -> None:
        source, _ = self.retry_ends(1, 2)
        flow = self.flow(1, 2, SIZE, 0)
        into, drops = self.counts(1), self.drops((1,))
        twice = source.out.harm(Harm.REPEAT, {Kind.DATA}, count=ODD, after=ODD // 2)
        with self.clock_stopped():
            self.burst(source, flow, FRAMES)
            self.delivered(flow)
            figures = [
                exact("frames sent twice", ODD, twice.done, "frames"),
                *self.figures(
                    1, into, llr_rx_duplicate_seq=ODD, llr_rx_ok=FRAMES + ODD, llr_rx_expected_seq_good=FRAMES,
                    llr_tx_nack_ctl_os=0, llr_rx_missing_seq=0, llr_rx_replay=0,
                ),
                exact("frames dropped", ODD, sum(self.new_drops(drops).values()), "frames"),
            ]  # fmt: skip
        whole = self.no_loss(flow)
        freed = self.freed(source, 0)
        self.record(
            SIZE,
            self.about(1, frames=FRAMES, twice=ODD),
            [*figures, *whole, exact("sender_credits_used of the source", 0, source.senders[0].used)],
            "" if freed else "the source did not get its credits back",
        )
        self.conclude()


class Wrap(RetryCase):
    """Numbers pass 2^20 both ways without a false duplicate or gap, also with a loss there."""

    case = "LLR-wrap"
    first = SEQS - BEFORE_WRAP

    def new_end(self, port: int, profile: Profile, now: float) -> LinkEnd:
        end = super().new_end(port, profile, now)
        assert isinstance(end, RetryEnd)
        end.first = self.first
        return end

    def runTest(self) -> None:
        self._across(0)
        self._across(1)
        self.conclude()

    def _across(self, lost: int) -> None:
        ends = self.fresh_ends(1, 2)
        for port in (1, 2):
            for name in STATE:
                self.set_register(name, port, self.first)
        flows = [self.flow(1, 2, SIZE, 0), self.flow(2, 1, SIZE, 0)]
        before = {port: self.counts(port) for port in (1, 2)}
        if lost:
            for end in ends:
                end.out.harm(Harm.DROP, {Kind.DATA}, count=1, after=BEFORE_WRAP - 1)
                end.into.harm(Harm.DROP, {Kind.DATA}, count=1, after=BEFORE_WRAP)
        with self.clock_stopped():
            for end, flow in zip(ends, flows, strict=True):
                self.burst(end, flow, 2 * BEFORE_WRAP)
            self.run_until(lambda: all(flow.outstanding == 0 for flow in flows))
            figures: list[Figure] = []
            for port in (1, 2):
                figures += self.figures(
                    port, before[port], llr_tx_ok=2 * BEFORE_WRAP, llr_rx_expected_seq_good=2 * BEFORE_WRAP,
                    llr_rx_missing_seq=lost, llr_tx_nack_ctl_os=lost, llr_tx_replay=lost, llr_rx_duplicate_seq=0,
                    llr_rx_ack_nack_seq_error=0,
                )  # fmt: skip
                told = self.retry_state(port)
                figures += [
                    exact(f"next_seq, port {port}", BEFORE_WRAP, told["next_seq"], "(sequence)"),
                    exact(f"expected_seq, port {port}", BEFORE_WRAP, told["expected_seq"], "(sequence)"),
                ]
        whole = self.no_loss(*flows)
        self.run_until(lambda: self.outstanding(1) == self.outstanding(2) == 0)
        left = self.outstanding(1) + self.outstanding(2)
        about = {"first_sequence": self.first, "lost": "the frames before and after the wrap" if lost else "nothing"}
        self.record(
            SIZE,
            self.about(2, frames=2 * BEFORE_WRAP, **about),
            [*figures, exact("outstanding frames in the end", 0, left, "frames"), *whole],
        )


class ReplayTimer(RetryCase):
    """The replay timer fires within 10% of its setting, and not early."""

    case = "LLR-timer"

    def runTest(self) -> None:
        source, sink = self.retry_ends(1, 2, replay_timer=TIMER_US, replay_count_max=REPLAYS)
        flow = self.flow(1, 2, SIZE, 0)
        out = self.counts(2)
        sink.out.harm(Harm.DROP, ACKNOWLEDGING)
        came: list[float] = []
        log = WaitLog(os.environ[SWITCH_PID])
        with ArrivalTimes(self.dataplane.ports[(0, 2)].interface_name) as arrivals, self.clock_stopped():

            def given_up() -> bool:
                came.extend(one.at for one in arrivals.take() if _is_numbered_data(one.frame))
                log.look()
                return self.count("llr_flushes", 2) > out["llr_flushes"]

            self.burst(source, flow, 1)
            self.run_until(given_up, 30.0)
            figures = self.figures(2, out, llr_tx_replay=REPLAYS, llr_replay_timeouts=REPLAYS + 1, llr_flushes=1)
        intervals = [round((later - earlier) * 1e6) for earlier, later in pairwise(came)]
        waited = [round(log.most_between(a + TIMER_US * 1e-6, b) * 1e6) for a, b in pairwise(came)]
        # A frame that is held up on its way to the cable makes the interval before it longer, the next one shorter.
        early = [after + max(0, before - TIMER_US) for before, after in pairwise(intervals)]
        late = [interval - wait for interval, wait in zip(intervals, waited, strict=True)]
        self.record(
            SIZE,
            self.about(2, frames=1, acknowledgements="dropped"),
            [
                exact("intervals", REPLAYS, len(intervals), "times"),
                at_least(
                    "shortest interval, with what the one before was too long", TIMER_US - STAMPED_US,
                    min(early, default=0), "us",
                ),
                at_most(
                    "longest interval, less what the switch then waited for a processor", TIMER_US * 1.1,
                    max(late, default=0), "us",
                ),
                *figures,
            ],
            f"one run; from when a frame is on the cable to when it is again, by the kernel's time stamps, so that no "
            f"delay of the tester counts: {min(intervals, default=0)} to {max(intervals, default=0)} us; when a replay "
            f"was due, a thread of the switch waited {max(waited, default=0)} us at most for a processor",
        )  # fmt: skip
        self.conclude()


class InvalidProfiles(RetryCase):
    """Zero or too many outstanding frames or bytes: refused where a profile is made, and by the switch itself."""

    case = "LLR-profile"

    def runTest(self) -> None:
        for index, (name, value) in enumerate(INVALID):
            figures = [exact("refused where a profile is made", 1, int(_is_refused(name, value)), "(1: yes)")]
            self.ends.clear()
            self._configure(index, **{name: value})
            before = self.count("bad_retry_profile", 2)
            end = self.ends[2] = self.new_end(2, self.profiles[2], self.now())
            self.run_for(REFUSED_S)
            self.record(
                None,
                self.about(2),
                [
                    *figures,
                    exact("link up", 0, int(end.is_ready), "(1: yes)"),
                    at_least("bad_retry_profile, port 2", 1, self.count("bad_retry_profile", 2) - before, "frames"),
                    *self.states(2, TransmitState.INIT, ReceiveState.OFF),
                ],
            )
        self._configure(1)
        self.run_until(lambda: end.is_ready)
        self.record(
            None,
            self.about(2),
            [
                exact("link up", 1, int(end.is_ready), "(1: yes)"),
                *self.states(2, TransmitState.ADVANCE, ReceiveState.SEND_ACKS),
            ],
            "a good profile, after those that were refused",
        )
        self.conclude()

    def _configure(self, changes: int, **settings: int) -> None:
        settings = {"outstanding_frames_max": 128, "outstanding_bytes_max": 1 << 20, **settings}
        if changes:
            self.change_retry(2, **settings)
        else:
            self.retry_links(2, profile=retrying(), up=False, **settings)


class PortsApart(RetryCase):
    """Each port has a profile, numbers, replays and a FLUSH of its own: one gives up, the other notices nothing.

    Of ports 2 and 3: port 1 shares a thread with the hold loop on BMv2, in which the frames for port 2 wait.
    """

    case = "LLR-ports"

    def runTest(self) -> None:
        source, good = self.retry_ends(1, 3)
        quiet = retrying(silence=MOST_PATIENT_TICKS)  # what acknowledges is all that a peer without data sends
        (bad,) = self.retry_ends(
            2, profile=quiet, outstanding_frames_max=8, replay_timer=TIMER_US // 2, replay_count_max=3
        )  # fmt: skip
        stuck, free = self.flow(1, 2, SIZE, 0), self.flow(1, 3, SIZE, 0)
        before = {port: self.counts(port) for port in (2, 3)}
        bad.out.harm(Harm.DROP, ACKNOWLEDGING)
        self.burst(source, stuck, FRAMES)
        self.offer(source, free, FULL_RATE)
        self.run_for(0.05)
        (rate,) = self.rates(lambda: [free.received], 0.5, lambda rates: near(FULL_RATE, *rates))
        self.run_until(lambda: self.count("llr_flushes", 2) > before[2]["llr_flushes"])
        self.stop()
        whole = self.no_loss(free)
        told = {port: self.retry_state(port) for port in (2, 3)}
        self.settle()
        got = good.counters["llr_rx_ok"]
        self.record(
            SIZE,
            self.about(3, offered=f"{FULL_RATE:g} frames/s", beside="port 2, whose ACKs are dropped"),
            [
                close("rate of port 3", FULL_RATE, rate, "frames/s"),
                *self.figures(3, before[3], llr_tx_replay=0, llr_flushes=0, llr_rx_nack_ctl_os=0),
                *self.states(3, TransmitState.ADVANCE, ReceiveState.SEND_ACKS),
                exact("outstanding_frames_max, port 3", 128, told[3]["outstanding_frames_max"], "frames"),
                exact("next_seq, port 3, as the tester has got", got, told[3]["next_seq"], "frames"),
                *self.figures(2, before[2], llr_tx_replay=3, llr_flushes=1, llr_tx_ok=8),
                *self.states(2, TransmitState.FLUSH, ReceiveState.SEND_ACKS),
                exact("outstanding_frames_max, port 2", 8, told[2]["outstanding_frames_max"], "frames"),
                exact("next_seq, port 2", 8, told[2]["next_seq"], "frames"),
                exact(
                    "frames_received at port 2, and CC_UPDATEs", 8,
                    stuck.received + bad.counters["cbfc_num_cc_update_messages_rx"], "frames",
                ),
                *whole,
            ],
            DEFINED_RATE,
        )  # fmt: skip
        self.conclude()


def _is_refused(name: str, value: int) -> bool:
    """Tell whether a link profile with this setting is refused because of it."""
    try:
        LinkProfile(llr=True, **{name: value})  # type: ignore[arg-type]
    except ProfileError as error:
        return f"{name} = {value} is out of range" in str(error)
    return False


def _is_numbered_data(frame: bytes) -> bool:
    return frame[0] >> 4 == Kind.DATA and bool(frame[0] & LinkFlag.LLR)
