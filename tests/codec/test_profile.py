"""Link profiles: what they work out, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from codec.profile import LinkProfile, ProfileError


def test_default_profile() -> None:
    profile = LinkProfile()
    assert profile.limits() == (128, 128, 0, 0, 0, 0, 0, 0)
    assert profile.thresholds() == (32, 32, 0, 0, 0, 0, 0, 0)
    assert (profile.lossless_mask, profile.largest_frame) == (3, 5)
    assert profile.to_json() == {}


def test_json_comes_back() -> None:
    profile = LinkProfile(lossless_vcs=(0, 2), credit_limit=(40, 0, 60, 0, 0, 0, 0, 0), update_threshold=7)
    assert (
        LinkProfile.from_json({k: list(v) if isinstance(v, tuple) else v for k, v in profile.to_json().items()})
        == profile
    )
    assert profile.thresholds() == (7, 0, 7, 0, 0, 0, 0, 0)
    retried = LinkProfile(llr=True, outstanding_frames_max=1, flush_action="discard", re_init_on_flush=False)
    assert LinkProfile.from_json(retried.to_json()) == retried


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"credit_limit": 39},
            "credit_limit 39 of VC 0 is out of range: at least 40 (8 of the largest frames, 5 credits each)",
        ),
        ({"credit_limit": 1 << 19, "ring_frames": 1 << 22}, "at most 524287"),
        ({"credit_limit": 300}, "600 credits in all are more than the receive ring takes: 499 frames"),
        ({"update_threshold": 129}, "update_threshold 129 of VC 0 is out of range: 1 to the limit, 128"),
        ({"update_threshold": 0}, "update_threshold 0 of VC 0"),
        ({"lossless_vcs": [7]}, "VC 7 cannot be lossless; VCs 0 to 6 can"),
        ({"lossless_vcs": [-1]}, "VC -1 cannot be lossless"),
        ({"vc_map": [0, 1, 2, 3, 4, 5, 6, 0]}, "VC 7 to itself"),
        ({"vc_map": [0, 1]}, "vc_map = (0, 1) is neither"),
        ({"credit_size": 16}, "credit_size = 16 is out of range"),
        ({"packet_overhead": 128}, "packet_overhead = 128 is out of range"),
        ({"credit_limit": "many"}, "credit_limit = 'many' is neither a whole number"),
        ({"credit_limit": [1, 2]}, "credit_limit = (1, 2) is neither"),
        ({"silence_ms": 29}, "silence_ms = 29 is out of range: 0 (never), or 30"),
        ({"stall_ms": 29}, "stall_ms = 29 is out of range: 0 (never), or 30"),
        ({"stall_ms": 1 << 16}, "three keepalives, so that a lost one does not count) to 65535"),
        ({"ecn_threshold": -1}, "ecn_threshold = -1"),
        ({"outstanding_frames_max": 0}, "outstanding_frames_max = 0 is out of range: 1 to 512 frames"),
        ({"outstanding_frames_max": 513}, "outstanding_frames_max = 513 is out of range"),
        ({"outstanding_bytes_max": 0}, "outstanding_bytes_max = 0 is out of range: 4146 to 2122752 bytes"),
        ({"outstanding_bytes_max": 4145}, "one largest frame has to go"),
        ({"outstanding_bytes_max": 2122753}, "outstanding_bytes_max = 2122753 is out of range"),
        ({"replay_timer_us": 999}, "replay_timer_us = 999 is out of range: 1000 to 1000000 microseconds"),
        ({"replay_count_max": 0}, "replay_count_max = 0 is out of range: 1 to 255 replays"),
        ({"degraded_replays": -1}, "degraded_replays = -1 is out of range: 0 to 65535 replays a second, 0: never"),
        ({"flush_action": "drop"}, "flush_action = 'drop' is none of discard, block, best_effort"),
        ({"llr": 1}, "llr = 1 is neither true nor false nor 'auto'"),
        ({"llr": "yes"}, "llr = 'yes' is neither true nor false nor 'auto'"),
        ({"llr_on_losses": 0}, "llr_on_losses = 0 is out of range: 1 to 1000 losses"),
        ({"llr": True, "lossless_vcs": []}, "lossless_vcs names none"),
        ({"limit": 5}, "there is no 'limit'; there are credit_limit"),
        ([], "not a table of settings"),
    ],
)
def test_refused_with_the_reason(settings: Any, message: str) -> None:
    with pytest.raises(ProfileError) as caught:
        LinkProfile.from_json(settings)
    assert message in str(caught.value)
