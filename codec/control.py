"""Build and parse the bodies of control frames: LLR_INIT, LLR_INIT_ECHO, CF_UPDATE, CC_UPDATE.

The layouts are those of `codec.layouts`, against which tests/codec/test_control.py holds every function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

from codec.constants import INIT_VERSION, VC_COUNT
from codec.frames import TRUNCATED, Buffer, FrameError
from codec.layouts import CREDIT_UPDATE, LINK_INIT

BAD_CONTROL: Final = "bad_control"
"""Reason of a control frame whose body says what cannot be."""

_LANE_BYTES: Final = 3
_VALUES: Final = VC_COUNT * _LANE_BYTES
_ALL_VCS: Final = b"\xff"
_ZEROS: Final = bytes(3)
_LOSSES_BYTES: Final = 2
MAX_CREDIT_SIZE_LOG2: Final = 16


class LinkInit(NamedTuple):
    """What one side says of itself at bring-up. Credits are per virtual channel, VC 0 first."""

    capabilities: int
    own_epoch: int
    peer_epoch: int
    """0: not seen."""
    credit_size: int
    """log2 of bytes per credit."""
    packet_overhead: int
    max_frame: int
    lossless_vcs: int
    """Bit v: VC v."""
    outstanding_frames_max: int
    credit_limit: tuple[int, ...]
    credits_in_use: tuple[int, ...]


def link_init_body(init: LinkInit) -> bytes:
    """Return the body of an LLR_INIT or LLR_INIT_ECHO. Raises ValueError for a value that does not fit its field."""
    return LINK_INIT.pack(version=INIT_VERSION, **init._asdict())


def parse_link_init(body: Buffer) -> LinkInit:
    """Return what an LLR_INIT or LLR_INIT_ECHO says.

    Raises FrameError when it is truncated, of another version, without an epoch, or with a credit size that is no size.
    """
    if len(body) < LINK_INIT.size:
        raise FrameError(TRUNCATED)
    values = LINK_INIT.unpack(memoryview(body))
    version = values.pop("version")
    init = LinkInit(**cast("dict[str, Any]", values))
    if version != INIT_VERSION or not init.own_epoch or init.credit_size > MAX_CREDIT_SIZE_LOG2:
        raise FrameError(BAD_CONTROL)
    return init


class CreditUpdate(NamedTuple):
    """What a CF_UPDATE or CC_UPDATE says."""

    losses: int
    """Losses that its sender has found on the link; cyclic, 16 bits."""
    vc_mask: int
    """Bit v: VC v is reported."""
    credits: tuple[int, ...]
    """VC 0 first."""


def credit_update_body(credits: Sequence[int], losses: int = 0) -> bytes:
    """Return the body of a CF_UPDATE or CC_UPDATE that reports all eight VCs, VC 0 first, and losses modulo 2^16."""
    head = _ZEROS + (losses & 0xFFFF).to_bytes(_LOSSES_BYTES, "big") + _ALL_VCS
    return head + b"".join([value.to_bytes(_LANE_BYTES, "big") for value in credits])


def parse_credit_update(body: Buffer) -> CreditUpdate:
    """Return what an update says. Raises FrameError when it is truncated."""
    if len(body) < CREDIT_UPDATE.size:
        raise FrameError(TRUNCATED)
    first = CREDIT_UPDATE.size - _VALUES
    values = [int.from_bytes(body[i : i + _LANE_BYTES], "big") for i in range(first, CREDIT_UPDATE.size, _LANE_BYTES)]
    losses = int.from_bytes(body[len(_ZEROS) : len(_ZEROS) + _LOSSES_BYTES], "big")
    return CreditUpdate(losses, body[first - 1], tuple(values))
