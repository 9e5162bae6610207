"""Threads that wait for something to happen."""

from __future__ import annotations

import threading


class Waiters:
    """Any number of threads, each woken once by the next `wake`.

    A thread calls `add`, looks whether what it waits for has happened meanwhile, and if not acquires the lock that it
    got, with a timeout if it likes. What happened must be visible before `wake` is called. Made of plain locks only,
    so that an interrupt (Ctrl-C) between any two steps leaves nothing held.
    """

    __slots__ = ("_locks",)

    def __init__(self) -> None:
        self._locks: list[threading.Lock] = []

    def add(self) -> threading.Lock:
        """Return a lock that is held, and is released by the next `wake`."""
        lock = threading.Lock()
        lock.acquire()
        self._locks.append(lock)
        return lock

    def discard(self, lock: threading.Lock) -> None:
        """Forget a lock that nobody waits for any more."""
        if lock in self._locks:
            self._locks.remove(lock)

    def wake(self) -> None:
        """Release every lock that was handed out."""
        locks, self._locks = self._locks, []
        for lock in locks:
            lock.release()
