"""RDMA over a network that loses, repeats, reorders and delays: every block placed once, every message told of once.

Source and target meet over a simulated network whose every misdeed hypothesis chooses. The target's memory is one that
counts how often each byte is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.constants import BLOCK_WINDOW, REQUEST_WINDOW, TmaFlag, TmaOpcode
from codec.frames import Tma, end_to_end_seed, oefh, parse_tma, tma_packet
from endpoint.congestion import CongestionWindow
from endpoint.errors import BadKey, OutOfRange, TmaTimeout, Unreachable
from endpoint.memory import Memory
from endpoint.options import EndpointOptions
from endpoint.paths import Paths
from endpoint.reachability import Reachability
from endpoint.tma.notifications import Notification, Notifications
from endpoint.tma.source import TmaSource
from endpoint.tma.target import TmaTarget
from endpoint.transfer import Transfer
from tests.endpoint.simulated_network import FATES, GOOD, Fate, SimulatedNetwork

SOURCE, TARGET = 1, 2
KEY = 9
BASE = 0x1000
SIZE = 1 << 16
OPTIONS = EndpointOptions(window=16, first_rto_s=0.1, min_rto_s=0.03, max_rto_s=0.5, block_bytes=256)


class CountingView:
    """Memory that counts how often each byte is written."""

    def __init__(self, memory: memoryview) -> None:
        self.memory = memory
        self.writes = np.zeros(len(memory), np.int32)

    def __setitem__(self, where: slice, data: memoryview) -> None:
        self.memory[where] = data
        self.writes[where] += 1

    def __getitem__(self, where: slice) -> memoryview:
        return self.memory[where]


class World(SimulatedNetwork):
    """A source and a target with a network between them."""

    def __init__(self, fates: list[Fate], first: int = 1, options: EndpointOptions = OPTIONS) -> None:
        super().__init__(fates)
        self.options = options
        self.reachability = Reachability([0, 1], 0.0)
        self.frames: list[Tma] = []
        self.start_target()
        self.start_source(1, first)

    def start_target(self) -> None:
        self.memory = Memory()
        self.region = self.memory.register(SIZE, KEY, BASE)
        self.view = CountingView(self.region.view)
        self.region.view = self.view  # type: ignore[assignment]
        self.notifications = Notifications(self.options.notifications)
        self.target_counters: Counter[str] = Counter()
        self.target = TmaTarget(TARGET, self.memory, self.notifications, self.target_counters)

    def start_source(self, incarnation: int, first: int = 1) -> None:
        self.counters: Counter[str] = Counter()
        self.window = CongestionWindow(self.options.window)
        self.source = TmaSource(
            SOURCE, incarnation, Paths(SOURCE, [0, 1], False, self.reachability),
            lambda plane, packet: self.send(packet, True, plane), lambda _dst: self.window, lambda _bytes: 1,
            lambda: self.options.min_rto_s, self.counters, self.options, first,
        )  # fmt: skip

    def write(
        self, offset: int, data: bytes, notify: bool = False, timeout: float = 60.0, key: int = KEY
    ) -> Transfer[None]:
        transfer: Transfer[None] = Transfer(1, lambda _values: None)
        self.source.write(self.now, TARGET, key, BASE + offset, memoryview(data), notify, timeout, transfer, 0)
        return transfer

    def read(self, offset: int, length: int, timeout: float = 60.0, key: int = KEY) -> Transfer[bytearray]:
        into = bytearray(length)
        transfer: Transfer[bytearray] = Transfer(1, lambda _values: into)
        self.source.read(self.now, TARGET, key, BASE + offset, memoryview(into), timeout, transfer, 0)
        return transfer

    def expire(self) -> float | None:
        return self.source.expire(self.now)

    def deliver(self, packet: bytes, to_target: bool, plane: int) -> None:
        if not self.reachability.is_up(plane):
            return
        frame = parse_tma(memoryview(packet))
        if not to_target:
            self.source.handle(self.now, frame)
            assert self.window.bulk >= 0
            return
        self.frames.append(frame)
        answer = self.target.handle(frame)
        for part in answer if isinstance(answer, list) else [answer]:
            if part is not None:
                self.send(part, False, plane)

    def link(self, plane: int, up: bool) -> None:
        """Cut a plane, with all that is on it, or mend it; the source learns of it at once."""
        self.reachability.link(self.now, plane, up)
        if up:
            self.source.opened(self.now, None)
        else:
            self.cut(plane)
            self.source.moved(self.now, None, plane)

    def taken(self) -> Iterator[Notification]:
        while (notification := self.notifications.take(None, None)) is not None:
            yield notification


def pattern(number: int, length: int) -> bytes:
    return np.random.default_rng(number).integers(0, 256, length, np.uint8).tobytes()


MESSAGES = st.lists(st.tuples(st.integers(0, 5000), st.booleans()), min_size=1, max_size=12)
FIRST = st.sampled_from([0, 1, 2**32 - 3, 2**31])


@settings(max_examples=300, deadline=None)
@given(st.lists(FATES, max_size=150), MESSAGES, FIRST)
def test_every_block_is_placed_once(fates: list[Fate], messages: list[tuple[int, bool]], first: int) -> None:
    world = World(fates, first)
    places = [0]
    for length, _ in messages:
        places.append(places[-1] + length)
    data = pattern(1, places[-1])
    transfers = [
        world.write(start, data[start:end], notify)
        for start, end, (_, notify) in zip(places, places[1:], messages, strict=False)
    ]
    world.run(until=lambda: all(transfer.done() for transfer in transfers))
    assert [transfer.exception(0) for transfer in transfers] == [None] * len(messages)
    assert world.region.array[: len(data)].tobytes() == data
    assert (world.view.writes[: len(data)] == 1).all()
    assert not world.view.writes[len(data) :].any()
    told = Counter(world.taken())
    assert told == Counter(
        Notification(SOURCE, KEY, BASE + start, length)
        for start, (length, notify) in zip(places, messages, strict=False)
        if notify
    )
    world.run()  # what is late does no harm
    assert (world.view.writes[: len(data)] == 1).all()
    assert world.window.bulk == 0
    assert not list(world.taken())
    assert world.target_counters["messages"] == len(messages)


@settings(max_examples=300, deadline=None)
@given(st.lists(FATES, max_size=150), st.lists(st.tuples(st.integers(0, 30000), st.integers(1, 9000)), max_size=8))
def test_reads_return_what_is_there(fates: list[Fate], pieces: list[tuple[int, int]]) -> None:
    world = World(fates)
    content = pattern(2, SIZE)
    world.region.array[:] = np.frombuffer(content, np.uint8)
    transfers = [world.read(offset, length) for offset, length in pieces]
    world.run(until=lambda: all(transfer.done() for transfer in transfers))
    for (offset, length), transfer in zip(pieces, transfers, strict=True):
        assert transfer.result(0) == content[offset : offset + length]
    world.run()
    assert world.window.bulk == 0
    assert not world.view.writes.any()


@settings(max_examples=200, deadline=None)
@given(st.lists(FATES, max_size=100), st.integers(0, 0xFFFF), st.floats(0, 1.0))
def test_restart_of_the_source(fates: list[Fate], incarnation: int, when: float) -> None:
    """Nothing of what a dead source sent is placed once the new one was heard, under the same numbers even."""
    world = World(fates)
    world.start_source(incarnation)
    for number in range(4):
        world.write(1000 * number, b"old!" * 200, notify=True)
    stop = world.now + when
    world.run(until=lambda: world.now >= stop)
    world.start_source(incarnation + 1 & 0xFFFF)
    heard = world.write(0, b"new!" * 200, notify=True)
    world.run(until=heard.done)
    assert heard.exception(0) is None
    assert world.region.array[:800].tobytes() == b"new!" * 200
    before = world.region.array.copy()
    list(world.taken())
    world.run()
    assert (world.region.array == before).all()
    assert not list(world.taken())


@settings(max_examples=300, deadline=None)
@given(st.lists(FATES, max_size=60), st.integers(1, 12_000), st.lists(st.floats(0, 0.3), min_size=1, max_size=3))
def test_restart_of_the_target(fates: list[Fate], length: int, restarts: list[float]) -> None:
    """What is acknowledged as a whole is in the memory of the target that is there, not half in its predecessor's."""
    world = World(fates)
    data = pattern(5, length)
    done = world.write(0, data, notify=True)
    completed = 0
    for after in restarts:
        stop = world.now + after
        world.run(until=lambda stop=stop: world.now >= stop or done.done())  # type: ignore[misc]
        if not done.done():
            completed += world.target_counters["messages"]
            world.start_target()
    world.run(until=done.done)
    if completed:  # by one that is gone, whose word may still be on its way
        return
    if done.exception(0) is None:
        assert world.region.array[:length].tobytes() == data
        assert Notification(SOURCE, KEY, BASE, length) in set(world.taken())
    else:  # it restarted time and again
        assert isinstance(done.exception(0), TmaTimeout)
    world.run()
    assert world.window.bulk == 0


