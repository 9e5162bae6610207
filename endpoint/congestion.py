"""How many requests a source keeps in flight to one destination on links with credits.

One slow destination must not take the credits that a source's traffic to all others needs, as they share the buffer of
the source's switch port. So a destination gets a quarter of the credits at most, and less when its responses echo that
the requests met congestion: half as many, once per round trip, then one more per round trip without an echo (additive
increase, multiplicative decrease, as in RFC 5681 and RFC 3168).
"""

from __future__ import annotations

from typing import Final

from codec.constants import CRC_BYTES, LSU_MAX_BYTES
from codec.layouts import LSU, OEFH, credits_of
from codec.profile import LinkProfile

_SHARE: Final = 4
"""A destination gets one part in so many of the limit."""
_LARGEST_REQUEST: Final = OEFH.size + LSU.size + LSU_MAX_BYTES + CRC_BYTES


def requests_per_destination(credit_limit: int, profile: LinkProfile) -> int:
    """Return how many requests one destination may have in flight on a link whose other end gives so many credits.

    At least what one largest frame takes, and one request.
    """
    credits = max(credit_limit // _SHARE, profile.largest_frame)
    return max(1, credits // credits_of(_LARGEST_REQUEST, 1 << profile.credit_size, profile.packet_overhead))


class CongestionWindow:
    """The requests that one destination may have in flight now; `limit` is the most it may have at all."""

    __slots__ = ("_quiet_until", "_size", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._size = float(limit)
        self._quiet_until = float("-inf")

    @property
    def size(self) -> int:
        """Whole requests, at least 1."""
        return max(1, int(min(self._size, self.limit)))

    def answered(self, now: float, echo: bool, round_trip_s: float) -> None:
        """Take note of a response, and whether it echoed congestion."""
        size = max(1.0, min(self._size, self.limit))
        if not echo:
            self._size = min(size + 1 / size, self.limit)
        elif now >= self._quiet_until:  # once per round trip: all its requests met the same congestion
            self._size = max(1.0, size / 2)
            self._quiet_until = now + round_trip_s
