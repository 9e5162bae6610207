"""Reduce-scatter: rank r gets part r of all ranks' arrays combined.

Direct: every rank sends each other one its part of the array, and combines what it gets in the order of ranks. Ring:
the first half of the ring all-reduce.
"""

from __future__ import annotations

import numpy as np

from endpoint.collectives.all_reduce import combine
from endpoint.collectives.call import Array, Call, Fill, bytes_of, split
from endpoint.collectives.ring import ring_reduce


def direct(call: Call, values: Array, ufunc: np.ufunc) -> Array:
    """Combine in one step."""
    parts = split(values, call.size)
    ours = parts[call.rank]
    arrays = [ours if rank == call.rank else np.empty_like(ours) for rank in range(call.size)]
    call.exchange(
        {rank: bytes_of(parts[rank]) for rank in call.others()}, {rank: Fill(arrays[rank]) for rank in call.others()}
    )
    return combine(arrays, ufunc)


def ring(call: Call, values: Array, ufunc: np.ufunc) -> Array:
    """Combine along the ring."""
    parts = split(values.copy(), call.size)
    ring_reduce(call, parts, ufunc)
    return parts[call.rank].copy()
