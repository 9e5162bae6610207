"""Credits and bring-up by themselves: two managed links with a wire between them that loses, repeats and delays."""

from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from codec.constants import Kind, Next
from codec.frames import frame, oefh, parse_link
from codec.layouts import LINK, credits_of
from codec.profile import LinkProfile
from endpoint.bringup import LinkState
from endpoint.credits import CreditReceiver, CreditSender, Freed
from endpoint.cyclic import MASK, MODULUS
from endpoint.managed_link import ManagedLink

LIMIT = 48
PROFILE = LinkProfile(credit_limit=LIMIT)


class Wire:
    """One direction of a link, in order: what was sent and has not arrived."""

    backlogged: bool = False

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()

    def send(self, data: bytes) -> None:
        self.frames.append(data)


class Pair:
    """Two links, the wires between them, and a clock that stands until it is moved."""

    def __init__(self, profile: LinkProfile = PROFILE) -> None:
        self.now = 0.0
        self.wires = (Wire(), Wire())
        self.counters = (Counter[str](), Counter[str]())
        self.profile = profile
        self.links = [self.make(0), self.make(1)]
        self.received: tuple[list[bytes], list[bytes]] = ([], [])
        self.busy: list[deque[int]] = [deque(), deque()]

    def make(self, side: int) -> ManagedLink:
        return ManagedLink(self.wires[side], self.counters[side], self.profile, clock=lambda: self.now)

    def deliver(self, side: int, data: bytes) -> None:
        """Give a frame to a side, which works on it at once."""
        packet = self.links[side].receive(memoryview(data))
        if packet is not None:
            self.received[side].append(bytes(packet))
            self.links[side].respond(None)

    def pump(self, rounds: int = 6) -> None:
        """Deliver all that is on the wires, and what that brings about."""
        for _ in range(rounds):
            for side in (0, 1):
                frames = self.wires[1 - side].frames
                while frames:
                    self.deliver(side, frames.popleft())

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for link in self.links:
            link.poll(self.now)

    def up(self) -> None:
        self.advance(0.01)
        self.pump()
        self.advance(0.01)
        self.pump()
        assert all(link.is_up for link in self.links)


def packet(number: int, vc: int = 0, size: int = 20) -> bytes:
    return oefh(vc=vc, dst=2, src=1, next=int(Next.LSU)) + number.to_bytes(4, "big") + bytes(size)


# -------------------------------------------------------------------------------------------------------- one counter


def test_sender_takes_only_what_lies_between() -> None:
    sender = CreditSender(limit=10)
    sender.consume(4)
    assert sender.update(3) is Freed.NEW
    assert sender.used == 1
    assert sender.update(3) is Freed.SAME
    assert sender.update(5) is Freed.WRONG  # more than was consumed
    assert sender.update(2) is Freed.WRONG  # less than is known
    assert sender.update(3 + MODULUS) is Freed.WRONG  # 24 bits, but no counter
    assert sender.used == 1
    assert sender.has_room(9)
    assert not sender.has_room(10)


def test_counters_wrap() -> None:
    sender, receiver = CreditSender(limit=10), CreditReceiver(limit=10, threshold=3)
    sender.consumed = sender.freed = receiver.consumed = receiver.freed = receiver.reported = MASK - 1
    for _ in range(5):
        sender.consume(3)
        receiver.consume(3)
        receiver.free(3)
        assert receiver.update_due()
        assert sender.update(receiver.report()) is Freed.NEW
        assert sender.used == receiver.used == 0
    assert sender.consumed == 13


def test_receiver_writes_off_what_was_lost() -> None:
    receiver = CreditReceiver(limit=10, threshold=3)
    receiver.consume(2)
    assert receiver.reconcile(7) == 5
    assert (receiver.consumed, receiver.freed, receiver.used) == (7, 5, 2)
    assert receiver.reconcile(6) == 0  # late: something has arrived since
    assert receiver.reconcile(7) == 0  # repeated
    assert (receiver.consumed, receiver.freed) == (7, 5)


# ------------------------------------------------------------------------------------------------------------ bring-up


def test_comes_up_and_carries_data() -> None:
    pair = Pair()
    pair.links[0].send(packet(1))  # waits for the link
    assert not any(parse_link(memoryview(f)).kind == Kind.DATA for f in pair.wires[0].frames)
    pair.up()
    assert pair.received[1] == [packet(1)]
    assert pair.links[0].bringup.session == pair.links[1].bringup.session != 0


