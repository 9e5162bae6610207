"""Keep what the controller knows of each switch in a file that others can read while it runs."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self


class State(StrEnum):
    """How far the controller is with a switch."""

    CONNECTING = "connecting"
    PROGRAMMING = "programming"
    PROGRAMMED = "programmed"
    FAILED = "failed"


@dataclass
class SwitchStatus:
    """One switch: state, whether the controller may write to it, and how it differs from what was installed.

    `cookie` names the push whose installation was completed, `boots` counts installations, `drift` has one line for
    each entry that differs, as seen when the controller last looked.
    """

    state: State = State.CONNECTING
    primary: bool = False
    boots: int = 0
    entries: int = 0
    cookie: int | None = None
    drift: list[str] = field(default_factory=list)
    error: str = ""


@dataclass
class ControllerStatus:
    """All switches by name, and the process that serves them."""

    pid: int
    switches: dict[str, SwitchStatus]

    @property
    def ready(self) -> bool:
        """Tell whether every switch is programmed."""
        return all(switch.state is State.PROGRAMMED for switch in self.switches.values())

    def save(self, path: Path) -> None:
        """Write the file; a reader sees the old one or the new one, never a part."""
        data = {"pid": self.pid, "ready": self.ready,
                "switches": {name: dataclasses.asdict(switch) for name, switch in self.switches.items()}}  # fmt: skip
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        unfinished.write_text(json.dumps(data, indent=1) + "\n")
        unfinished.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """Read the file; None when there is none, or none that this version wrote."""
        try:
            data: dict[str, Any] = json.loads(path.read_text())
            switches = {name: SwitchStatus(**{**values, "state": State(values["state"])})
                        for name, values in data["switches"].items()}  # fmt: skip
            return cls(pid=data["pid"], switches=switches)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
