"""The tester itself: its cables do the harm they should, its link ends keep the rules, its flows see every fault.

A GPU's link layer plays the other side, in memory and in virtual time.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

import pytest

from codec.constants import HOPS, Kind
from codec.frames import frame, parse_link
from codec.layouts import LINK
from codec.profile import LinkProfile
from endpoint.managed_link import ManagedLink
from ptf_tests.conformance.flows import Flow, Packets, flow_of, jain
from ptf_tests.conformance.link_end import Drain, LinkEnd
from ptf_tests.conformance.wire import Harm, Wire, corrupted
from ptf_tests.links import Profile

STEP_S = 0.001
DATA = frame(Kind.DATA, b"\0" * 40)
UPDATE = frame(Kind.CF_UPDATE, b"\0" * 30)


# ------------------------------------------------------------------------------------------------------------ the wire


def test_a_wire_without_rules_carries_everything_at_once() -> None:
    got: list[bytes] = []
    Wire(got.append).put(DATA, 0.0)
    assert got == [DATA]


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (Harm.DROP, [UPDATE]),
        (Harm.CORRUPT, [corrupted(DATA), UPDATE]),
        (Harm.REPEAT, [DATA, DATA, UPDATE]),
        (Harm.FREEZE, [UPDATE]),
    ],
)
def test_harm_is_done_to_the_kinds_it_is_meant_for(harm: Harm, expected: list[bytes]) -> None:
    got: list[bytes] = []
    wire = Wire(got.append)
    rule = wire.harm(harm, {Kind.DATA})
    wire.put(DATA, 0.0)
    wire.put(UPDATE, 0.0)
    assert got == expected
    assert rule.done == 1
    wire.heal()
    wire.put(DATA, 0.0)
    assert got == [*expected, *([DATA] if harm is Harm.FREEZE else []), DATA]


def test_harm_ends_after_its_count() -> None:
    got: list[bytes] = []
    wire = Wire(got.append)
    wire.harm(Harm.DROP, count=2)
    for _ in range(5):
        wire.put(DATA, 0.0)
    assert len(got) == 3


def test_delayed_frames_come_in_order_when_they_are_due() -> None:
    got: list[bytes] = []
    wire = Wire(got.append)
    wire.harm(Harm.DELAY, {Kind.DATA}, delay_s=0.1)
    frames = [frame(Kind.DATA, bytes([number]) * 20) for number in range(3)]
    for number, one in enumerate(frames):
        wire.put(one, number * 0.01)
    assert wire.poll(0.05) == pytest.approx(0.1)
    assert got == []
    assert wire.poll(0.115) == pytest.approx(0.12)
    assert got == frames[:2]
    wire.poll(1.0)
    assert got == frames
    assert wire.poll(1.0) is None


def test_delayed_frames_stay_in_order_when_the_delay_shrinks() -> None:
    got: list[bytes] = []
    wire = Wire(got.append)
    wire.harm(Harm.DELAY, delay_s=0.1)
    wire.put(DATA, 0.0)
    wire.rules.clear()
    wire.harm(Harm.DELAY, delay_s=0.02)
    wire.put(UPDATE, 0.01)
    wire.poll(0.05)
    assert got == []
    wire.poll(0.1)
    assert got == [DATA, UPDATE]


def test_a_corrupted_frame_fails_its_crc() -> None:
    with pytest.raises(ValueError, match="bad_crc"):
        parse_link(memoryview(corrupted(DATA)))


# ----------------------------------------------------------------------------------------------------------- the flows


def arrive(flow: Flow, *numbers: int) -> None:
    for number in numbers:
        packet = flow.packets.make(number, HOPS - 1)
        assert flow_of(packet) == (7, number)
        flow.arrived(number, packet)


def test_a_flow_sees_loss_repetition_disorder_and_damage() -> None:
    flow = Flow(Packets(7, 1, 2, 0, 100), 0.0, 0.0)
    flow.sent = 6
    arrive(flow, 0, 1, 3, 2, 3)
    assert (flow.received, flow.disordered, flow.repeated, flow.wrong, flow.outstanding) == (4, 1, 1, 0, 2)
    flow.arrived(4, flow.packets.make(4, HOPS))  # the hop limit was not decremented
    assert (flow.wrong, flow.outstanding) == (1, 2)


@pytest.mark.parametrize("size", [38, 64, 1025, 4134])
def test_packets_have_their_size(size: int) -> None:
    assert len(Packets(1, 1, 2, 0, size).make(5)) == size


def test_a_packet_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="the smallest has 38"):
        Packets(1, 1, 2, 0, 37)


def test_a_flow_keeps_its_pace_and_makes_up_for_little() -> None:
    flow = Flow(Packets(7, 1, 2, 0, 100), 1000.0, 0.0)
    now = 0.0
    for _ in range(1000):
        now += STEP_S
        while flow.due(now):
            flow.took(now)
    assert flow.sent == pytest.approx(1000, abs=2)
    now += 1.0  # held up
    sent = flow.sent
    while flow.due(now):
        flow.took(now)
    assert flow.sent - sent <= 22


def test_a_flow_keeps_to_what_may_be_under_way() -> None:
    flow = Flow(Packets(7, 1, 2, 0, 100), 1000.0, 0.0, most_outstanding=2)
    for _ in range(2):
        assert flow.due(1.0)
        flow.took(1.0)
    assert not flow.due(1.0)
    assert flow.next_due == float("inf")
    arrive(flow, 0)
    assert flow.due(1.0)
    assert flow.next_due < 1.0


def test_a_drain_keeps_its_pace() -> None:
    drain = Drain(250.0)
    assert sum(drain.due(step * STEP_S) for step in range(1000, 2000)) == pytest.approx(250, abs=6)
    assert not any(Drain(0).due(step * STEP_S) for step in range(1000))


def test_jain() -> None:
    assert jain([5.0, 5.0, 5.0]) == pytest.approx(1)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)


# ------------------------------------------------------------------------------------------- a link end against a GPU


@dataclass
class Queue:
    """A direction of a cable in memory."""

    frames: deque[bytes] = field(default_factory=deque)
    backlogged = False  # it takes whatever comes

    def send(self, data: bytes) -> None:
        self.frames.append(data)


class Pair:
    """A link end and a GPU's link layer, joined, in virtual time."""

    def __init__(self, limit: int = 40) -> None:
        self.now = 1.0
        self.packets: list[bytes] = []
        self.to_gpu, self.to_tester = Queue(), Queue()
        profile = LinkProfile(lossless_vcs=(0, 1), credit_limit=limit)
        self.gpu = ManagedLink(self.to_tester, Counter(), profile, clock=lambda: self.now)
        own = Profile(lossless_vcs=0b11, credit_limit=limit)
        self.end = LinkEnd(own, self.to_gpu.send, self.packets.append, self.now)
        self.gpu_counters: Counter[str] = self.gpu._counters
        self.gpu_received = 0

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_S)):
            self.now += STEP_S
            self.end.poll(self.now)
            self.gpu.poll(self.now)
            while self.to_gpu.frames or self.to_tester.frames:
                if self.to_gpu.frames and self.gpu.receive(memoryview(self.to_gpu.frames.popleft())) is not None:
                    self.gpu_received += 1
                    self.gpu.respond(None)
                if self.to_tester.frames:
                    self.end.arrived(self.to_tester.frames.popleft(), self.now)


