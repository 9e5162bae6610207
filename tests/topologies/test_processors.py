"""How busy the machine is."""

from __future__ import annotations

import time

from topologies.processors import ProcessorWatch, Sample, busy_share

SAMPLES = [Sample(0, 1000, 500), Sample(100, 1020, 520), Sample(200, 1040, 525), Sample(300, 1060, 530)]


def test_busy_share_is_that_of_the_samples_around_the_time() -> None:
    assert busy_share(SAMPLES, 0, 100) == 0.0
    assert busy_share(SAMPLES, 100, 300) == 0.75
    assert busy_share(SAMPLES, 110, 290) == 0.75
    assert busy_share(SAMPLES, 0, 300) == 0.5
    assert busy_share(SAMPLES, -50, 1000) == 0.5


def test_busy_share_without_time_is_none() -> None:
    assert busy_share([], 0, 1) == 0.0
    assert busy_share(SAMPLES[:1], 0, 1) == 0.0
    assert busy_share(SAMPLES, 400, 500) == 0.0


def test_a_watch_sees_this_process_work() -> None:
    began = time.time_ns()
    with ProcessorWatch() as watch:
        while time.process_time_ns() < 400_000_000 or time.time_ns() - began < 300_000_000:
            sum(range(1000))
    assert len(watch.samples) >= 3
    assert 0 < watch.busy_share(began, time.time_ns()) <= 1
