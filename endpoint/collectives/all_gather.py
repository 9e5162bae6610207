"""All-gather: every rank gets the arrays of all ranks, one after the other; they may have different numbers of rows.

Direct: every rank sends its array to every other one. Ring: every rank passes on what it got, so that each link carries
each array once; the second half of the ring all-reduce, but for the lengths, which are learned on the way.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from endpoint.collectives.call import Array, Call, Collect, bytes_of


def direct(call: Call, values: Array) -> Array:
    """Gather in one step."""
    sinks = {rank: rows_like(values) for rank in call.others()}
    call.exchange(dict.fromkeys(call.others(), bytes_of(values)), sinks)
    return _joined([values if rank == call.rank else sinks[rank].array for rank in range(call.size)])


def ring(call: Call, values: Array) -> Array:
    """Gather along the ring."""
    arrays = {call.rank: values}
    for step in range(call.size - 1):
        sink = rows_like(values)
        outgoing = arrays[(call.rank - step) % call.size]
        call.exchange({(call.rank + 1) % call.size: bytes_of(outgoing)}, {(call.rank - 1) % call.size: sink})
        arrays[(call.rank - step - 1) % call.size] = sink.array
    return _joined([arrays[rank] for rank in range(call.size)])


def rows_like(values: Array) -> Collect:
    """Return a sink for any number of rows such as an array has."""
    shape = values.shape[1:]
    row_bytes = int(np.prod(shape, dtype=np.int64)) * values.itemsize
    return Collect(row_bytes, partial(_rows, shape, values.dtype))


def _rows(shape: tuple[int, ...], dtype: np.dtype, rows: int) -> Array:
    return np.empty((rows, *shape), dtype)


def _joined(arrays: list[Array]) -> Array:
    """Return arrays of one type in a row, in that type: NumPy by itself would make the byte order the machine's."""
    return np.concatenate(arrays, dtype=arrays[0].dtype)
