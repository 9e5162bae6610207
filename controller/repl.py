"""Open stock p4runtime-shell on a switch of the running fabric: `python -m controller.repl [SWITCH]` (`make repl`).

The shell becomes the switch's primary client for as long as it is open; the controller steps back, goes on logging, and
does not overwrite what was edited. Every shell gets a higher election id than anything before it: the controller takes
over the id of whoever was primary last, so that a shell with the same id as the one before would be refused.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from codec.fabric import Fabric, FabricError, SwitchNode
from controller.editor import next_election_id
from controller.runstate import RunState

REPOSITORY: Final = Path(__file__).resolve().parent.parent
SHELL_PYTHON: Final = REPOSITORY / ".venv-repl" / "bin" / "python"

INTRO: Final = """\
p4runtime-shell on {switch} ({grpc}, device {device_id}). Tables are described in docs/pipeline.md. For example:

  for e in table_entry["forward"].read(): print(e)      every route of this switch
  te = table_entry["forward"](action="to_port")         a route ...
  te.match["tenant"] = "1"; te.match["dst"] = "{dst}"; te.action["port"] = "{port}"
  te.modify()                                           ... changed at once; also te.insert() and te.delete()
  for c in counter_entry["port_rx"].read(): print(c)    frames per port
  events                                                which links died or came back; events(100), events("s1")
  llr                                                   which links retry, how; llr("on", "{switch}:{port}"), "off"
  tables                                                all tables; exit to leave

The controller keeps running and leaves your edits alone: `.venv/bin/python -m controller drift` lists them.
"""


def election_id() -> str:
    """Return the next election id as the shell writes it: high 64 bits, low 64 bits."""
    return "{},{}".format(*next_election_id())


def shell_command(node: SwitchNode, run_dir: Path) -> list[str]:
    """Return the command that opens the shell on a switch, to be run on the fabric's network."""
    return [
        *("env", f"PYTHONPATH={REPOSITORY}", str(SHELL_PYTHON), "-m", "controller.shell", str(run_dir)),
        node.name,
        *("--grpc-addr", node.grpc),
        *("--device-id", str(node.device_id), "--election-id", election_id()),
    ]


def main(argv: list[str] | None = None) -> int:
    """Enter the fabric and replace this process by the shell; return 1 with one message where that cannot be."""
    parser = argparse.ArgumentParser(prog="make repl", description="Edit the tables of a switch of the running fabric.")
    parser.add_argument("switch", nargs="?", default="", help="name of the switch (default: the first)")
    parser.add_argument("--run-dir", type=Path, default=Path(os.environ.get("RUN_DIR", REPOSITORY / "build" / "run")))
    options = parser.parse_args(argv)
    state = RunState.load(options.run_dir)
    if state is None:
        return _fail("No fabric is running. Start one in another terminal with: make run")
    if not SHELL_PYTHON.exists():
        return _fail("p4runtime-shell is not installed. `make repl` installs it.")
    try:
        fabric = Fabric.load(options.run_dir / "fabric.json")
        node = fabric.switch(options.switch) if options.switch else fabric.switches[0]
    except FabricError as error:
        return _fail(str(error))
    except KeyError as error:
        return _fail(f"SWITCH={options.switch}: {error.args[0]}")
    port = node.ports[0]
    shown = fabric.gpus[0].id
    print(
        INTRO.format(switch=node.name, grpc=node.grpc, device_id=node.device_id, dst=shown, port=port.port), flush=True
    )
    command = state.enter(shell_command(node, options.run_dir.resolve()))
    os.execvp(command[0], command)


def _fail(message: str) -> int:
    print(message, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
