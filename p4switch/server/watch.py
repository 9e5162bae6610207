"""Watch ports: members of action selectors that are chosen only while a port is up."""

from __future__ import annotations

import threading

from p4switch.server.profiles import Profiles

_INTERVAL_S = 0.02


class PortWatcher:
    """Looks at the ports, for as long as any member or one shot depends on one, and tells the profiles of changes."""

    def __init__(self, profiles: Profiles, lock: threading.RLock) -> None:
        self._profiles = profiles
        self._lock = lock
        self._wake = threading.Event()
        self._closed = False
        profiles.on_watch = self._wake.set
        self._thread = threading.Thread(target=self._run, name="watch-ports", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let the thread end. It is not waited for: it may be waiting for the lock that the caller holds."""
        self._closed = True
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.clear()
            with self._lock:
                if self._closed:
                    return
                watched = self._profiles.look_at_ports()
            self._wake.wait(_INTERVAL_S if watched else None)
