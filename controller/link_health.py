"""Judge whether a link loses so much that it should retry, from counters of one of its switch ports.

Pure: counters in, a judgement out. What the other end has found lost is among the counters (docs/protocol.md,
`losses`), so one end tells of both directions. A loss counts once, however it showed; how many frames a CC_UPDATE
wrote off is not known, so at rates of several per cent the estimate is low.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from controller.credits import LOSS_COUNTERS

COUNTERS: Final = (*LOSS_COUNTERS, "port_rx", "port_tx", "llr_rx_ok", "llr_tx_ok")
"""What a judgement is made of, as the switch counts it by port: losses found and told, frames received and sent, and
those of them that retry has numbered."""

MOST_PATIENT: Final = 8
"""A link that loses again soon after it was judged clean has to be clean for twice as long, up to so many times."""


class Seen(NamedTuple):
    """Counters of a port at a moment: losses and frames, both since some beginning; `numbered` both ways."""

    at_s: float
    found: int
    told: int
    received: int
    sent: int
    numbered: int = 0


@dataclass(frozen=True, slots=True)
class Loss:
    """What a link has lost lately: losses and frames, towards the switch and towards its peer."""

    found: int = 0
    received: int = 0
    told: int = 0
    sent: int = 0

    @property
    def losses(self) -> int:
        """In both directions."""
        return self.found + self.told

    @property
    def to_switch(self) -> float:
        """Share of the frames that the switch should have received."""
        return self.found / max(self.received + self.found, 1)

    @property
    def to_peer(self) -> float:
        """Share of the frames that the switch has sent."""
        return min(self.told / max(self.sent, 1), 1.0)

    def __str__(self) -> str:
        return (
            f"{self.found} losses to the switch ({self.to_switch:.1e} of its frames), "
            f"{self.told} to the peer ({self.to_peer:.1e})"
        )


class LinkHealth:
    """One end of a link.

    It is bad as soon as the last `window_s` seconds had `losses_bad` losses, and good again once `clean_s` seconds and
    `clean_frames` numbered frames had none: where nothing is sent, nothing is lost. A link that turns bad again within
    that time after it was good has to be clean for twice as long.
    """

    def __init__(self, losses_bad: int, window_s: float, clean_s: float, clean_frames: int) -> None:
        self._losses_bad = losses_bad
        self._window_s = window_s
        self._clean_s = clean_s
        self._clean_frames = clean_frames
        self._numbered_then: int | None = None
        """Numbered frames at the last loss; None: at the next look."""
        self._seen: deque[Seen] = deque()
        self._last_loss_s = float("-inf")
        self._good_since_s = float("-inf")
        self._patience = 1
        self.bad = False

    @property
    def loss(self) -> Loss:
        """What the window saw."""
        if not self._seen:
            return Loss()
        first, last = self._seen[0], self._seen[-1]
        return Loss(
            last.found - first.found, last.received - first.received, last.told - first.told, last.sent - first.sent
        )

    @property
    def clean_for_s(self) -> float:
        """Seconds without a loss that a bad link needs to be good again."""
        return self._clean_s * self._patience

    def suppose(self, bad: bool, at_s: float) -> None:
        """Begin as good or bad: what was judged before this one looked, or by hand."""
        self.bad = bad
        if bad:
            self._last_loss_s = at_s
            self._numbered_then = None

    def update(self, now: Seen) -> bool:
        """Take counters; return whether the link is bad. Smaller ones than before begin anew: the switch has."""
        at_s = now.at_s
        if self._seen and any(new < old for new, old in zip(now, self._seen[-1], strict=True)):
            self._seen.clear()
            self._numbered_then = None
        if self._seen and (now.found, now.told) != (self._seen[-1].found, self._seen[-1].told):
            self._last_loss_s = at_s
            self._numbered_then = None
        if self._numbered_then is None:
            self._numbered_then = now.numbered
        self._seen.append(now)
        while len(self._seen) > 2 and self._seen[1].at_s <= at_s - self._window_s:
            self._seen.popleft()
        if not self.bad and self.loss.losses >= self._losses_bad:
            self.bad = True
            soon = at_s - self._good_since_s < self.clean_for_s
            self._patience = min(2 * self._patience, MOST_PATIENT) if soon else 1
        elif (
            self.bad
            and at_s - self._last_loss_s >= self.clean_for_s
            and now.numbered - self._numbered_then >= self._clean_frames
        ):
            self.bad = False
            self._good_since_s = at_s
            self._seen = deque([now])  # what was lost before is dealt with, also where the window is longer
        return self.bad
