"""How the controller and people tell each other which links retry: by two files beside the controller's status.

Needs nothing but Python, as p4runtime-shell uses it from an environment of its own (`controller.shell`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from codec.files import write_whole

WAIT_S: Final = 5.0
_MOMENT_S: Final = 1.5
_MODES: Final = "llr.modes.json"
_STATE: Final = "llr.json"

NOT_YET: Final = " (not yet)"
"""Decided, and not in the tables: the switch is away, or a shell is open on it, and the controller cannot write."""
ROW: Final = ("link", "peer", "retries", "decided", "since", "lost to switch", "lost to peer", "why")
"""What `RetryFiles.rows` has of each link; losses are shares of the frames of late."""

PortName = tuple[str, int]
"""A switch and a port of it."""


class Mode(StrEnum):
    """Who decides whether a link retries: somebody by hand, or its health."""

    ON = "on"
    OFF = "off"
    AUTO = "auto"


def port_key(port: PortName) -> str:
    """Return how a port is written: s1:3."""
    return f"{port[0]}:{port[1]}"


class RetryFiles:
    """What somebody wants of links by hand, and what the controller says of them."""

    def __init__(self, directory: Path) -> None:
        self._modes = directory / _MODES
        self._state = directory / _STATE

    def modes(self) -> dict[str, Mode]:
        """Return what is wanted by hand, by port. A file that is no such list counts as none."""
        try:
            return {str(port): Mode(mode) for port, mode in json.loads(self._modes.read_text()).items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def choose(self, ports: Iterable[PortName], mode: Mode) -> None:
        """Say what is wanted of links, by hand."""
        modes = self.modes() | dict.fromkeys(map(port_key, ports), mode)
        write_whole(self._modes, json.dumps(modes) + "\n")

    def ports(self, words: Iterable[str]) -> list[PortName]:
        """Return the ports of managed links that words name: s1:3, or s1 for all of a switch; without words all.

        Raises ValueError, which names those that there are, for any other.
        """
        ends = [(str(name), int(port)) for link in self.read() or () for name, port in link["ends"]]
        chosen = []
        for word in words:
            found = [end for end in ends if word in (end[0], port_key(end))]
            if not found:
                known = ", ".join(map(port_key, ends)) or "none: start the fabric with `make run LINKS=managed`"
                raise ValueError(f"no managed port {word!r}; there are {known}")
            chosen += found
        return chosen or ends

    def rows(self, switches: Iterable[str] = ()) -> list[tuple[str, ...]]:
        """Return a row of ROW per link (of these switches), as people read it."""
        wanted = set(switches)
        rows = []
        for link in self.read() or ():
            ends = [(str(name), int(port)) for name, port in link["ends"]]
            if wanted and not wanted & {name for name, _ in ends}:
                continue
            since = time.strftime("%H:%M:%S", time.localtime(link["since_s"]))
            decided = "auto" if link["mode"] == Mode.AUTO else "by hand"
            lost = (f"{link[name]:.1e}" for name in ("loss_to_switch", "loss_to_peer"))
            retries = ("on" if link["on"] else "off") + ("" if link["done"] else NOT_YET)
            rows.append((" ".join(map(port_key, ends)), link["peer"], retries, decided, since, *lost, link["why"]))
        return rows

    def settings(self, switch: str) -> dict[int, tuple[bool, int]]:
        """Return for the managed ports of a switch whether they retry, and their generation."""
        return {
            int(port): (link["on"], generation)
            for link in self.read() or ()
            for (name, port), generation in zip(link["ends"], link["generations"], strict=True)
            if name == switch
        }

    def obeyed(self, ports: Iterable[PortName], mode: Mode, wait_s: float = WAIT_S) -> bool:
        """Wait until the controller says that it has done so to these ports; tell whether it came to that."""
        wanted = {port_key(port) for port in ports}
        deadline = time.monotonic() + wait_s
        while True:
            said = {
                port_key(tuple(end)): link["mode"] for link in self.read() or () if link["done"] for end in link["ends"]
            }
            if all(said.get(port) == mode for port in wanted):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)

    def forget(self) -> None:
        """A new fabric: nothing is wanted by hand."""
        for path in (self._modes, self._state):
            path.unlink(missing_ok=True)

    def publish(self, links: list[dict[str, Any]]) -> None:
        """Write what the controller says."""
        write_whole(self._state, json.dumps({"pid": os.getpid(), "links": links}) + "\n")

    def read(self) -> list[dict[str, Any]] | None:
        """Return what the controller last said; None where it has said nothing."""
        try:
            links: list[dict[str, Any]] = json.loads(self._state.read_text())["links"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return links


class Retries:
    """What `llr` is in the shell: shows the managed links when it is typed; `llr("on", "s1:3", "s2")` lets ports, or
    all of a switch, retry from now on; also "off", and "auto" for as the controller finds them. The controller does it,
    at the shell's own switch when the shell is left."""

    def __init__(self, directory: Path) -> None:
        self._files = RetryFiles(directory)

    def __call__(self, mode: str | None = None, *ports: str) -> Retries:
        """Choose, and wait a moment for the controller to do it. Raises ValueError for what there is not.

        Without a mode nothing is chosen: the shell calls what is typed without parentheses.
        """
        if mode is None:
            return self
        if mode not in set(Mode):
            raise ValueError(f"{mode!r} is none of {', '.join(Mode)}")
        self._files.choose(chosen := self._files.ports(ports), Mode(mode))
        self._files.obeyed(chosen, Mode(mode), _MOMENT_S)
        return self

    def __repr__(self) -> str:
        return "\n".join(map(" ".join, self._files.rows())) or "No managed links here: `make run LINKS=managed`."
