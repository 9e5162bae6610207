"""Find the running fabric: where its description is, and which namespaces to enter.

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

    def enter(self, command: list[str], directory: Path) -> list[str]:
        """Return the command that runs `command` inside the fabric's namespaces, in `directory`."""
        return ["nsenter", "-t", str(self.namespace_pid), "-n", "-m", "-p", f"--wd={directory}", "--", *command]
