"""Stock p4runtime-shell with two names more: `events`, the history of the fabric's links, and `llr`, which retry.

    python -m controller.shell RUN_DIR [p4runtime-shell's own options]

Runs in the shell's own environment (.venv-repl), which has nothing else of this project.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from p4runtime_sh import shell

from controller.event_history import FILE, Events
from controller.retry_files import Retries


def main() -> None:
    """Open the shell."""
    run_dir = Path(sys.argv.pop(1))
    names = {"events": Events(run_dir / FILE), "llr": Retries(run_dir)}
    start = shell.start_ipython

    def start_with_names(user_ns: dict[str, Any], **more: Any) -> Any:
        return start(user_ns={**user_ns, **names}, **more)

    shell.start_ipython = start_with_names
    shell.main()


if __name__ == "__main__":
    main()
