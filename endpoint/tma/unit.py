"""The RDMA unit of one GPU: what its engine drives and what its program calls.

The engine calls `fail_all`, `wake_waiting`, the source and the target under its lock; the program's calls take that
lock themselves, through the engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from codec.constants import TMA_MAX_MESSAGE, TmaOpcode
from endpoint.errors import FenceTimeout, NotificationTimeout
from endpoint.tma.notifications import Notification, Notifications
from endpoint.tma.source import TmaSource
from endpoint.tma.target import TmaTarget
from endpoint.transfer import Transfer
from endpoint.waiters import Waiters

TMA_RESPONSES: Final = frozenset({TmaOpcode.READ_DATA, TmaOpcode.ACK, TmaOpcode.NAK})


class Locked(Protocol):
    """What the unit needs of the engine."""

    def locked(self, action: Callable[[float], Any]) -> Any:
        """Return what an action does under the lock, given the time. Raises ClosedError."""


class TmaUnit:
    """Writes, reads, notifications of one GPU."""

    def __init__(self, source: TmaSource, target: TmaTarget, notifications: Notifications) -> None:
        self.source = source
        self.target = target
        self.notifications = notifications
        self._arrived = Waiters()

    # ----------------------------------------------------------------------------------------------- for the engine

    def wake_waiting(self) -> None:
        """Wake who waits for a notification."""
        if self.notifications.added:
            self.notifications.added = False
            self._arrived.wake()

    def fail_all(self, error: BaseException) -> None:
        """End everything that waits."""
        self.source.fail_all(error)
        self._arrived.wake()

    # ---------------------------------------------------------------------------------------------- for the program

    def write(
        self, engine: Locked, dst: int, address: int, data: memoryview, key: int, notify: bool, timeout_s: float,
        patient: bool = False,
    ) -> Transfer[None]:  # fmt: skip
        """Begin to write `data`, as several messages where it is longer than one may be."""
        pieces = split(len(data))
        transfer: Transfer[None] = Transfer(len(pieces), lambda _values: None)

        def begin(now: float) -> None:
            for index, (start, end) in enumerate(pieces):
                self.source.write(
                    now, dst, key, address + start, data[start:end], notify, timeout_s, transfer, index, patient
                )  # fmt: skip

        engine.locked(begin)
        return transfer

    def read(
        self, engine: Locked, dst: int, address: int, into: memoryview, key: int, timeout_s: float, result: Any,
        patient: bool = False,
    ) -> Transfer[Any]:  # fmt: skip
        """Begin to read into `into`; the transfer's result is `result`."""
        pieces = split(len(into))
        transfer: Transfer[Any] = Transfer(len(pieces), lambda _values: result)

        def begin(now: float) -> None:
            for index, (start, end) in enumerate(pieces):
                self.source.read(now, dst, key, address + start, into[start:end], timeout_s, transfer, index, patient)

        engine.locked(begin)
        return transfer

    def wait_notification(self, engine: Locked, src: int | None, key: int | None, timeout_s: float) -> Notification:
        """Return the oldest notification of a source and a region, waiting for it. Raises NotificationTimeout."""
        deadline = time.monotonic() + timeout_s

        def look(now: float) -> Any:
            found = self.notifications.take(src, key)
            if found is not None:
                return found
            return None if now >= deadline else self._arrived.add()

        while True:
            found = engine.locked(look)
            if isinstance(found, Notification):
                return found
            if found is None:
                whence = "any GPU" if src is None else f"GPU {src}"
                where = "" if key is None else f" for key {key:#x}"
                raise NotificationTimeout(f"no notification from {whence}{where} in {timeout_s:g} s")
            if not found.acquire(timeout=max(0.0, deadline - time.monotonic())):
                self._arrived.discard(found)


def split(length: int, most: int = TMA_MAX_MESSAGE) -> Sequence[tuple[int, int]]:
    """Return the messages of a transfer of `length` bytes, each as (start, end)."""
    return [(start, min(start + most, length)) for start in range(0, length, most)] or [(0, 0)]


def fence(transfers: Sequence[Transfer[Any]], timeout_s: float) -> None:
    """Wait until all of some transfers have ended. Raises FenceTimeout."""
    deadline = time.monotonic() + timeout_s
    for transfer in transfers:
        if not transfer.wait(max(0.0, deadline - time.monotonic())):
            left = sum(not one.done() for one in transfers)
            raise FenceTimeout(f"{left} of {len(transfers)} transfers were under way for {timeout_s:g} s")
