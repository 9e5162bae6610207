"""What a GPU's program learns of messages that others completed and that were to be told."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from endpoint.memory import FIRST_RESERVED_KEY


class Notification(NamedTuple):
    """A message that is placed: who wrote it, into which region, where, and how many bytes."""

    src: int
    key: int
    address: int
    length: int


class Notifications:
    """Those that nobody took yet, in the order of completion; `most` at a time.

    Those of the endpoint's own regions (reserved keys) only who asks for their key gets.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._serial = 0
        self._pending: dict[tuple[int, int], deque[tuple[int, Notification]]] = {}
        self._count = 0
        self.added = False
        """Set when one was added; whoever wakes those that wait clears it."""

    def __len__(self) -> int:
        """Those that the program can take without naming a reserved key."""
        return sum(len(queue) for (_, key), queue in self._pending.items() if key < FIRST_RESERVED_KEY)

    @property
    def full(self) -> bool:
        """Whether no more can be kept until one is taken."""
        return self._count >= self._most

    def add(self, notification: Notification) -> None:
        """Keep a notification. There must be room."""
        self._serial += 1
        place = notification.src, notification.key
        self._pending.setdefault(place, deque()).append((self._serial, notification))
        self._count += 1
        self.added = True

    def take(self, src: int | None, key: int | None) -> Notification | None:
        """Return the oldest of a source and a region (None: of any), which is then gone; None when there is none."""
        if src is not None and key is not None:
            place = (src, key)
            if place not in self._pending:
                return None
        else:
            matching = [
                (queue[0][0], place)
                for place, queue in self._pending.items()
                if src in (None, place[0]) and (place[1] < FIRST_RESERVED_KEY if key is None else key == place[1])
            ]
            if not matching:
                return None
            place = min(matching)[1]
        queue = self._pending[place]
        _, notification = queue.popleft()
        if not queue:
            del self._pending[place]
        self._count -= 1
        return notification
