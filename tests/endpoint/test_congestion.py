"""The window that requests and blocks of messages share."""

from __future__ import annotations

import pytest

from codec.profile import LinkProfile
from endpoint.congestion import CongestionWindow, block_cost


def test_blocks_count_as_requests_by_their_credits() -> None:
    open_links = block_cost([])
    assert [open_links(size) for size in (0, 2048, 4096)] == [1, 1, 1]
    managed = block_cost([LinkProfile()])  # credits of 1,024 bytes; 38 bytes of headers and CRC
    assert [managed(size) for size in (0, 256, 986, 987, 2048, 4096)] == [1, 1, 1, 2, 3, 5]
    small_credits = LinkProfile(
        credit_size=6, credit_limit=(520, 128, 0, 0, 0, 0, 0, 0), lossless_vcs=(0,), ring_frames=999
    )
    assert block_cost([small_credits])(2048) == 7  # 33 credits, and the largest request takes 5
    assert block_cost([LinkProfile(), small_credits])(2048) == 7


@pytest.mark.parametrize("cost", [1, 3])
def test_bulk_leaves_a_quarter_to_requests(cost: int) -> None:
    window = CongestionWindow(32)
    blocks = window.bulk_room(cost)
    assert blocks == 24 // cost
    window.bulk += blocks * cost
    assert window.bulk_room(cost) == 0
    taken = 0
    while window.has_room:
        window.requests += 1
        taken += 1
    assert taken == 8
    window.bulk -= 2 * cost
    assert window.bulk_room(cost) == 2
    window.requests = 31
    window.bulk = cost
    assert not window.has_room
    assert window.bulk_room(cost) == 0


def test_each_may_always_have_one_in_flight() -> None:
    """However little congestion leaves: or a waiting caller, or a message, would wait for ever."""
    window = CongestionWindow(32)
    now = 0.0
    for _ in range(20):
        now += 1
        window.answered(now, True, 0.5)
    assert window.size == 1
    assert window.has_room
    assert window.bulk_room(3) == 1
    window.bulk = 3
    assert window.bulk_room(3) == 0
    assert window.has_room
    window.requests = 1
    assert not window.has_room
    window.bulk = 0
    assert window.bulk_room(3) == 1


def test_an_ack_of_many_blocks_lets_the_window_grow_as_many_answers_do() -> None:
    one, many = CongestionWindow(64), CongestionWindow(64)
    for window in (one, many):
        window.answered(1.0, True, 0.1)
    for _ in range(64):
        one.answered(2.0, False, 0.1)
    for _ in range(8):
        many.answered(2.0, False, 0.1, 8)
    assert many.size >= one.size > 32
    assert many.size - one.size <= 1
