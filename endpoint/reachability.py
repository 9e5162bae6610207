"""Which planes lead to a destination: what switches have said of it, and which own links are up.

A plane leads to a destination while its own link is up and no word of a switch closes the path (subject, plane). Words
are the EVENT frames of docs/protocol.md section 7. They are soft state, so nothing here has to be undone by hand: a
word is newer, repeated or old by its sequence, and one that closes lapses when nothing repeats it.

Nothing here does input or output; `endpoint.failover` acts on what changes. Times are seconds of one monotonic clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from typing import Final

from codec.constants import EventType
from codec.profile import KEEPALIVE_MS

SILENT_S: Final = 5 * KEEPALIVE_MS / 1000
"""A path opens again after so long without a repetition of what closed it: five keepalives."""
SETTLING_S: Final = SILENT_S
"""So long after its own link has come up a plane is used only where no other leads to the destination: what its switch
repeats must be heard first, and a switch that has just started may not serve all its links yet."""
SILENT_MOST_S: Final = 2.0
"""The same, at most: it doubles each time that the path turned out to be closed still."""
DEGRADED_S: Final = 10.0
"""So long a path counts as degraded after it was last said to be."""
MEMORY_S: Final = 2.0
"""So long a sequence is remembered after the last word with it: longer than any frame is under way. Soon enough for a
switch elsewhere that starts anew, and for 32,768 changes, after which a newer sequence looks like an older one."""
WORDS_MOST: Final = 1 << 14
"""Words remembered at most, over all planes, subjects and switches."""
_SEQUENCE_MASK: Final = 0xFFFF
_HALF: Final = 0x8000

_DOWN: Final = int(EventType.LINK_DOWN)
_UP: Final = int(EventType.LINK_UP)
_DEGRADED: Final = int(EventType.LINK_DEGRADED)


class Heard(Enum):
    """What became of a switch's word; the values are the names of the counters `events_<value>`."""

    CLOSED = "closed"
    """The path is closed, and was not before."""
    OPENED = "opened"
    """The path is open, and was not before."""
    RENEWED = "renewed"
    """The path is open, and its link has come up: it was down meanwhile, unheard of, so what was under way may be lost.
    """
    DEGRADED = "degraded"
    """The path is to be avoided, and was not before."""
    NOTED = "noted"
    """New, and as it was before."""
    REPEATED = "repeated"
    OLD = "old"
    CONTRADICTED = "contradicted"
    """The same sequence said something else before."""
    OVERFLOWED = "overflowed"
    """There is no room to remember another word."""


class _Word:
    """The newest that one switch said of one subject on one plane."""

    __slots__ = ("heard", "lapsed", "sequence", "silent_s", "since", "type")

    def __init__(self, now: float, kind: int, sequence: int) -> None:
        self.type = kind
        self.sequence: int | None = sequence
        self.heard = self.since = now
        self.silent_s = DEGRADED_S if kind == _DEGRADED else SILENT_S
        self.lapsed = False
        """Nothing repeated it for so long that it holds no more."""


