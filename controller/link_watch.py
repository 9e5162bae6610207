"""Find out from a switch's counters which of its links have died or come back.

The data plane tells the GPUs by itself, within a millisecond, and does not wait for the controller (docs/events.md).
The controller reads counters instead of taking part: any client may read them, on every target, also while somebody
else is in charge of the switch, and nothing is lost when it looks late.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from codec.fabric import SwitchNode
from controller.event_history import LINK_DEGRADED, LINK_DOWN, LINK_UP, LinkEvent

PERIOD_S: Final = 0.25
LOST: Final = "links_lost"
RESTORED: Final = "links_restored"
DEGRADED: Final = "links_degraded"
COUNTERS: Final = (LOST, RESTORED, DEGRADED)

Counts = Mapping[str, int]


class LinkWatch:
    """The links of one switch, as `update` learns of them from its counters by port."""

    def __init__(self, node: SwitchNode) -> None:
        self._node = node
        self._ports = {port.port: port for port in node.ports}
        self._seen: dict[int, Counts] = {}
        self.dead: frozenset[int] = frozenset()
        """The ports that are dead now, those included that have not come up yet."""

    def update(self, counts: Mapping[int, Counts], at_s: float) -> list[LinkEvent]:
        """Take the counters of all ports; return what has happened since the last call, port by port.

        At the first look, and when the switch has started anew, a managed link that has not come up yet is no event.
        """
        if any(
            now[name] < self._seen[port][name] for port, now in counts.items() if port in self._seen for name in now
        ):
            self._seen = {}  # it counts from 0 again
            self.dead = frozenset()
        first = not self._seen
        events: list[LinkEvent] = []
        for port, now in counts.items():
            before = self._seen.get(port, {})
            lost, restored, degraded = (now.get(name, 0) - before.get(name, 0) for name in COUNTERS)
            if first:  # what is past is known by what is left of it
                lost = int(lost > restored and (restored > 0 or self._ports[port].mode == "open"))
                restored = degraded = 0
            changes = [(LINK_DOWN, lost), (LINK_UP, restored)]
            if port in self.dead:
                changes.reverse()
            for what, times in (*changes, (LINK_DEGRADED, degraded)):
                if times:
                    events.append(LinkEvent(at_s, self._node.name, port, self._ports[port].peer, what, times))
        self._seen = {port: dict(now) for port, now in counts.items()}
        self.dead = dead_ports(counts)
        return events


def dead_ports(counts: Mapping[int, Counts]) -> frozenset[int]:
    """Return which ports are dead, by their counters: each loss is followed by at most one return."""
    return frozenset(port for port, now in counts.items() if now.get(LOST, 0) > now.get(RESTORED, 0))
