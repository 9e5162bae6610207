"""Two GPUs over a cable that loses, repeats, reorders and corrupts frames: real sockets, threads and time.

The cable is cut in the middle and a thread carries each frame over, or does not. Traffic of the random pattern checks
every byte, word and sum.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from codec import frames
from codec.constants import Kind
from endpoint import EndpointOptions, Gpu
from endpoint.traffic import patterns
from endpoint.traffic.patterns import Parameters, Run
from endpoint.traffic.progress import Progress
from endpoint.traffic.report import Report
from tests.endpoint.conftest import Wire, add_cable

Maker = Callable[..., Gpu]
OPTIONS = EndpointOptions(timeout_s=30, first_rto_s=0.02, min_rto_s=0.01, max_rto_s=0.1, window=32, linger_s=0.3)


class BadCable(threading.Thread):
    """Carries frames between two interfaces, each with one of the misfortunes given by their probabilities."""

    def __init__(self, ends: tuple[str, str], seed: int, misfortunes: dict[str, float]) -> None:
        super().__init__(daemon=True)
        self._wires = [Wire(end).socket for end in ends]
        self._chooser = Random(seed)
        self._misfortunes = misfortunes
        self._late: list[tuple[float, socket.socket, bytes]] = []
        self.stopped = threading.Event()
        self.happened: Counter[str] = Counter()

    def run(self) -> None:
        while not self.stopped.is_set():
            readable, _, _ = select.select(self._wires, [], [], 0.002)
            for wire in readable:
                self._carry(wire.recv(9000), self._wires[1 - self._wires.index(wire)])
            now = time.monotonic()
            for item in [item for item in self._late if item[0] <= now]:
                self._late.remove(item)
                item[1].send(item[2])
        for wire in self._wires:
            wire.close()

    def _carry(self, frame: bytes, to: socket.socket) -> None:
        chance = self._chooser.random()
        for misfortune, probability in self._misfortunes.items():
            chance -= probability
            if chance < 0:
                self.happened[misfortune] += 1
                getattr(self, misfortune)(frame, to)
                return
        to.send(frame)

    def lose(self, _frame: bytes, _to: socket.socket) -> None:
        """Carry nothing over."""

    def repeat(self, frame: bytes, to: socket.socket) -> None:
        """Carry it over at once, and once more later."""
        to.send(frame)
        self._late.append((time.monotonic() + self._chooser.random() * 0.05, to, frame))

    def delay(self, frame: bytes, to: socket.socket) -> None:
        """Carry it over later, behind others."""
        self._late.append((time.monotonic() + self._chooser.random() * 0.03, to, frame))

    def corrupt(self, frame: bytes, to: socket.socket) -> None:
        """Flip a bit, as a bad link does."""
        bad = bytearray(frame)
        bad[self._chooser.randrange(len(bad))] ^= 1 << self._chooser.randrange(8)
        if not bad[0] & 1:  # such a frame is the host stack's, not ours
            to.send(bad)

    def corrupt_inside(self, frame: bytes, to: socket.socket) -> None:
        """Flip a bit and renew the link's CRC, as a bad switch does."""
        packet = bytearray(frame[12:])
        packet[self._chooser.randrange(6, len(packet))] ^= 1 << self._chooser.randrange(8)
        to.send(frames.frame(Kind.DATA, bytes(packet)))


@pytest.fixture
def bad_cable(namespace: str) -> Iterator[Callable[[int, dict[str, float]], BadCable]]:
    """Return a maker of the cable between interfaces ep0 and ep3."""
    add_cable("ep0", "ep1")
    add_cable("ep2", "ep3")
    made: list[BadCable] = []

    def make(seed: int, misfortunes: dict[str, float]) -> BadCable:
        made.append(BadCable(("ep1", "ep2"), seed, misfortunes))
        made[-1].start()
        return made[-1]

    yield make
    for cable in made:
        cable.stopped.set()
        cable.join()


