"""Which plane a request takes.

An ordered endpoint (F = 0) sends all requests for a destination on one plane, chosen by the pair of ids; switches
then keep them on one path. Otherwise (F = 1) the low byte of the request number is the entropy: it spreads the
requests over the planes, and in each plane over equal paths. A request that is sent again goes to the next plane,
whichever way it went before. A plane whose link is not up is passed over while another one is up. A response takes
the plane on which its request came, which was alive a moment ago.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Paths:
    """The planes of one GPU and the choice among them."""

    def __init__(self, gpu_id: int, planes: Iterable[int], is_up: Callable[[int], bool] = lambda plane: True) -> None:
        self._id = gpu_id
        self._is_up = is_up
        self._planes = tuple(sorted(planes))
        if not self._planes:
            raise ValueError("a GPU needs at least one port")

    def plane(self, dst: int, entropy: int | None, attempt: int) -> int:
        """Return the plane for a request: by entropy, or by the pair when it is None; `attempt` counts resends from
        0."""
        spread = self._id + dst if entropy is None else entropy
        first = (spread + attempt) % len(self._planes)
        plane = self._planes[first]
        if not self._is_up(plane):
            for other in self._planes[first + 1 :] + self._planes[:first]:
                if self._is_up(other):
                    return other
        return plane
