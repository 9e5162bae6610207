"""Bodies of control frames against the layouts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.constants import VC_COUNT
from codec.control import (
    BAD_CONTROL,
    LinkInit,
    credit_update_body,
    link_init_body,
    parse_credit_update,
    parse_link_init,
)
from codec.frames import TRUNCATED, FrameError
from codec.layouts import CREDIT_UPDATE, LINK_INIT

LANES = st.tuples(*[st.integers(0, (1 << 24) - 1)] * VC_COUNT)
INITS = st.builds(
    LinkInit,
    capabilities=st.integers(0, 255),
    own_epoch=st.integers(1, (1 << 32) - 1),
    peer_epoch=st.integers(0, (1 << 32) - 1),
    credit_size=st.integers(0, 16),
    packet_overhead=st.integers(-128, 127),
    max_frame=st.integers(0, 65535),
    lossless_vcs=st.integers(0, 255),
    outstanding_frames_max=st.integers(0, 65535),
    credit_limit=LANES,
    credits_in_use=LANES,
)


@given(INITS)
def test_link_init_comes_back(init: LinkInit) -> None:
    body = link_init_body(init)
    assert len(body) == LINK_INIT.size
    assert parse_link_init(body) == init


@given(LANES, st.integers(0, 1 << 20))
def test_credit_update_is_the_layout(values: tuple[int, ...], losses: int) -> None:
    body = credit_update_body(values, losses)
    assert body == CREDIT_UPDATE.pack(losses=losses % (1 << 16), vc_mask=0xFF, credits=values)
    assert parse_credit_update(body) == (losses % (1 << 16), 0xFF, values)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda body: body[:-1], TRUNCATED),
        (lambda body: b"\x02" + body[1:], BAD_CONTROL),  # another version
        (lambda body: body[:2] + bytes(4) + body[6:], BAD_CONTROL),  # no epoch
        (lambda body: body[:10] + b"\x11" + body[11:], BAD_CONTROL),  # 2^17 bytes per credit
    ],
)
def test_bad_link_init(change: Callable[[bytes], bytes], reason: str) -> None:
    init = LinkInit(2, 5, 0, 10, 0, 4146, 3, 0, (64,) * VC_COUNT, (0,) * VC_COUNT)
    with pytest.raises(FrameError) as caught:
        parse_link_init(change(link_init_body(init)))
    assert caught.value.reason == reason


def test_truncated_credit_update() -> None:
    with pytest.raises(FrameError, match=TRUNCATED):
        parse_credit_update(credit_update_body((0,) * VC_COUNT)[:-1])