MISFORTUNES = pytest.mark.parametrize(
    "misfortunes",
    [
        {"lose": 0.1},
        {"repeat": 0.2},
        {"delay": 0.3},
        {"corrupt": 0.1, "corrupt_inside": 0.05},
        {"lose": 0.03, "repeat": 0.05, "delay": 0.05, "corrupt": 0.03, "corrupt_inside": 0.02},
    ],
    ids=["loss", "repetition", "reordering", "corruption", "everything"],
)


@pytest.mark.parametrize("seed", [1, 2])
@MISFORTUNES
def test_every_byte_is_right(
    bad_cable: Callable[[int, dict[str, float]], BadCable], gpus: Maker, seed: int, misfortunes: dict[str, float]
) -> None:
    cable = bad_cable(seed, misfortunes)
    ends = [gpus(1, {0: "ep0"}, peers=[2], options=OPTIONS), gpus(2, {0: "ep3"}, peers=[1], options=OPTIONS)]
    parameters = Parameters(count=600, size=64, window=16, seed=seed)
    reports = [Report("random", gpu.id, gpu.rank, 2) for gpu in ends]
    errors: list[BaseException] = []

    def rank(gpu: Gpu, report: Report) -> None:
        try:
            patterns.random(Run(gpu, parameters, report, Progress("", 1, shown=False)))
            gpu.barrier()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=rank, args=pair) for pair in zip(ends, reports, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for gpu, report in zip(ends, reports, strict=True):
        assert (report.wrong, report.bytes_wrong, report.transactions) == ([], 0, 600)
        counters = gpu.counters()
        if "repeat" in misfortunes:
            assert counters["duplicate_request"] > 0
        if "lose" in misfortunes or "corrupt" in misfortunes:
            assert counters["resent_requests"] > 0
        if "corrupt" in misfortunes:
            assert counters["drop_bad_crc"] > 0
            assert counters["drop_bad_end_to_end_crc"] > 0
        (other,) = (one for one in ends if one is not gpu)
        assert counters["requests"] == other.counters()["responses"]
    assert set(cable.happened) == set(misfortunes)


@pytest.mark.parametrize("block_bytes", [256, 4096])
@MISFORTUNES
def test_every_message_is_right(
    bad_cable: Callable[[int, dict[str, float]], BadCable],
    gpus: Maker,
    block_bytes: int,
    misfortunes: dict[str, float],
) -> None:
    """Both GPUs write and read messages of all lengths at once; each message that is told of is told of once."""
    cable = bad_cable(block_bytes, misfortunes)
    options = replace(OPTIONS, block_bytes=block_bytes)
    ends = [gpus(1, {0: "ep0"}, peers=[2], options=options), gpus(2, {0: "ep3"}, peers=[1], options=options)]
    content = np.random.default_rng(1).integers(0, 256, 1 << 18, np.uint8)
    regions = [gpu.register(1 << 18) for gpu in ends]
    for gpu in ends:
        gpu.register(content.copy(), key=2)
    chooser = Random(5)
    cuts = sorted({0, 1 << 18, *(chooser.randrange(1 << 18) for _ in range(25))})
    pieces = list(pairwise(cuts))
    writes = [
        gpu.write_async(gpu.peers[0], start, content[start:end], notify=start % 2 == 0)
        for gpu in ends
        for start, end in pieces
    ]
    reads = [
        (gpu.read_async(gpu.peers[0], start, end - start, key=2), start, end) for gpu in ends for start, end in pieces
    ]
    for transfer in writes:
        transfer.result()
    for transfer, start, end in reads:
        assert transfer.result() == content[start:end].tobytes()
    for gpu, region in zip(ends, regions, strict=True):
        assert (region.array == content).all()
        told = sorted(gpu.wait_notification(timeout_s=0)[2:] for _ in range(gpu.notifications))
        assert told == [(start, end - start) for start, end in pieces if start % 2 == 0]
        counters = gpu.counters()
        assert counters["messages"] == len(pieces)
        if "lose" in misfortunes or "corrupt" in misfortunes:
            assert counters["resent_blocks"] > 0
    assert set(cable.happened) == set(misfortunes)