def test_a_target_that_restarts_in_mid_message_gets_it_all() -> None:
    world = World([])
    data = pattern(6, 20_000)
    done = world.write(0, data)
    world.run(until=lambda: world.target_counters["messages"] == 0 and len(world.frames) >= 40)
    world.start_target()
    world.run(until=done.done)
    assert done.exception(0) is None
    assert world.region.array[: len(data)].tobytes() == data
    assert world.counters["messages_begun_anew"] == 1


CUTS = st.lists(st.tuples(st.floats(0, 0.01), st.sampled_from([0, 1]), st.booleans()), max_size=30)


@settings(max_examples=300, deadline=None)
@given(CUTS, MESSAGES)
def test_cut_planes_cost_no_time_out(cuts: list[tuple[float, int, bool]], messages: list[tuple[int, bool]]) -> None:
    """Whatever is cut, and when: as soon as a plane is there all that was lost goes by it, and is placed once."""
    patient = EndpointOptions(window=16, first_rto_s=50, min_rto_s=50, max_rto_s=50, unreachable_s=50, block_bytes=256)
    world = World([], options=patient)
    places = [0]
    for length, _ in messages:
        places.append(places[-1] + length)
    data = pattern(1, places[-1])
    content = pattern(2, 5000)
    world.memory.register(np.frombuffer(bytearray(content), np.uint8), 3, BASE)
    transfers: list[Transfer[Any]] = [
        world.write(start, data[start:end], notify)
        for start, end, (_, notify) in zip(places, places[1:], messages, strict=False)
    ]
    reads: list[Transfer[Any]] = [world.read(0, 5000, key=3), world.read(100, 3000, key=3)]
    for after, plane, up in cuts:
        moment = world.now + after
        world.run(until=lambda moment=moment: world.now >= moment)  # type: ignore[misc]
        world.now = moment
        if world.reachability.is_up(plane) != up:
            world.link(plane, up)
    for plane in (0, 1):
        if not world.reachability.is_up(plane):
            world.link(plane, True)
    world.run(until=lambda: all(transfer.done() for transfer in transfers + reads))
    assert world.now < 5
    assert [transfer.exception(0) for transfer in transfers] == [None] * len(messages)
    assert [transfer.result(0) for transfer in reads] == [content, content[100:3100]]
    assert world.region.array[: len(data)].tobytes() == data
    assert (world.view.writes[: len(data)] == 1).all()
    assert len(list(world.taken())) == sum(notify for _, notify in messages)
    assert world.window.bulk == 0
    assert world.counters["resent_blocks"] == 0


