"""Say how a managed link is run: credits per virtual channel, link-layer retry, time-outs; refuse what cannot work.

A profile is one receiver's: its buffer and what it advertises. The endpoint runs its own end by one, and the controller
writes one into the tables of every managed switch port. It is checked where it is made, so that nothing is ever
installed that could not carry a largest frame or that promises more than the receive ring holds (a sender that trusts
such a promise loses frames, or waits for ever).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from codec.constants import MAX_FRAME, VC_COUNT, Vc
from codec.layouts import LINK, credits_of

MAX_CREDIT_LIMIT: Final = (1 << 19) - 1
"""CL < 2^19: differences of 20-bit counters stay comparable."""
MIN_FRAMES_OF_LIMIT: Final = 8
"""A limit holds at least so many of the largest frames."""
MAX_CREDIT_SIZE: Final = 15
"""log2: 32,768 bytes."""
RECEIVE_RING_FRAMES: Final = 499
"""Frames of 4,112 bytes that BMv2's receive ring holds with offloads off, as measured; p4switch's ring holds more. A
credit may be a frame of its own, so all limits together stay below this."""
RING_RESERVE: Final = 64
"""Slots of the ring that are left to control and best-effort frames."""
KEEPALIVE_MS: Final = 10
"""A CF_UPDATE goes out at least so often, and an LLR_INIT until it is echoed."""
MAX_OUTSTANDING_FRAMES: Final = 512
"""Frames without acknowledgement of which the switch remembers the sizes, per port."""
MAX_OUTSTANDING_BYTES: Final = MAX_OUTSTANDING_FRAMES * MAX_FRAME
MIN_REPLAY_TIMER_US: Final = 1000
"""A tick of the switch: an acknowledgement of a single frame may take that long."""
MAX_REPLAY_TIMER_US: Final = 1_000_000
MAX_REPLAY_COUNT: Final = 255
MAX_DEGRADED_REPLAYS: Final = 65_535
FLUSH_ACTIONS: Final = ("discard", "block", "best_effort")
"""What becomes of frames when a link has given up replaying; their order is that of the switch's numbers, from 0."""
AUTO: Final = "auto"
"""Of a profile's `llr`: the controller decides."""
IDENTITY_VC_MAP: Final = tuple(range(VC_COUNT))
_CONTROL: Final = int(Vc.CONTROL)


class ProfileError(ValueError):
    """A link profile that cannot work; the message lists every problem."""


