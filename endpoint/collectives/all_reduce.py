"""All-reduce: every rank gets all ranks' arrays combined, bit for bit the same one.

Direct: every rank sends its whole array to every other one and combines what it has in the order of ranks. One step, so
the least latency. Ring: each segment is combined along the ring by one chain of ranks, and its result is copied to all.
2 (n - 1) steps, but only 2 (n - 1) / n of the array sent by each. Either way every element is computed by one fixed
sequence of operations, wherever and whenever messages come; the two sequences differ, and so may the last bits of sums
of floats.
"""

from __future__ import annotations

import numpy as np

from endpoint.collectives.call import Array, Call, Fill, bytes_of, split
from endpoint.collectives.ring import ring_gather, ring_reduce


def direct(call: Call, values: Array, ufunc: np.ufunc) -> Array:
    """Combine flat arrays in one step."""
    ours = bytes_of(values)
    arrays = [values if rank == call.rank else np.empty_like(values) for rank in range(call.size)]
    call.exchange(dict.fromkeys(call.others(), ours), {rank: Fill(arrays[rank]) for rank in call.others()})
    return combine(arrays, ufunc)


def ring(call: Call, values: Array, ufunc: np.ufunc) -> Array:
    """Combine flat arrays along the ring."""
    result = values.copy()
    segments = split(result, call.size)
    ring_reduce(call, segments, ufunc)
    ring_gather(call, segments)
    return result


def combine(arrays: list[Array], ufunc: np.ufunc) -> Array:
    """Return arrays combined in their order."""
    result = arrays[0].copy()
    for array in arrays[1:]:
        ufunc(result, array, out=result)
    return result
