"""Completion of what a GPU asked of another one's memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from endpoint.waiters import Waiters

T = TypeVar("T")


class Transfer(Generic[T]):
    """An access under way, of one request or many; `result()` waits for all of them.

    A transfer fails with the first error of its requests, but is done only when each of them is: nothing of it is on
    the way any more. One that was given a number of parts is completed by as many calls of `part_done` and
    `part_failed`, one at a time.
    """

    __slots__ = ("_ended", "_error", "_finish", "_remaining", "_started", "_values", "_waiters")

    def __init__(self, parts: int, finish: Callable[[list[Any]], T]) -> None:
        self._remaining = parts
        self._values: list[Any] = [None] * parts
        self._finish = finish
        self._error: BaseException | None = None
        self._waiters = Waiters()
        self._started = self._ended = time.monotonic()

    def done(self) -> bool:
        """Tell whether the transfer is complete or has failed, and nothing of it is under way."""
        return not self._remaining

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the transfer is done, at most `timeout` seconds; tell whether it is.

        Without a timeout the wait is bounded too: each request ends by its own time-out.
        """
        if self._remaining:
            waiter = self._waiters.add()
            if self._remaining and not waiter.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
                self._waiters.discard(waiter)
        return not self._remaining

    @property
    def duration_s(self) -> float:
        """Seconds from the first request's start to the last one's end, of a transfer that is done."""
        return self._ended - self._started

    @property
    def ended_at(self) -> float:
        """When the last request of a transfer that is done ended, on the monotonic clock."""
        return self._ended

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait and return the error that the transfer failed with, or None. Raises TimeoutError when it is not done."""
        if not self.wait(timeout):
            raise TimeoutError(f"the transfer is not done after {timeout} s; {self._remaining} requests are unfinished")
        return self._error

    def result(self, timeout: float | None = None) -> T:
        """Wait and return what was asked for. Raises what the transfer failed with, or TimeoutError when it is not
        done."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._finish(self._values)

    def part_done(self, index: int, value: Any) -> None:
        """Complete one part."""
        self._values[index] = value
        self._end_parts(1)

    def part_failed(self, error: BaseException) -> None:
        """End one part with an error."""
        if self._error is None:
            self._error = error
        self._end_parts(1)

    @property
    def failed(self) -> bool:
        """Whether a part has failed already, be the rest done or not."""
        return self._error is not None

    def drop_parts(self, count: int) -> None:
        """End parts that will never be asked for, as another one has failed."""
        self._end_parts(count)

    def _end_parts(self, count: int) -> None:
        self._remaining -= count
        if not self._remaining:
            self._ended = time.monotonic()
            self._waiters.wake()
