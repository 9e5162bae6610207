"""Stock p4runtime-shell with one name more: `events`, the history of the fabric's links.

    python -m controller.shell EVENTS_FILE [p4runtime-shell's own options]

Runs in the shell's own environment (.venv-repl), which has nothing else of this project.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from p4runtime_sh import shell

from controller.event_history import Events


def main() -> None:
    """Open the shell."""
    events = Events(Path(sys.argv.pop(1)))
    start = shell.start_ipython

    def start_with_events(user_ns: dict[str, Any], **more: Any) -> Any:
        return start(user_ns={**user_ns, "events": events}, **more)

    shell.start_ipython = start_with_events
    shell.main()


if __name__ == "__main__":
    main()
