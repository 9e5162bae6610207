"""A lock that is given back goes to who waits for it."""

from __future__ import annotations

import threading
import time

from endpoint.fair_lock import FairLock


def test_waiter_comes_before_who_released() -> None:
    lock = FairLock()
    stop = threading.Event()
    turns = 0

    def hog() -> None:
        while not stop.is_set():
            with lock:
                time.sleep(0.001)

    thread = threading.Thread(target=hog)
    thread.start()
    start = time.monotonic()
    for _ in range(50):  # a plain lock lets the hog in again and again
        with lock:
            turns += 1
    took = time.monotonic() - start
    stop.set()
    thread.join()
    assert turns == 50
    assert took < 1.0


def test_as_a_condition() -> None:
    lock = FairLock()
    condition = threading.Condition(lock)  # type: ignore[arg-type]
    ready = []

    def setter() -> None:
        with lock:
            ready.append(1)
            condition.notify_all()

    thread = threading.Timer(0.02, setter)
    with lock:
        thread.start()
        assert condition.wait_for(lambda: bool(ready), 2)
    thread.join()


def test_without_blocking() -> None:
    lock = FairLock()
    assert lock.acquire()
    assert not lock.acquire(blocking=False)
    assert not lock.acquire(timeout=0.01)
    lock.release()
    assert lock.acquire(blocking=False)
    lock.release()