class Reachability:
    """What one GPU knows of the ways to all others.

    `planes` are its own; the links of those in `down` are not up yet, as of `now`.
    """

    def __init__(self, planes: Iterable[int], now: float, down: Iterable[int] = ()) -> None:
        self._planes = tuple(sorted(planes))
        self._down_since: dict[int, float] = dict.fromkeys(down, now)
        self._up_since: dict[int, float] = dict.fromkeys(self._planes, now)
        self._words: dict[tuple[int, int], dict[int, _Word]] = {}
        """Of each (plane, subject), per switch."""
        self._count = 0
        self._pressing: dict[tuple[int, int, int], _Word] = {}
        """The words that close or degrade a path, by plane, subject and switch."""
        self._settling: dict[int, float] = {}
        """The planes whose own link has just come up, and until when they are to be spared."""
        self._due = math.inf
        self._usable: dict[int, tuple[int, ...]] = {}

    # ------------------------------------------------------------------------------------------------------ questions

    def planes_to(self, dst: int) -> tuple[int, ...]:
        """Return the planes to use for a destination, ascending; empty: none leads there.

        Degraded ones, and those whose own link has just come up, only where there is no other.
        """
        usable = self._usable.get(dst)
        if usable is None:
            open_ = [plane for plane in self._planes if not self._closed_since(plane, dst)]
            good = [plane for plane in open_ if plane not in self._settling and not self._degraded(plane, dst)]
            usable = self._usable[dst] = tuple(good or open_)
        return usable

    def is_up(self, plane: int) -> bool:
        """Tell whether the own link of a plane is up."""
        return plane not in self._down_since

    def unreachable_since(self, dst: int) -> float:
        """Return when the last plane to a destination was closed. There must be none that leads there."""
        return max(min(self._closed_since(plane, dst), default=math.inf) for plane in self._planes)

    def explain(self, dst: int, now: float) -> str:
        """Say for each plane why it does not lead to a destination, and for how long."""
        reasons = []
        for plane in self._planes:
            since = self._down_since.get(plane)
            if since is not None:
                reasons.append(f"plane {plane}: own link down for {now - since:.1f} s")
            else:
                closing = self._closing(plane, dst)
                by = ", ".join(f"{switch:#x}" for switch in sorted(closing))
                since = min((word.since for word in closing.values()), default=now)
                reasons.append(f"plane {plane}: closed by switch {by} for {now - since:.1f} s")
        return "; ".join(reasons)

    # -------------------------------------------------------------------------------------------------------- changes

    def link(self, now: float, plane: int, up: bool) -> None:
        """Take note of the own link of a plane.

        A link that comes up may lead to a switch that has begun to count anew: its sequences are forgotten. What is
        closed stays so until it is opened or nothing repeats it.
        """
        if up:
            self._down_since.pop(plane, None)
            self._up_since[plane] = now
            self._settling[plane] = now + SETTLING_S
            for (of_plane, _), words in self._words.items():
                if of_plane == plane:
                    for word in words.values():
                        word.sequence = None
            self._due = min(self._due, now)
        else:
            self._down_since.setdefault(plane, now)
            self._settling.pop(plane, None)
        self._usable.clear()

    def take(self, now: float, plane: int, switch: int, kind: int, subject: int, sequence: int) -> Heard:
        """Take a switch's word on a subject (both ids), of a known type; its plane must be the one that it came on."""
        words = self._words.get((plane, subject), {})
        word = words.get(switch)
        if word is not None and word.sequence is not None:
            step = sequence - word.sequence & _SEQUENCE_MASK
            if step == 0 and kind == word.type:
                word.heard = now
                if not word.lapsed:
                    return Heard.REPEATED
                word.lapsed = False  # it holds still: the silence meant nothing, so wait for a longer one
                if kind == _DOWN:
                    word.silent_s = min(2 * word.silent_s, SILENT_MOST_S)
                return self._press(plane, subject, switch, word)
            if now - word.heard <= MEMORY_S and (step == 0 or step >= _HALF):
                return Heard.CONTRADICTED if step == 0 else Heard.OLD
        elif word is None:
            if self._count >= WORDS_MOST and not self._forget(now):
                return Heard.OVERFLOWED
            self._count += 1
        new = words[switch] = _Word(now, kind, sequence)
        self._words[plane, subject] = words
        if word is not None and not word.lapsed and word.type == kind:
            new.since = word.since
        if kind != _UP:
            return self._press(plane, subject, switch, new)
        if (plane, subject, switch) in self._pressing:
            return self._release(plane, subject, switch)
        return Heard.NOTED if self._closing(plane, subject) else Heard.RENEWED

    def poll(self, now: float) -> list[tuple[int, int]]:
        """Let what nothing has repeated for too long lapse; return each (plane, subject) that this opened."""
        opened: list[tuple[int, int]] = []
        if now < self._due:
            return opened
        self._due = math.inf
        for plane, until in list(self._settling.items()):
            if now < until:
                self._due = min(self._due, until)
            else:
                del self._settling[plane]
                self._usable.clear()
        for (plane, subject, switch), word in list(self._pressing.items()):
            if plane in self._down_since:
                continue  # nothing could be heard: looked at again when the link is up
            lapses = max(word.heard, self._up_since[plane]) + word.silent_s
            if now < lapses:
                self._due = min(self._due, lapses)
                continue
            word.lapsed = True
            if self._release(plane, subject, switch) is Heard.OPENED:
                opened.append((plane, subject))
        return opened

    @property
    def due(self) -> float:
        """When `poll` has something to do, at the earliest."""
        return self._due

    # ---------------------------------------------------------------------------------------------------------- inside

    def _closing(self, plane: int, dst: int) -> dict[int, _Word]:
        words = self._words.get((plane, dst), {})
        return {switch: word for switch, word in words.items() if word.type == _DOWN and not word.lapsed}

    def _closed_since(self, plane: int, dst: int) -> list[float]:
        """Return since when each thing that closes a path does so."""
        since = [word.since for word in self._closing(plane, dst).values()]
        if plane in self._down_since:
            since.append(self._down_since[plane])
        return since

    def _degraded(self, plane: int, dst: int) -> bool:
        words = self._words.get((plane, dst), {}).values()
        return any(word.type == _DEGRADED and not word.lapsed for word in words)

    def _press(self, plane: int, subject: int, switch: int, word: _Word) -> Heard:
        """Let a word close or degrade its path."""
        key = plane, subject, switch
        before = self._pressing.get(key)
        self._pressing[key] = word
        self._due = min(self._due, word.heard + word.silent_s)
        self._usable.clear()
        if before is not None and before.type == word.type:
            return Heard.NOTED
        others = any(other != switch for other in self._closing(plane, subject))
        if word.type == _DOWN:
            return Heard.NOTED if others else Heard.CLOSED
        return Heard.OPENED if before is not None and not others else Heard.DEGRADED

    def _release(self, plane: int, subject: int, switch: int) -> Heard:
        """End what a word did to its path."""
        before = self._pressing.pop((plane, subject, switch), None)
        self._usable.clear()
        if before is None or before.type != _DOWN or self._closing(plane, subject):
            return Heard.NOTED
        return Heard.OPENED

    def _forget(self, now: float) -> bool:
        """Drop the words that do nothing and are too old to say what comes late; tell whether there were any."""
        count = self._count
        for place, words in list(self._words.items()):
            for switch, word in list(words.items()):
                if now - word.heard > MEMORY_S and (*place, switch) not in self._pressing:
                    del words[switch]
                    self._count -= 1
            if not words:
                del self._words[place]
        return self._count < count
