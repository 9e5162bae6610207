"""Compute what the links of a switch need: profiles for its tables, clone sessions, multicast groups.

Pure functions, like `controller.routes`. docs/pipeline.md says what each of these is for. A profile was checked where
it was made (`codec.profile`), so that nothing is installed that could not carry traffic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import finsy as fy

from codec.constants import MAX_FRAME, Capability
from codec.fabric import Fabric, SwitchNode, SwitchPort
from codec.profile import FLUSH_ACTIONS, LinkProfile
from controller.entries import Entry, entry

MODES: Final = {"open": 0, "managed": 1}
HOLD_PORT: Final = 509
"""Where frames without credit wait: a port without a link, whose clones of them go round."""
LINE_PORTS: Final = (508, 504)
"""Where copies of numbered frames wait for their acknowledgement; on the second one while their port replays."""
DELAY_PORT: Final = 505
"""Where a link fault delays frames."""
COPY_SESSIONS: Final = 512
"""Added to a port, or to DELAY_PORT: the clone session that makes a copy for the line as well."""
PORT_REPLICA: Final = 2
"""Replication id by which a port knows the second one of a pair of frames that a link fault made."""
KEEPALIVE_GROUP: Final = 1
RETRY_GROUP: Final = 2
_LANE_BITS: Final = 24
_VC_BITS: Final = 3


@dataclass(frozen=True, slots=True)
class RetrySetting:
    """Whether a port retries, and the generation of its link: with another one the link is negotiated anew."""

    on: bool
    generation: int = 0


Retrying = Mapping[int, RetrySetting]
"""By port; what is not in it goes by its profile."""
_BY_PROFILE: Final[Retrying] = {}


def lanes(values: Sequence[int], bits: int = _LANE_BITS) -> int:
    """Return values as one number, the first one (VC 0) in the most significant bits."""
    word = 0
    for value in values:
        word = word << bits | value
    return word


def managed_ports(switch: SwitchNode) -> list[SwitchPort]:
    """Return the ports whose links are brought up and have credits."""
    return [port for port in switch.ports if port.mode == "managed"]


def link_entries(fabric: Fabric, switch: SwitchNode, retrying: Retrying = _BY_PROFILE) -> list[Entry]:
    """Return the table entries with the profiles of the managed ports: for the ingress, to be announced, to retry.

    Where a profile leaves retry to the controller (`llr: "auto"`) it is off unless `retrying` says otherwise.
    """
    entries: list[Entry] = []
    for port in managed_ports(switch):
        profile = fabric.profiles[port.profile]
        settings = {
            "lossless_vcs": profile.lossless_mask,
            "credit_size": profile.credit_size,
            "packet_overhead": profile.packet_overhead & 0xFF,
            "credit_limit": lanes(profile.limits()),
        }
        retry = retrying.get(port.port, RetrySetting(profile.llr is True))
        if retry.on:
            entries.append(_retry_entry(port, profile))
        capabilities = Capability.CBFC | Capability.LLR if retry.on else Capability.CBFC
        entries.append(
            entry(
                "link_announcement", {"egress_port": port.port}, "announce", **settings,
                capabilities=int(capabilities), max_frame=MAX_FRAME,
                outstanding_frames_max=profile.outstanding_frames_max if retry.on else 0,
            )
        )  # fmt: skip
        entries.append(
            entry(
                "link_profile", {"port": port.port}, "set_profile", **settings, vc_map=vc_map(profile),
                update_threshold=lanes(profile.thresholds()), silence=profile.silence_ms,
                stall=profile.stall_ms, generation=retry.generation,
            )
        )  # fmt: skip
    return entries


def _retry_entry(port: SwitchPort, profile: LinkProfile) -> Entry:
    return entry(
        "llr_profile", {"port": port.port}, "set_retry",
        outstanding_frames_max=profile.outstanding_frames_max, outstanding_bytes_max=profile.outstanding_bytes_max,
        replay_timer=profile.replay_timer_us, replay_count_max=profile.replay_count_max,
        flush_action=FLUSH_ACTIONS.index(profile.flush_action), re_init_on_flush=int(profile.re_init_on_flush),
        degraded_replays=profile.degraded_replays,
    )  # fmt: skip


def egress_entry(fabric: Fabric, port: SwitchPort) -> Entry:
    """Return what the egress side of a port needs to know of its link."""
    if port.mode != "managed":
        return entry("egress_config", {"egress_port": port.port}, "set_link", mode=0)
    profile = fabric.profiles[port.profile]
    return entry(
        "egress_config", {"egress_port": port.port}, "set_managed_link", vc_map=vc_map(profile),
        ecn_threshold=profile.ecn_threshold,
    )  # fmt: skip


def vc_map(profile: LinkProfile) -> int:
    """Return a profile's VC map as the tables hold it: eight values of three bits, that of VC 0 first."""
    return lanes(profile.vc_map, _VC_BITS)


def clone_sessions(switch: SwitchNode) -> list[fy.P4CloneSessionEntry]:
    """Return the clone sessions.

    One to each port, for its control frames and for what a link fault doubles or delays; those of the loops where
    frames wait; for ports that may retry, pairs of a copy that waits for acknowledgement and one that a fault makes.
    """
    managed = [port.port for port in managed_ports(switch)]
    loops = (DELAY_PORT, *((*LINE_PORTS, HOLD_PORT) if managed else ()))
    sessions = [fy.P4CloneSessionEntry(port, replicas=[port]) for port in (*(p.port for p in switch.ports), *loops)]
    line = LINE_PORTS[0]
    for port in managed:
        sessions.append(fy.P4CloneSessionEntry(port + COPY_SESSIONS, replicas=[(line, 1), (port, PORT_REPLICA)]))
    if managed:
        sessions.append(fy.P4CloneSessionEntry(DELAY_PORT + COPY_SESSIONS, replicas=[(line, 1), (DELAY_PORT, 1)]))
    return sessions


def multicast_groups(switch: SwitchNode) -> list[fy.P4MulticastGroupEntry]:
    """Return the groups by which a tick reaches ports: for acknowledgements that are due, and for keepalives.

    Every managed port is in the first, so that a port's profile alone says whether it retries; every port is in the
    second, as each may be down, which is told again and again.
    """
    groups = {
        RETRY_GROUP: [(port.port, port.port) for port in managed_ports(switch)],
        KEEPALIVE_GROUP: [(port.port, port.port) for port in switch.ports],
    }
    return [fy.P4MulticastGroupEntry(group, replicas=replicas) for group, replicas in groups.items() if replicas]
