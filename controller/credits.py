"""What a switch knows of the credits of its managed links, per port and virtual channel, under SAI's names.

Two ways lead to it: register reads (`SwitchReader.credits`), and probes, which every target answers
(`controller.probing`). Both end in `PortCredits`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, cast

from codec.constants import VC_COUNT, Kind, LinkState, Next, ProbeOp, Vc
from codec.frames import frame, oefh
from codec.layouts import LINK, OEFH, PROBE, PROBE_CREDITS
from controller.retries import PortRetry

Lanes = tuple[int, ...]
"""One value per virtual channel, VC 0 first."""

_CYCLE_MASK: Final = (1 << 20) - 1
_LANE_BITS: Final = 24
_LANE_MASK: Final = (1 << _LANE_BITS) - 1

LANE_REGISTERS: Final = (
    "sender_credits_consumed", "sender_credits_freed", "sender_credit_limit", "sender_credits_used_watermark",
    "receiver_credits_consumed", "receiver_credits_freed", "receiver_credits_in_use", "held_frames",
)  # fmt: skip
"""Registers that hold a value per VC; also the fields of a probe's answer and of `PortCredits`."""
PORT_REGISTERS: Final = ("own_epoch", "peer_epoch", "session", "sender_session")
UPDATE_COUNTERS: Final = (
    "cbfc_num_cf_update_messages_tx", "cbfc_num_cf_update_messages_rx",
    "cbfc_num_cc_update_messages_tx", "cbfc_num_cc_update_messages_rx",
)  # fmt: skip
INIT_COUNTERS: Final = (
    "llr_tx_init_ctl_os", "llr_rx_init_ctl_os", "llr_tx_init_echo_ctl_os", "llr_rx_init_echo_ctl_os"
)  # fmt: skip
EVENT_COUNTERS: Final = (
    "events_sent", "events_received", "frames_turned_around", "links_lost", "links_restored"
)  # fmt: skip
"""Counters by port of dead links and what is told of them; open ports move them too."""
ACK_COUNTERS: Final = ("llr_tx_ack_ctl_os", "llr_rx_ack_ctl_os", "llr_tx_nack_ctl_os", "llr_rx_nack_ctl_os")
RETRY_COUNTERS: Final = (
    *ACK_COUNTERS, "llr_rx_ack_nack_seq_error", "llr_tx_ok", "llr_tx_replay", "llr_tx_replayed", "llr_tx_postponed",
    "llr_tx_discard", "llr_replay_timeouts", "llr_flushes", "llr_copies_lost", "links_degraded", "llr_line_rounds",
    "llr_line_ended", "llr_rx_ok", "llr_rx_poisoned", "llr_rx_bad", "llr_rx_expected_seq_good",
    "llr_rx_expected_seq_poisoned",
    "llr_rx_expected_seq_bad", "llr_rx_missing_seq", "llr_rx_replay",
)  # fmt: skip
LOSS_COUNTERS: Final = ("link_losses_found", "link_losses_told")
"""What the two ends of a link have found lost on it."""
FAULT_COUNTERS: Final = (
    "link_fault_drops", "link_fault_corruptions", "link_fault_duplicates", "link_fault_delays"
)  # fmt: skip
LINK_COUNTERS: Final = (
    *UPDATE_COUNTERS, *INIT_COUNTERS, *RETRY_COUNTERS, *LOSS_COUNTERS, *FAULT_COUNTERS, "link_ups", "link_resets",
    "silences",
    "stalls", "wrong_cf_updates", "wrong_cc_updates", "losses_written_off", "frames_held", "frames_released",
    "frames_returned", "frames_marked", "tickets_skipped", "holds_written_off", "buffers_written_off", "stale_session",
)  # fmt: skip
"""Counters by port that only managed links move; docs/pipeline.md says what each counts."""