def test_the_link_comes_up_and_carries_data_both_ways() -> None:
    pair = Pair()
    pair.run(0.05)
    assert pair.end.is_ready
    assert pair.gpu.is_up
    packet = Packets(1, 1, 2, 0, 1025).make(0)
    assert pair.end.try_send(packet, 0)
    assert pair.end.senders[0].used == 2
    pair.gpu.send(packet)
    pair.run(0.03)
    assert pair.packets == [packet]
    assert pair.gpu_received == 1
    assert pair.end.senders[0].used == 0  # the GPU has told that it is done with it
    assert pair.gpu.senders[0].used == 0


def test_a_buffer_that_is_not_drained_stops_the_peer_and_no_more_than_the_limit_comes() -> None:
    pair = Pair()
    pair.run(0.05)
    pair.end.drain(0)
    for number in range(60):
        pair.gpu.send(Packets(1, 1, 2, 0, 512).make(number))
    pair.run(0.2)
    assert len(pair.packets) == 40 == pair.end.buffered
    assert pair.gpu.held == 20
    assert pair.end.counters["over_limit"] == 0
    pair.end.drain(100.0)
    pair.run(0.1)
    assert pair.end.buffered == 40  # it drains, and what waited comes in
    assert len(pair.packets) == pytest.approx(50, abs=3)
    pair.end.drain(float("inf"))
    pair.run(0.1)
    assert len(pair.packets) == 60
    assert pair.gpu.senders[0].used == 0


