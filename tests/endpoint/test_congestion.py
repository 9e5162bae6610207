"""What one destination may have in flight, and when a request is sent again, on links with credits."""

from __future__ import annotations

from collections import Counter

import pytest

from codec.constants import Vc
from codec.profile import LinkProfile
from endpoint.congestion import CongestionWindow, lossless_rto_s, requests_per_destination
from endpoint.initiator import Initiator
from endpoint.options import EndpointOptions
from endpoint.paths import Paths
from endpoint.transfer import Transfer

ROUND_TRIP_S = 0.5


def round_trip(window: CongestionWindow, now: float, *, echo: bool = False) -> None:
    """Answer as many requests as are in flight at once; the first one echoes congestion, if any does."""
    for i in range(window.size):
        window.answered(now, echo and i == 0, ROUND_TRIP_S)


@pytest.mark.parametrize(("limit", "round_trips"), [(1, 9), (2, 16), (6, 9), (32, 9), (128, 9), (1023, 9)])
def test_what_was_halved_is_back_after_eight_round_trips(limit: int, round_trips: int) -> None:
    """One more as sizes are fractions, of which whole requests are in flight; of one request that is a third."""
    window = CongestionWindow(limit)
    assert window.size == limit
    round_trip(window, 0.0, echo=True)
    halved = window.size
    assert max(1, limit // 2) <= halved <= max(1, limit * 5 // 8)
    for n in range(round_trips):
        round_trip(window, n * ROUND_TRIP_S)
    assert window.size == limit


def test_from_one_request_to_all_in_sixteen_round_trips() -> None:
    window = CongestionWindow(128)
    for n in range(20):
        window.answered(n, True, ROUND_TRIP_S)
    assert window.size == 1
    for _ in range(18):
        round_trip(window, 100.0)
    assert window.size == 128


def test_one_round_trip_halves_once() -> None:
    window = CongestionWindow(64)
    for _ in range(64):
        window.answered(1.0, True, ROUND_TRIP_S)
    assert window.size == 32
    window.answered(1.0 + ROUND_TRIP_S, True, ROUND_TRIP_S)
    assert window.size == 16


def test_a_limit_that_falls_and_rises() -> None:
    window = CongestionWindow(64)
    window.limit = 8
    assert window.size == 8
    window.limit = 64
    assert window.size == 64
    assert requests_per_destination(128, LinkProfile()) == 32


@pytest.mark.parametrize(
    ("profiles", "seconds"),
    [
        ([LinkProfile()], 0.8),
        ([LinkProfile(silence_ms=50), LinkProfile(silence_ms=200)], 1.6),
        ([LinkProfile(silence_ms=0)], 0.8),
        ([LinkProfile(), LinkProfile(lossless_vcs=())], 0.0),
        ([LinkProfile(lossless_vcs=(int(Vc.REQUEST),))], 0.0),
        ([LinkProfile(lossless_vcs=(2,), vc_map=(2, 2, 2, 3, 4, 5, 6, 7))], 0.8),
        ([], 0.0),
    ],
)
def test_where_nothing_is_lost_an_answer_may_take_long(profiles: list[LinkProfile], seconds: float) -> None:
    assert lossless_rto_s(profiles) == pytest.approx(seconds)


def sent_at(credited: int | None) -> list[float]:
    """Return when one request is sent that is never answered, in the first 3 seconds of 60."""
    options = EndpointOptions(timeout_s=60, first_rto_s=0.25, min_rto_s=0.1, max_rto_s=1.0)
    now, sent = 0.0, []
    initiator = Initiator(
        1, 1, Paths(1, [0], ordered=False), lambda *_: sent.append(now), Counter(), options, lossless_rto_s=0.8
    )
    initiator.limit_per_destination(credited)
    initiator.submit(0.0, 60.0, 2, 1, 1, 0, 8, b"", Transfer(1, lambda values: values[0]), 0)
    while (due := initiator.expire(now)) is not None and due < 3:
        now = due
    return [round(time, 3) for time in sent]


def test_links_with_credits_wait_longer_before_they_ask_again() -> None:
    assert sent_at(None) == [0.0, 0.25, 0.75, 1.75, 2.75]
    assert sent_at(32) == [0.0, 0.8, 1.8, 2.8]
