"""Control a fabric, or look at one: `python -m controller [COMMAND] [SWITCH ...]`.

Commands: run, status, counters, credits, watch, events, llr, drift, routes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console, RenderableType
from rich.table import Table

from codec.fabric import Fabric, FabricError, SwitchNode
from controller.entities import drift
from controller.event_history import FILE, Shown, load
from controller.link_watch import dead_ports
from controller.links import RetrySetting
from controller.pipeline import Pipeline, PipelineError
from controller.probing import NoAnswers, ProbeFiles
from controller.reader import CPU_PORT, ReadError, RegistersHidden, SwitchReader
from controller.retry_files import ROW, WAIT_S, Mode, RetryFiles
from controller.retry_view import retry_tables
from controller.routes import entries_for
from controller.runstate import INSIDE, RunState
from controller.status import ControllerStatus
from controller.watch import View, tables, watch

SOURCES = ("auto", "registers", "probes")
WIDE = 200
"""Columns of a table that is not for a terminal."""
REPOSITORY = Path(__file__).resolve().parent.parent
NO_FABRIC = "No fabric is running. Start one in another terminal with: make run"


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(prog="python -m controller", description=__doc__.partition(":")[0] + ".")
    parser.add_argument(
        "command", nargs="?", default="run", choices=list(COMMANDS),
        help="run: program the switches and look after them; status: what the running controller says; "
        "counters: frames and drops per port; credits: those of managed links, per port and virtual channel; "
        "watch: the same, live; events: which links died or came back, oldest first; "
        "llr: what managed links lose, and which of them retry; with on, off or auto and ports (llr on s1:3 s2) "
        "or switches they do from now on, do not, or as the controller finds them; "
        "drift: what was edited by hand; routes: what would be installed",
    )  # fmt: skip
    parser.add_argument(
        "switches",
        nargs="*",
        metavar="SWITCH",
        help="only these switches (not for run); after llr on, off, auto: ports",
    )
    parser.add_argument(
        "--fabric", type=Path, default=_running_fabric(),
        help="fabric description (default: $ETHLINK_FABRIC, or fabric.json in $RUN_DIR or build/run)",
    )  # fmt: skip
    parser.add_argument("--p4info", type=Path, help="P4Info text file of the switch program (run)")
    parser.add_argument("--config", type=Path, help="compiled switch program: a .p4bin, or BMv2's JSON (run)")
    parser.add_argument("--status", type=Path, help="status file (default: controller.json beside the description)")
    parser.add_argument(
        "--source", choices=SOURCES, default="auto",
        help="credits, watch: read registers, or let the controller send probes (default: registers where the target "
        "reads them)",
    )  # fmt: skip
    parser.add_argument(
        "--llr", action="store_true",
        help="credits, watch: all of link-layer retry in place of credits: states, profile attributes and counters by "
        "SAI's names, a column per port",
    )  # fmt: skip
    parser.add_argument("-v", "--verbose", action="store_true", help="log what the P4Runtime client does")
    options = parser.parse_intermixed_args(argv)  # options may stand between the switches, too
    if options.command == "run" and (options.p4info is None or options.config is None):
        parser.error("run needs --p4info and --config: the files that `p4switch compile -o DIR` writes")
    if options.status is None:
        options.status = options.fabric.with_name("controller.json")
    return options


def _running_fabric() -> Path:
    """Return where the description of the running fabric is, unless the command line says so."""
    run_dir = Path(os.environ.get("RUN_DIR") or REPOSITORY / "build" / "run")
    return Path(os.environ.get("ETHLINK_FABRIC") or run_dir / "fabric.json")


def run(fabric: Fabric, options: argparse.Namespace) -> int:
    """Serve until a signal ends it."""
    # Loaded here alone: the other commands do without its half second.
    from controller.service import serve

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)
    if not options.verbose:
        logging.getLogger("finsy").setLevel(logging.ERROR)
    asyncio.run(serve(fabric, Pipeline(options.p4info, options.config), options.status))
    return 0


def show_status(fabric: Fabric, options: argparse.Namespace) -> int:
    """Print the status file of the running controller."""
    status = ControllerStatus.load(options.status)
    if status is None:
        print(f"{options.status}: no controller has written here. Is the fabric up?", file=sys.stderr)
        return 1
    table = Table("switch", "state", "in charge", "installations", "entries", "edited")
    notes = []
    for node in _chosen(fabric, options):
        item = status.switches.get(node.name)
        if item is not None:
            table.add_row(
                node.name, item.state, "controller" if item.primary else "another client", str(item.boots),
                str(item.entries), str(len(item.drift)),
            )  # fmt: skip
            notes += [f"{node.name}: {line}" for line in (*item.drift, *filter(None, [item.error]))]
    Console().print(table)
    for note in notes:
        print(note)
    return 0 if status.ready else 1


def show_counters(fabric: Fabric, options: argparse.Namespace) -> int:
    """Print frames, bytes and drops per port, as the switches count them."""
    table = Table("switch", "port", "peer")
    for name in ("frames in", "bytes in", "frames out", "bytes out"):
        table.add_column(name, justify="right")
    table.add_column("dropped")
    for node in _chosen(fabric, options):
        peers = {port.port: port.peer for port in node.ports}
        with SwitchReader(node) as reader:
            for number, port in reader.counters().items():
                drops = ", ".join(f"{reason} {count:,}" for reason, count in port.drops.items())
                table.add_row(
                    node.name, str(number), peers.get(number, "controller"), f"{port.rx_frames:,}",
                    f"{port.rx_bytes:,}", f"{port.tx_frames:,}", f"{port.tx_bytes:,}", drops,
                )  # fmt: skip
    Console().print(table)
    return 0


def _read_credits(fabric: Fabric, options: argparse.Namespace) -> View:
    """Return credits and counters of the chosen switches, from registers or from probes."""
    probes = ProbeFiles(options.status.parent)
    view = {}
    for node in _chosen(fabric, options):
        with SwitchReader(node) as reader:
            try:
                if options.source == "probes":
                    raise RegistersHidden
                credits = reader.credits()
            except RegistersHidden:
                if options.source == "registers":
                    raise
                try:
                    credits = probes.read().get(node.name, {})
                except NoAnswers:
                    if not options.llr:
                        raise
                    credits = {}  # profiles and counters need no probe
            view[node.name] = node, credits, reader.counters()
    return view


def _shown(fabric: Fabric, options: argparse.Namespace, width: int) -> RenderableType:
    """Return what `credits` and `watch` show: credits, or all of link-layer retry."""
    view = _read_credits(fabric, options)
    if not options.llr:
        return tables(view, width)
    profiles = {}
    for name, (node, _, _) in view.items():
        with SwitchReader(node) as reader:
            profiles[name] = reader.retry_profiles()
    return retry_tables(view, profiles, width)


def show_credits(fabric: Fabric, options: argparse.Namespace) -> int:
    """Print the credits of managed links per port and virtual channel, and the counters of their links."""
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    console.print(_shown(fabric, options, console.width))
    return 0


def watch_credits(fabric: Fabric, options: argparse.Namespace) -> int:
    """Show the same live until Ctrl-C."""
    console = Console()
    with contextlib.suppress(KeyboardInterrupt):
        watch(lambda: _shown(fabric, options, console.width), console)
    return 0


def show_events(fabric: Fabric, options: argparse.Namespace) -> int:
    """Print the history of links that the controller has kept since the fabric was started."""
    names = {node.name for node in _chosen(fabric, options)}
    print(Shown(event for event in load(options.status.with_name(FILE)) if event.switch in names))
    return 0


def show_retry(fabric: Fabric, options: argparse.Namespace) -> int:
    """Print what managed links lose and which retry; with a mode and ports, choose for these first."""
    files = RetryFiles(options.status.parent)
    words = list(options.switches)
    if words and words[0] in set(Mode):
        try:
            ports = files.ports(words[1:])
        except ValueError as error:
            raise ReadError(str(error)) from None
        files.choose(ports, Mode(words[0]))
        if not files.obeyed(ports, Mode(words[0])):
            raise ReadError(
                f"it is noted, but the controller has not done it within {WAIT_S:g} s; is it running, and is no shell "
                "(make repl) open on the switch? It does it when it can."
            )
        words = [name for name, _ in ports]
    rows = files.rows(fabric.switch(name).name for name in words)
    if not rows:
        print("No managed links here: start the fabric with `make run LINKS=managed`.")
        return 1
    table = Table(*ROW)
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else WIDE).print(table)
    return 0


def _dead_links(fabric: Fabric) -> set[tuple[str, int]]:
    """Return the dead ports of all switches: name of the switch, number of the port."""
    dead = set()
    for node in fabric.switches:
        with SwitchReader(node) as reader:
            counts = {number: port.link for number, port in reader.counters().items() if number != CPU_PORT}
            dead |= {(node.name, number) for number in dead_ports(counts)}
    return dead


def show_drift(fabric: Fabric, options: argparse.Namespace) -> int:
    """Print how the switches differ from what the controller means them to hold; exit with 1 if they do."""
    differs = False
    dead = _dead_links(fabric)
    for node in _chosen(fabric, options):
        with SwitchReader(node) as reader:
            settings = RetryFiles(options.status.parent).settings(node.name)
            retrying = {port: RetrySetting(*setting) for port, setting in settings.items()}
            for line in drift(entries_for(fabric, node, dead, retrying), reader.entries()):
                print(f"{node.name}: {line}")
                differs = True
    if not differs:
        print("The switches hold what the controller installed.")
    return int(differs)


def show_routes(fabric: Fabric, options: argparse.Namespace) -> int:
    """Print what the controller installs, without a switch."""
    for node in _chosen(fabric, options):
        for item in entries_for(fabric, node):
            print(f"{node.name}: {item}")
    return 0


COMMANDS: dict[str, Callable[[Fabric, argparse.Namespace], int]] = {
    "run": run, "status": show_status, "counters": show_counters, "credits": show_credits,
    "watch": watch_credits, "events": show_events, "llr": show_retry, "drift": show_drift, "routes": show_routes,
}  # fmt: skip


def _chosen(fabric: Fabric, options: argparse.Namespace) -> list[SwitchNode]:
    return [fabric.switch(name) for name in options.switches] if options.switches else list(fabric.switches)


def _enter_fabric(run_dir: Path, argv: list[str]) -> None:
    """Go on inside the network of the fabric that runs in `run_dir`: its switches listen on a loopback of its own.

    Raises ReadError when none runs there and none was run there.
    """
    if INSIDE in os.environ:
        return
    state = RunState.load(run_dir)
    if state is None and not (run_dir / "fabric.json").exists():
        raise ReadError(NO_FABRIC)
    if state is not None:
        command = state.enter([sys.executable, "-m", "controller", *argv])
        os.execvp(command[0], command)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = parse(argv)
    try:
        if options.command in ("counters", "credits", "watch", "drift"):
            _enter_fabric(options.fabric.parent, sys.argv[1:] if argv is None else argv)
        return COMMANDS[options.command](Fabric.load(options.fabric), options)
    except (FabricError, PipelineError, ReadError, NoAnswers) as error:
        print(f"controller: {error}", file=sys.stderr)
    except KeyError as error:  # an unknown switch; the description's message names those there are
        print(f"controller: {error.args[0]}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main())