def test_a_vc_that_is_not_drained_does_not_stop_another() -> None:
    pair = Pair()
    pair.run(0.05)
    pair.end.drain(0, 0)
    for number in range(60):
        for vc in (0, 1):
            pair.gpu.send(Packets(1 + vc, 1, 2, vc, 512).make(number))
    pair.run(0.2)
    assert Counter(flow_of(packet)[0] for packet in pair.packets) == {1: 40, 2: 60}


def test_losses_are_written_off_by_cc_updates_and_not_without() -> None:
    pair = Pair()
    pair.run(0.05)
    pair.end.into.harm(Harm.DROP, {Kind.CC_UPDATE})
    pair.end.into.harm(Harm.CORRUPT, {Kind.DATA})
    for number in range(10):
        pair.gpu.send(Packets(1, 1, 2, 0, 512).make(number))
    pair.run(0.1)
    assert pair.end.counters["drop_bad_crc"] == 10
    assert pair.gpu.senders[0].used == 10
    pair.end.into.heal()
    pair.run(0.05)
    assert pair.end.counters["credits_written_off"] == 10
    assert pair.gpu.senders[0].used == 0


def test_a_peer_that_ignores_credits_is_noticed() -> None:
    pair = Pair()
    pair.run(0.05)
    pair.end.drain(0)
    session = pair.gpu.bringup.session
    for number in range(41):
        pair.to_tester.send(frame(Kind.DATA, Packets(1, 1, 2, 0, 512).make(number), session=session))
    pair.run(0.01)
    assert pair.end.counters["over_limit"] == 1


def test_a_restart_under_load_keeps_what_is_in_the_buffer_counted() -> None:
    pair = Pair()
    pair.run(0.05)
    pair.end.drain(0)
    for number in range(10):
        pair.gpu.send(Packets(1, 1, 2, 0, 512).make(number))
    pair.run(0.02)
    session = pair.end.session
    pair.end.restart()
    pair.run(0.1)
    assert pair.end.is_ready
    assert pair.end.session != session
    assert pair.gpu.senders[0].used == 10 == pair.end.receivers[0].used
    pair.end.drain(float("inf"))
    pair.run(0.05)
    assert pair.gpu.senders[0].used == 0


def test_forged_and_stale_frames_change_nothing() -> None:
    pair = Pair()
    pair.run(0.05)
    packet = Packets(1, 1, 2, 0, 512).make(0)
    pair.end.forge(frame(Kind.DATA, packet, session=pair.end.session ^ 1))
    pair.to_tester.send(frame(Kind.DATA, packet, session=pair.end.session ^ 1))
    pair.run(0.01)
    assert pair.gpu_counters["drop_wrong_session"] == 1
    assert pair.end.counters["drop_wrong_session"] == 1
    assert pair.packets == []
    assert len(frame(Kind.DATA, packet)) == LINK.size + 512
