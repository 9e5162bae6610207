"""What waits to be sent on one StreamChannel."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from finsy.proto import p4r

from p4switch.server.status import RequestError


class Outbox:
    """A queue between the threads that have something to tell a controller and the one that sends it.

    Notifications that P4Runtime allows to be lost (packet-ins, digests, idle time-outs, stream errors) are dropped when
    a controller reads too slowly; arbitration messages never are.
    """

    def __init__(self, most_waiting: int) -> None:
        self.dropped = 0
        self.error: RequestError | None = None
        self._most_waiting = most_waiting
        self._waiting: deque[p4r.StreamMessageResponse] = deque()
        self._closed = False
        self._changed = threading.Condition()

    def put(self, message: p4r.StreamMessageResponse) -> None:
        """Queue a message that must arrive."""
        with self._changed:
            if not self._closed:
                self._waiting.append(message)
                self._changed.notify()

    def offer(self, message: p4r.StreamMessageResponse) -> bool:
        """Queue a message that may be lost; False if it was."""
        with self._changed:
            if self._closed:
                return False
            if len(self._waiting) >= self._most_waiting:
                self.dropped += 1
                return False
            self._waiting.append(message)
            self._changed.notify()
            return True

    def close(self, error: RequestError | None = None) -> None:
        """End the stream once everything queued is sent; the first error given is what it ends with."""
        with self._changed:
            if not self._closed:
                self.error = error
                self._closed = True
                self._changed.notify()

    def drain(self) -> Iterator[p4r.StreamMessageResponse]:
        """Yield messages as they come, until closed and empty."""
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return
                message = self._waiting.popleft()
            yield message
