"""Watch ports: members of action selectors that are chosen only while a port is up."""

from __future__ import annotations

import threading

from p4switch.server.profiles import Profiles
from p4switch.server.scanner import Scanner

_INTERVAL_S = 0.02


class PortWatcher:
    """Looks at the ports, for as long as any member or one shot depends on one, and tells the profiles of changes."""

    def __init__(self, profiles: Profiles, lock: threading.RLock) -> None:
        self._profiles = profiles
        self._scanner = Scanner("watch-ports", lock, self._scan)
        profiles.on_watch = self._scanner.wake

    def close(self) -> None:
        """Look no more."""
        self._scanner.close()

    def _scan(self) -> float | None:
        return _INTERVAL_S if self._profiles.look_at_ports() else None
