"""What a switch knows of the link-layer retry of a managed link, under SAI's names.

It is read like credits (`controller.credits`), from registers or by probes, and kept beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Self, cast

from codec.constants import Kind, Next, ProbeOp, Vc
from codec.frames import frame, oefh
from codec.layouts import LINK, OEFH, PROBE, PROBE_RETRY
from codec.profile import FLUSH_ACTIONS
from controller.entries import Entry

RETRY_REGISTERS: Final = (
    "link_format", "llr_settings", "llr_unacknowledged_seq", "llr_next_seq", "llr_bytes_acknowledged",
    "llr_bytes_numbered", "llr_replaying", "llr_replay_seq", "llr_replays", "llr_line_session", "llr_flushed_session",
    "llr_expected_seq", "llr_receiver_state",
)  # fmt: skip
"""Registers that tell it, by port; what is freed stands before what it is taken from, as traffic goes on meanwhile."""
_SEQS: Final = 1 << 20
_LLR_BIT: Final = 1 << 24
_BYTES: Final = 1 << 32
_FRAMES_MAX_SHIFT: Final = 80


class TransmitState(IntEnum):
    """How far the switch is as the sender on a link."""

    OFF = 0
    INIT = 1
    ADVANCE = 2
    REPLAY = 3
    FLUSH = 4


class ReceiveState(IntEnum):
    """How far the switch is as the receiver on a link."""

    OFF = 0
    SEND_ACKS = 1
    SEND_NACK = 2
    NACK_SENT = 3


@dataclass(frozen=True, slots=True)
class PortRetry:
    """The link-layer retry of one managed port; the fields are those of `probe_retry_t` (docs/protocol.md)."""

    tx_state: TransmitState
    rx_state: ReceiveState
    outstanding_frames_max: int
    replays: int
    next_seq: int
    unacknowledged_seq: int
    replay_seq: int
    outstanding_bytes: int
    expected_seq: int

    @property
    def outstanding_frames(self) -> int:
        """Frames without acknowledgement."""
        return (self.next_seq - self.unacknowledged_seq) % _SEQS

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Make it from its fields. Raises KeyError, TypeError or ValueError for anything else."""
        values = {**data, "tx_state": TransmitState(data["tx_state"]), "rx_state": ReceiveState(data["rx_state"])}
        return cls(**values)

    @classmethod
    def from_registers(cls, own_epoch: int, session: int, values: Mapping[str, int]) -> Self:
        """Make it from the registers of a port by name (RETRY_REGISTERS). Raises KeyError for a missing one."""
        on = values["link_format"] & _LLR_BIT and session
        if not session:
            tx_state = TransmitState.INIT if own_epoch else TransmitState.OFF
        elif not on:
            tx_state = TransmitState.OFF
        elif values["llr_flushed_session"] == session:
            tx_state = TransmitState.FLUSH
        else:
            out = values["llr_next_seq"] != values["llr_unacknowledged_seq"]
            replaying = values["llr_replaying"] and values["llr_line_session"] == session and out
            tx_state = TransmitState.REPLAY if replaying else TransmitState.ADVANCE
        return cls(
            tx_state=tx_state,
            rx_state=ReceiveState(values["llr_receiver_state"] + 1) if on else ReceiveState.OFF,
            outstanding_frames_max=values["llr_settings"] >> _FRAMES_MAX_SHIFT,
            replays=values["llr_replays"],
            next_seq=values["llr_next_seq"],
            unacknowledged_seq=values["llr_unacknowledged_seq"],
            replay_seq=values["llr_replay_seq"],
            outstanding_bytes=(values["llr_bytes_numbered"] - values["llr_bytes_acknowledged"]) % _BYTES,
            expected_seq=values["llr_expected_seq"],
        )


@dataclass(frozen=True, slots=True)
class RetryProfile:
    """The profile of link-layer retry that a port has been given, under SAI's names; sessions to come go by it."""

    outstanding_frames_max: int
    outstanding_bytes_max: int
    replay_timer_max: int
    """In microseconds."""
    replay_count_max: int
    flush_frame_action: str
    re_init_on_flush: bool
    degraded_replays: int
    """Per second, from which on neighbours are told; 0: never. No attribute of SAI's."""
    init_frame_action: str = "block"
    """Frames for a link that comes up always wait."""

    @classmethod
    def from_entry(cls, item: Entry) -> tuple[int, Self]:
        """Return the port and the profile of an entry of the table `llr_profile`."""
        params = dict(item.params)
        action = params["flush_action"]
        return dict(item.match)["port"], cls(
            outstanding_frames_max=params["outstanding_frames_max"],
            outstanding_bytes_max=params["outstanding_bytes_max"],
            replay_timer_max=params["replay_timer"],
            replay_count_max=params["replay_count_max"],
            flush_frame_action=FLUSH_ACTIONS[action] if action < len(FLUSH_ACTIONS) else str(action),
            re_init_on_flush=bool(params["re_init_on_flush"]),
            degraded_replays=params["degraded_replays"],
        )


def probe(port: int, switch_id: int, source_id: int) -> bytes:
    """Return the frame that asks a switch for the link-layer retry of one of its ports.

    `source_id` must be one that the switch takes frames from by packet-out: any GPU's.
    """
    header = oefh(vc=int(Vc.CONTROL), dst=switch_id, src=source_id, next=int(Next.PROBE))
    return frame(Kind.DATA, header + PROBE.pack(op=ProbeOp.READ_RETRY, port=port))


def parse_answer(data: bytes) -> tuple[int, PortRetry] | None:
    """Return the port and what a packet-in says of it if it is a switch's answer to `probe`, else None."""
    begins = LINK.size + OEFH.size
    if len(data) < begins + PROBE.size + PROBE_RETRY.size:
        return None
    asked = PROBE.unpack(memoryview(data)[begins:])
    if asked["op"] != ProbeOp.RETRY:
        return None
    values: dict[str, Any] = PROBE_RETRY.unpack(memoryview(data)[begins + PROBE.size :])
    for name in ("zero", "session"):
        values.pop(name)
    try:
        return cast("int", asked["port"]), PortRetry.from_json(values)
    except ValueError:
        return None
