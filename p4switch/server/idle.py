"""Idle time-outs: tell the primary about entries that no packet has hit for as long as their TTL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from finsy.proto import p4r

from p4switch.server.matches import EntryKey
from p4switch.server.scanner import Scanner
from p4switch.server.table_reads import describe_key
from p4switch.server.table_state import TableState

Notify = Callable[[int, p4r.IdleTimeoutNotification], None]  # (table id, message)

_SHORTEST_SCAN_S = 0.01
_LONGEST_SCAN_S = 1.0
_SCANS_PER_TTL = 8


class IdleWatcher:
    """Scans the entries that have a TTL, often enough for the shortest one.

    An entry is reported once per TTL for as long as it stays idle, as 1.4 demands of the server.
    """

    def __init__(self, tables: TableState, lock: threading.RLock, notify: Notify) -> None:
        self._tables = tables
        self._notify = notify
        self._reported: dict[tuple[int, EntryKey], int] = {}  # idle nanoseconds at the last report
        self._scanner = Scanner("idle-timeouts", lock, self._scan)
        tables.on_timed = self._scanner.wake

    def close(self) -> None:
        """Look no more."""
        self._scanner.close()

    def _scan(self) -> float | None:
        """Report what is due; return the seconds to the next scan, None when no entry has a TTL."""
        shortest: int | None = None
        messages: dict[int, p4r.IdleTimeoutNotification] = {}
        seen: dict[tuple[int, EntryKey], int] = {}
        for table, record, note in self._tables.timed():
            ttl_ns, idle_ns = note.idle_timeout_ns, record.idle_us * 1000
            key = (table.id, (record.entry.matches, record.entry.priority))
            shortest = ttl_ns if shortest is None else min(shortest, ttl_ns)
            reported = self._reported.get(key, 0)
            if idle_ns < reported:  # hit since
                reported = 0
            if idle_ns - reported >= ttl_ns:
                reported = idle_ns
                entry = messages.setdefault(table.id, p4r.IdleTimeoutNotification()).table_entry.add()
                describe_key(table, record, entry)
                note.put(entry)
            seen[key] = reported
        self._reported = seen
        for table_id, message in messages.items():
            message.timestamp = time.time_ns()
            self._notify(table_id, message)
        if shortest is None:
            return None
        return min(max(shortest / 1e9 / _SCANS_PER_TTL, _SHORTEST_SCAN_S), _LONGEST_SCAN_S)
