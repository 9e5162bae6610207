"""A thread that looks at something again and again, as often as what it finds asks for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

Scan = Callable[[], float | None]
"""Looks once, under the lock; returns the seconds to the next look, None: not before `wake`."""


class Scanner:
    """Calls `scan` under `lock` until it is closed."""

    def __init__(self, name: str, lock: threading.RLock, scan: Scan) -> None:
        self._lock: Final = lock
        self._scan: Final = scan
        self._woken = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look now."""
        self._woken.set()

    def close(self) -> None:
        """Let the thread end. It is not waited for: it may be waiting for the lock that the caller holds."""
        self._closed = True
        self._woken.set()

    def _run(self) -> None:
        while True:
            self._woken.clear()
            with self._lock:
                if self._closed:
                    return
                pause = self._scan()
            self._woken.wait(pause)
