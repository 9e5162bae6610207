"""Streams: every rank writes without a pause, to several others at once, for a set time; rates are measured meanwhile.

The patterns of `endpoint.traffic.patterns` go in turns, with a barrier after each, so that nobody is ever far ahead:
right for verifying, wrong for measuring how a fabric shares a bottleneck. A stream keeps its window full, whatever
the others do. Only what completes between the warm-up and the end counts for rates; all of it is checked at the end.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from endpoint.errors import EndpointError
from endpoint.gpu import Gpu, Semantics
from endpoint.traffic.patterns import WORD, Parameters, Run
from endpoint.traffic.report import rounded_us
from endpoint.traffic.verify import Pool, differing
from endpoint.transfer import Transfer

SLOTS: Final = 1024
"""Places per source on each destination, used in turn: more than a window, so that no two stores to one place are under
way together."""
HOT: Final = 0
"""The rank that everybody sends to in an incast, and that is slow in a hotspot."""


@dataclass(frozen=True)
class Flow:
    """A rank sends to `rank`; `paced` flows offer the rate that was asked for, the others all that the window takes."""

    rank: int
    paced: bool = False


Flows = Callable[[int, int], Sequence[Flow]]
"""From (rank, number of ranks) to the flows of that rank."""


def _incast(rank: int, _ranks: int) -> list[Flow]:
    return [] if rank == HOT else [Flow(HOT)]


def _all_to_all(rank: int, ranks: int) -> list[Flow]:
    return [Flow((rank + step) % ranks) for step in range(1, ranks)]


def _neighbours(rank: int, ranks: int) -> list[Flow]:
    """Each to the next one, but for the hot rank, which neither sends nor receives."""
    if rank == HOT or ranks < 3:
        return []
    following = rank + 1 if rank + 1 < ranks else HOT + 1
    return [Flow(following, paced=True)]


def _ring(rank: int, ranks: int) -> list[Flow]:
    """Each to the next one."""
    return [Flow((rank + 1) % ranks)]


def _hotspot(rank: int, ranks: int) -> list[Flow]:
    return [*_incast(rank, ranks), *_neighbours(rank, ranks)]


FLOWS: Final[dict[str, Flows]] = {
    "incast": _incast, "all-to-all": _all_to_all, "neighbours": _neighbours, "hotspot": _hotspot,
    "ring": _ring,
}  # fmt: skip
"""What `--flows` takes."""


@dataclass
class _Stream:
    """One flow under way: what was sent, what came back in time, and how long it took."""

    dst: int
    rate: float
    sent: int = 0
    completed: int = 0
    given_up: int = 0
    latencies: Counter[int] = field(default_factory=Counter)
    error: BaseException | None = None

    def take(self, transfer: Transfer, first: float, last: float) -> None:
        """Count a transfer that is done."""
        if transfer.failed:
            self.given_up += 1
        elif first <= transfer.ended_at < last:
            self.completed += 1
            self.latencies[rounded_us(transfer.duration_s)] += 1


def stream(run: Run) -> None:
    """Send on all flows of this rank until the time is over, then compare what the others have left here."""
    gpu, p, report = run.gpu, run.parameters, run.report
    ids, ranks = gpu.ranks, len(gpu.ranks)
    flows = FLOWS[p.flows]
    duration_s = p.duration_s or 1.0
    pool = Pool(p.seed, p.size)
    claims = WORD * ranks  # how many stores each rank says it has sent here; 0: it gave some up
    region = gpu.register(claims + SLOTS * p.size * ranks)
    streams = [_Stream(ids[flow.rank], p.rate if flow.paced else 0.0) for flow in flows(gpu.rank, ranks)]
    run.start()
    first, last = run.started + p.warm_up_s, run.started + p.warm_up_s + duration_s
    at = claims + SLOTS * p.size * gpu.rank
    threads = [
        threading.Thread(target=_guarded, args=(one, gpu, at, p, pool, first, last), daemon=True) for one in streams
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.05)
        run.advance()
    for one in streams:
        if one.error is not None:
            raise one.error
        report.transactions += one.sent - one.given_up
        report.bytes_moved += p.size * (one.sent - one.given_up)
        report.flows[str(one.dst)] = {
            "completed": one.completed, "bytes": one.completed * p.size, "seconds": duration_s,
            "given_up": one.given_up, "paced": bool(one.rate), "first_s": first, "last_s": last,
        }  # fmt: skip
        report.latency_counts[str(one.dst)] = {str(us): n for us, n in sorted(one.latencies.items())}
        claim = one.sent if not one.given_up else 0
        gpu.store(one.dst, WORD * gpu.rank, claim.to_bytes(WORD, "little"))
    gpu.barrier(timeout_s=60.0)
    report.take_latencies([us / 1e6 for one in streams for us, n in one.latencies.items() for _ in range(n)])
    counts = region.array[:claims].view("<u8")
    for rank, src in enumerate(ids):
        sent = int(counts[rank])
        for number in range(max(0, sent - SLOTS), sent):
            here = claims + SLOTS * p.size * rank + number % SLOTS * p.size
            expected = pool.message(src, gpu.id, number // SLOTS, number % SLOTS, p.size)
            wrong = differing(region.array[here : here + p.size], expected)
            report.verified(p.size, wrong, f"store {number} from GPU {src}")


def _guarded(one: _Stream, gpu: Gpu, at: int, p: Parameters, pool: Pool, first: float, last: float) -> None:
    """Run a stream in a thread; what goes wrong is raised by the rank's main thread."""
    try:
        _send(one, gpu, at, p, pool, first, last)
    except (EndpointError, ValueError) as error:
        one.error = error


def _send(one: _Stream, gpu: Gpu, at: int, p: Parameters, pool: Pool, first: float, last: float) -> None:
    # Stores wait by themselves while the GPU's window is full; messages do not.
    most = SLOTS - 1 if p.chosen is Semantics.LOAD_STORE else min(p.window, SLOTS - 1)
    started = time.monotonic()
    pending: deque[Transfer] = deque()
    while (now := time.monotonic()) < last:
        if one.rate and (wait := started + one.sent / one.rate - now) > 0:
            time.sleep(min(wait, last - now))
            continue
        while pending and (pending[0].done() or len(pending) >= most):
            pending[0].wait()
            one.take(pending.popleft(), first, last)
        slot = one.sent % SLOTS
        data = pool.message(gpu.id, one.dst, one.sent // SLOTS, slot, p.size)
        pending.append(gpu.put_async(one.dst, at + slot * p.size, data, semantics=p.chosen))
        one.sent += 1
    for transfer in pending:
        transfer.wait()
        one.take(transfer, first, last)
