"""What a program calls: the GPUs of a group, and their collectives.

    world = gpu.group()                              # all GPUs of the tenant
    gradients = world.all_reduce(gradients)          # the sum, bit for bit the same everywhere
    pair = gpu.group([1, 2])                         # some of them
    weights = pair.broadcast(weights, root=1)

All GPUs of a group call the same operations in the same order. Where GPUs share several groups, they use them in the
same order too.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from endpoint.collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    barrier,
    broadcast,
    point_to_point,
    reduce_scatter,
)
from endpoint.collectives.call import Array, Call
from endpoint.collectives.mailbox import MAX_GROUPS, Mailboxes
from endpoint.collectives.reduction import Operator, check_movable, ufunc_for

TIMEOUT_S: Final = 60.0
"""How long a collective may stand still, unless its caller says otherwise: a process that starts takes its time."""
DIRECT_BYTES: Final = 1 << 16
"""Arrays of more bytes than this go by the ring where there are more than two ranks: with four and with eight GPUs,
direct is faster up to here, and the ring from four times as much on (`python -m bench collectives`)."""


class Algorithm(StrEnum):
    """How an operation is done."""

    DIRECT = "direct"
    RING = "ring"


class Group:
    """Some GPUs of a tenant, this one among them; made by `Gpu.group`.

    Every operation returns when this GPU's part is done and what it sent has arrived. When nothing moves for
    `timeout_s` seconds it raises CollectiveTimeout, which names who is missing; when the GPUs do not call the same
    thing, CollectiveMismatch. Then the GPUs are out of step, and the program has to end. ValueError and TypeError:
    nothing was sent. Arrays given are never changed, and results are arrays of their own.
    """

    def __init__(self, mailboxes: Mailboxes, gpu_id: int, ids: Iterable[int]) -> None:
        self.ids: Sequence[int] = tuple(sorted(ids))
        """Ids of the group's GPUs, ascending: position r is rank r."""
        self.rank = self.ids.index(gpu_id)
        """This GPU's position in `ids`."""
        self._mailboxes = mailboxes
        digest = hashlib.blake2b(",".join(map(str, self.ids)).encode(), digest_size=8).digest()
        self._key = int.from_bytes(digest, "little")
        self._begun = 0
        if not mailboxes.has_room_for(self._key):
            raise ValueError(f"a GPU can be in {MAX_GROUPS} different groups, not in more")

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.ids)

    def all_reduce(
        self,
        array: npt.ArrayLike,
        operator: Operator | str = Operator.SUM,
        *,
        algorithm: Algorithm | str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Array:
        """Return all ranks' arrays combined element by element: the same bits at every rank, in the shape given.

        All ranks give the same shape and type. `algorithm`: direct up to `DIRECT_BYTES` or with two ranks, else ring.
        """
        values = np.ascontiguousarray(array)
        ufunc = ufunc_for(operator, values.dtype)
        how = self._algorithm(algorithm, values.nbytes)
        with self._call(f"all_reduce({values.dtype.str} {np.shape(array)}, {operator}, {how})", timeout_s) as call:
            work = all_reduce.direct if how is Algorithm.DIRECT else all_reduce.ring
            result = work(call, values.reshape(-1), ufunc)
        return result.reshape(np.shape(array))

    def reduce_scatter(
        self,
        array: npt.ArrayLike,
        operator: Operator | str = Operator.SUM,
        *,
        algorithm: Algorithm | str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Array:
        """Return this rank's part of all ranks' arrays combined, cut along the first axis as by `np.array_split`.

        `algorithm`: as for `all_reduce`.
        """
        values = _rows(array)
        ufunc = ufunc_for(operator, values.dtype)
        how = self._algorithm(algorithm, values.nbytes)
        with self._call(f"reduce_scatter({values.dtype.str} {values.shape}, {operator}, {how})", timeout_s) as call:
            work = reduce_scatter.direct if how is Algorithm.DIRECT else reduce_scatter.ring
            return work(call, values, ufunc)

    def all_gather(
        self, array: npt.ArrayLike, *, algorithm: Algorithm | str | None = None, timeout_s: float = TIMEOUT_S
    ) -> Array:
        """Return all ranks' arrays one after the other along the first axis, whose length may differ between ranks.

        `algorithm`: direct unless given (ranks do not know each other's lengths, and so could not agree by size).
        """
        values = _rows(array)
        check_movable(values.dtype)
        how = _known(algorithm) or Algorithm.DIRECT
        with self._call(f"all_gather({values.dtype.str}, rows of {values.shape[1:]}, {how})", timeout_s) as call:
            work = all_gather.direct if how is Algorithm.DIRECT else all_gather.ring
            return work(call, values)

    def all_to_all(self, parts: Sequence[npt.ArrayLike], *, timeout_s: float = TIMEOUT_S) -> list[Array]:
        """Send part r to rank r, and return what every rank sent here, in the order of ranks.

        The parts may have different lengths along the first axis, none too; all else of shape and type is the same for
        all parts of all ranks.
        """
        arrays = [_rows(part) for part in parts]
        if len(arrays) != self.size:
            raise ValueError(f"all_to_all takes a part for each of the {self.size} ranks, not {len(arrays)}")
        kinds = {(part.dtype, part.shape[1:]) for part in arrays}
        if len(kinds) > 1:
            raise ValueError(f"the parts must agree in type and in shape but for the first axis, not {_shown(kinds)}")
        check_movable(arrays[0].dtype)
        row = arrays[0].shape[1:]
        with self._call(f"all_to_all({arrays[0].dtype.str}, rows of {row})", timeout_s) as call:
            return all_to_all.all_to_all(call, arrays)

    def broadcast(self, array: npt.ArrayLike, root: int, *, timeout_s: float = TIMEOUT_S) -> Array:
        """Return the array of GPU `root`. The others give one of the same shape and type, whatever is in it."""
        values = np.ascontiguousarray(array)
        check_movable(values.dtype)
        source = self._rank_of(root)
        how = self._algorithm(None, values.nbytes)
        with self._call(f"broadcast({values.dtype.str} {np.shape(array)}, from GPU {root}, {how})", timeout_s) as call:
            work = broadcast.tree if how is Algorithm.DIRECT else broadcast.ring
            result = work(call, values.reshape(-1), source)
        return result.reshape(np.shape(array))

    def barrier(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until all ranks have come here."""
        with self._call("barrier", timeout_s) as call:
            barrier.barrier(call)

    def send(self, dst: int, array: npt.ArrayLike, *, timeout_s: float = TIMEOUT_S) -> None:
        """Send an array to GPU `dst`, which receives it. Small ones need not wait until it does."""
        values = np.ascontiguousarray(array)
        check_movable(values.dtype)
        to = self._other_rank_of(dst)
        with self._call(f"send({values.dtype.str} {np.shape(array)})", timeout_s, counted=False) as call:
            point_to_point.send(call, values, to)

    def receive(self, src: int, like: npt.ArrayLike, *, timeout_s: float = TIMEOUT_S) -> Array:
        """Return the array that GPU `src` sent, which has the shape and type of `like`."""
        result = np.empty_like(np.ascontiguousarray(like))
        check_movable(result.dtype)
        source = self._other_rank_of(src)
        # Named as the sender does, as both must agree on it.
        with self._call(f"send({result.dtype.str} {np.shape(like)})", timeout_s, counted=False) as call:
            point_to_point.receive(call, result, source)
        return result.reshape(np.shape(like))

    def __repr__(self) -> str:
        return f"Group(ids={list(self.ids)}, rank={self.rank})"

    @contextlib.contextmanager
    def _call(self, name: str, timeout_s: float, *, counted: bool = True) -> Iterator[Call]:
        """Begin an operation, and end it: what was sent has arrived, or all collectives have ended with an error."""
        if timeout_s <= 0:
            raise ValueError(f"timeout_s = {timeout_s:g} must be above 0")
        self._mailboxes.enter(name)
        try:
            number = 0
            if counted:
                self._begun += 1
                number = self._begun & 0xFFFFFFFF
                self._mailboxes.announce(self._key, number)
            call = Call(self._mailboxes, self.ids, self.rank, name, self._key, number, timeout_s)
            yield call
            self._mailboxes.settle(call)
        except BaseException as error:
            self._mailboxes.leave(error)
            raise
        self._mailboxes.leave(None)

    def _algorithm(self, given: Algorithm | str | None, size: int) -> Algorithm:
        """Return the algorithm asked for, or the one that suits an array of so many bytes."""
        known = _known(given)
        if known is not None:
            return known
        return Algorithm.DIRECT if size <= DIRECT_BYTES or self.size <= 2 else Algorithm.RING

    def _rank_of(self, gpu: int) -> int:
        if gpu not in self.ids:
            raise ValueError(f"GPU {gpu} is not in the group; its GPUs are {', '.join(map(str, self.ids))}")
        return self.ids.index(gpu)

    def _other_rank_of(self, gpu: int) -> int:
        rank = self._rank_of(gpu)
        if rank == self.rank:
            raise ValueError(f"GPU {gpu} cannot send to itself")
        return rank


def _known(algorithm: Algorithm | str | None) -> Algorithm | None:
    try:
        return None if algorithm is None else Algorithm(algorithm)
    except ValueError:
        raise ValueError(f"there is no algorithm {algorithm!r}; choose {', '.join(Algorithm)}") from None


def _rows(array: npt.ArrayLike) -> Array:
    """Return an array that has a first axis."""
    return np.ascontiguousarray(np.atleast_1d(array))


def _shown(kinds: set[tuple[np.dtype[Any], tuple[int, ...]]]) -> str:
    return " and ".join(sorted(f"{dtype} with rows of {shape}" for dtype, shape in kinds))