@dataclass(frozen=True, slots=True)
class LinkProfile:
    """One receiver's settings. Raises ProfileError, which lists every problem with its value and its range."""

    lossless_vcs: tuple[int, ...] = (int(Vc.REQUEST), int(Vc.RESPONSE))
    """The virtual channels that have credits, of 0 to 6; the others are best effort."""

    credit_limit: int | tuple[int, ...] = 128
    """Credits that the receive buffer gives each lossless VC; one number for all, or eight, VC 0 first."""

    update_threshold: int | tuple[int, ...] | None = None
    """Credits freed on a VC after which a CF_UPDATE goes out at once; None: a quarter of the limit."""

    credit_size: int = 10
    """log2 of the bytes per credit. 1,024 on veths, as a small frame takes a slot of the receive ring as a large one
    does."""

    packet_overhead: int = 0
    """Bytes that a frame takes in the buffer beside its own, -128 to 127."""

    vc_map: tuple[int, ...] = IDENTITY_VC_MAP
    """The VC whose credits each of the OEFH's eight vc values uses; all on one VC: one limit per port."""

    ecn_threshold: int = 32
    """Frames held for a port from which on capable frames are marked; 0: never."""

    silence_ms: int = 100
    """Milliseconds without a sign of life after which the link is down."""

    stall_ms: int = 0
    """Milliseconds for which packets wait on a VC while the peer frees none of its credits, after which the link counts
    as down and is brought up anew; 0: never."""

    ring_frames: int = RECEIVE_RING_FRAMES
    """Frames that the receive ring holds."""

    llr: bool | str = False
    """Offer link-layer retry; it is on where both sides do. "auto": a GPU offers it always, a switch while the
    controller finds that the link loses frames."""

    llr_on_losses: int = 3
    """With "auto": losses within `llr_window_s` by which a link is found bad."""

    llr_window_s: int = 10
    """With "auto": seconds over which they are counted."""

    llr_clean_s: int = 300
    """With "auto": seconds without a loss after which it is found good again,"""

    llr_clean_frames: int = 10_000
    """if it has carried so many numbered frames in that time."""

    outstanding_frames_max: int = 32
    """Frames that may be sent without being acknowledged. Few are better: a replay sends all of them again."""

    outstanding_bytes_max: int = 131_072
    """Bytes of such frames, link headers included; at least one largest frame."""

    replay_timer_us: int = 20_000
    """Microseconds without acknowledgement after which the oldest frame is sent again, and all after it. More than a
    peer in Python takes to answer while its machine is busy: less only costs needless replays."""

    replay_count_max: int = 100
    """Replays in a row without any acknowledgement after which the link gives up and goes to FLUSH. By default that
    takes longer than silence: a peer that is only busy for a while is not given up."""

    flush_action: str = "block"
    """What becomes of frames for a link in FLUSH: `discard`, `block` (they wait) or `best_effort` (they are sent, but
    not again)."""

    re_init_on_flush: bool = True
    """Bring a link that has given up up anew; else it stays in FLUSH until somebody does."""

    degraded_replays: int = 0
    """Replays begun within a second from which on the link is degraded, and its neighbours are told; 0: never."""

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise ProfileError("link profile: " + "; ".join(problems))

    def limits(self) -> tuple[int, ...]:
        """Return the eight limits, VC 0 first; 0 for best-effort VCs."""
        return self._lanes(self.credit_limit)

    def thresholds(self) -> tuple[int, ...]:
        """Return the eight update thresholds, VC 0 first; 0 for best-effort VCs."""
        if self.update_threshold is None:
            return tuple(-(-limit // 4) for limit in self.limits())
        return self._lanes(self.update_threshold)

    @property
    def lossless_mask(self) -> int:
        """Bit v: VC v has credits."""
        return sum(1 << vc for vc in self.lossless_vcs)

    @property
    def largest_frame(self) -> int:
        """Credits of the largest frame."""
        return credits_of(MAX_FRAME - LINK.size, 1 << self.credit_size, self.packet_overhead)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are not as by default."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        return {name: value for name, value in dataclasses.asdict(self).items() if value != defaults[name]}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Make a profile from its fields. Raises ProfileError for an unknown field, a wrong type or value."""
        if not isinstance(data, Mapping):
            raise ProfileError(f"link profile: {data!r} is not a table of settings")
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise ProfileError(f"link profile: there is no {unknown[0]!r}; there are {', '.join(sorted(known))}")
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
        }
        return cls(**values)

    def _lanes(self, value: int | Sequence[int]) -> tuple[int, ...]:
        lanes = (value,) * VC_COUNT if isinstance(value, int) else tuple(value)
        return tuple(lane if vc in self.lossless_vcs else 0 for vc, lane in enumerate(lanes))

    def _problems(self) -> Iterator[str]:
        integers = (
            "credit_size", "packet_overhead", "ecn_threshold", "silence_ms", "stall_ms", "ring_frames",
            "outstanding_frames_max", "outstanding_bytes_max", "replay_timer_us", "replay_count_max",
            "degraded_replays", "llr_on_losses", "llr_window_s", "llr_clean_s",
            "llr_clean_frames",
        )  # fmt: skip
        wrong = [name for name in integers if not _is_int(getattr(self, name))]
        for name in ("credit_limit", "update_threshold", "lossless_vcs", "vc_map"):
            value = getattr(self, name)
            if isinstance(value, tuple):
                eight = name != "lossless_vcs"
                if not all(map(_is_int, value)) or (eight and len(value) != VC_COUNT):
                    wrong.append(name)
            elif name in ("lossless_vcs", "vc_map") or not (_is_int(value) or (name[0] == "u" and value is None)):
                wrong.append(name)
        for name in wrong:
            yield f"{name} = {getattr(self, name)!r} is neither a whole number nor eight of them, VC 0 first"
        if not isinstance(self.re_init_on_flush, bool):
            yield f"re_init_on_flush = {self.re_init_on_flush!r} is neither true nor false"
        if not isinstance(self.llr, bool) and self.llr != AUTO:
            yield f"llr = {self.llr!r} is neither true nor false nor {AUTO!r}"
        if not wrong:
            yield from self._wrong_values()
            yield from self._wrong_retry()

    def _wrong_retry(self) -> Iterator[str]:
        ranges = (
            ("outstanding_frames_max", 1, MAX_OUTSTANDING_FRAMES, "frames"),
            ("outstanding_bytes_max", MAX_FRAME, MAX_OUTSTANDING_BYTES, "bytes, and one largest frame has to go"),
            ("replay_timer_us", MIN_REPLAY_TIMER_US, MAX_REPLAY_TIMER_US, "microseconds"),
            ("replay_count_max", 1, MAX_REPLAY_COUNT, "replays"),
            ("degraded_replays", 0, MAX_DEGRADED_REPLAYS, "replays a second, 0: never"),
            ("llr_on_losses", 1, 1000, "losses"),
            ("llr_window_s", 1, 3600, "seconds"),
            ("llr_clean_s", 1, 86_400, "seconds"),
            ("llr_clean_frames", 0, 1_000_000_000, "frames"),
        )
        for name, least, most, what in ranges:
            value = getattr(self, name)
            if not least <= value <= most:
                yield f"{name} = {value} is out of range: {least} to {most} {what}"
        if self.flush_action not in FLUSH_ACTIONS:
            yield f"flush_action = {self.flush_action!r} is none of {', '.join(FLUSH_ACTIONS)}"
        if self.llr and not self.lossless_vcs:
            yield "llr retries the frames of lossless VCs, and lossless_vcs names none"

    def _wrong_values(self) -> Iterator[str]:
        for vc in self.lossless_vcs:
            if not 0 <= vc < _CONTROL:
                yield f"VC {vc} cannot be lossless; VCs 0 to 6 can, and VC 7 is for control"
        if not 0 <= self.credit_size <= MAX_CREDIT_SIZE:
            yield f"credit_size = {self.credit_size} is out of range: log2 of the bytes, 0 to {MAX_CREDIT_SIZE}"
            return
        if not -128 <= self.packet_overhead <= 127:
            yield f"packet_overhead = {self.packet_overhead} is out of range, -128 to 127"
            return
        if any(not 0 <= vc < VC_COUNT for vc in self.vc_map) or self.vc_map[_CONTROL] != _CONTROL:
            yield f"vc_map = {list(self.vc_map)} must map to VCs 0 to 7, and VC 7 to itself"
        if self.ecn_threshold < 0:
            yield f"ecn_threshold = {self.ecn_threshold} is out of range: 0 (never) or more"
        for name in ("silence_ms", "stall_ms"):
            time = getattr(self, name)
            if time and not 3 * KEEPALIVE_MS <= time < 1 << 16:
                yield (
                    f"{name} = {time} is out of range: 0 (never), or {3 * KEEPALIVE_MS} (three keepalives, so that a "
                    f"lost one does not count) to 65535"
                )
        least = MIN_FRAMES_OF_LIMIT * self.largest_frame
        thresholds = self.thresholds()
        for vc, limit in enumerate(self.limits()):
            if vc not in self.lossless_vcs:
                continue
            if not least <= limit <= MAX_CREDIT_LIMIT:
                yield (
                    f"credit_limit {limit} of VC {vc} is out of range: at least {least} ({MIN_FRAMES_OF_LIMIT} of the "
                    f"largest frames, {self.largest_frame} credits each), at most {MAX_CREDIT_LIMIT}"
                )
            elif not 1 <= thresholds[vc] <= limit:
                yield (
                    f"update_threshold {thresholds[vc]} of VC {vc} is out of range: 1 to the limit, {limit}, or the "
                    f"sender never learns that credits are free"
                )
        used = sum(self.limits()[vc] for vc in set(self.lossless_vcs) if 0 <= vc < _CONTROL)
        if used > self.ring_frames - RING_RESERVE:
            yield (
                f"{used} credits in all are more than the receive ring takes: {self.ring_frames} frames, of which "
                f"{RING_RESERVE} are for control frames; a credit may be a frame"
            )


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
