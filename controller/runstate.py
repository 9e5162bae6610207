"""Find the running fabric: where its description is, and which network to enter.

The launcher writes the file, whoever wants to look into the fabric reads it.
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

STATE_FILE: Final = "launcher.json"
INSIDE: Final = "ETHLINK_INSIDE"
"""Set in the environment of what has entered the fabric's network: it need not enter again."""


@dataclass(frozen=True)
class RunState:
    """A running fabric: the launcher's process, a process in the fabric's namespaces, and what it was started with."""

    pid: int
    namespace_pid: int
    topology: str
    target: str

    def save(self, run_dir: Path) -> None:
        """Write the state file."""
        (run_dir / STATE_FILE).write_text(json.dumps(dataclasses.asdict(self)) + "\n")

    @classmethod
    def load(cls, run_dir: Path) -> Self | None:
        """Return the state of the fabric that runs in `run_dir`, None when none does."""
        try:
            state = cls(**json.loads((run_dir / STATE_FILE).read_text()))
            os.kill(state.pid, 0)
        except PermissionError:
            return state  # it runs, as another user
        except (OSError, ValueError, TypeError):
            return None
        return state

    def enter(self, command: list[str]) -> list[str]:
        """Return the command that runs `command` on the fabric's network, with INSIDE set in its environment."""
        network = f"--net=/proc/{self.namespace_pid}/ns/net"
        return ["nsenter", network, "--", "env", f"{INSIDE}=1", *command]
