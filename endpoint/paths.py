"""Which way a request takes: a plane, and within it the path that its entropy selects.

An ordered endpoint (F = 0) sends all requests for a destination on one plane, chosen by the pair of ids; switches
then keep them on one path. Otherwise (F = 1) the entropy is the low byte of the request number plus the number of
times it was sent before: it spreads the requests over the planes, and in each plane over equal paths. Either way a
request that is sent again goes to the next plane, and with F = 1 by another path where there is but one plane. A
response goes back on the plane on which its request came, which was alive a moment ago, with the request's F and
entropy. Only planes that lead to the destination are used, while there are any (`endpoint.reachability`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from endpoint.reachability import Reachability

_ENTROPY_MASK: Final = 0xFF


class Way(NamedTuple):
    """A plane, and what the OEFH says about the path within it."""

    plane: int
    f: int
    entropy: int


class Paths:
    """The planes of one GPU and the choice among them. Raises ValueError when there are none.

    Without `reachability` all planes lead everywhere. What is sent again goes another way after `tries` tries.
    """

    def __init__(
        self,
        gpu_id: int,
        planes: Iterable[int],
        ordered: bool,
        reachability: Reachability | None = None,
        tries: int = 1,
    ) -> None:
        self._id = gpu_id
        self._tries = tries
        self._ordered = ordered
        self._planes = tuple(sorted(planes))
        if not self._planes:
            raise ValueError("a GPU needs at least one port")
        self.reachability = reachability or Reachability(self._planes, 0.0)

    def way(self, dst: int, request: int, attempt: int) -> Way:
        """Return the way of a request; `attempt` counts how often it was sent before."""
        attempt //= self._tries
        planes = self.reachability.planes_to(dst) or self._planes
        if self._ordered:
            return Way(planes[(self._id + dst + attempt) % len(planes)], 0, 0)
        entropy = request + attempt & _ENTROPY_MASK
        return Way(planes[entropy % len(planes)], 1, entropy)
