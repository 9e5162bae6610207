"""Read packet-ins: which frame came in where, and why the switch shows it."""

from __future__ import annotations

from typing import Final

import finsy as fy

PROBE_REASON: Final = 127
"""Packet-in reason of a PROBE addressed to the switch."""

DROP_REASONS: Final = dict(
    enumerate(
        (
            "unknown_port", "truncated", "bad_crc", "odd_byte_0", "high_byte_12", "unknown_kind", "link_not_up",
            "wrong_session", "poisoned", "unexpected_control", "unknown_version", "unknown_next", "unknown_opcode",
            "overlong", "reserved_vc", "forged_event", "spoofed_source", "unknown_source", "reserved_destination",
            "not_a_probe", "no_route", "other_tenant", "no_member", "bad_egress_port", "hop_expired",
            "bad_init", "over_limit", "control_rate", "exceeds_limit", "no_room",
            "llr_rx_duplicate_seq", "llr_out_of_sequence", "llr_flushed", "dead_port", "bad_retry_profile", "hold_full",
        ),
        start=1,
    )
)  # fmt: skip
"""Name of each drop reason by number; also the name of its counter. Tested against p4src/constants.p4."""

SHOWN_BYTES: Final = 32


def describe_packet_in(packet: fy.P4PacketIn) -> str:
    """Return one line for a packet-in: port, reason, length, and the frame's first bytes."""
    port = packet.metadata.get("ingress_port", "?")
    reason = packet.metadata.get("reason", 0)
    name = "probe for this switch" if reason == PROBE_REASON else DROP_REASONS.get(reason, f"reason {reason}")
    shown = packet.payload[:SHOWN_BYTES].hex(" ")
    more = " ..." if len(packet.payload) > SHOWN_BYTES else ""
    return f"{name}, port {port}, {len(packet.payload)} bytes: {shown}{more}"
