"""Blocks of RDMA messages whose way has ended: just those go out again, at once, on a plane that is left."""

from __future__ import annotations

from collections import Counter

import pytest

from codec.constants import EventType, TmaOpcode
from codec.frames import parse_oefh, parse_tma
from endpoint.congestion import CongestionWindow
from endpoint.errors import TmaTimeout, Unreachable
from endpoint.options import EndpointOptions
from endpoint.paths import Paths
from endpoint.reachability import Reachability
from endpoint.tma.source import TmaSource
from endpoint.transfer import Transfer

SOURCE, TARGET, OTHER, SWITCH = 1, 2, 3, 0xF01
BLOCK = 256
OPTIONS = EndpointOptions(
    window=64, timeout_s=100, first_rto_s=50, min_rto_s=50, max_rto_s=50, block_bytes=BLOCK, unreachable_s=1.0
)


class Source:
    """The source side alone: what it sends is kept, with the plane."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int, int, int]] = []
        """Plane, destination, opcode, block."""
        self.counters: Counter[str] = Counter()
        self.reachability = Reachability([0, 1], 0.0)
        windows = {dst: CongestionWindow(OPTIONS.window) for dst in (TARGET, OTHER)}
        self.source = TmaSource(
            SOURCE, 1, Paths(SOURCE, [0, 1], False, self.reachability), self.keep, windows.__getitem__,
            lambda _bytes: 1, lambda: OPTIONS.min_rto_s, self.counters, OPTIONS,
        )  # fmt: skip

    def keep(self, plane: int, packet: bytes) -> None:
        frame = parse_tma(memoryview(packet))
        self.sent.append((plane, parse_oefh(memoryview(packet)).dst, frame.opcode, frame.offset // BLOCK))

    def taken(self) -> list[tuple[int, int, int, int]]:
        sent, self.sent = self.sent, []
        return sent

    def write(self, dst: int, blocks: int, now: float = 0.0, patient: bool = False) -> Transfer[None]:
        transfer: Transfer[None] = Transfer(1, lambda _values: None)
        self.source.write(now, dst, 9, 0, memoryview(bytes(blocks * BLOCK)), False, 100, transfer, 0, patient)
        return transfer

    def close(self, now: float, plane: int, sequence: int = 1, subject: int = TARGET) -> int:
        self.reachability.take(now, plane, SWITCH + plane, EventType.LINK_DOWN, subject, sequence)
        return self.source.moved(now, subject, plane)


def test_just_what_was_on_the_path_goes_out_again() -> None:
    world = Source()
    world.write(TARGET, 20)
    world.write(OTHER, 10)
    first = world.taken()
    lost = sorted(block for plane, dst, _, block in first if (plane, dst) == (1, TARGET))
    assert len(lost) == 10, "spread over both planes"
    assert world.close(0.1, 1) == 10
    again = world.taken()
    assert {(plane, dst) for plane, dst, _, _ in again} == {(0, TARGET)}
    assert sorted(block for *_, block in again) == lost
    assert world.counters["resent_blocks"] == 10
    assert world.source.moved(0.2, TARGET, 1) == 0, "nothing is there any more"
    assert world.close(0.3, 0) == 0, "no plane is left: they wait"
    assert world.taken() == []
    assert world.source.moved(0.3, OTHER, 0) == 5


def test_what_was_asked_for_on_the_path_is_asked_for_again() -> None:
    world = Source()
    into = memoryview(bytearray(40 * BLOCK))
    transfer: Transfer[None] = Transfer(1, lambda _values: None)
    world.source.read(0.0, TARGET, 9, 0, into, 100, transfer, 0)
    asked = world.taken()
    assert {opcode for _, _, opcode, _ in asked} == {TmaOpcode.READ}
    planes = {plane for plane, *_ in asked}
    moved = sum(world.close(0.1, plane) for plane in planes if plane == 1)
    if moved:
        assert {plane for plane, *_ in world.taken()} == {0}
    world.reachability.link(0.2, 0, up=False)
    assert world.source.moved(0.2, None, 0) == 0
    world.reachability.take(0.3, 1, SWITCH + 1, EventType.LINK_UP, TARGET, 2)
    assert world.source.opened(0.3, TARGET) == 40
    assert {plane for plane, *_ in world.taken()} == {1}


def test_messages_without_a_plane_wait_and_go_on() -> None:
    world = Source()
    world.close(0.0, 0)
    world.close(0.0, 1)
    done = world.write(TARGET, 4, now=0.1)
    assert world.taken() == []
    assert world.source.expire(0.1) == pytest.approx(1.0)
    world.reachability.take(0.5, 0, SWITCH, EventType.LINK_UP, TARGET, 2)
    world.source.opened(0.5, TARGET)
    assert [plane for plane, *_ in world.taken()] == [0] * 4
    assert not done.done()


def test_messages_without_a_plane_fail_in_bounded_time() -> None:
    world = Source()
    begun = world.write(TARGET, 4)
    world.close(0.5, 0)
    world.close(0.5, 1)
    waiting = world.write(TARGET, 4, now=0.6)
    patient = world.write(TARGET, 4, now=0.6, patient=True)
    world.source.expire(1.4)
    assert not begun.done() and not waiting.done()
    world.source.expire(1.5)
    for transfer in (begun, waiting):
        error = transfer.exception(0)
        assert isinstance(error, Unreachable) and not isinstance(error, TmaTimeout)
        assert str(error) == (
            "WRITE of 1024 bytes at 0x0 of GPU 2 (key 0x9): no plane leads there (plane 0: closed by switch 0xf01 for "
            "1.0 s; plane 1: closed by switch 0xf02 for 1.0 s)"
        )
    late = world.write(TARGET, 4, now=1.6)
    assert isinstance(late.exception(0), Unreachable), "at once"
    assert not patient.done()
    due = world.source.expire(2.0)
    assert due == pytest.approx(100.6)
    world.source.expire(100.7)
    assert isinstance(patient.exception(0), Unreachable)
    assert world.counters["unreachable_messages"] == 4
    assert world.source.expire(101.0) is None
