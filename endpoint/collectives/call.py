"""One operation under way at one GPU: who takes part, which call it is, and what is said when it does not come to an
end."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from endpoint.collectives.mailbox import Bytes, Mailboxes, Sink
from endpoint.errors import CollectiveTimeout

Array = npt.NDArray[Any]


class Call:
    """An operation of a group of GPUs, at one of them.

    `ids` are the group's GPUs, `rank` is this one's position; operations count in ranks. `name` is how errors call the
    operation, and what all GPUs must agree on. `number` counts the collectives of the group (0: a message between
    two).
    """

    def __init__(
        self, mailboxes: Mailboxes, ids: Sequence[int], rank: int, name: str, group: int, number: int, timeout_s: float
    ) -> None:
        self._mailboxes = mailboxes
        self.ids = ids
        self.rank = rank
        self.size = len(ids)
        self.name = name
        self.number = number
        self.timeout_s = timeout_s
        self._group = group
        self.fingerprint = zlib.crc32(name.encode(), group & 0xFFFFFFFF)

    def exchange(self, sends: Mapping[int, Bytes], receives: Mapping[int, Sink]) -> None:
        """Send a message to each of some ranks and receive one from each of some. Raises CollectiveError."""
        self._mailboxes.exchange(
            self,
            {self.ids[rank]: data for rank, data in sends.items()},
            {self.ids[rank]: sink for rank, sink in receives.items()},
        )

    def others(self, first: int = 1) -> list[int]:
        """Return the other ranks, the next one first, so that not all begin with the same one."""
        return [(self.rank + step) % self.size for step in range(first, self.size)]

    def timed_out(self, waiting_for: set[int]) -> CollectiveTimeout:
        """Find out who is missing, and return the error that says so."""
        others = [gpu for gpu in self.ids if gpu != self.ids[self.rank]]
        begun = self._mailboxes.begun_by(self._group, others)
        silent = [gpu for gpu, count in begun.items() if count is None]
        late = {gpu: count for gpu, count in begun.items() if count is not None and count < self.number}
        reasons = []
        if silent:
            reasons.append(f"{_gpus(silent)} {'does' if len(silent) == 1 else 'do'} not answer")
        for gpu, count in late.items():
            reasons.append(
                f"GPU {gpu} has not come: it has begun {count} collectives of this group, this is {self.number}"
            )
        if not reasons:
            reasons.append(f"everybody answers and has come; still waiting for {_gpus(sorted(waiting_for))}")
        members = ", ".join(map(str, self.ids))
        return CollectiveTimeout(
            f"{self.name} of GPUs {members}: nothing moved for {self.timeout_s:g} s; {'; '.join(reasons)}",
            tuple([*silent, *late] or sorted(waiting_for)),
        )


class Fill:
    """Receive a message of known length into an array."""

    def __init__(self, into: Array) -> None:
        self._into = bytes_of(into)

    def begin(self, length: int) -> str | None:
        """Refuse another length."""
        if length == len(self._into):
            return None
        return f"sends {length} bytes where {len(self._into)} are expected: all GPUs must give the same shape"

    def take(self, offset: int, data: Bytes) -> None:
        """Copy a piece."""
        self._into[offset : offset + len(data)] = data


class Reduce:
    """Receive a message of known length and reduce it into an array: received operator own, element by element."""

    def __init__(self, into: Array, ufunc: np.ufunc) -> None:
        self._into = into.reshape(-1)
        self._ufunc = ufunc

    def begin(self, length: int) -> str | None:
        """Refuse another length."""
        if length == self._into.nbytes:
            return None
        return f"sends {length} bytes where {self._into.nbytes} are expected: all GPUs must give the same shape"

    def take(self, offset: int, data: Bytes) -> None:
        """Reduce a piece."""
        values = data.view(self._into.dtype)
        start = offset // self._into.itemsize
        part = self._into[start : start + len(values)]
        self._ufunc(values, part, out=part)


class Collect:
    """Receive a message of any length: whole rows of `row_bytes`; `make(rows)` is called for an array to hold them."""

    def __init__(self, row_bytes: int, make: Callable[[int], Array]) -> None:
        self._row_bytes = row_bytes
        self._make = make
        self.array: Array
        self._bytes: Bytes

    def begin(self, length: int) -> str | None:
        """Make room, or refuse what is no number of rows."""
        rows, rest = divmod(length, self._row_bytes) if self._row_bytes else (0, length)
        if rest:
            return f"sends {length} bytes, which is no number of rows of {self._row_bytes} bytes"
        self.array = self._make(rows)
        self._bytes = bytes_of(self.array)
        return None

    def take(self, offset: int, data: Bytes) -> None:
        """Copy a piece."""
        self._bytes[offset : offset + len(data)] = data


def bytes_of(array: Array) -> Bytes:
    """Return a contiguous array as bytes (a copy of one that is not contiguous)."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def split(array: Array, parts: int) -> list[Array]:
    """Return an array cut along its first axis into so many parts; the first ones have one row more where it does not
    divide."""
    rows, more = divmod(len(array), parts)
    ends = [(part + 1) * rows + min(part + 1, more) for part in range(parts)]
    return [array[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _gpus(ids: Sequence[int]) -> str:
    return f"GPU{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"
