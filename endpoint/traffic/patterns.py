"""The traffic patterns. Each is run by every rank at once and fills in the rank's report.

Regions: every rank registers one region, of which each rank owns a slice on every GPU. Only the owner writes a slice,
so that it knows what every byte of it must be, while all ranks write to all GPUs.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from endpoint.gpu import Gpu, Semantics
from endpoint.traffic.progress import Progress
from endpoint.traffic.report import Report, rounded_us
from endpoint.traffic.verify import Pool, differing
from endpoint.transfer import Transfer

AUTO: Final = "auto"
SEMANTICS: Final = (*(str(semantics) for semantics in Semantics), AUTO)
"""What `--semantics` takes."""
WORD: Final = 8
WORD_VALUES: Final = 1 << 64
BLOCKS: Final = 16
"""Messages that an exchange sends to each of its destinations between two barriers."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a pattern is to do: `count` accesses per rank, or as many as fit in `duration_s`; `size` bytes each at most.

    `window` is the number of accesses that a rank has under way (per destination, in an exchange). Equal seeds give
    equal traffic. `semantics` says how bytes go: "load_store", "rdma", or "auto" (RDMA from the option `bulk_bytes`
    on). `flows`, `rate` (accesses per second of a paced flow) and `warm_up_s` are those of streams.
    """

    count: int
    size: int
    window: int
    seed: int
    duration_s: float | None = None
    semantics: str = Semantics.LOAD_STORE
    flows: str = "incast"
    rate: float = 100.0
    warm_up_s: float = 0.0

    @property
    def chosen(self) -> Semantics | None:
        """The semantics as `Gpu.put` takes it."""
        return None if self.semantics == AUTO else Semantics(self.semantics)

    @property
    def total(self) -> float:
        """What a progress bar counts to: accesses, or seconds."""
        return self.count if self.duration_s is None else self.duration_s


@dataclass
class Run:
    """One pattern at one rank: its GPU, what it is to do, where it reports, and what shows that it advances."""

    gpu: Gpu
    parameters: Parameters
    report: Report
    progress: Progress
    started: float = field(default_factory=time.monotonic)
    before: dict[str, int] = field(default_factory=dict)
    _shown_s: float = 0.0

    def start(self) -> None:
        """Wait for all ranks, then start the clock; what was sent to those that were not there yet does not count."""
        self.gpu.barrier()
        self.before = self.gpu.counters()
        self.started = time.monotonic()

    def counters(self) -> dict[str, int]:
        """Return what the endpoint counted since the start."""
        return {
            name: value - self.before.get(name, 0)
            for name, value in self.gpu.counters().items()
            if value != self.before.get(name, 0)
        }

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def over(self, done: int) -> bool:
        """Tell whether the count or the duration is reached."""
        p = self.parameters
        return done >= p.count if p.duration_s is None else self.elapsed_s >= p.duration_s

    def advance(self, accesses: int = 1) -> None:
        """Show progress."""
        if self.parameters.duration_s is None:
            self.progress.advance(accesses)
        else:
            now = self.elapsed_s
            self.progress.advance(now - self._shown_s)
            self._shown_s = now


Pattern = Callable[[Run], None]


# ---------------------------------------------------------------------------------------------------------------- ping


def ping(run: Run) -> None:
    """The rank with the lowest id gets from every other one in turn, one access at a time; the others only answer."""
    gpu, p, report = run.gpu, run.parameters, run.report
    pool = Pool(p.seed, p.size)
    region = gpu.register(p.size)
    region.array[:] = pool.message(gpu.id, gpu.id, 0, 0, p.size)
    run.start()
    if gpu.rank == 0:
        latencies: dict[int, list[float]] = {peer: [] for peer in gpu.peers}
        expected = {peer: pool.message(peer, peer, 0, 0, p.size) for peer in gpu.peers}
        done = 0
        while not run.over(done):
            peer = gpu.peers[done % len(gpu.peers)]
            start = time.perf_counter()
            got = gpu.get(peer, 0, p.size, semantics=p.chosen)
            latencies[peer].append(time.perf_counter() - start)
            done += 1
            report.transactions += 1
            report.bytes_moved += p.size
            report.verified(p.size, differing(got, expected[peer]), f"bytes from GPU {peer}")
            run.advance()
        report.take_latencies([latency for some in latencies.values() for latency in some])
        for peer, some in latencies.items():
            counts = Counter(map(rounded_us, some))
            report.latency_counts[str(peer)] = {str(us): n for us, n in sorted(counts.items())}
            of_peer = Report(report.pattern, peer, 0, 0)
            of_peer.take_latencies(some)
            if of_peer.latency_us_p50 is not None and of_peer.latency_us_p99 is not None:
                report.per_peer[str(peer)] = {"p50_us": of_peer.latency_us_p50, "p99_us": of_peer.latency_us_p99}


# -------------------------------------------------------------------------------------------------------------- random


@dataclass
class _Lane:
    """A piece of a rank's slice on one GPU, in which one access at a time is under way; `model` is what it must
    hold."""

    dst: int
    address: int
    model: bytearray
    transfer: Transfer | None = None
    check: Callable[[object], None] | None = None


def random(run: Run) -> None:
    """Every rank gets, puts and does atomics on all others at random, at any offset and length.

    What it gets, and the results of atomics, are compared with the rank's model of its slices. All ranks also add to
    one word of every GPU; at the end each GPU compares it with the sum of what the ranks say they added.
    """
    gpu, p, report = run.gpu, run.parameters, run.report
    chooser = Random(p.seed * 0x10001 + gpu.id)
    pool = Pool(p.seed + gpu.id, p.size)
    ranks = len(gpu.ranks)
    lane_size = -(-max(p.size, 8 * WORD) // WORD) * WORD
    claims = WORD  # word 0 is everybody's; then comes one claim per rank, then the slices
    slices = claims + WORD * ranks
    slice_size = lane_size * p.window
    region = gpu.register(slices + slice_size * ranks)
    lanes = deque(
        _Lane(
            gpu.peers[number % len(gpu.peers)],
            slices + slice_size * gpu.rank + lane_size * number,
            bytearray(lane_size),
        )
        for number in range(p.window)
    )
    added = dict.fromkeys(gpu.peers, 0)
    latencies: list[float] = []

    def complete(lane: _Lane) -> None:
        if lane.transfer is not None and lane.check is not None:
            lane.check(lane.transfer.result())
            latencies.append(lane.transfer.duration_s)
            report.transactions += 1
            lane.transfer = lane.check = None

    run.start()
    done = 0
    while not run.over(done):
        lane = lanes.popleft()
        complete(lane)
        _begin(gpu, lane, chooser, pool, p, report, added)
        lanes.append(lane)
        done += 1
        run.advance()
    for lane in lanes:
        complete(lane)
    report.take_latencies(latencies)
    for dst, total in added.items():
        gpu.store(dst, claims + WORD * gpu.rank, (total % WORD_VALUES).to_bytes(WORD, "little"))
    gpu.barrier()
    words = region.array[:slices].view("<u8")
    claimed = sum(int(word) for word in words[1:]) % WORD_VALUES
    got = int(words[0]).to_bytes(WORD, "little")
    report.verified(WORD, differing(got, claimed.to_bytes(WORD, "little")), "the word that all ranks add to")


def _begin(
    gpu: Gpu, lane: _Lane, chooser: Random, pool: Pool, p: Parameters, report: Report, added: dict[int, int]
) -> None:
    """Start a random access in a lane, apply it to the model, and say how its result is checked."""
    kind = chooser.random()
    model = lane.model

    def expect(expected: bytes, what: str) -> Callable[[object], None]:
        def check(got: object) -> None:
            data = got if isinstance(got, bytes | bytearray) else int(got).to_bytes(WORD, "little")  # type: ignore[call-overload]
            where = f"{what} at {address:#x} of GPU {lane.dst}"
            report.verified(len(expected), differing(data, expected), where)

        return check

    if kind < 0.9:
        length = chooser.randint(1, p.size)
        offset = chooser.randint(0, len(model) - length)
        address = lane.address + offset
        report.bytes_moved += length
        if kind < 0.45:
            data = pool.piece(chooser.getrandbits(16), length)
            model[offset : offset + length] = data.tobytes()
            lane.transfer = gpu.put_async(lane.dst, address, data, semantics=p.chosen)
            lane.check = lambda _nothing: None
        else:
            lane.transfer = gpu.get_async(lane.dst, address, length, semantics=p.chosen)
            lane.check = expect(bytes(model[offset : offset + length]), "what was got")
        return
    report.bytes_moved += WORD
    value = chooser.getrandbits(64)
    if kind < 0.925:
        added[lane.dst] += value
        lane.transfer = gpu.atomic_add_async(lane.dst, 0, value)
        lane.check = lambda _old: None  # nobody knows in which order the ranks added
        return
    offset = WORD * chooser.randrange(len(model) // WORD)
    address = lane.address + offset
    word = bytes(model[offset : offset + WORD])
    old = int.from_bytes(word, "little")
    if kind < 0.95:
        new = (old + value) % WORD_VALUES
        lane.transfer = gpu.atomic_add_async(lane.dst, address, value)
        lane.check = expect(word, "atomic add")
    elif kind < 0.975:
        new = value
        lane.transfer = gpu.swap_async(lane.dst, address, value)
        lane.check = expect(word, "swap")
    else:
        expected = old if chooser.random() < 0.5 else old ^ 1
        new = value if expected == old else old
        lane.transfer = gpu.compare_and_swap_async(lane.dst, address, expected, value)
        lane.check = expect(word, "compare-and-swap")
    model[offset : offset + WORD] = new.to_bytes(WORD, "little")


# ----------------------------------------------------------------------------------------------------------- exchanges

Destinations = Callable[[Sequence[int], int, int], Sequence[int]]
"""From (ids of all ranks, rank, turn) to the ids that the rank sends to in this turn."""


def all_to_all(run: Run) -> None:
    """In every turn every rank sends to every other one."""
    _exchange(run, lambda ids, rank, _turn: [*ids[rank + 1 :], *ids[:rank]])


def incast(run: Run) -> None:
    """Every rank sends to the one with the lowest id."""
    _exchange(run, lambda ids, rank, _turn: ids[:1] if rank else [])


def permutation(run: Run) -> None:
    """In every turn every rank sends to one other one, each to a different one, and to another one in the next turn."""
    _exchange(run, lambda ids, rank, turn: [ids[(rank + 1 + turn % (len(ids) - 1)) % len(ids)]])


def _exchange(run: Run, destinations: Destinations) -> None:
    """Send messages of known bytes in turns; each receiver compares its own memory after every turn.

    A slice has two halves, used in alternate turns: a receiver compares one while the next turn fills the other, so
    that one barrier per turn is enough. With a duration the lowest rank says in everybody's stop word which turn is
    the last.
    """
    gpu, p, report = run.gpu, run.parameters, run.report
    ids = gpu.ranks
    pool = Pool(p.seed, p.size)
    half = BLOCKS * p.size
    slices = WORD  # word 0 becomes the number of turns, once the lowest rank has decided
    region = gpu.register(slices + 2 * half * len(ids))
    last = region.array[:WORD].view("<u8")
    widest = max(len(destinations(ids, rank, 0)) for rank in range(len(ids)))
    turns = max(1, -(-p.count // (BLOCKS * widest))) if p.duration_s is None else None
    latencies: list[float] = []
    run.start()
    turn = 0
    while True:
        at = slices + half * (2 * gpu.rank + turn % 2)
        under_way: list[Transfer] = []
        for block in range(BLOCKS):
            for dst in destinations(ids, gpu.rank, turn):
                data = pool.message(gpu.id, dst, turn, block, p.size)
                under_way.append(gpu.put_async(dst, at + block * p.size, data, semantics=p.chosen))
        for transfer in under_way:
            transfer.result()
            latencies.append(transfer.duration_s)
        report.transactions += len(under_way)
        report.bytes_moved += p.size * len(under_way)
        if turns is None and gpu.rank == 0 and run.over(0):
            for peer in gpu.peers:
                gpu.store(peer, 0, (turn + 1).to_bytes(WORD, "little"))
            last[0] = turn + 1
        gpu.barrier()
        for rank, src in enumerate(ids):
            if gpu.id in destinations(ids, rank, turn):
                here = slices + half * (2 * rank + turn % 2)
                for block in range(BLOCKS):
                    got = region.array[here + block * p.size : here + (block + 1) * p.size]
                    wrong = differing(got, pool.message(src, gpu.id, turn, block, p.size))
                    report.verified(p.size, wrong, f"message {block} of turn {turn} from GPU {src}")
        run.advance(BLOCKS * widest)
        turn += 1
        if turn in (turns, last[0]):  # a rank ahead may have decided already on a later turn than this one
            break
    report.take_latencies(latencies)
