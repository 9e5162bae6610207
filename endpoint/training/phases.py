"""The phases of a training profile at one GPU.

What everybody gives is drawn from the seed, so that every GPU knows what it must get, and every byte is compared. The
numbers are small and whole, so that sums are exact in every type and order. The clock runs from when a GPU calls an
operation until it has the result; before that all GPUs of the group meet at a barrier, which is not counted, and
computing (a sleep) comes in between: it takes different GPUs slightly different times, as it does in training.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from endpoint.collectives import Group
from endpoint.traffic.patterns import Run
from endpoint.traffic.verify import differing
from endpoint.training.profile import Strategy, TrainingPhase, TrainingProfile
from endpoint.training.routing import route

Array = npt.NDArray[Any]
_VALUES: Final = 8
"""Numbers from 0 to 7: their sum over 256 GPUs is exact even in float16."""
_OFFSETS: Final = 1 << 12


def profile_pattern(profile: TrainingProfile) -> Callable[[Run], None]:
    """Return the pattern that runs a profile. Raises TrainingProfileError when it is for another number of GPUs."""

    def run_profile(run: Run) -> None:
        phases = [_Phase(run, profile, number) for number in range(len(profile.phases))]
        run.start()
        for iteration in range(profile.iterations):
            for phase in phases:
                for turn in range(phase.phase.repeat):
                    phase.operate(iteration, turn)
                    run.advance()
        run.report.phases = [phase.results() for phase in phases]

    return run_profile


class _Phase:
    """A phase at this GPU: its group, its clock, and what everybody gives."""

    def __init__(self, run: Run, profile: TrainingProfile, number: int) -> None:
        self.phase: TrainingPhase = profile.phases[number]
        ranks = run.gpu.ranks
        members = profile.members(run.gpu.rank, self.phase.over)
        self.members = members
        self.group: Group = run.gpu.group([ranks[rank] for rank in members])
        self.groups = profile.groups(self.phase.over)
        self._report = run.report
        self._seed = profile.seed
        self._number = number
        self._seconds: list[float] = []
        self._bytes = 0
        self._bus_bytes = 0.0
        self._what = f"{self.phase.name} of GPUs {', '.join(map(str, self.group.ids))}"
        most = self.phase.elements * (self.phase.tokens if self.phase.parallel is Strategy.EXPERT else 1)
        noise = np.random.default_rng([profile.seed, number])
        self._pool = noise.integers(0, _VALUES, _OFFSETS + most).astype(self.phase.dtype)
        self._pool.flags.writeable = False
        self._work = {
            Strategy.DATA: self._reduce, Strategy.TENSOR: self._reduce, Strategy.PIPELINE: self._pass_on,
            Strategy.EXPERT: self._route,
        }[self.phase.parallel]  # fmt: skip

    def operate(self, iteration: int, turn: int) -> None:
        """Do it once, and compare what came of it."""
        self.group.barrier()
        self._work(iteration, turn)
        self._report.transactions += 1

    def results(self) -> dict[str, Any]:
        """Return what `endpoint.training.figures` needs of one GPU."""
        phase = self.phase
        operations = {Strategy.PIPELINE: "send/receive", Strategy.EXPERT: "all-to-all"}
        return {
            "name": phase.name,
            "parallel": phase.parallel.value,
            "operation": operations.get(phase.parallel, "all-reduce"),
            "group": list(self.group.ids),
            "groups": self.groups,
            "bytes": self._bytes,
            "bus_bytes": self._bus_bytes,
            "times_us": [round(seconds * 1e6, 1) for seconds in self._seconds],
        }

    # --------------------------------------------------------------------------------------------------- strategies

    def _reduce(self, iteration: int, turn: int) -> None:
        """All-reduce the group's arrays."""
        given = [self._draw(member, iteration, turn) for member in self.members]
        self._compute()
        start = time.perf_counter()
        result = self.group.all_reduce(given[self.group.rank], algorithm=self.phase.algorithm)
        # NCCL tests' definition: what a link must carry at least, of the array, is 2 (n - 1) / n.
        n = self.group.size
        self._took(start, self.phase.size, self.phase.size * 2 * (n - 1) / n)
        expected = given[0].copy()
        for array in given[1:]:
            expected += array
        self._compare(result, expected, f"iteration {iteration}, {turn}")

    def _pass_on(self, iteration: int, turn: int) -> None:
        """Pass all microbatches through the stages, then all gradients back (GPipe's schedule)."""
        group, batches = self.group, self.phase.microbatches
        like = np.empty(self.phase.elements, self.phase.dtype)
        received: list[tuple[Array, Array, str]] = []

        def stage(batch: int, before: int | None, after: int | None, way: int) -> None:
            if before is not None:
                got = group.receive(group.ids[before], like)
                expected = self._draw(self.members[before], iteration, turn, way, batch)
                received.append(
                    (got, expected, f"microbatch {batch} of iteration {iteration}, {('there', 'back')[way]}")
                )
            self._compute()
            if after is not None:
                group.send(group.ids[after], self._draw(self.members[group.rank], iteration, turn, way, batch))

        previous = group.rank - 1 if group.rank else None
        following = group.rank + 1 if group.rank + 1 < group.size else None
        start = time.perf_counter()
        for batch in range(batches):
            stage(batch, previous, following, 0)
        for batch in reversed(range(batches)):
            stage(batch, following, previous, 1)
        moved = 2 * batches * self.phase.size
        self._took(start, moved, moved)
        for got, expected, what in received:
            self._compare(got, expected, what)

    def _route(self, iteration: int, turn: int) -> None:
        """Send tokens to their experts, and what these make of them back."""
        p, group = self.phase, self.group
        seed = (self._seed, self._number, iteration, turn)
        n, me = group.size, group.rank
        routes = [route(seed, source, p.tokens, n, p.top_k, p.skew) for source in range(n)]
        tokens = [self._draw(member, iteration, turn, rows=p.tokens) for member in self.members]
        self._compute()
        start = time.perf_counter()
        mine = group.all_to_all([tokens[me][where] for where in routes[me]])
        self._took_uneven(start, [len(where) for where in routes[me]])
        for source in range(n):
            self._compare(mine[source], tokens[source][routes[source][me]], f"tokens of iteration {iteration}, {turn}")
        answers = [part + self._one(me) for part in mine]
        self._compute()
        start = time.perf_counter()
        back = group.all_to_all(answers)
        self._took_uneven(start, [len(part) for part in answers])
        for expert in range(n):
            expected = tokens[me][routes[me][expert]] + self._one(expert)
            self._compare(back[expert], expected, f"answers of iteration {iteration}, {turn}")

    # ------------------------------------------------------------------------------------------------------- helpers

    def _one(self, expert: int) -> Any:
        """What an expert adds to every number."""
        return np.dtype(self.phase.dtype).type(expert + 1)

    def _draw(self, member: int, *where: int, rows: int = 0) -> Array:
        """Return what a rank gives, read-only: an array, or so many tokens."""
        mixed = member * 0x9E3779B1
        for number in where:
            mixed = (mixed ^ number) * 0x85EBCA77 & 0xFFFFFFFF
        offset = (mixed >> 7) % _OFFSETS
        elements = self.phase.elements
        if rows:
            return self._pool[offset : offset + rows * elements].reshape(rows, elements)
        return self._pool[offset : offset + elements]

    def _compute(self) -> None:
        if self.phase.compute_ms:
            time.sleep(self.phase.compute_ms / 1000)

    def _took(self, start: float, size: int, bus_bytes: float) -> None:
        """Take the time of an operation of so many bytes."""
        self._seconds.append(time.perf_counter() - start)
        self._bytes += size
        self._bus_bytes += bus_bytes
        self._report.bytes_moved += size

    def _took_uneven(self, start: float, rows: Sequence[int]) -> None:
        """Take the time of an all-to-all with so many rows for each rank; what stays here takes no link."""
        size = sum(rows) * self.phase.size
        self._took(start, size, size - rows[self.group.rank] * self.phase.size)

    def _compare(self, got: Array, expected: Array, what: str) -> None:
        same_kind = (got.dtype, got.shape) == (expected.dtype, expected.shape)
        length = expected.nbytes
        wrong = differing(got.tobytes(), expected.tobytes()) if same_kind else length
        self._report.verified(length, wrong, f"{self._what}, {what}")
