"""What a switch is to hold, all of it worked out from the fabric description before the switch is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import finsy as fy

from codec.fabric import Fabric, SwitchNode
from controller.entities import packet_in_limits
from controller.entries import Entry
from controller.events import control_limits, event_groups
from controller.links import clone_sessions, multicast_groups
from controller.routes import entries_for


@dataclass(frozen=True)
class Plan:
    """What the controller installs on one switch, in the order of these fields."""

    sessions: tuple[fy.P4CloneSessionEntry, ...]
    entries: tuple[Entry, ...]
    meters: tuple[fy.P4MeterEntry, ...]
    groups: tuple[fy.P4MulticastGroupEntry, ...]
    """Multicast groups; the keepalive's is the last: with it the links come to life."""

    @classmethod
    def of(cls, fabric: Fabric, switch: SwitchNode) -> Self:
        """Work out the plan of one switch of a fabric."""
        return cls(
            sessions=tuple(clone_sessions(switch)),
            entries=tuple(entries_for(fabric, switch)),
            meters=(*packet_in_limits(), *control_limits(fabric, switch)),
            groups=(*event_groups(fabric, switch), *multicast_groups(switch)),
        )
