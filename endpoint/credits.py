"""Credit-based flow control (CBFC) of one link direction and one virtual channel: both ends of it.

Nothing here does input or output; `endpoint.managed_link` puts a sender and a receiver per virtual channel to work, and
docs/protocol.md section 5 has the rules. Counters are cyclic, modulo 2^20 (`endpoint.cyclic`), and travel in 24 bits;
differences between them stay below 2^19.
"""

from __future__ import annotations

from enum import Enum

from endpoint.cyclic import MASK, after, distance, steps


class Freed(Enum):
    """What a sender made of a CF_UPDATE."""

    NEW = "new"
    SAME = "same"
    WRONG = "wrong"


class CreditSender:
    """The sending end: how much the receiver's buffer has taken, and what it may still take.

    `consumed` and `freed` are SAI's sender_credits_consumed and sender_credits_freed; `used` is their difference.
    """

    __slots__ = ("consumed", "freed", "limit", "used_watermark")

    def __init__(self, limit: int, in_use: int = 0) -> None:
        self.limit = limit
        self.consumed = in_use & MASK
        self.freed = 0
        self.used_watermark = in_use

    @property
    def used(self) -> int:
        """Credits in use, as the sender knows: what it consumed and does not know to be freed."""
        return steps(self.freed, self.consumed)

    def has_room(self, credits: int) -> bool:
        """Tell whether a frame of so many credits may be sent."""
        return self.used + credits <= self.limit

    def consume(self, credits: int) -> None:
        """Count a frame that enters the port's queue. There must be room."""
        self.consumed = after(self.consumed, credits)
        self.used_watermark = max(self.used_watermark, self.used)

    def update(self, freed: int) -> Freed:
        """Take the receiver's credits_freed, if it lies between what is known and what was consumed."""
        step = steps(self.freed, freed)
        if freed > MASK or step > self.used:
            return Freed.WRONG
        self.freed = freed
        return Freed.NEW if step else Freed.SAME


class CreditReceiver:
    """The receiving end: what came into its buffer and what has left it.

    `consumed` and `freed` are SAI's receiver_credits_consumed and receiver_credits_freed.
    """

    __slots__ = ("_threshold", "consumed", "freed", "limit", "reported")

    def __init__(self, limit: int, threshold: int, in_use: int = 0) -> None:
        self.limit = limit
        self._threshold = threshold
        self.consumed = in_use & MASK
        self.freed = 0
        self.reported = 0
        """The credits_freed that the last CF_UPDATE carried."""

    @property
    def used(self) -> int:
        """Credits of what is in the buffer."""
        return steps(self.freed, self.consumed)

    def consume(self, credits: int) -> None:
        """Count a frame that arrived."""
        self.consumed = after(self.consumed, credits)

    def free(self, credits: int) -> None:
        """Count a frame that has left the buffer."""
        self.freed = after(self.freed, credits)

    @property
    def unreported(self) -> int:
        """Credits freed since the last CF_UPDATE."""
        return steps(self.reported, self.freed)

    def update_due(self) -> bool:
        """Tell whether as much was freed since the last CF_UPDATE as makes another one due."""
        return self.unreported >= self._threshold > 0

    def report(self) -> int:
        """Return the credits_freed for a CF_UPDATE that goes out now."""
        self.reported = self.freed
        return self.freed

    def reconcile(self, sender_consumed: int) -> int:
        """Write off what was lost on the way, by the sender's credits_consumed; return the credits written off.

        A CC_UPDATE that is older than what has arrived since (repeated or late) says nothing and is ignored.
        """
        lost = distance(self.consumed, sender_consumed)
        if sender_consumed > MASK or lost <= 0:
            return 0
        self.freed = after(self.freed, lost)
        self.consumed = sender_consumed
        return lost