def test_no_data_before_the_first_credit_update() -> None:
    pair = Pair()
    pair.links[0].send(packet(1))
    pair.advance(0.01)
    for _ in range(6):
        for side in (0, 1):
            frames = pair.wires[1 - side].frames
            while frames:
                data = frames.popleft()
                if not (side == 0 and parse_link(memoryview(data)).kind == Kind.CF_UPDATE):
                    pair.deliver(side, data)
        pair.advance(0.01)
    assert pair.links[0].bringup.state is LinkState.UP
    assert pair.received[1] == []


def test_silence_restarts_and_unsent_packets_stay_valid() -> None:
    pair = Pair()
    pair.up()
    session = pair.links[0].bringup.session
    for number in range(60):  # more than the limit of 48
        pair.links[0].send(packet(number))
    pair.wires[0].frames.clear()  # and all that was sent is lost
    pair.advance(0.2)
    pair.wires[0].frames.clear()
    pair.wires[1].frames.clear()
    assert pair.counters[0]["silences"] == 1
    for _ in range(4):
        pair.advance(0.01)
        pair.pump()
    assert pair.links[0].bringup.session != session
    assert pair.received[1] == [packet(number) for number in range(48, 60)]
    assert pair.links[0].senders[0].used == pair.links[1].receivers[0].used == 0


def test_an_end_that_leaves_says_so() -> None:
    """What is for it waits at once, not only after silence, and goes to who comes next."""
    pair = Pair(LinkProfile(credit_limit=LIMIT, silence_ms=0))  # silence tells nothing
    pair.up()
    session = pair.links[0].bringup.session
    pair.links[1].leave()
    pair.wires[1].frames.popleft()  # lost, as any frame may be
    while pair.wires[1].frames:
        pair.deliver(0, pair.wires[1].frames.popleft())
    assert not pair.links[0].is_up
    pair.links[0].send(packet(1))
    assert pair.links[0].held == 1
    pair.wires[0].frames.clear()  # nobody is there
    pair.links[1] = pair.make(1)
    pair.up()
    assert pair.links[0].bringup.session != session
    assert pair.received[1] == [packet(1)]
    pair.links[1].carrier(False)
    pair.pump()
    pair.wires[1].frames.clear()
    pair.links[1].leave()
    assert not pair.wires[1].frames, "there is nobody to tell"


def test_a_peer_that_frees_nothing_is_brought_up_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(LinkProfile(credit_limit=LIMIT, stall_ms=50))
    pair.up()
    session = pair.links[0].bringup.session
    monkeypatch.setattr(pair.links[1], "respond", lambda _packet: None)  # the work on what arrives does not end
    for number in range(50):  # more than the limit of 48
        pair.links[0].send(packet(number))
    pair.pump()
    for _ in range(4):
        pair.advance(0.01)
        pair.pump()
    assert pair.counters[0]["stalls"] == 0
    pair.links[1]._free(0, 1)  # a credit is progress: the time begins anew
    pair.links[1]._send_freed()
    pair.pump()
    for _ in range(4):
        pair.advance(0.01)
        pair.pump()
    assert pair.counters[0]["stalls"] == 0
    pair.advance(0.03)
    assert pair.counters[0]["stalls"] == pair.counters[0]["link_resets"] == 1
    pair.up()
    assert pair.links[0].bringup.session != session
    assert pair.links[0].held == 1
    pair.links[1]._free(0, pair.links[1].receivers[0].used)
    pair.links[1]._send_freed()
    pair.pump()
    assert pair.links[0].held == 0
    for _ in range(10):  # nothing waits any more
        pair.advance(0.01)
        pair.pump()
    assert pair.counters[0]["stalls"] == 1


def test_restarted_peer_resets_both_directions() -> None:
    pair = Pair()
    pair.up()
    for number in range(10):
        pair.links[0].send(packet(number))
    pair.pump()
    pair.links[1] = pair.make(1)  # another process
    pair.up()
    pair.links[0].send(packet(10))
    pair.pump()
    assert pair.received[1] == [packet(number) for number in range(11)]


