"""Stock p4runtime-shell with two names more: `events`, the history of the fabric's links, and `llr`, its retries.

    python -m controller.shell EVENTS_FILE SWITCH [p4runtime-shell's own options]

Runs in the shell's own environment (.venv-repl), which has nothing else of this project; EVENTS_FILE is in the run's
directory.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from p4runtime_sh import shell

from controller.event_history import Events

REPOSITORY = Path(__file__).resolve().parent.parent
PYTHON = str(REPOSITORY / ".venv" / "bin" / "python")


class Retry:
    """What `llr` is in the shell: shows the states, profile attributes and counters of link-layer retry of the switch's
    ports when it is typed."""

    def __init__(self, fabric: Path, switch: str) -> None:
        self._command = [PYTHON, "-m", "controller", "credits", "--llr", "--fabric", str(fabric), switch]

    def __repr__(self) -> str:
        # Registers cannot be read through the shell, and this needs what its environment does not have.
        width = shutil.get_terminal_size((120, 24)).columns
        done = subprocess.run(
            ["env", f"COLUMNS={width}", *self._command], capture_output=True, text=True, check=False, cwd=REPOSITORY
        )
        return (done.stdout + done.stderr).rstrip()


def main() -> None:
    """Open the shell."""
    events_file = Path(sys.argv.pop(1))
    names = {"events": Events(events_file), "llr": Retry(events_file.with_name("fabric.json"), sys.argv.pop(1))}
    start = shell.start_ipython

    def start_with_names(user_ns: dict[str, Any], **more: Any) -> Any:
        return start(user_ns={**user_ns, **names}, **more)

    shell.start_ipython = start_with_names
    shell.main()


if __name__ == "__main__":
    main()
