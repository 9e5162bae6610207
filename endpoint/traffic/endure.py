"""Traffic of both kinds that goes on whatever becomes of the links, and shows whether each access took effect once.

Every rank sends to all others in turn, at a pace: stores and atomics by load/store, notified writes by RDMA. What would
be lost shows in the end as a word that is too small, a notification that is missing or bytes that are not there; what
took effect twice as a word that is too large or a notification too many. How long each slow access took is kept with
its time, and so is what became of the ways to others (`Gpu.event_log`), so that both can be held against what was done
to the links.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Final

from endpoint.traffic.patterns import WORD, Run
from endpoint.traffic.verify import Pool, differing
from endpoint.transfer import Transfer

SLOTS: Final = 64
"""Places for stores, per source on each destination, used in turn and only when the last store there is done; the same
for messages."""
MESSAGE_FACTOR: Final = 16
"""So many times a store's size is a message's."""
SLOW_S: Final = 0.001
"""From here on an access is kept with its times."""
SLOW_MOST: Final = 200_000
_CYCLE: Final = ("store", "write", "add", "store", "store", "add", "store", "store")
"""What is sent to a destination, in turn."""
_SETTLE_S: Final = 60.0


@dataclass
class Peer:
    """What this rank has sent to another one."""

    gpu: int
    turn: int = 0
    stores: int = 0
    writes: int = 0
    adds: int = 0
    failed: Counter[str] = field(default_factory=Counter)


@dataclass
class Access:
    """One access under way: what it is, to whom, of how many bytes."""

    transfer: Transfer
    kind: str
    peer: Peer
    size: int


@dataclass
class Ledger:
    """What became of all accesses of a rank. Slow ones: destination, start and end in nanoseconds of CLOCK_REALTIME."""

    done: int = 0
    bytes_failed: int = 0
    slow: list[tuple[int, int, int]] = field(default_factory=list)
    real_less_monotonic: float = field(default_factory=lambda: time.time() - time.monotonic())
    latencies: list[float] = field(default_factory=list)

    def settle(self, access: Access) -> None:
        """Count an access that is done."""
        transfer = access.transfer
        if transfer.failed:
            access.peer.failed[access.kind] += 1
            self.bytes_failed += access.size
            return
        self.done += 1
        self.latencies.append(transfer.duration_s)
        if transfer.duration_s >= SLOW_S and len(self.slow) < SLOW_MOST:
            ended = transfer.ended_at + self.real_less_monotonic
            began = ended - transfer.duration_s
            self.slow.append((access.peer.gpu, int(began * 1e9), int(ended * 1e9)))


def endure(run: Run) -> None:
    """Send at `rate` accesses per second, as far as the window takes them, until the time is over, then compare."""
    gpu, p, report = run.gpu, run.parameters, run.report
    ids, size = gpu.ranks, p.size
    message = size * MESSAGE_FACTOR
    pool = Pool(p.seed, message)
    layout = _Layout(len(ids), size, message)
    region = gpu.register(layout.total)
    peers = [Peer(peer) for peer in gpu.peers]
    ledger = Ledger()
    pending: deque[Access] = deque()
    run.start()
    sent = 0
    began = time.monotonic()
    began_real_ns = time.time_ns()
    while run.elapsed_s < (p.duration_s or 1.0):
        wait = began + sent / p.rate - time.monotonic()
        while pending and (pending[0].transfer.done() or len(pending) >= p.window):
            access = pending.popleft()
            access.transfer.wait()
            ledger.settle(access)
        if wait > 0:
            time.sleep(min(wait, 0.01))
            run.advance(0)
            continue
        pending.append(_begin(run, peers[sent % len(peers)], layout, pool, pending, ledger))
        sent += 1
    ended_real_ns = time.time_ns()
    for access in pending:
        access.transfer.wait()
        ledger.settle(access)
    for peer in peers:
        claims = (peer.stores, peer.writes, peer.adds, *(peer.failed[kind] for kind in ("store", "write", "add")))
        data = b"".join(number.to_bytes(WORD, "little") for number in claims)
        gpu.store(peer.gpu, layout.claims(gpu.rank), data)
    gpu.barrier(timeout_s=_SETTLE_S)
    report.transactions = ledger.done
    report.bytes_moved = sum(
        peer.stores * size + peer.writes * message + peer.adds * WORD for peer in peers
    ) - ledger.bytes_failed  # fmt: skip
    report.take_latencies(ledger.latencies)
    _compare(run, layout, pool, region.array, ledger)
    report.failover |= {"began_real_ns": began_real_ns, "ended_real_ns": ended_real_ns}


class _Layout:
    """Where what lies in a rank's region: words that others add to, what they claim, their stores, their messages."""

    CLAIMS: Final = 6

    def __init__(self, ranks: int, size: int, message: int) -> None:
        self.size, self.message = size, message
        self._claims = WORD * ranks
        self._stores = self._claims + self.CLAIMS * WORD * ranks
        self._messages = self._stores + SLOTS * size * ranks
        self.total = self._messages + SLOTS * message * ranks

    def word(self, rank: int) -> int:
        return WORD * rank

    def claims(self, rank: int) -> int:
        return self._claims + self.CLAIMS * WORD * rank

    def store(self, rank: int, number: int) -> int:
        return self._stores + self.size * (SLOTS * rank + number % SLOTS)

    def write(self, rank: int, number: int) -> int:
        return self._messages + self.message * (SLOTS * rank + number % SLOTS)