def test_no_plane_left_is_told_in_bounded_time() -> None:
    world = World([], options=EndpointOptions(window=16, unreachable_s=2.0, block_bytes=256))
    begun: list[Transfer[Any]] = [world.write(0, bytes(10_000)), world.read(0, 10_000)]
    waiting = world.write(0, b"x")
    world.run(until=lambda: world.now > 0)
    world.link(0, False)
    world.link(1, False)
    world.run()
    assert world.now == pytest.approx(2.0, abs=0.01)
    late = world.write(0, b"x")
    world.run()
    assert world.now == pytest.approx(2.0, abs=0.01)
    for transfer in (*begun, waiting, late):
        assert isinstance(transfer.exception(0), Unreachable)
    with pytest.raises(
        Unreachable, match=r"WRITE of 1 bytes at 0x1000 of GPU 2 .*: no plane leads there \(plane 0: own"
    ):
        late.result(0)
    assert world.counters["unreachable_messages"] == 4
    assert world.window.bulk == 0
    world.link(1, True)
    again = world.write(0, b"y")
    world.run()
    assert again.exception(0) is None


def test_a_good_network_sees_nothing_twice() -> None:
    """No block is sent or asked for again, and ACKs are few."""
    world = World([], options=EndpointOptions(window=64, block_bytes=256))
    data = pattern(3, SIZE)
    done = world.write(0, data)
    world.run(until=done.done)
    assert world.region.array.tobytes() == data
    assert world.counters["resent_blocks"] == world.target_counters["duplicate_block"] == 0
    assert len(world.frames) == SIZE // 256
    assert world.sent - len(world.frames) <= SIZE // 256 // 6
    back = world.read(0, SIZE)
    world.run(until=back.done)
    assert back.result(0) == data
    assert world.counters["resent_blocks"] == world.counters["duplicate_block"] == 0
    assert world.target_counters["reads"] <= SIZE // 256 // 6


