"""Link-layer retry on managed links: two of them with a wire between that loses, repeats, corrupts and delays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from codec.constants import Capability, Kind, LinkFlag, Vc
from codec.control import parse_link_init
from codec.frames import LinkHeader, frame, parse_link
from codec.profile import LinkProfile
from endpoint.bringup import LinkState
from endpoint.cyclic import MODULUS, steps
from endpoint.llr import ReceiveState, TransmitState
from tests.endpoint.test_credits import LIMIT, BadCable, Pair, packet

RETRIED = LinkProfile(credit_limit=LIMIT, llr=True, silence_ms=0, replay_timer_us=5000)
NUMBERED = (Kind.DATA, Kind.CC_UPDATE)


def up(profile: LinkProfile = RETRIED) -> Pair:
    pair = Pair(profile)
    pair.up()
    return pair


def on_wire(pair: Pair, side: int) -> list[LinkHeader]:
    """Return the link headers of what a side has sent and the other has not received."""
    return [parse_link(memoryview(data)) for data in pair.wires[side].frames]


def data_on_wire(pair: Pair, side: int) -> list[tuple[int, int]]:
    """Return sequence and flags of the DATA among them."""
    return [(header.seq, header.flags) for header in on_wire(pair, side) if header.kind == Kind.DATA]


def numbers(packets: list[bytes]) -> list[int]:
    return [int.from_bytes(one[6:10], "big") for one in packets]


# ----------------------------------------------------------------------------------------------------- negotiation


@pytest.mark.parametrize(("a", "b"), [(True, True), (True, False), (False, True), (False, False)])
def test_on_only_where_both_have_it(a: bool, b: bool) -> None:
    pair = Pair(replace(RETRIED, llr=a))
    pair.profile = replace(RETRIED, llr=b)
    pair.links[1] = pair.make(1)
    assert pair.links[0].transmit_state is (TransmitState.INIT if a else TransmitState.OFF)
    pair.advance(0.01)
    for side, offered in ((0, a), (1, b)):
        init = parse_link_init(memoryview(pair.wires[side].frames[0])[12:])
        assert bool(init.capabilities & Capability.LLR) == offered
        assert init.outstanding_frames_max == (32 if offered else 0)
    pair.up()
    states = (TransmitState.ADVANCE, ReceiveState.SEND_ACKS) if a and b else (TransmitState.OFF, ReceiveState.OFF)
    for link in pair.links:
        assert (link.transmit_state, link.receive_state) == states
    pair.links[0].send(packet(1))
    assert data_on_wire(pair, 0) == [(0, LinkFlag.LLR if a and b else 0)]
    pair.pump()
    assert numbers(pair.received[1]) == [1]


def test_the_smaller_window_holds() -> None:
    pair = Pair(RETRIED)
    pair.profile = replace(RETRIED, outstanding_frames_max=3)
    pair.links[1] = pair.make(1)
    pair.up()
    for number in range(5):
        pair.links[0].send(packet(number))
    assert len(data_on_wire(pair, 0)) == 3


def test_best_effort_is_not_numbered() -> None:
    pair = up()
    pair.links[0].send(packet(1, vc=2))
    pair.links[0].send(packet(2, vc=Vc.CONTROL))
    pair.links[0].send(packet(3))
    assert data_on_wire(pair, 0) == [(0, 0), (0, 0), (0, LinkFlag.LLR)]
    pair.pump()
    assert numbers(pair.received[1]) == [1, 2, 3]


def test_control_frames_are_not_numbered_but_cc_update_is() -> None:
    pair = up()
    pair.links[0].send(packet(1))
    pair.advance(0.01)
    sent = on_wire(pair, 0)
    assert {header.kind for header in sent} >= {Kind.DATA, Kind.CF_UPDATE, Kind.CC_UPDATE}
    for header in sent:
        assert bool(header.flags & LinkFlag.LLR) == (header.kind in NUMBERED)
    assert [header.seq for header in sent if header.kind in NUMBERED] == [0, 1]


# ----------------------------------------------------------------------------------------------------- what is lost


def test_every_leaving_frame_carries_the_acknowledgement() -> None:
    pair = up()
    for number in range(3):
        pair.links[0].send(packet(number))
    pair.pump()
    pair.links[1].send(packet(9, vc=1))
    pair.links[1].send(packet(9, vc=2))
    pair.advance(0.01)
    assert {header.ack for header in on_wire(pair, 1)} == {2}


def test_a_lost_frame_is_sent_again_and_nothing_arrives_twice_or_out_of_order() -> None:
    pair = up()
    for number in range(10):
        pair.links[0].send(packet(number))
    del pair.wires[0].frames[3]
    pair.pump()
    assert numbers(pair.received[1]) == list(range(10))
    assert pair.counters[1]["llr_tx_nack_ctl_os"] == pair.counters[0]["llr_rx_nack_ctl_os"] == 1
    assert pair.counters[0]["llr_tx_replay"] == pair.counters[1]["llr_rx_replay"] == 1
    assert (pair.counters[0]["llr_tx_ok"], pair.counters[0]["llr_tx_replayed"]) == (10, 7)
    assert pair.counters[1]["llr_out_of_sequence"] == 6
    assert pair.links[0].senders[0].consumed == pair.links[1].receivers[0].consumed == 10  # credits count once


def test_a_corrupt_frame_is_sent_again() -> None:
    pair = up()
    for number in range(5):
        pair.links[0].send(packet(number))
    bad = bytearray(pair.wires[0].frames[1])
    bad[-1] ^= 1
    pair.wires[0].frames[1] = bytes(bad)
    pair.pump()
    assert numbers(pair.received[1]) == list(range(5))
    assert pair.counters[1]["llr_rx_bad"] == pair.counters[1]["llr_rx_expected_seq_bad"] == 1
    assert pair.counters[1]["drop_bad_crc"] == 1
    assert pair.counters[1]["llr_tx_nack_ctl_os"] == 1


def test_the_last_frame_is_repaired_by_the_timer() -> None:
    pair = up()
    pair.links[0].send(packet(1))
    pair.wires[0].frames.clear()
    pair.advance(0.0049)
    pair.advance(0)
    assert data_on_wire(pair, 0) == []
    pair.advance(0.0002)
    assert data_on_wire(pair, 0) == []  # first it looks whether the acknowledgement lies in the socket
    pair.advance(0)
    assert data_on_wire(pair, 0) == [(0, LinkFlag.LLR | LinkFlag.REPLAY)]
    pair.pump()
    assert numbers(pair.received[1]) == [1]


def test_a_lost_acknowledgement_costs_a_replay_that_is_not_delivered() -> None:
    pair = up()
    pair.links[0].send(packet(1))
    pair.pump()
    pair.wires[1].frames.clear()
    pair.advance(0.005)
    pair.wires[1].frames.clear()
    pair.advance(0)
    pair.pump()
    assert numbers(pair.received[1]) == [1]
    assert pair.counters[1]["llr_rx_duplicate_seq"] == 1
    assert pair.links[0]._retry is not None
    assert pair.links[0]._retry.sender.outstanding == 0  # the duplicate was acknowledged at once


def test_an_acknowledgement_leaves_by_itself() -> None:
    pair = up(replace(RETRIED, update_threshold=LIMIT))  # no CF_UPDATE carries it
    for number in range(16):
        pair.links[0].send(packet(number))
    while pair.wires[0].frames:
        pair.deliver(1, pair.wires[0].frames.popleft())
    assert [h.kind for h in on_wire(pair, 1) if h.kind == Kind.LLR_ACK] == [Kind.LLR_ACK]
    pair.pump()
    pair.links[0].send(packet(16))
    pair.pump()
    assert not any(header.kind == Kind.LLR_ACK for header in on_wire(pair, 1))
    pair.advance(0.0011)
    assert [(header.kind, header.ack) for header in on_wire(pair, 1)] == [(Kind.LLR_ACK, 16)]


def test_a_poisoned_frame_is_dropped_and_its_credits_are_free() -> None:
    pair = up()
    session = pair.links[0].bringup.session
    poison = LinkFlag.LLR | LinkFlag.POISON
    pair.deliver(1, frame(Kind.DATA, packet(1), flags=poison, seq=0, ack=0xFFFFF, session=session))
    pair.deliver(1, frame(Kind.DATA, packet(2), flags=LinkFlag.LLR, seq=1, ack=0xFFFFF, session=session))
    assert numbers(pair.received[1]) == [2]
    assert pair.counters[1]["llr_rx_expected_seq_poisoned"] == pair.counters[1]["drop_poisoned"] == 1
    assert pair.counters[1]["llr_tx_nack_ctl_os"] == 0
    assert (pair.links[1].receivers[0].consumed, pair.links[1].receivers[0].used) == (2, 0)


# ----------------------------------------------------------------------------------------------------- the window


def test_what_does_not_fit_the_window_waits_and_every_vc_gets_its_turn() -> None:
    pair = up(replace(RETRIED, outstanding_frames_max=4))
    for number in range(8):
        pair.links[0].send(packet(number, vc=0))
    for number in range(100, 104):
        pair.links[0].send(packet(number, vc=1))
    assert len(data_on_wire(pair, 0)) == 4
    assert pair.links[0].held == 8
    pair.pump()
    pair.advance(0.001)
    pair.pump()
    assert numbers(pair.received[1])[4:8] in ([4, 100, 5, 101], [100, 4, 101, 5])


def test_what_comes_during_a_replay_goes_out_after_it() -> None:
    pair = up()
    for number in range(4):
        pair.links[0].send(packet(number))
    pair.wires[0].frames.clear()
    pair.wires[0].backlogged = True  # the interface takes no more: the replay pauses
    pair.advance(0.005)
    pair.advance(0)
    assert pair.links[0].transmit_state is TransmitState.REPLAY
    pair.links[0].send(packet(4))
    assert data_on_wire(pair, 0) == []
    pair.advance(0.01)
    assert {header.kind for header in on_wire(pair, 0)} == {Kind.CF_UPDATE}  # which no replay holds up
    pair.wires[0].backlogged = False
    pair.advance(0)
    again = LinkFlag.LLR | LinkFlag.REPLAY
    assert data_on_wire(pair, 0) == [*((sequence, again) for sequence in range(4)), (4, LinkFlag.LLR)]
    pair.pump()
    assert numbers(pair.received[1]) == list(range(5))


# ------------------------------------------------------------------------------------------------------- giving up


def fail(pair: Pair) -> None:
    """Lose everything that side 0 sends until it gives up."""
    for _ in range(2 * pair.profile.replay_count_max + 4):
        pair.advance(0.0051)
        pair.wires[0].frames.clear()
        pair.wires[1].frames.clear()


def test_gives_up_after_so_many_replays_and_comes_up_anew() -> None:
    pair = up(replace(RETRIED, replay_count_max=3))
    session = pair.links[0].bringup.session
    pair.links[0].send(packet(1))
    for number in range(2, 60):  # more than there are credits: some wait
        pair.links[0].send(packet(number))
    fail(pair)
    counters = pair.counters[0]
    assert (counters["llr_tx_replay"], counters["llr_flushes"], counters["llr_tx_discard"]) == (3, 1, 32)
    pair.up()
    assert pair.links[0].bringup.session != session
    for _ in range(4):
        pair.pump()
        pair.advance(0.001)
    assert numbers(pair.received[1]) == list(range(33, 60))  # what was never numbered is still valid
    assert pair.links[0].senders[0].used == 0


@pytest.mark.parametrize("action", ["discard", "block", "best_effort"])
def test_stays_in_flush_where_the_profile_says_so(action: str) -> None:
    profile = replace(
        RETRIED, replay_count_max=2, re_init_on_flush=False, flush_action=action, outstanding_frames_max=4
    )
    pair = up(profile)
    for number in range(6):
        pair.links[0].send(packet(number))
    fail(pair)
    link = pair.links[0]
    assert link.transmit_state is TransmitState.FLUSH
    assert not link.is_up  # another plane is better
    pair.links[0].send(packet(6))
    pair.pump()
    expected = {"discard": ([], 0, 3), "block": ([], 3, 0), "best_effort": ([6], 0, 0)}[action]
    assert (numbers(pair.received[1]), link.held, pair.counters[0]["llr_flushed"]) == expected
    assert pair.counters[0]["llr_tx_discard"] == 4
    pair.advance(0.01)
    pair.pump()
    link._restart()
    pair.up()
    pair.links[0].send(packet(7))
    pair.pump()
    assert link.is_up
    assert numbers(pair.received[1])[-1] == 7
    pair.advance(0.01)
    pair.pump()
    assert link.senders[0].used == 0


def test_a_new_session_starts_anew_at_0() -> None:
    pair = up()
    for number in range(5):
        pair.links[0].send(packet(number))
    pair.pump()
    pair.links[1] = pair.make(1)
    pair.up()
    pair.links[0].send(packet(5))
    assert data_on_wire(pair, 0) == [(0, LinkFlag.LLR)]
    pair.pump()
    assert numbers(pair.received[1]) == list(range(6))


@pytest.mark.parametrize("kind", [Kind.LLR_ACK, Kind.LLR_NACK])
def test_acknowledgements_of_what_was_never_sent_are_counted(kind: Kind) -> None:
    pair = up()
    pair.links[0].send(packet(1))
    pair.wires[0].frames.clear()
    pair.deliver(0, frame(kind, bytes(6), ack=5, session=pair.links[0].bringup.session))
    assert pair.counters[0]["llr_rx_ack_nack_seq_error"] == 1
    assert pair.wires[0].frames == type(pair.wires[0].frames)()  # nothing is replayed for it


def test_retry_frames_are_unexpected_without_retry() -> None:
    pair = up(replace(RETRIED, llr=False))
    pair.deliver(0, frame(Kind.LLR_NACK, bytes(6), session=pair.links[0].bringup.session))
    assert pair.counters[0]["drop_unexpected_control"] == 1


# ----------------------------------------------------------------------------------------- everything at once


class RetriedCable(RuleBasedStateMachine):
    """Both directions at once over a cable on which anything may be lost, repeated, corrupted or overtaken.

    At every step each side has received what the other sent on a virtual channel, exactly once and in order, and no
    credit is minted; when the cable is good again, all of it arrives and every credit is back.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair(replace(RETRIED, replay_count_max=255))
        self.pair.up()
        for link in self.pair.links:  # the sequences are about to start anew
            assert link._retry is not None
            sender, receiver = link._retry
            assert sender.outstanding == 0
            sender.next = receiver.expected = MODULUS - 5
            sender.acknowledged = receiver._last = MODULUS - 6
        self.number = 0
        self.sent: list[list[list[int]]] = [[[], []], [[], []]]

    @rule(side=st.integers(0, 1), vc=st.integers(0, 1), size=st.integers(0, 4000), count=st.integers(1, 10))
    def send(self, side: int, vc: int, size: int, count: int) -> None:
        for _ in range(count):
            self.number += 1
            self.sent[side][vc].append(self.number)
            self.pair.links[side].send(packet(self.number, vc=vc, size=size))

    @rule(side=st.integers(0, 1), count=st.integers(1, 30))
    def carry(self, side: int, count: int) -> None:
        frames = self.pair.wires[side].frames
        for _ in range(min(count, len(frames))):
            self.pair.deliver(1 - side, frames.popleft())

    @rule(side=st.integers(0, 1), index=st.integers(0, 40))
    def lose(self, side: int, index: int) -> None:
        self.at(side, index, lambda frames, at: frames.pop(at))

    @rule(side=st.integers(0, 1), index=st.integers(0, 40))
    def repeat(self, side: int, index: int) -> None:
        self.at(side, index, lambda frames, at: frames.insert(0, frames[at]), in_order=(Kind.CF_UPDATE,))

    @rule(side=st.integers(0, 1), index=st.integers(0, 40))
    def delay(self, side: int, index: int) -> None:
        self.at(side, index, lambda frames, at: frames.append(frames.pop(at)), in_order=(Kind.CF_UPDATE,))

    @rule(side=st.integers(0, 1), index=st.integers(0, 40), bit=st.integers(64, 500))
    def corrupt(self, side: int, index: int, bit: int) -> None:
        def flip(frames: list[bytes], at: int) -> None:
            changed = bytearray(frames[at])
            changed[(bit >> 3) % len(changed)] ^= 1 << (bit & 7)
            frames[at] = bytes(changed)

        self.at(side, index, flip)

    @rule(microseconds=st.integers(1, 12_000))
    def time(self, microseconds: int) -> None:
        self.pair.advance(microseconds / 1e6)

    def at(
        self, side: int, index: int, change: Callable[[list[bytes], int], object], in_order: tuple[Kind, ...] = ()
    ) -> None:
        """Change the list of frames under way from a side, at an index, if there are any.

        Credits have rules of their own for updates that come out of order; what is `in_order` stays so.
        """
        wire = self.pair.wires[side]
        if wire.frames and wire.frames[index % len(wire.frames)][0] >> 4 not in in_order:
            frames = list(wire.frames)
            change(frames, index % len(frames))
            wire.frames.clear()
            wire.frames.extend(frames)

    @invariant()
    def exactly_once_and_in_order(self) -> None:
        for side in (0, 1):
            for vc in (0, 1):
                arrived = numbers([one for one in self.pair.received[1 - side] if one[0] >> 3 & 7 == vc])
                assert arrived == self.sent[side][vc][: len(arrived)]

    @invariant()
    def credits_are_neither_leaked_nor_minted(self) -> None:
        for side in (0, 1):
            for vc in (0, 1):
                sender, receiver = self.pair.links[side].senders[vc], self.pair.links[1 - side].receivers[vc]
                assert receiver.used <= sender.used <= LIMIT
        for counters in self.pair.counters:
            assert not counters["credits_written_off"] + counters["wrong_cf_updates"] + counters["link_resets"]

    @invariant()
    def the_window_is_never_exceeded(self) -> None:
        for link in self.pair.links:
            assert link._retry is not None
            assert link._retry.sender.outstanding <= RETRIED.outstanding_frames_max
            assert link._retry.sender.bytes <= RETRIED.outstanding_bytes_max

    def teardown(self) -> None:
        for _ in range(60):
            self.pair.pump()
            self.pair.advance(0.006)
        self.exactly_once_and_in_order()
        for side, link in enumerate(self.pair.links):
            assert len(self.pair.received[1 - side]) == sum(map(len, self.sent[side]))
            assert link.held == 0
            assert all(sender.used == 0 for sender in link.senders)
            assert link.bringup.state is LinkState.UP


TestRetriedCable = RetriedCable.TestCase
TestRetriedCable.settings = settings(
    max_examples=60, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


class RestartedCable(BadCable):
    """Links with retry whose ends restart or are killed, over a cable that loses and repeats.

    At every step every packet has arrived at most once and in order, and the buffer has not been exceeded; within a
    session nothing is written off, for what was lost comes again.
    """

    profile = replace(RETRIED, silence_ms=100)

    @invariant()
    def every_credit_is_accounted_for(self) -> None:
        if self.in_session:
            sender, receiver = self.pair.links[0].senders[0], self.pair.links[1].receivers[0]
            assert steps(receiver.consumed, sender.consumed) <= sender.used <= LIMIT
            assert steps(sender.freed, receiver.freed) <= sender.used
            assert receiver.used == sum(self.waiting)

    @invariant()
    def nothing_is_written_off(self) -> None:
        assert self.pair.counters[1]["credits_written_off"] == 0


TestRestartedCable = RestartedCable.TestCase
TestRestartedCable.settings = TestRetriedCable.settings
