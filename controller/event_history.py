"""What became of the links of a fabric: a history that the controller writes and others read while it runs.

Needs nothing but Python, as p4runtime-shell reads it from an environment of its own (`controller.shell`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

FILE: Final = "events.jsonl"
"""In the run's directory: one event per line."""
SHOWN: Final = 20

LINK_DOWN: Final = "LINK_DOWN"
LINK_UP: Final = "LINK_UP"
LINK_DEGRADED: Final = "LINK_DEGRADED"
ROUTES_CHANGED: Final = "ROUTES_CHANGED"
RETRY_ON: Final = "RETRY_ON"
RETRY_OFF: Final = "RETRY_OFF"


class LinkEvent(NamedTuple):
    """One change of a link's state as its switch told of it, or what the controller did because of it.

    `at_s` is when the controller learnt of it, in seconds since 1970: at most `link_watch.PERIOD_S` late. `times` is
    how often it happened since the controller had looked before; of ROUTES_CHANGED, which has no port, how many
    entries were changed. `why` the controller has done something, where that is not plain.
    """

    at_s: float
    switch: str
    port: int
    peer: str
    what: str
    times: int = 1
    why: str = ""

    def __str__(self) -> str:
        moment = time.strftime("%H:%M:%S", time.localtime(self.at_s)) + f".{int(self.at_s * 1000) % 1000:03}"
        if self.what == ROUTES_CHANGED:
            return f"{moment}  {self.switch:<6} {self.what}: {self.times}"
        more = f"  {self.times} times" if self.times > 1 else f": {self.why}" if self.why else ""
        return f"{moment}  {self.switch:<6} port {self.port:<4} {self.peer:<6} {self.what}{more}"


def append(path: Path, events: Iterable[LinkEvent]) -> None:
    """Add events to the history."""
    with path.open("a") as file:
        file.writelines(json.dumps(event._asdict()) + "\n" for event in events)


def load(path: Path) -> list[LinkEvent]:
    """Return the history, oldest event first; empty where there is none. A line that is not whole yet is left out."""
    events = []
    try:
        with path.open() as file:
            for line in file:
                if line.endswith("\n"):
                    events.append(LinkEvent(**json.loads(line)))
    except FileNotFoundError:
        pass
    return events


class Events:
    """What `events` is in the shell: shows the newest when it is typed; `events(100)` so many, `events("s1")` of one
    switch."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, *wanted: int | str) -> Shown:
        """Return the newest so many events (20), of the switches that are named (all)."""
        most = next((one for one in wanted if isinstance(one, int)), SHOWN)
        switches = {one for one in wanted if isinstance(one, str)}
        events = [event for event in load(self._path) if not switches or event.switch in switches]
        return Shown(events[-most:] if most > 0 else [])

    def __repr__(self) -> str:
        return repr(self())


class Shown(list[LinkEvent]):
    """Events that show as lines."""

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "No link has changed its state."
