"""A lock that is handed on: who waits for it gets it before the one who just gave it back.

A plain lock is free for whoever comes first, and a thread that releases it and takes it again at once is always first:
under a flood of frames a receive thread would keep its callers out for hundreds of milliseconds.
"""

from __future__ import annotations

import threading


class FairLock:
    """A mutual exclusion lock, as threading.Lock; usable as the lock of a threading.Condition."""

    __slots__ = ("_lock", "_turnstile")

    def __init__(self) -> None:
        self._turnstile = threading.Lock()  # held by the one who is next, while it waits
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; tell whether it was taken. A timeout, in seconds, bounds each of the two waits."""
        if not self._turnstile.acquire(blocking, timeout):
            return False
        try:
            return self._lock.acquire(blocking, timeout)
        finally:
            self._turnstile.release()

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release()

    def __enter__(self) -> bool:
        with self._turnstile:
            return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