def test_what_the_buffer_holds_is_in_use_in_the_next_session() -> None:
    pair = Pair()
    pair.up()
    for number in range(40):
        pair.links[0].send(packet(number))
    taken = 0
    while pair.wires[0].frames:  # arrive, but the work on them does not end
        if pair.links[1].receive(memoryview(pair.wires[0].frames.popleft())) is not None:
            taken += 1
            pair.links[1]._arrived_vc = -1
    assert pair.links[1].receivers[0].used == taken == 40
    pair.links[1]._restart()
    pair.up()
    assert pair.links[0].senders[0].used == 40
    for number in range(40, 60):
        pair.links[0].send(packet(number))
    pair.pump()
    assert len(pair.received[1]) == 8  # 48 - 40
    assert pair.links[0].held == 12
    pair.links[1]._free(0, 40)
    pair.pump()
    assert len(pair.received[1]) == 20
    assert pair.links[0].senders[0].used == 0


def test_three_wrong_updates_restart() -> None:
    pair = Pair()
    pair.up()
    session = pair.links[0].bringup.session
    wrong = frame(Kind.CF_UPDATE, bytes(5) + b"\x01" + (999).to_bytes(3, "big") + bytes(21), session=session)
    for _ in range(2):
        pair.deliver(0, wrong)
    pair.advance(0.01)
    pair.pump()  # a right one comes in between
    for _ in range(2):
        pair.deliver(0, wrong)
    assert pair.links[0].bringup.state is LinkState.UP
    pair.deliver(0, wrong)
    assert pair.links[0].bringup.state is LinkState.INIT
    pair.up()


@pytest.mark.parametrize("kind", [Kind.DATA, Kind.CF_UPDATE, Kind.CC_UPDATE])
def test_another_session_is_not_believed(kind: Kind) -> None:
    pair = Pair()
    pair.up()
    body = packet(1) if kind is Kind.DATA else bytes(5) + b"\xff" + bytes(24)
    pair.deliver(1, frame(kind, body, session=pair.links[0].bringup.session ^ 1))
    assert pair.counters[1]["drop_wrong_session"] == 1
    assert pair.received[1] == []


def test_best_effort_is_dropped_while_the_link_is_not_up() -> None:
    pair = Pair()
    pair.links[0].send(packet(1, vc=2))
    assert pair.counters[0]["tx_dropped_link_not_up"] == 1
    pair.up()
    pair.links[0].send(packet(2, vc=2))
    pair.pump()
    assert pair.received[1] == [packet(2, vc=2)]
    assert pair.links[0].senders[2].used == 0


# ------------------------------------------------------------------------------------------------------- a bad cable


def data_credits(data: bytes) -> int:
    """Return what a frame costs: 0 but for DATA."""
    if parse_link(memoryview(data)).kind != Kind.DATA:
        return 0
    return credits_of(len(data) - LINK.size, 1 << PROFILE.credit_size)