def test_only_what_was_lost_is_sent_again() -> None:
    lost = {2, 3, 5, 9}
    world = World([Fate(()) if number in lost else GOOD for number in range(12)])
    done = world.write(0, pattern(4, 12 * 256))
    world.run(until=done.done)
    sent = Counter(frame.offset >> 8 for frame in world.frames)
    assert sent == dict.fromkeys(range(12), 1)
    assert world.counters["resent_blocks"] == len(lost)
    probe = next(frame for frame in world.frames if frame.offset >> 8 == 2)
    assert probe.flags & TmaFlag.ACK_REQ


def test_only_what_was_lost_is_asked_for_again() -> None:
    world = World([GOOD, *(Fate(()) if number in (1, 4) else GOOD for number in range(12))])  # first the READ
    world.region.array[:] = np.frombuffer(pattern(5, SIZE), np.uint8)
    done = world.read(0, 12 * 256)
    world.run(until=done.done)
    assert done.result(0) == pattern(5, SIZE)[: 12 * 256]
    again = [frame for frame in world.frames if frame.opcode == TmaOpcode.READ][1]
    assert (again.offset, bytes(again.data)) == (256, b"\x20")  # block 1, and the third after it
    assert world.counters["duplicate_block"] == 0


def test_windows_hold_though_a_block_stays_lost() -> None:
    """No block goes out 1,024 or more after the lowest missing one, no message 1,024 or more after the oldest."""
    options = EndpointOptions(window=1023, first_rto_s=5.0, min_rto_s=5.0, max_rto_s=5.0, block_bytes=256)
    world = World([Fate(())], options=options)
    world.memory.unregister(KEY)
    big = world.memory.register(2000 * 256, KEY, BASE)
    done = world.write(0, pattern(6, 2000 * 256))
    world.run(until=lambda: world.now > 4)
    assert max(frame.offset for frame in world.frames) == (BLOCK_WINDOW - 1) * 256
    world.run(until=done.done)
    assert big.array.tobytes() == pattern(6, 2000 * 256)
    assert world.target_counters["block_too_far"] == 0

    world = World([Fate(())], first=2**32 - 500, options=options)
    transfers = [world.write(0, b"x") for _ in range(1500)]
    world.run(until=lambda: world.now > 4)
    assert sum(transfer.done() for transfer in transfers) == REQUEST_WINDOW - 1
    world.run(until=lambda: all(transfer.done() for transfer in transfers))
    assert world.target_counters["messages"] == 1500
    assert world.target_counters["too_old_message"] == 0


def test_refusals_end_a_message() -> None:
    world = World([])
    bad_key, too_long, gone = (
        world.write(0, b"x" * 4000, key=8),
        world.write(SIZE - 10, b"y" * 11),
        world.read(0, 1, key=8),
    )
    over = world.read(SIZE - 10, 11)
    good = world.write(0, b"z")
    world.run()
    assert isinstance(bad_key.exception(0), BadKey) and isinstance(gone.exception(0), BadKey)
    assert isinstance(too_long.exception(0), OutOfRange) and isinstance(over.exception(0), OutOfRange)
    assert "WRITE of 4000 bytes at 0x1000 of GPU 2 (key 0x8)" in str(bad_key.exception(0))
    assert good.exception(0) is None
    assert world.region.array[:2].tobytes() == b"z\0"
    assert world.counters["refused_messages"] == 4
    assert world.window.bulk == 0


def test_silence_ends_in_bounded_time() -> None:
    """Of what has begun and of what waits behind it."""
    world = World([Fate(())] * 100_000)
    transfers = [world.write(0, b"x" * 5000, timeout=3.0) for _ in range(50)] + [world.read(0, 10, timeout=3.0)]
    world.run()
    assert world.now == pytest.approx(3.0)
    with pytest.raises(TmaTimeout, match=r"WRITE of 5000 bytes at 0x1000 of GPU 2 \(key 0x9\): no progress in 3.0 s"):
        transfers[0].result(0)
    assert all(isinstance(transfer.exception(0), TmaTimeout) for transfer in transfers)
    assert world.counters["timed_out_messages"] == 51
    assert world.window.bulk == 0


