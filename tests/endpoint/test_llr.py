"""Link-layer retry by itself: every rule of docs/protocol.md section 6, then both ends over a channel that does its
worst."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from codec.constants import Kind
from endpoint.cyclic import MASK, MODULUS, after, distance, steps
from endpoint.llr import ACK_FRAMES, Arrival, Due, LlrReceiver, LlrSender, ReceiveState, TransmitState

DATA = int(Kind.DATA)
TIMER = 0.005
HEADER = 12


def sender(**changes: Any) -> LlrSender:
    values = {"frames_max": 4, "bytes_max": 1000, "replay_timer_s": TIMER, "replay_count_max": 3} | changes
    return LlrSender(Counter(), **values)


def receiver(first: int = 0) -> LlrReceiver:
    return LlrReceiver(Counter(), ack_delay_s=0.001, nack_repeat_s=0.01, first=first)


def body(number: int, size: int = 8) -> bytes:
    return number.to_bytes(8, "big") + bytes(size - 8)


def replayed(one: LlrSender, now: float) -> list[int]:
    """Return the sequences that a replay sends."""
    sequences = []
    while (again := one.take_again(now)) is not None:
        sequences.append(again[0])
    return sequences


# ---------------------------------------------------------------------------------------------- cyclic numbers


def test_numbers_are_compared_the_short_way_round() -> None:
    assert after(MASK, 1) == 0
    assert after(0, -1) == MASK
    assert steps(MASK - 1, 2) == 4
    assert steps(2, 1) == MASK
    assert distance(MASK - 1, 2) == 4
    assert distance(2, MASK - 1) == -4
    assert distance(0, MODULUS // 2 - 1) == MODULUS // 2 - 1
    assert distance(0, MODULUS // 2) == -(MODULUS // 2)


# ------------------------------------------------------------------------------------------------------ sender


def test_sequences_start_at_0_and_the_last_acknowledged_one_before_it() -> None:
    one = sender()
    assert (one.next, one.acknowledged) == (0, 0xFFFFF)
    assert [one.push(0, DATA, body(n)) for n in range(3)] == [0, 1, 2]


def test_the_window_in_frames() -> None:
    one = sender()
    for number in range(4):
        assert one.has_room(8)
        one.push(0, DATA, body(number))
    assert not one.has_room(8)
    assert one.acknowledge(0, 0) == 1
    assert one.has_room(8)


def test_the_window_in_bytes_counts_link_headers() -> None:
    one = sender(bytes_max=3 * (HEADER + 100))
    for number in range(2):
        one.push(0, DATA, body(number, 100))
    assert one.has_room(100)
    assert not one.has_room(101)
    one.push(0, DATA, body(2, 100))
    assert one.bytes == 3 * (HEADER + 100)
    assert not one.has_room(0)
    one.acknowledge(0, 1)
    assert one.bytes == HEADER + 100


def test_acknowledgements_are_valid_from_the_last_one_to_the_newest_sent() -> None:
    one = sender(first=MASK - 1)
    for number in range(4):  # MASK - 1, MASK, 0, 1
        one.push(0, DATA, body(number))
    assert one.acknowledge(0, MASK - 2) == 0  # the last one
    assert one.acknowledge(0, 2, explicit=True) == -1  # never sent
    assert one._counters["llr_rx_ack_nack_seq_error"] == 1
    assert one.acknowledge(0, 2) == -1  # rides on another frame: not counted
    assert one.acknowledge(0, 0) == 3  # cumulative
    assert one.acknowledge(0, MASK, explicit=True) == -1  # overtaken by a newer one
    assert one.acknowledge(0, 1) == 1
    assert one._counters["llr_rx_ack_nack_seq_error"] == 1
    assert one.outstanding == 0


def test_the_replay_timer_runs_from_the_last_sending_of_the_oldest() -> None:
    one = sender()
    one.push(1.0, DATA, body(0))
    one.push(1.004, DATA, body(1))
    one.expire(1.0 + TIMER - 1e-6)
    assert one.state is TransmitState.ADVANCE
    one.expire(1.0 + TIMER)
    assert one.state is TransmitState.REPLAY
    assert replayed(one, 1.01) == [0, 1]
    assert one.deadline == 1.01 + TIMER
    one.acknowledge(1.012, 0)
    assert one.deadline == 1.012 + TIMER
    one.acknowledge(1.013, 1)
    assert one.deadline == math.inf


def test_a_replay_sends_all_after_the_acknowledgement_in_order_and_nothing_new_before_its_end() -> None:
    one = sender(frames_max=8)
    for number in range(5):
        one.push(0, DATA, body(number))
    one.acknowledge(0, 1)
    one.replay(0)
    assert not one.has_room(8)
    first = one.take_again(0)
    assert first == (2, DATA, body(2))
    assert not one.has_room(8)
    assert replayed(one, 0) == [3, 4]
    assert one.has_room(8)
    assert one.push(0, DATA, body(5)) == 5


def test_what_is_acknowledged_during_a_replay_is_not_sent_again() -> None:
    one = sender(frames_max=8)
    for number in range(5):
        one.push(0, DATA, body(number))
    one.replay(0)
    assert one.take_again(0) == (0, DATA, body(0))
    one.acknowledge(0, 2)
    assert replayed(one, 0) == [3, 4]
    one.replay(0)
    assert one.take_again(0) == (3, DATA, body(3))
    one.acknowledge(0, 4)
    assert one.state is TransmitState.ADVANCE
    assert replayed(one, 0) == []


def test_asked_again_during_a_replay_begins_it_anew() -> None:
    one = sender(frames_max=8)
    for number in range(5):
        one.push(0, DATA, body(number))
    one.replay(0)
    one.take_again(0)
    one.take_again(0)
    one.acknowledge(0, 0)
    one.replay(0)
    assert replayed(one, 0) == [1, 2, 3, 4]


def test_asked_again_for_what_was_just_replayed_waits_a_part_of_the_timer() -> None:
    """A burst of NACKs costs one replay more, not one each; with progress there is no wait."""
    one = sender(frames_max=8)
    for number in range(5):
        one.push(0, DATA, body(number))
    one.asked(0.001)
    assert replayed(one, 0.001) == [0, 1, 2, 3, 4]
    for _ in range(20):
        one.asked(0.0011)
    assert one.state is TransmitState.ADVANCE
    one.expire(0.0019)
    assert one.state is TransmitState.ADVANCE
    one.expire(0.0021)
    assert replayed(one, 0.0021) == [0, 1, 2, 3, 4]
    one.acknowledge(0.0022, 1)
    one.asked(0.0022)
    assert replayed(one, 0.0022) == [2, 3, 4]
    assert one._counters["llr_tx_replay"] == 3


def test_replays_without_progress_end_in_flush() -> None:
    one = sender()
    one.push(0, DATA, body(0))
    one.push(0, DATA, body(1))
    for count in range(1, 4):
        one.expire(count * 1.0)
        assert replayed(one, count * 1.0) == [0, 1]
    one.expire(4.0)
    assert one.state is TransmitState.FLUSH
    assert (one.outstanding, one.bytes, one.deadline) == (0, 0, math.inf)
    assert not one.has_room(8)
    assert (one._counters["llr_tx_replay"], one._counters["llr_flushes"], one._counters["llr_tx_discard"]) == (3, 1, 2)
    one.replay(0)
    assert one.state is TransmitState.FLUSH


def test_any_progress_starts_the_count_anew() -> None:
    one = sender(frames_max=100)
    for number in range(20):
        one.push(0, DATA, body(number))
    for number in range(19):
        for _ in range(3):
            one.replay(0)
            replayed(one, 0)
        one.acknowledge(0, number)
    assert one.state is TransmitState.ADVANCE


# ---------------------------------------------------------------------------------------------------- receiver


def test_accepts_the_next_one_only() -> None:
    one = receiver(first=MASK)
    assert one.take(0, MASK) is Arrival.NEXT
    assert one.take(0, 0) is Arrival.NEXT
    assert one.take(0, 2) is Arrival.REFUSED
    assert one.take(0, 0) is Arrival.REFUSED
    assert one.take(0, 1) is Arrival.NEXT
    counters = one._counters
    assert counters["llr_rx_ok"] == 5
    assert counters["llr_rx_expected_seq_good"] == 3
    assert counters["llr_rx_duplicate_seq"] == counters["llr_rx_missing_seq"] == 1


def test_acknowledges_after_16_frames_or_the_delay_unless_another_frame_carries_it() -> None:
    one = receiver()
    for number in range(ACK_FRAMES - 1):
        one.take(0, number)
        assert one.due(0) is Due.NOTHING
    one.take(0, ACK_FRAMES - 1)
    assert one.due(0) is Due.ACK
    assert one.told() == ACK_FRAMES - 1
    assert one.due(100) is Due.NOTHING
    one.take(1.0, ACK_FRAMES)
    one.take(1.0005, ACK_FRAMES + 1)
    assert one.due(1.0009) is Due.NOTHING
    assert one.due(1.001) is Due.ACK
    assert one.told() == ACK_FRAMES + 1


def test_one_nack_per_gap_and_no_ack_until_the_expected_frame() -> None:
    one = receiver()
    one.take(0, 0)
    one.take(0, 2)
    assert one.state is ReceiveState.SEND_NACK
    assert one.due(0) is Due.NACK
    assert one.asked(0) == 0
    for number in range(3, 40):
        one.take(0, number)
        assert one.state is ReceiveState.NACK_SENT
        assert one.due(0.009) is Due.NOTHING
    assert one.take(0.009, 1, replayed=True) is Arrival.NEXT
    assert one.state is ReceiveState.SEND_ACKS
    assert one.due(0.009) is Due.NOTHING
    assert one._counters["llr_rx_missing_seq"] == 1


def test_a_bad_crc_is_asked_for_once() -> None:
    one = receiver()
    one.take_bad()
    assert one.due(0) is Due.NACK
    assert one.asked(0) == MASK
    one.take_bad()
    one.take(0, 1)
    assert one.due(0) is Due.NOTHING
    assert one._counters["llr_rx_bad"] == 2
    assert one._counters["llr_rx_expected_seq_bad"] == 1


def test_a_bad_crc_among_duplicates_is_not_asked_for() -> None:
    one = receiver()
    for number in range(3):
        one.take(0, number)
    one.told()
    one.take(0, 0, replayed=True)
    one.take_bad()
    assert one.due(0) is Due.NOTHING
    one.take(0, 4, replayed=True)  # so it was 3
    assert one.due(0) is Due.NACK


def test_a_nack_is_repeated_by_the_timer() -> None:
    one = receiver()
    one.take(0, 1)
    one.asked(0)
    assert one.due(0.0099) is Due.NOTHING
    assert one.due(0.01) is Due.NACK
    one.asked(0.01)
    assert one.due(0.0199) is Due.NOTHING
    assert one.due(0.02) is Due.NACK


def test_the_start_of_a_replay_arms_the_nack() -> None:
    one = receiver()
    for number in (0, 2, 3):
        one.take(0, number)
        if one.due(0) is Due.NACK:
            one.asked(0)
    one.take(0, 2, replayed=True)  # the replay has begun, and 1 is lost again
    assert one.due(0) is Due.NACK
    one.asked(0)
    one.take(0, 3, replayed=True)
    assert one.due(0) is Due.NOTHING  # the same replay
    one.take(0, 2, replayed=True)
    assert one.due(0) is Due.NACK  # the next one
    assert one._counters["llr_rx_replay"] == 2


def test_a_duplicate_arms_the_nack() -> None:
    one = receiver()
    for number in (0, 2):
        one.take(0, number)
    one.asked(0)
    one.take(0, 3)
    assert one.due(0) is Due.NOTHING
    one.take(0, 0)
    assert one.state is ReceiveState.SEND_NACK
    assert one.due(0) is Due.NOTHING  # armed: what shows that 1 is missing is answered
    one.take(0, 4)
    assert one.due(0) is Due.NACK


def test_the_newest_accepted_frame_come_again_is_acknowledged_at_once() -> None:
    one = receiver()
    one.take(0, 0)
    one.take(0, 1)
    one.told()
    one.take(1, 0, replayed=True)
    assert one.due(1) is Due.NOTHING
    one.take(1, 1, replayed=True)
    assert one.due(1) is Due.ACK
    one.told()
    assert one.due(1) is Due.NOTHING


def test_a_poisoned_frame_advances_the_sequence() -> None:
    one = receiver()
    assert one.take(0, 0, poisoned=True) is Arrival.POISONED
    assert one.take(0, 1) is Arrival.NEXT
    assert one.due(0) is Due.NOTHING
    assert one.take(0, 3, poisoned=True) is Arrival.REFUSED
    assert one.due(0) is Due.NACK
    assert one._counters["llr_rx_poisoned"] == 2
    assert one._counters["llr_rx_expected_seq_poisoned"] == 1
    assert one._counters["llr_rx_ok"] == 1


# -------------------------------------------------------------------------------------- both, at their worst


class OnWire(NamedTuple):
    """A numbered frame under way."""

    session: int
    sequence: int
    body: bytes
    replayed: bool
    corrupt: bool = False


class Answer(NamedTuple):
    """An acknowledgement or NACK under way."""

    session: int
    sequence: int
    nack: bool


ANYWHERE = st.integers(0, 63)


class WorstChannel(RuleBasedStateMachine):
    """Frames and answers are lost, repeated, corrupted, and overtake each other; either side starts anew.

    At every step: what was delivered in a session is what was pushed in it, exactly once and in order; what is kept
    fits the window in frames and bytes. When the channel is clean again, all of it is delivered.
    """

    FRAMES_MAX = 6
    BYTES_MAX = 150

    @initialize(below=st.integers(0, 12))
    def begin(self, below: int) -> None:
        self.first = after(0, -below)
        self.now = 0.0
        self.session = 0
        self.pushed: list[bytes] = []
        self.delivered: list[bytes] = []
        self.number = 0
        self.frames: list[OnWire] = []
        self.answers: list[Answer] = []
        self.start()

    def start(self) -> None:
        """Begin a session: both ends anew; what is under way is of another session."""
        self.session += 1
        self.pushed, self.delivered = [], []
        self.sender = LlrSender(
            Counter(), frames_max=self.FRAMES_MAX, bytes_max=self.BYTES_MAX, replay_timer_s=TIMER,
            replay_count_max=10**9, first=self.first,
        )  # fmt: skip
        self.receiver = receiver(self.first)

    # -------------------------------------------------------------------------------------- the two sides

    @rule(size=st.integers(8, 60), count=st.integers(1, 8))
    def push(self, size: int, count: int) -> None:
        for _ in range(count):
            if not self.sender.has_room(size):
                return
            self.number += 1
            one = body(self.number, size)
            self.pushed.append(one)
            self.frames.append(OnWire(self.session, self.sender.push(self.now, DATA, one), one, replayed=False))

    @rule(count=st.integers(1, 6))
    def replay(self, count: int) -> None:
        for _ in range(count):
            again = self.sender.take_again(self.now)
            if again is None:
                return
            self.frames.append(OnWire(self.session, again[0], again[2], replayed=True))

    @rule(microseconds=st.integers(1, 12_000))
    def time(self, microseconds: int) -> None:
        self.now += microseconds / 1e6
        self.sender.expire(self.now)
        self.answer()

    @rule()
    def ride(self) -> None:
        """Let a frame of the other direction carry the acknowledgement."""
        self.answers.append(Answer(self.session, self.receiver.told(), nack=False))

    def answer(self) -> None:
        due = self.receiver.due(self.now)
        if due is Due.NACK:
            self.answers.append(Answer(self.session, self.receiver.asked(self.now), nack=True))
        elif due is Due.ACK:
            self.answers.append(Answer(self.session, self.receiver.told(), nack=False))

    def arrive(self, frame: OnWire) -> None:
        if frame.session != self.session:
            return
        if frame.corrupt:
            self.receiver.take_bad()
        elif self.receiver.take(self.now, frame.sequence, frame.replayed) is Arrival.NEXT:
            self.delivered.append(frame.body)
        self.answer()

    def hear(self, answer: Answer) -> None:
        if answer.session == self.session and self.sender.acknowledge(self.now, answer.sequence) >= 0 and answer.nack:
            self.sender.asked(self.now)

    # ------------------------------------------------------------------------------------------- the channel

    @rule(count=st.integers(1, 10))
    def carry(self, count: int) -> None:
        for _ in range(min(count, len(self.frames))):
            self.arrive(self.frames.pop(0))

    @rule(count=st.integers(1, 10))
    def carry_back(self, count: int) -> None:
        for _ in range(min(count, len(self.answers))):
            self.hear(self.answers.pop(0))

    @rule(index=ANYWHERE)
    def overtake(self, index: int) -> None:
        if self.frames:
            self.arrive(self.frames.pop(index % len(self.frames)))

    @rule(index=ANYWHERE)
    def overtake_back(self, index: int) -> None:
        if self.answers:
            self.hear(self.answers.pop(index % len(self.answers)))

    @rule(index=ANYWHERE)
    def lose(self, index: int) -> None:
        if self.frames:
            self.frames.pop(index % len(self.frames))

    @rule(index=ANYWHERE)
    def lose_back(self, index: int) -> None:
        if self.answers:
            self.answers.pop(index % len(self.answers))

    @rule(index=ANYWHERE)
    def repeat(self, index: int) -> None:
        if self.frames:
            self.frames.insert(0, self.frames[index % len(self.frames)])

    @rule(index=ANYWHERE)
    def repeat_back(self, index: int) -> None:
        if self.answers:
            self.answers.insert(0, self.answers[index % len(self.answers)])

    @rule(index=ANYWHERE)
    def corrupt(self, index: int) -> None:
        if self.frames:
            index %= len(self.frames)
            self.frames[index] = self.frames[index]._replace(corrupt=True)

    @rule()
    def restart(self) -> None:
        self.start()

    # ------------------------------------------------------------------------------------------ what must hold

    @invariant()
    def exactly_once_and_in_order(self) -> None:
        if hasattr(self, "pushed"):
            assert self.delivered == self.pushed[: len(self.delivered)]

    @invariant()
    def the_window_is_never_exceeded(self) -> None:
        if hasattr(self, "sender"):
            kept = [HEADER + len(one) for _, one in self.sender._kept]
            assert len(kept) <= self.FRAMES_MAX
            assert sum(kept) == self.sender.bytes <= self.BYTES_MAX

    @invariant()
    def what_is_not_delivered_is_kept(self) -> None:
        if hasattr(self, "sender"):
            kept = [one for _, one in self.sender._kept]
            assert self.pushed[len(self.pushed) - len(kept) :] == kept
            assert len(self.pushed) - len(kept) <= len(self.delivered)

    def teardown(self) -> None:
        if not hasattr(self, "sender"):
            return
        for _ in range(12):  # the channel is clean now, and time goes on; nothing new helps to notice what is missing
            self.replay(100)
            self.carry(1000)
            self.carry_back(1000)
            self.time(6000)
        self.exactly_once_and_in_order()
        assert self.delivered == self.pushed
        assert self.sender.outstanding == 0
        assert self.sender.state is TransmitState.ADVANCE
        self.push(20, 1)  # a bad CRC of what had come before may still be asked for: that ends with the next frame
        self.carry(1)
        assert self.delivered == self.pushed
        assert self.receiver.state is ReceiveState.SEND_ACKS


TestWorstChannel = WorstChannel.TestCase
TestWorstChannel.settings = settings(
    max_examples=150, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.parametrize("count", [100])
def test_wraps_without_a_false_gap_or_duplicate(count: int) -> None:
    one, other = sender(frames_max=32, bytes_max=10**6, first=MODULUS - count // 2), receiver(MODULUS - count // 2)
    for number in range(count):
        sequence = one.push(0, DATA, body(number))
        assert other.take(0, sequence) is Arrival.NEXT
        if other.due(0) is Due.ACK:
            one.acknowledge(0, other.told())
    one.acknowledge(0, other.told())
    assert one.outstanding == 0
    assert one.next == count - count // 2
    assert not other._counters["llr_rx_missing_seq"] + other._counters["llr_rx_duplicate_seq"]
