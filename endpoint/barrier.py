"""A barrier over the fabric, made of atomic adds.

Dissemination barrier (Hensgen, Finkel, Manber 1988): with n ranks there are ceil(log2 n) rounds; in round k rank i
adds 1 to slot k of rank (i + 2^k) mod n, then waits until its own slot k was added to as often as there were
barriers. When a rank is through, every rank has arrived. No rank is a bottleneck, and nobody polls another one's
memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from endpoint.errors import BarrierTimeout, LsuTimeout, Unreachable
from endpoint.memory import Region

ROUNDS_MAX = 12
"""Enough for all 4,096 ids."""
REGION_BYTES = 8 * ROUNDS_MAX


class Barrier:
    """The barrier of a group of GPUs, at one of them.

    `ranks` are the ids of the whole group in the same order everywhere, `region` is the memory that the others add to
    (its `u64` words are the rounds' slots), `add(dst, address, timeout_s)` adds 1 to a word of another GPU's, and
    `wait(region, predicate, timeout_s)` waits for remote writes.
    """

    def __init__(
        self,
        gpu_id: int,
        ranks: Sequence[int],
        region: Region,
        add: Callable[[int, int, float], object],
        wait: Callable[[Region, Callable[[], bool], float], bool],
    ) -> None:
        self._ranks = tuple(ranks)
        self._rank = self._ranks.index(gpu_id)
        self._region = region
        self._words = region.u64
        self._add = add
        self._wait = wait
        self._passed = 0

    def arrive(self, timeout_s: float) -> None:
        """Wait until all GPUs of the group have arrived.

        Raises BarrierTimeout after `timeout_s` seconds. Then the group is out of step, and no barrier works any more.
        """
        deadline = time.monotonic() + timeout_s
        self._passed += 1
        size = len(self._ranks)
        step = 0
        while 1 << step < size:
            to = self._ranks[(self._rank + (1 << step)) % size]
            try:
                self._add(to, self._region.base + 8 * step, max(0.001, deadline - time.monotonic()))
            except (LsuTimeout, Unreachable) as error:
                raise BarrierTimeout(f"barrier {self._passed}: GPU {to} did not answer in {timeout_s} s") from error
            if not self._wait(self._region, partial(self._added, step), deadline - time.monotonic()):
                before = self._ranks[(self._rank - (1 << step)) % size]
                raise BarrierTimeout(
                    f"barrier {self._passed}: nothing came from GPU {before} in {timeout_s} s; it, or a GPU that it "
                    f"waits for, has not arrived"
                )
            step += 1

    def _added(self, step: int) -> bool:
        """Tell whether this round's add has come, in this barrier."""
        return bool(self._words[step] >= self._passed)