def test_full_notifications_hold_messages_back() -> None:
    world = World([], options=EndpointOptions(window=16, notifications=2, block_bytes=256))
    transfers = [world.write(256 * number, b"x", notify=True) for number in range(4)]
    world.run(until=lambda: world.now > 1)
    assert [transfer.done() for transfer in transfers] == [True, True, False, False]
    assert world.target_counters["notifications_full"] > 0
    assert world.notifications.take(SOURCE, KEY) == Notification(SOURCE, KEY, BASE, 1)
    assert world.notifications.take(TARGET, None) is None
    assert len(list(world.taken())) == 1
    world.run(until=lambda: all(transfer.done() for transfer in transfers))
    assert {notification.address for notification in world.taken()} == {BASE + 512, BASE + 768}


# -------------------------------------------------------------------------------------------------------- what is wrong


def frame(opcode: int = TmaOpcode.WRITE, source: int = SOURCE, target: int = TARGET, **fields: Any) -> Tma:
    f: dict[str, Any] = {
        "flags": TmaFlag.ACK_REQ, "block": 8, "incarnation": 1, "message": 1, "key": KEY, "offset": 0, "total": 1000,
        "address": BASE, "data": bytes(256), "ecn": 0, **fields,
    }  # fmt: skip
    length = f.pop("length", None)
    header = oefh(vc=0, dst=target, src=source, next=2, ecn=f.pop("ecn"))
    parsed = parse_tma(memoryview(tma_packet(header, end_to_end_seed(source, target), opcode, **f)))
    return parsed if length is None else parsed._replace(length=length)


def status(answer: object) -> int | None:
    """Return the reason of a NAK, 0 for another answer, None for none."""
    if answer is None:
        return None
    assert isinstance(answer, bytes)
    parsed = parse_tma(memoryview(answer))
    return parsed.data[0] if parsed.opcode == TmaOpcode.NAK else 0


BAD_LENGTHS: list[dict[str, Any]] = [
    {"block": 0}, {"block": 7}, {"block": 13}, {"block": 255}, {"offset": 1}, {"offset": 1024}, {"data": b""},
    {"data": bytes(255)}, {"data": bytes(257)}, {"offset": 768, "data": bytes(256)}, {"offset": 2**32 - 256},
    {"total": 0}, {"total": 0, "offset": 256, "data": b""}, {"total": 256, "offset": 256, "data": b""},
    {"total": 255}, {"length": 255},
]  # fmt: skip


@pytest.mark.parametrize("fields", BAD_LENGTHS, ids=str)
def test_a_block_that_is_none_of_its_message(fields: dict[str, Any]) -> None:
    world = World([])
    assert status(world.target.handle(frame(**fields))) == 4
    assert status(world.target.handle(frame(**fields))) == 4  # it stays refused
    assert world.target_counters["refused_bad_length"] == 1
    assert not world.view.writes.any()


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        (5, {"key": 8}),
        (1, {"address": BASE - 1}),
        (1, {"address": BASE + SIZE - 999}),
        (1, {"address": 2**64 - 1}),
        (1, {"total": 2**32 - 1}),
        (3, {"opcode": 0}),
        (3, {"opcode": 7}),
    ],
)
def test_a_message_that_is_refused(reason: int, fields: dict[str, int]) -> None:
    world = World([])
    assert status(world.target.handle(frame(**fields))) == reason
    assert not world.view.writes.any()


@pytest.mark.parametrize(
    "fields",
    [
        {"key": 8},
        {"address": BASE + 1},
        {"total": 1001},
        {"total": 2**32 - 1},
        {"block": 9, "data": bytes(512)},
        {"flags": TmaFlag.NOTIFY},
        {"offset": 1},
        {"data": bytes(3)},
        {"offset": 1024},
    ],
    ids=str,
)
def test_a_frame_that_contradicts_those_before(fields: dict[str, Any]) -> None:
    world = World([])
    assert status(world.target.handle(frame(offset=256))) == 0
    assert world.target.handle(frame(**fields)) is None
    assert world.target_counters["mismatched_message"] == 1
    assert world.view.writes.sum() == 256
    for offset in (0, 512):
        assert status(world.target.handle(frame(offset=offset))) == 0
    assert status(world.target.handle(frame(offset=768, data=bytes(232)))) == 0
    assert world.target_counters["messages"] == 1


def test_a_region_that_goes_in_mid_message() -> None:
    world = World([])
    assert status(world.target.handle(frame())) == 0
    world.memory.unregister(KEY)
    assert status(world.target.handle(frame(offset=256))) == 5
    world.memory.register(10, KEY, BASE)
    assert status(world.target.handle(frame(offset=512))) == 5
    assert world.view.writes.sum() == 256


