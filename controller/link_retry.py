"""Decide which links retry: by their profiles, by their health, or by hand.

A link is what two ends share: a switch port and a GPU, or two switch ports, and both switch ports change together.
Where a profile says `llr: "auto"` the GPUs always offer retry, and the switches do while the link is judged bad
(`controller.link_health`). Switching needs the link to be negotiated anew, which another generation of its
`link_profile` does (docs/pipeline.md); what is under way then is sent again end to end.

The switches' tables are what counts: a controller that starts while they are filled goes on from what they hold.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from codec.fabric import Fabric, SwitchNode, SwitchPort
from codec.profile import AUTO
from controller.entries import Entry
from controller.event_history import RETRY_OFF, RETRY_ON, LinkEvent
from controller.link_health import COUNTERS, LinkHealth, Loss, Seen
from controller.links import Retrying, RetrySetting, managed_ports
from controller.retry_files import Mode, PortName, port_key

GENERATIONS: Final = 256


@dataclass
class Link:
    """A managed link, by its switch ports (one, or two between switches), the first one naming it."""

    ends: tuple[PortName, ...]
    peer: str
    mode: Mode
    on: bool
    health: dict[PortName, LinkHealth]
    generations: dict[PortName, int] = field(default_factory=dict)
    """Of each end's `link_profile`."""
    tables: dict[PortName, RetrySetting] = field(default_factory=dict)
    """What the ends' tables hold, as far as they were written or read."""
    since_s: float = field(default_factory=time.time)
    why: str = "its profile"

    @property
    def bad(self) -> bool:
        """Either end's judgement."""
        return any(health.bad for health in self.health.values())

    def setting(self, end: PortName) -> RetrySetting:
        """What the tables of an end are to hold."""
        return RetrySetting(self.on, self.generations.get(end, 0))

    @property
    def is_done(self) -> bool:
        """Tell whether the tables of all ends hold it."""
        return all(self.tables.get(end, self.setting(end)) == self.setting(end) for end in self.ends)

    @property
    def is_uneven(self) -> bool:
        """Tell whether the ends' tables were found to differ: somebody has stopped half way."""
        return len({self.tables[end].on for end in self.ends if end in self.tables}) > 1

    @property
    def loss(self) -> Loss:
        """The loss that the worse end tells of."""
        return max((health.loss for health in self.health.values()), key=lambda loss: loss.losses)


