"""Stock p4runtime-shell with two names more: `events`, the history of the fabric's links, and `llr`, which retry.

    python -m controller.shell RUN_DIR SWITCH [p4runtime-shell's own options]

Runs in the shell's own environment (.venv-repl), which has nothing else of this project.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from p4runtime_sh import shell

from controller.event_history import FILE, Events
from controller.retry_files import Retries

REPOSITORY = Path(__file__).resolve().parent.parent
PYTHON = str(REPOSITORY / ".venv" / "bin" / "python")


class Links(Retries):
    """What `llr` is in the shell: as `Retries`, and it shows the states, profile attributes and counters of link-layer
    retry of the switch's ports as well."""

    def __init__(self, run_dir: Path, switch: str) -> None:
        super().__init__(run_dir)
        fabric = str(run_dir / "fabric.json")
        self._command = [PYTHON, "-m", "controller", "credits", "--llr", "--fabric", fabric, switch]

    def __repr__(self) -> str:
        # Registers cannot be read through the shell, and this needs what its environment does not have.
        width = shutil.get_terminal_size((120, 24)).columns
        done = subprocess.run(
            ["env", f"COLUMNS={width}", *self._command], capture_output=True, text=True, check=False, cwd=REPOSITORY
        )
        return f"{super().__repr__()}\n\n{(done.stdout + done.stderr).rstrip()}"


def main() -> None:
    """Open the shell."""
    run_dir = Path(sys.argv.pop(1))
    names = {"events": Events(run_dir / FILE), "llr": Links(run_dir, sys.argv.pop(1))}
    start = shell.start_ipython

    def start_with_names(user_ns: dict[str, Any], **more: Any) -> Any:
        return start(user_ns={**user_ns, **names}, **more)

    shell.start_ipython = start_with_names
    shell.main()


if __name__ == "__main__":
    main()