def _begin(run: Run, peer: Peer, layout: _Layout, pool: Pool, pending: deque[Access], ledger: Ledger) -> Access:
    """Send the next access to a peer. Its place must be free: what was sent there last is done."""
    gpu, dst = run.gpu, peer.gpu
    kind = _CYCLE[peer.turn % len(_CYCLE)]
    peer.turn += 1
    if kind == "add":
        peer.adds += 1
        return Access(gpu.atomic_add_async(dst, layout.word(gpu.rank), 1), kind, peer, WORD)
    number = peer.stores if kind == "store" else peer.writes
    size = layout.size if kind == "store" else layout.message
    same = [one for one in pending if one.peer is peer and one.kind == kind]
    if len(same) >= SLOTS:  # the oldest of them has the place
        same[0].transfer.wait()
    data = pool.message(gpu.id, dst, number // SLOTS, number % SLOTS + (SLOTS if kind == "write" else 0), size)
    if kind == "store":
        peer.stores += 1
        return Access(gpu.store_async(dst, layout.store(gpu.rank, number), data), kind, peer, size)
    peer.writes += 1
    transfer = gpu.write_async(dst, layout.write(gpu.rank, number), data, notify=True)
    return Access(transfer, kind, peer, size)


def _compare(run: Run, layout: _Layout, pool: Pool, memory: Any, ledger: Ledger) -> None:
    """Compare what others have left here with what they claim, and report."""
    gpu, report = run.gpu, run.report
    told: Counter[int] = Counter()
    for _ in range(gpu.notifications):
        told[gpu.wait_notification(timeout_s=1.0).src] += 1
    lost = ledger.bytes_failed
    doubled = 0
    for rank, src in enumerate(gpu.ranks):
        if src == gpu.id:
            continue
        at = layout.claims(rank)
        values = memory[at : at + layout.CLAIMS * WORD].view("<u8")
        stores, writes, adds, no_stores, no_writes, no_adds = (int(value) for value in values)
        word = int(memory[layout.word(rank) : layout.word(rank) + WORD].view("<u8")[0])
        # What failed may have taken effect or not: its source counts it as lost.
        lost += WORD * max(0, adds - no_adds - word) + layout.message * max(0, writes - no_writes - told[src])
        doubled += WORD * max(0, word - adds) + layout.message * max(0, told[src] - writes)
        for kind, count, failed, size, where in (
            ("store", stores, no_stores, layout.size, layout.store),
            ("write", writes, no_writes, layout.message, layout.write),
        ):
            if failed:
                continue  # nobody knows what is in its place
            for number in range(max(0, count - SLOTS), count):
                here = where(rank, number)
                slot = number % SLOTS + (SLOTS if kind == "write" else 0)
                expected = pool.message(src, gpu.id, number // SLOTS, slot, size)
                wrong = differing(memory[here : here + size], expected)
                report.verified(size, wrong, f"{kind} {number} from GPU {src}")
                lost += wrong
    report.failover = {
        "bytes_lost": lost,
        "bytes_doubled": doubled,
        "slow": [list(one) for one in ledger.slow],
        "events": [record._asdict() for record in gpu.event_log()],
    }
