"""Barrier: nobody goes on before everybody has come.

Dissemination barrier (Hensgen, Finkel, Manber 1988), as in endpoint/barrier.py, but by messages without bytes: in round
k every rank sends one to the rank 2^k places on.
"""

from __future__ import annotations

import numpy as np

from endpoint.collectives.call import Call, Fill

_NOTHING = np.empty(0, np.uint8)


def barrier(call: Call) -> None:
    """Wait for all ranks."""
    step = 1
    while step < call.size:
        call.exchange({(call.rank + step) % call.size: _NOTHING}, {(call.rank - step) % call.size: Fill(_NOTHING)})
        step *= 2
