"""The two halves of ring algorithms: every rank sends to the next one and receives from the one before.

With n ranks and n segments there are n - 1 steps each, in which every rank sends and receives one segment: the links
are all in use all the time, and together every rank sends as little as is possible (Patarasuk and Yuan 2009). The next
step begins when the segment is complete; within a step its chunks follow each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from endpoint.collectives.call import Array, Call, Fill, Reduce, bytes_of


def ring_reduce(call: Call, segments: Sequence[Array], ufunc: np.ufunc) -> None:
    """Reduce segment r of all ranks at rank r, in place; the other segments hold partial results afterwards.

    Segment r is reduced along the ring: x[r+1], op x[r+2], ..., op x[r], ranks modulo their number.
    """
    for step in range(call.size - 1):
        outgoing = segments[(call.rank - step - 1) % call.size]
        incoming = segments[(call.rank - step - 2) % call.size]
        call.exchange({_next(call): bytes_of(outgoing)}, {_before(call): Reduce(incoming, ufunc)})


def ring_gather(call: Call, segments: Sequence[Array]) -> None:
    """Bring segment r of rank r to all ranks, in place."""
    for step in range(call.size - 1):
        outgoing = segments[(call.rank - step) % call.size]
        incoming = segments[(call.rank - step - 1) % call.size]
        call.exchange({_next(call): bytes_of(outgoing)}, {_before(call): Fill(incoming)})


def _next(call: Call) -> int:
    return (call.rank + 1) % call.size


def _before(call: Call) -> int:
    return (call.rank - 1) % call.size
