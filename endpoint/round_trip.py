"""How long to wait for an answer before asking again: RFC 6298."""

from __future__ import annotations


class RoundTrip:
    """The round trip to one destination as measured, and the time-out that follows from it (`rto`), in seconds.

    Measure only what was sent once (Karn's rule). The time-out doubles while nothing is measured, once per time-out.
    """

    __slots__ = ("_backed_off", "rto", "rtt", "variation")

    def __init__(self, first: float) -> None:
        self.rto = first
        self.rtt = -1.0
        """-1 before the first measurement."""
        self.variation = 0.0
        self._backed_off = float("-inf")

    def measured(self, rtt: float, least: float, most: float) -> None:
        """Take a measurement; the time-out is to lie between `least`, which counts more, and `most`."""
        if self.rtt < 0:
            self.rtt, self.variation = rtt, rtt / 2
        else:
            self.variation += (abs(rtt - self.rtt) - self.variation) / 4
            self.rtt += (rtt - self.rtt) / 8
        self.rto = max(min(self.rtt + 4 * self.variation, most), least)

    def at_least(self, least: float) -> None:
        """Raise the time-out to `least`."""
        self.rto = max(self.rto, least)

    def expired(self, now: float, least: float, most: float) -> None:
        """Double the time-out, once for all that was lost together."""
        if now >= self._backed_off + self.rto:
            self._backed_off = now
            self.rto = max(min(2 * self.rto, most), least)