@dataclass(frozen=True, slots=True)
class PortCredits:
    """The credits of one managed port: the switch as the sender and as the receiver on the link, per VC."""

    port: int
    state: LinkState
    own_epoch: int
    peer_epoch: int
    session: int
    sender_credits_consumed: Lanes
    sender_credits_freed: Lanes
    sender_credit_limit: Lanes
    sender_credits_used_watermark: Lanes
    receiver_credits_consumed: Lanes
    receiver_credits_freed: Lanes
    receiver_credits_in_use: Lanes
    held_frames: Lanes
    retry: PortRetry | None = None
    """The link-layer retry of the port, where it was asked for."""

    @property
    def sender_credits_used(self) -> Lanes:
        """What the peer's buffer holds, as far as the switch knows."""
        return _difference(self.sender_credits_consumed, self.sender_credits_freed)

    @property
    def receiver_credits_used(self) -> Lanes:
        """What the switch's own buffer holds of what came in on the port."""
        return _difference(self.receiver_credits_consumed, self.receiver_credits_freed)

    def to_json(self) -> dict[str, Any]:
        """Return the fields, and what follows from them, as plain JSON values."""
        return {
            **dataclasses.asdict(self),
            "state": self.state.name.lower(),
            "sender_credits_used": self.sender_credits_used,
            "receiver_credits_used": self.receiver_credits_used,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Make it from what `to_json` gave. Raises KeyError, TypeError or ValueError for anything else."""
        values: dict[str, Any] = {field.name: data[field.name] for field in dataclasses.fields(cls)}
        values["state"] = LinkState[data["state"].upper()]
        values["retry"] = PortRetry.from_json(data["retry"]) if data["retry"] else None
        fields: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items()}
        return cls(**fields)

    @classmethod
    def from_registers(cls, port: int, values: Mapping[str, int]) -> Self:
        """Make it from the registers of a port by name: PORT_REGISTERS, LANE_REGISTERS and RETRY_REGISTERS."""
        if not values["own_epoch"]:
            state = LinkState.DOWN
        elif not values["session"]:
            state = LinkState.INIT
        else:
            state = LinkState.READY if values["sender_session"] else LinkState.UP
        lanes = {name: split_lanes(values[name]) for name in LANE_REGISTERS}
        retry = PortRetry.from_registers(values["own_epoch"], values["session"], values)
        return cls(port, state, values["own_epoch"], values["peer_epoch"], values["session"], **lanes, retry=retry)


def split_lanes(word: int) -> Lanes:
    """Return the eight values of a word of lanes."""
    return tuple(word >> _LANE_BITS * (VC_COUNT - 1 - vc) & _LANE_MASK for vc in range(VC_COUNT))


def probe(port: int, switch_id: int, source_id: int) -> bytes:
    """Return the frame that asks a switch for the credits of one of its ports.

    `source_id` must be one that the switch takes frames from by packet-out: any GPU's.
    """
    header = oefh(vc=int(Vc.CONTROL), dst=switch_id, src=source_id, next=int(Next.PROBE))
    return frame(Kind.DATA, header + PROBE.pack(op=ProbeOp.READ_CREDITS, port=port))


def parse_answer(data: bytes) -> PortCredits | None:
    """Return what a packet-in says if it is a switch's answer to `probe`, else None."""
    begins = LINK.size + OEFH.size
    if len(data) < begins + PROBE.size + PROBE_CREDITS.size:
        return None
    asked = PROBE.unpack(memoryview(data)[begins:])
    if asked["op"] != ProbeOp.CREDITS or asked["state"] not in tuple(LinkState):
        return None
    values = PROBE_CREDITS.unpack(memoryview(data)[begins + PROBE.size :])
    values.pop("zero")
    fields: dict[str, Any] = {n: tuple(v) if not isinstance(v, int) else v for n, v in values.items()}
    return PortCredits(port=cast("int", asked["port"]), state=LinkState(cast("int", asked["state"])), **fields)


def _difference(consumed: Lanes, freed: Lanes) -> Lanes:
    return tuple(c - f & _CYCLE_MASK for c, f in zip(consumed, freed, strict=True))
