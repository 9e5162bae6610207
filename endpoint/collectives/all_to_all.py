"""All-to-all: every rank sends a part of its own to each rank; the parts may have different numbers of rows.

One step, every message straight to where it goes; each rank begins with the next one, so that not all send to the same
one at first. How long a part is, its receiver learns from the message itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from endpoint.collectives.all_gather import rows_like
from endpoint.collectives.call import Array, Call, bytes_of


def all_to_all(call: Call, parts: Sequence[Array]) -> list[Array]:
    """Send part r to rank r; return what each rank sent here, in the order of ranks."""
    sinks = {rank: rows_like(parts[rank]) for rank in call.others()}
    call.exchange({rank: bytes_of(parts[rank]) for rank in call.others()}, sinks)
    return [parts[rank].copy() if rank == call.rank else sinks[rank].array for rank in range(call.size)]
