"""Exactly once, whatever the network does: loss, repetition, reordering, delay, restarts of the source.

Initiator and target meet over a simulated network whose every misdeed hypothesis chooses. The memory is checked
against what the requests amount to: each store's bytes, the sum of all adds, and for each atomic a value before that
fits one order.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.constants import REQUEST_WINDOW, LsuOpcode
from codec.frames import end_to_end_seed, lsu_packet, oefh, parse_lsu
from endpoint.errors import LsuTimeout
from endpoint.initiator import Initiator
from endpoint.memory import Memory
from endpoint.options import EndpointOptions
from endpoint.paths import Paths
from endpoint.target import Target, incarnation_is_newer
from endpoint.transfer import Transfer
from tests.endpoint.simulated_network import FATES, Fate, SimulatedNetwork

SOURCE, TARGET = 1, 2
KEY = 9
ADD, SWAP, CAS = LsuOpcode.ATOMIC_ADD, LsuOpcode.ATOMIC_SWAP, LsuOpcode.ATOMIC_CAS


class World(SimulatedNetwork):
    """A source and a target with a network between them."""

    def __init__(self, fates: list[Fate], first_request: int, options: EndpointOptions) -> None:
        super().__init__(fates)
        self.options = options
        self.memory = Memory()
        self.region = self.memory.register(64, KEY)
        self.target_counters: Counter[str] = Counter()
        self.target = Target(TARGET, self.memory, self.target_counters)
        self.start_source(1, first_request)

    def start_source(self, incarnation: int, first_request: int = 1) -> None:
        self.counters: Counter[str] = Counter()
        paths = Paths(SOURCE, [0, 1], ordered=False)
        self.initiator = Initiator(
            SOURCE, incarnation, paths, lambda plane, packet: self.send(packet, True, plane), self.counters,
            self.options, first_request,
        )  # fmt: skip

    def submit(self, opcode: int, address: int, length: int, data: bytes, timeout: float = 60.0) -> Transfer:
        transfer: Transfer = Transfer(1, lambda values: values[0])
        self.run(until=lambda: self.initiator.has_room(TARGET))
        self.initiator.submit(self.now, self.now + timeout, TARGET, opcode, KEY, address, length, data, transfer, 0)
        return transfer

    def expire(self) -> float | None:
        return self.initiator.expire(self.now)

    def deliver(self, packet: bytes, to_target: bool, plane: int) -> None:
        lsu = parse_lsu(memoryview(packet))
        if not to_target:
            self.initiator.handle(self.now, lsu)
        elif (response := self.target.handle(lsu)) is not None:
            self.send(response, False, plane)


OPTIONS = EndpointOptions(window=8, first_rto_s=0.1, min_rto_s=0.03, max_rto_s=0.5)

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just(ADD), st.integers(0, 2**64 - 1)),
        st.tuples(st.just(SWAP), st.integers(0, 2**64 - 1)),
        st.tuples(st.just(CAS), st.integers(0, 3)),
        st.tuples(st.just(LsuOpcode.STORE), st.integers(0, 255)),
        st.tuples(st.just(LsuOpcode.LOAD), st.just(0)),
    ),
    min_size=1,
    max_size=40,
)


def word(value: int) -> bytes:
    return value.to_bytes(8, "little")


@settings(max_examples=400, deadline=None)
@given(
    st.lists(FATES, max_size=100), st.lists(st.integers(1, 2**40), min_size=1, max_size=60), st.integers(0, 2**32 - 1)
)
def test_adds_add_up(fates: list[Fate], values: list[int], first_request: int) -> None:
    """The word is the sum, and the values before are those of some order: each add was applied once."""
    world = World(fates, first_request, OPTIONS)
    transfers = [world.submit(ADD, 8, 8, word(value)) for value in values]
    world.run(until=lambda: all(transfer.done() for transfer in transfers))
    before = [transfer.result(0) for transfer in transfers]
    assert int(world.region.u64[1]) == sum(values)
    at = 0
    for old, value in sorted(zip(before, values, strict=True)):
        assert old == at
        at += value
    assert world.target_counters["requests"] == len(values)


@settings(max_examples=400, deadline=None)
@given(st.lists(FATES, max_size=100), OPERATIONS, st.integers(0, 2**32 - 1))
def test_one_at_a_time_is_sequential(
    fates: list[Fate], operations: list[tuple[LsuOpcode, int]], first_request: int
) -> None:
    """Accesses that each wait for the one before do what the same accesses do on plain memory."""
    world = World(fates, first_request, OPTIONS)
    model = bytearray(64)
    for number, (opcode, value) in enumerate(operations):
        address = 8 * (number % 3)
        old = int.from_bytes(model[address : address + 8], "little")
        expected: int | bytes | None
        if opcode == ADD:
            data, new, expected = word(value), (old + value) % 2**64, old
        elif opcode == SWAP:
            data, new, expected = word(value), value, old
        elif opcode == CAS:
            data, new, expected = word(value) + word(value + 1), value + 1 if old == value else old, old
        elif opcode == LsuOpcode.STORE:
            data, new, expected = bytes([value]) * 8, int.from_bytes(bytes([value]) * 8, "little"), None
        else:
            data, new, expected = b"", old, bytes(model[address : address + 8])
        transfer = world.submit(opcode, address, 8, data)
        world.run(until=transfer.done)
        assert transfer.result(0) == expected
        model[address : address + 8] = word(new)
        assert world.region.array.tobytes() == model
    assert world.target_counters["requests"] == len(operations)


@settings(max_examples=300, deadline=None)
@given(st.lists(FATES, max_size=100), st.integers(1, 30), st.integers(1, 30), st.floats(0, 1.0), st.integers(0, 0xFFFF))
def test_restart_of_the_source(fates: list[Fate], first: int, second: int, when: float, incarnation: int) -> None:
    """What a dead source sent takes effect once at most, and nothing of it after the new one was heard."""
    world = World(fates, 1, OPTIONS)
    world.start_source(incarnation)
    for _ in range(first):
        world.submit(ADD, 0, 8, word(1))
    stop = world.now + when
    world.run(until=lambda: world.now >= stop)
    world.start_source(incarnation + 1 & 0xFFFF)
    heard = world.submit(ADD, 0, 8, word(1 << 32))
    world.run(until=heard.done)
    old_part = heard.result(0) % (1 << 32)
    assert old_part <= first
    transfers = [world.submit(ADD, 0, 8, word(1 << 32)) for _ in range(second)]
    world.run(until=lambda: all(transfer.done() for transfer in transfers) and not world.in_flight)
    assert [transfer.exception(0) for transfer in transfers] == [None] * second
    assert int(world.region.u64[0]) == old_part + (second + 1 << 32)


def test_window_never_exceeds_what_the_target_remembers() -> None:
    """A request that stays lost holds newest - oldest below 1,024, though the rest is answered."""
    world = World([], 2**32 - 500, EndpointOptions(window=1023, first_rto_s=5.0, max_rto_s=5.0))
    lost = world.initiator
    first = Transfer(1, lambda values: values[0])
    world.fates = [Fate(())]
    lost.submit(0.0, 100.0, TARGET, ADD, KEY, 0, 8, word(1), first, 0)
    world.fates = []
    count = 0
    while world.initiator.has_room(TARGET):
        done = world.submit(ADD, 0, 8, word(1))
        count += 1
        world.run(until=done.done)
    assert count == REQUEST_WINDOW - 1
    world.run(until=first.done)
    assert first.result(0) == count
    assert int(world.region.u64[0]) == count + 1
    assert world.initiator.has_room(TARGET)


def test_silence_ends_in_bounded_time() -> None:
    world = World([Fate(())] * 100, 1, OPTIONS)
    transfer = world.submit(LsuOpcode.LOAD, 0, 8, b"", timeout=3.0)
    world.run()
    assert world.now == pytest.approx(3.0)
    with pytest.raises(
        LsuTimeout, match=r"LOAD of 8 bytes at 0x0 of GPU 2 \(key 0x9\): no answer in 3.0 s after \d+ tries"
    ):
        transfer.result(0)
    assert world.counters["timed_out_requests"] == 1
    assert world.initiator.unfinished == 0


def request(number: int, incarnation: int = 1, opcode: int = ADD, data: bytes = word(1)) -> bytes:
    return lsu_packet(
        oefh(vc=0, dst=TARGET, src=SOURCE),
        end_to_end_seed(SOURCE, TARGET),
        opcode,
        8,
        incarnation,
        number,
        KEY,
        0,
        data,
    )


def test_target_remembers_1024_results_and_no_more() -> None:
    world = World([], 1, OPTIONS)
    handle = world.target.handle
    first = [handle(parse_lsu(memoryview(request(number)))) for number in range(REQUEST_WINDOW)]
    again = [handle(parse_lsu(memoryview(request(number)))) for number in range(REQUEST_WINDOW)]
    assert first == again
    assert int(world.region.u64[0]) == REQUEST_WINDOW
    assert handle(parse_lsu(memoryview(request(REQUEST_WINDOW)))) is not None
    assert handle(parse_lsu(memoryview(request(0)))) is None  # forgotten: dropped, not executed again
    assert handle(parse_lsu(memoryview(request(1)))) == first[1]
    assert int(world.region.u64[0]) == REQUEST_WINDOW + 1
    assert world.target_counters["too_old_request"] == 1
    assert world.target_counters["duplicate_request"] == REQUEST_WINDOW + 1


def test_target_drops_older_incarnations() -> None:
    world = World([], 1, OPTIONS)
    handle = world.target.handle
    assert handle(parse_lsu(memoryview(request(7, incarnation=0xFFFF)))) is not None
    assert handle(parse_lsu(memoryview(request(7, incarnation=0)))) is not None  # newer: wraps
    assert handle(parse_lsu(memoryview(request(8, incarnation=0xFFFF)))) is None
    assert int(world.region.u64[0]) == 2
    assert world.target_counters["source_restarted"] == world.target_counters["stale_incarnation"] == 1


@pytest.mark.parametrize(
    ("candidate", "known", "newer"),
    [
        (1, 0, True),
        (0, 1, False),
        (5, 5, False),
        (0, 0xFFFF, True),
        (0xFFFF, 0, False),
        (0x7FFF, 0, True),
        (0x8000, 0, False),
    ],
)
def test_incarnations_compare_modularly(candidate: int, known: int, newer: bool) -> None:
    assert incarnation_is_newer(candidate, known) is newer


def test_responses_that_answer_nothing_are_counted() -> None:
    world = World([Fate(())], 1, OPTIONS)
    transfer = world.submit(ADD, 0, 8, word(1))

    def response(
        number: int = 1, incarnation: int = 1, opcode: int = 11, address: int = 0, data: bytes = word(5)
    ) -> None:
        packet = lsu_packet(
            oefh(vc=1, dst=SOURCE, src=TARGET), end_to_end_seed(TARGET, SOURCE), opcode, 8, incarnation, number, KEY,
            address, data,
        )  # fmt: skip
        world.initiator.handle(0.001, parse_lsu(memoryview(packet)))

    response(number=2)
    response(incarnation=2)
    response(opcode=10, data=b"")  # an ACK is no answer to an atomic
    response(opcode=9)
    response(address=8)
    response(data=word(5)[:4])
    response(opcode=15, data=b"x")
    assert not transfer.done()
    assert world.counters == {"late_response": 1, "stale_response": 1, "mismatched_response": 5}
    response()
    assert transfer.result(0) == 5
    response()
    assert world.counters["late_response"] == 2