def test_memory_held_is_bounded() -> None:
    """A source that begins messages and never ends them takes the place of its own older ones."""
    world = World([])
    for number in range(5000):
        assert status(world.target.handle(frame(message=number, total=SIZE, offset=256 * 100))) == 0
    kept = world.target._sources[SOURCE].messages
    assert len(kept) == REQUEST_WINDOW
    assert world.target.handle(frame(message=5000 - REQUEST_WINDOW - 1, total=SIZE)) is None
    assert world.target_counters["too_old_message"] == 1
    world.memory.unregister(KEY)
    world.memory.register(2**20, KEY, BASE)
    total = 2**20
    assert world.target.handle(frame(message=6000, total=total, offset=BLOCK_WINDOW * 256)) is None
    assert world.target_counters["block_too_far"] == 1
    assert status(world.target.handle(frame(message=6000, total=total, offset=(BLOCK_WINDOW - 1) * 256))) == 0


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        (4, {"total": 0, "data": b""}),
        (4, {"offset": 1000, "data": b""}),
        (4, {"offset": 10, "data": b""}),
        (4, {"block": 40, "data": b""}),
        (4, {"data": bytes(129)}),
        (4, {"data": b"\x10"}),  # a block beyond the last
        (4, {"total": 20000, "data": b"\xff\xff"}),  # 17 blocks at once
        (4, {"data": b"", "length": 1}),
        (5, {"key": 8, "data": b""}),
        (1, {"total": SIZE + 1, "data": b""}),
    ],
    ids=str,
)
def test_a_read_that_is_refused(reason: int, fields: dict[str, Any]) -> None:
    world = World([])
    assert status(world.target.handle(frame(opcode=TmaOpcode.READ, **fields))) == reason


def test_congestion_is_echoed() -> None:
    world = World([])
    quiet = {"flags": 0}
    assert world.target.handle(frame(ecn=3, **quiet)) is None
    answer = world.target.handle(frame(offset=256))
    assert isinstance(answer, bytes) and parse_tma(memoryview(answer)).flags & TmaFlag.ECN_ECHO
    answer = world.target.handle(frame(offset=512))
    assert isinstance(answer, bytes) and not parse_tma(memoryview(answer)).flags & TmaFlag.ECN_ECHO
    parts = world.target.handle(frame(opcode=TmaOpcode.READ, ecn=3, data=b"\x80"))
    assert isinstance(parts, list)
    assert [parse_tma(memoryview(part)).flags for part in parts] == [TmaFlag.ECN_ECHO] * 2


def test_answers_that_answer_nothing_are_counted() -> None:
    world = World([Fate(())] * 10)
    done = world.write(0, bytes(1000))
    reading = world.read(0, 600)

    def answer(opcode: int = TmaOpcode.ACK, **fields: Any) -> None:
        fields = {"flags": 0, "data": b"", **fields}
        world.source.handle(0.001, frame(opcode, TARGET, SOURCE, **fields))

    answer(message=3)
    answer(incarnation=2)
    assert world.counters == {"late_response": 1, "stale_response": 1}
    wrong: list[dict[str, Any]] = [
        {"key": 8}, {"address": 0}, {"total": 999}, {"block": 9}, {"length": 1},  # not its message's
        {"offset": 1}, {"offset": 1024}, {"offset": 2**32 - 256}, {"offset": 768, "data": b"\x80"},
        {"data": bytes(129)},
        {"opcode": TmaOpcode.READ_DATA, "data": bytes(256)},
        {"opcode": TmaOpcode.NAK}, {"opcode": TmaOpcode.NAK, "data": b"12"},
        {"message": 2, "total": 600}, {"message": 2, "total": 600, "opcode": TmaOpcode.READ_DATA, "data": bytes(255)},
        {"message": 2, "total": 600, "opcode": TmaOpcode.READ_DATA, "data": bytes(256), "offset": 1},
        {"message": 2, "total": 600, "opcode": TmaOpcode.READ_DATA, "data": bytes(256), "offset": 768},
    ]  # fmt: skip
    for number, fields in enumerate(wrong, 1):
        answer(**fields)
        assert world.counters["mismatched_response"] == number, fields
    assert not done.done() and not reading.done()
    answer(offset=256, data=b"\x80")
    assert world.counters["tma_responses"] == 1
    answer(offset=1000)
    assert done.done() and done.exception(0) is None
    answer(offset=1000)
    assert world.counters["late_response"] == 2
