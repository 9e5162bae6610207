"""How many requests a source keeps in flight to one destination on links with credits.

One slow destination must not take the credits that a source's traffic to all others needs, as they share the buffer of
the source's switch port. So a destination gets a quarter of the credits at most, and less when its responses echo that
the requests met congestion: half as many, once per round trip, then a sixteenth of the most more per round trip
without an echo (additive increase, multiplicative decrease, as in RFC 5681 and RFC 3168). A sixteenth rather than one
request, so that what was halved is back after eight round trips, be the share large or small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from codec.constants import CRC_BYTES, LSU_MAX_BYTES, Vc
from codec.layouts import LSU, OEFH, TMA, credits_of
from codec.profile import LinkProfile

_SHARE: Final = 4
"""A destination gets one part in so many of the limit."""
_LINKS_OF_A_WAY: Final = 4
"""GPU, leaf, spine, leaf, GPU."""
_SILENCE_MS: Final = LinkProfile().silence_ms
"""What is reckoned with where a profile never takes silence for the end of a link."""
_STEPS: Final = 16
"""So many round trips without an echo bring a destination from nothing to all that it may have."""
_LARGEST_REQUEST: Final = OEFH.size + LSU.size + LSU_MAX_BYTES + CRC_BYTES


def requests_per_destination(credit_limit: int, profile: LinkProfile) -> int:
    """Return how many requests one destination may have in flight on a link whose other end gives so many credits.

    At least what one largest frame takes, and one request.
    """
    credits = max(credit_limit // _SHARE, profile.largest_frame)
    return max(1, credits // credits_of(_LARGEST_REQUEST, 1 << profile.credit_size, profile.packet_overhead))


def lossless_rto_s(profiles: Iterable[LinkProfile]) -> float:
    """Return the least seconds after which a request is sent again where every link has credits; 0: no such reason.

    Nothing is lost there but by a wire that corrupts, or with a link that goes down, of which the source learns
    otherwise. So a late answer is only waiting: each of the four links of the longest way, there and back, may stand
    still for nearly its silence time and yet be up.
    """
    least = 0.0
    for profile in profiles:
        if not all(profile.lossless_mask >> profile.vc_map[vc] & 1 for vc in (Vc.REQUEST, Vc.RESPONSE)):
            return 0.0
        least = max(least, 2 * _LINKS_OF_A_WAY * (profile.silence_ms or _SILENCE_MS) / 1000)
    return least


def block_cost(profiles: Iterable[LinkProfile]) -> Callable[[int], int]:
    """Return what says as how many requests the frame of a block of so many bytes counts on links of these profiles.

    Where links have no credits, a frame is a frame.
    """
    ratios = [(1 << profile.credit_size, profile.packet_overhead) for profile in profiles]

    def cost(block_bytes: int) -> int:
        frame = OEFH.size + TMA.size + block_bytes + CRC_BYTES
        return max(
            (-(-credits_of(frame, *ratio) // credits_of(_LARGEST_REQUEST, *ratio)) for ratio in ratios), default=1
        )

    return cost


class CongestionWindow:
    """The requests that one destination may have in flight now; `limit` is the most it may have at all.

    The blocks of RDMA messages count as so many requests, and have three quarters of it at most, so that what is
    small and urgent need not wait for what is long. Each of the two may always have one in flight.
    """

    __slots__ = ("_quiet_until", "_size", "bulk", "limit", "requests")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.requests = 0
        """Requests in flight."""
        self.bulk = 0
        """What the blocks in flight count as."""
        self._size = float(limit)
        self._quiet_until = float("-inf")

    @property
    def size(self) -> int:
        """Whole requests, at least 1."""
        return max(1, int(min(self._size, self.limit)))

    @property
    def has_room(self) -> bool:
        """Whether one more request may be in flight."""
        return self.requests + self.bulk < self.size or not self.requests

    @property
    def mostly_free(self) -> bool:
        """Whether requests use three quarters at most of what they may: worth waking who waits for room."""
        return self.requests <= (self.size - self.bulk) * 3 // 4 or not self.requests

    def bulk_room(self, cost: int) -> int:
        """Return how many more blocks that count as `cost` requests each may be in flight."""
        size = self.size
        room = min(size - self.requests, size * 3 // 4) - self.bulk
        return room // cost if room >= cost else int(self.bulk <= 0)

    def answered(self, now: float, echo: bool, round_trip_s: float, requests: int = 1) -> None:
        """Take note of a response to so many requests, and whether it echoed congestion."""
        size = max(1.0, min(self._size, self.limit))
        if not echo:
            self._size = min(
                size + requests * self.limit / _STEPS / size, self.limit
            )  # of `size` responses per round trip
        elif now >= self._quiet_until:  # once per round trip: all its requests met the same congestion
            self._size = max(1.0, size / 2)
            self._quiet_until = now + round_trip_s
