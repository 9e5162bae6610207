"""One direction of a cable that the tester controls: any frame can be lost, damaged, delayed, frozen or repeated.

Nothing here does input or output or reads a clock: time comes in with every call.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from zlib import crc32

from codec.constants import CRC_BYTES, Kind, LinkFlag
from codec.layouts import LINK

_KIND_SHIFT: Final = 4
_CRC: Final = LINK.size - CRC_BYTES
ALL_KINDS: Final = frozenset(Kind)


class Harm(StrEnum):
    """What is done to a frame."""

    DROP = "drop"
    CORRUPT = "corrupt"
    DELAY = "delay"
    FREEZE = "freeze"
    REPEAT = "repeat"
    POISON = "poison"
    """Mark as bad what is in it, as a sender does that knows; the link CRC holds."""


@dataclass
class Rule:
    """What is done to which frames, from now on."""

    harm: Harm
    kinds: Collection[Kind] = ALL_KINDS
    count: int | None = None
    """So many frames, then no more; None: all."""
    delay_s: float = 0.0
    """With DELAY: how much later each frame arrives; a cable keeps the order of what is delayed on it."""
    chance: float = 1.0
    """The probability with which it is done to a frame of those kinds."""
    rng: random.Random = field(default_factory=random.Random)
    after: int = 0
    """So many frames of those kinds pass first."""
    numbered: bool | None = None
    """Only frames with a number of link-layer retry, or only those without; None: both."""
    done: int = 0
    """Frames that it has been done to."""

    def applies(self, frame: bytes) -> bool:
        """Tell whether the frame is one of those; count it if so."""
        if (self.count is not None and self.done >= self.count) or frame[0] >> _KIND_SHIFT not in self.kinds:
            return False
        if self.numbered is not None and self.numbered != bool(frame[0] & LinkFlag.LLR):
            return False
        if self.after:
            self.after -= 1
            return False
        if self.chance < 1 and self.rng.random() >= self.chance:
            return False
        self.done += 1
        return True


class Wire:
    """Carries frames to `deliver`, by the rules that stand in `rules`: the first that applies to a frame decides."""

    def __init__(self, deliver: Callable[[bytes], None]) -> None:
        self._deliver = deliver
        self._late: deque[tuple[float, bytes]] = deque()
        self._last_due = 0.0
        self._frozen: list[bytes] = []
        self.rules: list[Rule] = []

    def put(self, frame: bytes, now: float) -> None:
        """Send a frame along the wire."""
        for rule in self.rules:
            if rule.applies(frame):
                self._harm(rule, frame, now)
                return
        self._deliver(frame)

    def harm(
        self,
        harm: Harm,
        kinds: Collection[Kind] = ALL_KINDS,
        count: int | None = None,
        delay_s: float = 0.0,
        after: int = 0,
    ) -> Rule:
        """Add a rule and return it, so that it can be counted and taken away again."""
        rule = Rule(harm, kinds, count, delay_s, after=after)
        self.rules.append(rule)
        return rule

    def harm_some(
        self,
        harm: Harm,
        kinds: Collection[Kind],
        chance: float,
        rng: random.Random,
        delay_s: float = 0.0,
        numbered: bool | None = None,
    ) -> Rule:
        """Add a rule that applies to each frame with a probability."""
        rule = Rule(harm, kinds, None, delay_s, chance, rng, numbered=numbered)
        self.rules.append(rule)
        return rule

    def heal(self) -> None:
        """Take all rules away and let go what is frozen; what is delayed still comes late."""
        self.rules.clear()
        frozen, self._frozen = self._frozen, []
        for frame in frozen:
            self._deliver(frame)

    def poll(self, now: float) -> float | None:
        """Deliver what is due; return when the next frame is, None without one."""
        while self._late and self._late[0][0] <= now:
            self._deliver(self._late.popleft()[1])
        return self._late[0][0] if self._late else None

    def _harm(self, rule: Rule, frame: bytes, now: float) -> None:
        match rule.harm:
            case Harm.CORRUPT:
                self._deliver(corrupted(frame))
            case Harm.POISON:
                self._deliver(poisoned(frame))
            case Harm.REPEAT:
                self._deliver(frame)
                self._deliver(frame)
            case Harm.FREEZE:
                self._frozen.append(frame)
            case Harm.DELAY:
                self._last_due = max(self._last_due, now + rule.delay_s)
                self._late.append((self._last_due, frame))


def corrupted(frame: bytes) -> bytes:
    """Return the frame with one bit of its last byte turned, so that its CRC no longer holds."""
    return frame[:-1] + bytes([frame[-1] ^ 0x10])


def poisoned(frame: bytes) -> bytes:
    """Return the frame marked as one whose sender knows that its content is bad, with the CRC that it then needs."""
    head, body = bytes([frame[0] | LinkFlag.POISON]) + frame[1:_CRC], frame[LINK.size :]
    return head + crc32(body, crc32(head)).to_bytes(CRC_BYTES, "big") + body
