"""Compute what the managed ports of a switch need: link profiles for its tables, clone sessions, the keepalive group.

Pure functions, like `controller.routes`. docs/pipeline.md says what each of these is for. A profile was checked where
it was made (`codec.profile`), so that nothing is installed that could not carry traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import finsy as fy

from codec.constants import MAX_FRAME, Capability
from codec.fabric import Fabric, SwitchNode, SwitchPort
from codec.profile import LinkProfile
from controller.entries import Entry, entry

MODES: Final = {"open": 0, "managed": 1}
HOLD_PORT: Final = 509
"""Where frames without credit wait: a port without a link, whose clones of them go round."""
KEEPALIVE_GROUP: Final = 1
_LANE_BITS: Final = 24
_VC_BITS: Final = 3


def lanes(values: Sequence[int], bits: int = _LANE_BITS) -> int:
    """Return eight values as one number, VC 0 in the most significant bits."""
    word = 0
    for value in values:
        word = word << bits | value
    return word


def managed_ports(switch: SwitchNode) -> list[SwitchPort]:
    """Return the ports whose links are brought up and have credits."""
    return [port for port in switch.ports if port.mode == "managed"]


def link_entries(fabric: Fabric, switch: SwitchNode) -> list[Entry]:
    """Return the table entries with the profiles of the managed ports: for the ingress and to be announced."""
    entries: list[Entry] = []
    for port in managed_ports(switch):
        profile = fabric.profiles[port.profile]
        settings = {
            "lossless_vcs": profile.lossless_mask,
            "credit_size": profile.credit_size,
            "packet_overhead": profile.packet_overhead & 0xFF,
            "credit_limit": lanes(profile.limits()),
        }
        entries.append(
            entry(
                "link_announcement", {"egress_port": port.port}, "announce", **settings,
                capabilities=int(Capability.CBFC), max_frame=MAX_FRAME, outstanding_frames_max=0,
            )
        )  # fmt: skip
        entries.append(
            entry(
                "link_profile", {"port": port.port}, "set_profile", **settings, vc_map=vc_map(profile),
                update_threshold=lanes(profile.thresholds()), silence=profile.silence_ms,
                stall=profile.stall_ms,
            )
        )  # fmt: skip
    return entries


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
    """Return the clone sessions: one to each managed port, for its control frames, and the hold loop's."""
    ports = [port.port for port in managed_ports(switch)]
    return [fy.P4CloneSessionEntry(port, replicas=[port]) for port in (*ports, *([HOLD_PORT] if ports else []))]


def keepalive_group(switch: SwitchNode) -> list[fy.P4MulticastGroupEntry]:
    """Return the multicast group by which a tick reaches every port, as a keepalive, or to tell that it is down."""
    replicas = [(port.port, port.port) for port in switch.ports]
    return [fy.P4MulticastGroupEntry(KEEPALIVE_GROUP, replicas=replicas)] if replicas else []