class LinkRetry:
    """All managed links of a fabric, and which of them retry. Times are seconds since 1970."""

    def __init__(self, fabric: Fabric) -> None:
        self.links: list[Link] = []
        self._said: dict[frozenset[PortName], Mapping[str, Any]] = {}
        self._of: dict[PortName, Link] = {}
        ports = {(node.name, port.port): port for node in fabric.switches for port in managed_ports(node)}
        for name, port in ports.items():
            if name in self._of:
                continue
            profile = fabric.profiles[port.profile]
            ends = (name, *_other_end(fabric, ports, name, port))
            window_s, clean_s = float(profile.llr_window_s), float(profile.llr_clean_s)
            rules = profile.llr_on_losses, window_s, clean_s, profile.llr_clean_frames
            mode = Mode.AUTO if profile.llr == AUTO else Mode.ON if profile.llr else Mode.OFF
            link = Link(ends, port.peer, mode, mode is Mode.ON, {end: LinkHealth(*rules) for end in ends})
            self.links.append(link)
            self._of.update(dict.fromkeys(ends, link))

    def retrying(self, switch: str) -> Retrying:
        """Return what the ports of a switch are to do."""
        return {end[1]: link.setting(end) for end, link in self._of.items() if end[0] == switch}

    def written(self, switch: str, settings: Retrying) -> None:
        """Take note that the tables of a switch hold these settings now."""
        for number, setting in settings.items():
            self._of[switch, number].tables[switch, number] = setting

    def remember(self, said: Iterable[Mapping[str, Any]]) -> None:
        """Take over since when and why links retry from what an earlier controller said of them."""
        for link in said:
            self._said[frozenset((str(name), int(port)) for name, port in link["ends"])] = link

    def adopt(self, switch: str, entries: Iterable[Entry]) -> None:
        """Take over what a switch holds already: it was decided before, perhaps by an earlier controller.

        Where only one end of a link retries it is to at both: `decide` sees to it.
        """
        generations: dict[int, int] = {}
        retrying: set[int] = set()
        for item in entries:
            if item.table == "link_profile":
                generations[dict(item.match)["port"]] = dict(item.params)["generation"]
            elif item.table == "llr_profile":
                retrying.add(dict(item.match)["port"])
        for number, generation in generations.items():
            link = self._of.get((switch, number))
            if link is None:
                continue
            link.generations[switch, number] = generation
            link.tables[switch, number] = RetrySetting(number in retrying, generation)
            on = any(setting.on for setting in link.tables.values())
            if link.on != on:
                said = self._said.get(frozenset(link.ends), {})
                link.on, link.why = on, "found so"
                if said.get("on") is on:
                    link.since_s, link.why = said["since_s"], said["why"]
                for health in link.health.values():
                    health.suppose(on, time.time())

    def look(self, switch: str, counts: Mapping[int, Mapping[str, int]], at_s: float) -> None:
        """Take the counters of a switch's ports (`link_health.COUNTERS`)."""
        for number, now in counts.items():
            link = self._of.get((switch, number))
            if link is not None:
                found, told, received, sent, *numbered = (now.get(name, 0) for name in COUNTERS)
                link.health[switch, number].update(Seen(at_s, found, told, received, sent, sum(numbered)))

    def decide(self, modes: Mapping[str, Mode], at_s: float) -> list[LinkEvent]:
        """Switch links on and off as they are judged, or as `modes` says by hand; return what has changed."""
        events = []
        for link in self.links:
            chosen = next((modes[key] for key in map(port_key, link.ends) if key in modes), None)
            if chosen is not None and chosen is not link.mode:
                link.mode = chosen
                for health in link.health.values():
                    health.suppose(link.on, at_s)
            on = link.bad if link.mode is Mode.AUTO else link.mode is Mode.ON
            if on == link.on and not link.is_uneven:
                continue
            uneven = on == link.on
            link.on, link.since_s = on, at_s
            link.tables = {end: link.setting(end) for end in link.ends}  # not written yet
            link.generations = {end: (link.generations.get(end, 0) + 1) % GENERATIONS for end in link.ends}
            if uneven:
                link.why = "one end of it did already"
            elif link.mode is Mode.AUTO:
                clean_s = max(health.clean_for_s for health in link.health.values())
                link.why = str(link.loss) if on else f"clean for {clean_s:g} s"
            else:
                link.why = "by hand"
            name, port = link.ends[0]
            what = RETRY_ON if on else RETRY_OFF
            events.append(LinkEvent(at_s, name, port, link.peer, what, why=link.why))
        return events

    def to_json(self) -> list[dict[str, Any]]:
        """Return what there is to say of each link."""
        return [
            {
                "ends": link.ends,
                "generations": [link.generations.get(end, 0) for end in link.ends],
                "peer": link.peer,
                "mode": link.mode.value,
                "on": link.on,
                "done": link.is_done,
                "since_s": link.since_s,
                "why": link.why,
                "loss_to_switch": link.loss.to_switch,
                "loss_to_peer": link.loss.to_peer,
            }
            for link in self.links
        ]


def _other_end(
    fabric: Fabric, ports: Mapping[PortName, SwitchPort], name: PortName, port: SwitchPort
) -> tuple[PortName, ...]:
    """Return the switch port at the other end of a link, where there is one."""
    if port.role != "fabric":
        return ()
    peer: SwitchNode = fabric.switch(port.peer)
    back = peer.port_to(name[0])
    number = port.peer_port if port.peer_port is not None else back[0].port if len(back) == 1 else None
    return ((peer.name, number),) if number is not None and (peer.name, number) in ports else ()