class BadCable(RuleBasedStateMachine):
    """Random loss, repetition, restarts of either side, with packets still held and in the receiver's buffer.

    At every step: what the receiver's buffer holds never exceeds the limit, every credit of the session is accounted
    for, and every packet arrives at most once and in order. Counters begin just below 2^20, and again whenever nothing
    is under way.
    """

    profile = PROFILE

    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair(self.profile)
        self.pair.up()
        self.lost: Counter[int] = Counter()  # credits of what the wire lost, by session
        self.near_the_wrap(3)
        self.number = 0
        self.waiting: deque[int] = deque()  # credits of what the receiver, side 1, works on

    @rule(size=st.integers(0, 4000), count=st.integers(1, 20))
    def send(self, size: int, count: int) -> None:
        for _ in range(count):
            self.number += 1
            self.pair.links[0].send(packet(self.number, size=size))

    @rule(count=st.integers(1, 30))
    def arrive(self, count: int) -> None:
        frames = self.pair.wires[0].frames
        for _ in range(min(count, len(frames))):
            self._take(frames.popleft())

    def _take(self, data: bytes) -> None:
        link = self.pair.links[1]
        got = link.receive(memoryview(data))
        if got is not None:
            self.pair.received[1].append(bytes(got))
            self.waiting.append(link._arrived)
            link._arrived_vc = -1  # the work goes on

    @rule(count=st.integers(1, 30))
    def finish(self, count: int) -> None:
        for _ in range(min(count, len(self.waiting))):
            self.pair.links[1]._free(0, self.waiting.popleft())

    @rule()
    def lose(self) -> None:
        for wire in self.pair.wires:
            if wire.frames:
                data = wire.frames.popleft()
                self.lost[parse_link(memoryview(data)).session] += data_credits(data)

    @rule(left=st.integers(0, LIMIT))
    def near_the_wrap(self, left: int) -> None:
        """Let the counters be as they are after so many frames that few credits are left until they start anew."""
        sender, receiver = self.pair.links[0].senders[0], self.pair.links[1].receivers[0]
        settled = sender.used == receiver.used == 0 and sender.consumed == receiver.consumed
        if settled and self.in_session and not any(wire.frames for wire in self.pair.wires):
            sender.consumed = sender.freed = MASK - left
            receiver.consumed = receiver.freed = receiver.reported = MASK - left

    @rule()
    def repeat_control(self) -> None:
        for wire in self.pair.wires:
            if wire.frames and parse_link(memoryview(wire.frames[0])).kind != Kind.DATA:
                wire.frames.appendleft(wire.frames[0])

    @rule(count=st.integers(1, 30))
    def back(self, count: int) -> None:
        frames = self.pair.wires[1].frames
        for _ in range(min(count, len(frames))):
            self.pair.deliver(0, frames.popleft())

    @rule(milliseconds=st.integers(1, 25))
    def time(self, milliseconds: int) -> None:
        self.pair.advance(milliseconds / 1000)

    @rule()
    def long_silence(self) -> None:
        self.pair.advance(0.15)

    @rule(what=st.sampled_from(("sender killed", "sender restarts", "receiver killed", "receiver restarts")))
    def restart(self, what: str) -> None:
        """Killed: all is gone. Else with what it holds, or has in its buffer."""
        match what:
            case "sender killed":
                self.pair.links[0] = self.pair.make(0)
            case "sender restarts":
                self.pair.links[0]._restart()
            case "receiver killed":
                self.pair.links[1] = self.pair.make(1)
                self.waiting.clear()
            case _:
                self.pair.links[1]._restart()

    @rule()
    def come_up(self) -> None:
        """Let the links come up, as most of what can go wrong needs that."""
        for _ in range(4):
            if self.in_session and self.pair.links[0].is_up:
                break
            self.pair.advance(0.01)
            self.arrive(1000)
            self.back(1000)

    @property
    def in_session(self) -> bool:
        """Whether both ends are up, in the same session."""
        states = {link.bringup.state for link in self.pair.links}
        return states == {LinkState.UP} and len({link.bringup.session for link in self.pair.links}) == 1

    @invariant()
    def buffer_is_never_exceeded(self) -> None:
        held = sum(self.waiting)
        assert held <= LIMIT
        assert self.pair.links[1].receivers[0].used >= held

    @invariant()
    def every_credit_is_accounted_for(self) -> None:
        """What the sender has consumed more than the receiver is under way, or was lost and not written off yet; what
        the receiver has freed more than the sender knows was in use."""
        if not self.in_session:
            return
        session = self.pair.links[0].bringup.session
        sender, receiver = self.pair.links[0].senders[0], self.pair.links[1].receivers[0]
        frames = self.pair.wires[0].frames
        under_way = sum(data_credits(data) for data in frames if parse_link(memoryview(data)).session == session)
        assert under_way <= sender.consumed - receiver.consumed & MASK <= under_way + self.lost[session]
        assert receiver.freed - sender.freed & MASK <= sender.used <= LIMIT
        assert receiver.used == sum(self.waiting)

    @invariant()
    def packets_arrive_once_and_in_order(self) -> None:
        numbers = [int.from_bytes(p[6:10], "big") for p in self.pair.received[1]]
        assert numbers == sorted(set(numbers))

    def teardown(self) -> None:
        """When the cable is good again, everything that is held gets through and no credit is missing."""
        self.pair.now += 1
        for wire in self.pair.wires:
            wire.frames.clear()
        for _ in range(200):
            self.pair.advance(0.01)
            for _ in range(4):
                self.arrive(1000)
                self.finish(1000)
                self.back(1000)
        assert self.pair.links[0].held == 0
        assert self.pair.links[0].senders[0].used == self.pair.links[1].receivers[0].used == 0


TestBadCable = BadCable.TestCase
TestBadCable.settings = settings(
    max_examples=60, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
