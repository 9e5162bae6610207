"""Keeps traffic off the ways that are dead: takes events, watches the own links, moves what is unfinished.

`endpoint.reachability` knows which planes lead where; what is unfinished belongs to the load/store and the RDMA side,
which are told when to send it anew (`PathUser`). Everything here happens in the receive thread, under its lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from codec.constants import FIRST_SWITCH_ID, MAX_GPU_ID, MAX_SWITCH_ID, EventType
from codec.frames import FrameError, parse_event
from endpoint.event_log import EventLog, arrival
from endpoint.link import LinkLayer
from endpoint.reachability import Heard, Reachability

_TYPES: Final = {int(kind): kind.name for kind in EventType}


class PathUser(Protocol):
    """Whoever has something unfinished on planes: the source side of load/store, and that of RDMA."""

    def moved(self, now: float, dst: int | None, plane: int) -> int:
        """Send anew, by the planes that are left, all that was last sent on `plane` to `dst` (None: to anybody).

        Return how much was sent. What has no plane left waits for `opened`, and fails with Unreachable in time.
        """

    def opened(self, now: float, dst: int | None) -> int:
        """Send what waited for a plane to `dst` (None: to anybody), as there may be one now; return how much."""


class Failover:
    """Acts on what happens to the ways of one GPU.

    Without `believes` events change nothing.

    `counters` gains: `events_link_down`, `events_link_up`, `events_link_degraded` (believed, repetitions included),
    `events_ignored`, `events_repeated`, `events_old`, `events_contradicted`, `events_overflowed`, `paths_closed`,
    `paths_opened`, `paths_renewed` (open ones whose link had been down, unheard of), `paths_degraded`, `paths_lapsed`
    (opened as nothing repeated what had closed them), `own_links_down`, `own_links_up`, `moved_requests`; and for
    events that are not believed `drop_<reason>`: truncated, unknown_version, wrong_destination, forged_event,
    wrong_plane, unknown_event, unknown_subject.
    """

    def __init__(
        self,
        gpu_id: int,
        links: Mapping[int, LinkLayer],
        reachability: Reachability,
        counters: Counter[str],
        believes: bool = True,
    ) -> None:
        self._believes = believes
        self._id = gpu_id
        self._links = dict(links)
        self._resets = {plane: link.resets for plane, link in links.items()}
        self._reachability = reachability
        self._counters = counters
        self._users: list[PathUser] = []
        self.log = EventLog()

    def add_user(self, user: PathUser) -> None:
        """Tell someone else too when to move what is unfinished."""
        self._users.append(user)

    def take(self, now: float, plane: int, packet: memoryview) -> None:
        """Act on an EVENT packet that came on a plane, if it can be believed."""
        arrived = arrival()
        reachability, counters = self._reachability, self._counters
        try:
            event = parse_event(packet)
        except FrameError as error:
            return self._drop(error.reason)
        if event.dst != self._id:
            return self._drop("wrong_destination")
        if not FIRST_SWITCH_ID <= event.src <= MAX_SWITCH_ID:
            return self._drop("forged_event")
        if event.plane != plane:  # nobody can say anything of another plane than its own
            return self._drop("wrong_plane")
        if event.type not in _TYPES:
            return self._drop("unknown_event")
        subject = event.subject
        if subject > MAX_GPU_ID or subject == self._id:
            return self._drop("unknown_subject")
        if not self._believes:
            counters["events_ignored"] += 1
            return None
        what = _TYPES[event.type]
        counters[f"events_{what.lower()}"] += 1
        heard = reachability.take(now, plane, event.src, event.type, subject, event.sequence)
        if heard is Heard.CLOSED:
            counters["paths_closed"] += 1
            moved = self._tell(lambda user: user.moved(now, subject, plane))
        elif heard is Heard.OPENED:
            counters["paths_opened"] += 1
            moved = self._tell(lambda user: user.opened(now, subject))
        elif heard is Heard.RENEWED:
            counters["paths_renewed"] += 1
            moved = self._tell(lambda user: user.moved(now, subject, plane))
        elif heard is Heard.DEGRADED:
            counters["paths_degraded"] += 1
            moved = 0
        else:
            if heard is not Heard.NOTED:
                counters[f"events_{heard.value}"] += 1
            return None
        self.log.add(arrived, what, plane, subject, moved, event.src, event.sequence, event.timestamp)
        return None

    def watch_links(self, now: float) -> None:
        """Act on what has become of the own links since the last call."""
        for plane, link in self._links.items():
            was_up = self._reachability.is_up(plane)
            if link.resets != self._resets[plane]:  # be it up again: what was under way may be lost
                self._resets[plane] = link.resets
                if was_up:
                    self._link_down(now, plane, link)
                    was_up = False
            if link.is_up != was_up:
                if was_up:
                    self._link_down(now, plane, link)
                else:
                    self._link_up(now, plane)

    def poll(self, now: float) -> float:
        """Do what the time asks for; return when to be called again at the latest."""
        reachability = self._reachability
        if now >= reachability.due:
            arrived = arrival()
            for plane, subject in reachability.poll(now):
                self._counters["paths_lapsed"] += 1
                moved = self._tell(lambda user, dst=subject: user.opened(now, dst))  # type: ignore[misc]
                self.log.add(arrived, "lapsed", plane, subject, moved)
        return reachability.due

    def _link_down(self, now: float, plane: int, link: LinkLayer) -> None:
        arrived = arrival()
        self._counters["own_links_down"] += 1
        self._reachability.link(now, plane, up=False)
        link.withdraw()
        moved = self._tell(lambda user: user.moved(now, None, plane))
        self.log.add(arrived, "own link down", plane, None, moved)

    def _link_up(self, now: float, plane: int) -> None:
        arrived = arrival()
        self._counters["own_links_up"] += 1
        self._reachability.link(now, plane, up=True)
        moved = self._tell(lambda user: user.opened(now, None))
        self.log.add(arrived, "own link up", plane, None, moved)

    def _tell(self, what: Callable[[PathUser], int]) -> int:
        moved = sum(map(what, self._users))
        self._counters["moved_requests"] += moved
        return moved

    def _drop(self, reason: str) -> None:
        self._counters[f"drop_{reason}"] += 1
