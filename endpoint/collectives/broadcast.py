"""Broadcast: every rank gets the array of one rank.

Tree: log2 n rounds; who has the array sends it to one who has not (binomial tree). Ring: the root deals out one part to
each rank, and all-gather along the ring brings them together (van de Geijn 1994): about twice the array sent by each,
whatever the number of ranks.
"""

from __future__ import annotations

import numpy as np

from endpoint.collectives.call import Array, Call, Fill, bytes_of, split
from endpoint.collectives.mailbox import Bytes, Sink
from endpoint.collectives.ring import ring_gather


def tree(call: Call, values: Array, root: int) -> Array:
    """Send the array down a binomial tree. Ranks are counted from the root."""
    result = values.copy() if call.rank == root else np.empty_like(values)
    place = (call.rank - root) % call.size
    reach = 1
    while reach < call.size:
        if place < reach and place + reach < call.size:
            call.exchange({(root + place + reach) % call.size: bytes_of(result)}, {})
        elif reach <= place < 2 * reach:
            call.exchange({}, {(root + place - reach) % call.size: Fill(result)})
        reach *= 2
    return result


def ring(call: Call, values: Array, root: int) -> Array:
    """Deal out the parts of a flat array, then gather them."""
    result = values.copy() if call.rank == root else np.empty_like(values)
    parts = split(result, call.size)
    sends: dict[int, Bytes] = {}
    receives: dict[int, Sink] = {}
    if call.rank == root:
        sends = {rank: bytes_of(parts[rank]) for rank in call.others()}
    else:
        receives = {root: Fill(parts[call.rank])}
    call.exchange(sends, receives)
    ring_gather(call, parts)
    return result
