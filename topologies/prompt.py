"""The Mininet prompt, with commands of the fabric's own."""

from __future__ import annotations

from collections.abc import Callable

from mininet.cli import CLI
from rich.console import Console

from controller.probing import NoAnswers
from controller.reader import ReadError
from controller.watch import tables
from topologies.errors import LaunchError
from topologies.options import PATTERNS
from topologies.session import FabricSession


class FabricPrompt(CLI):
    """Mininet's command line, plus `scenario`, `counters`, `credits` and `restart`."""

    prompt = "mininet> "

    def __init__(self, session: FabricSession, run_scenario: Callable[[str, list[str]], None]) -> None:
        self.session = session
        self.run_scenario = run_scenario
        super().__init__(session.net)

    def do_scenario(self, line: str) -> None:
        """Run a traffic pattern: scenario random --count 1000"""
        name, *extra = line.split() or [""]
        if name not in PATTERNS:
            print(f"*** choose one of: {', '.join(PATTERNS)}; options follow it, as in: scenario random --count 1000")
            return
        self._guarded(lambda: self.run_scenario(name, extra))

    def do_counters(self, _line: str) -> None:
        """Print frames and drops of every switch port that saw any."""
        for switch, ports in self.session.counters().items():
            for number, port in ports.items():
                drops = ", ".join(f"{reason} {count:,}" for reason, count in port.drops.items())
                if port.rx_frames or port.tx_frames:
                    print(f"{switch} port {number}: {port.rx_frames:,} in, {port.tx_frames:,} out"
                          + (f", dropped: {drops}" if drops else ""))  # fmt: skip

    def do_credits(self, _line: str) -> None:
        """Print the credits of all managed links, per port and virtual channel."""
        try:
            credits, counters = self.session.credits(), self.session.counters()
        except (ReadError, NoAnswers) as error:
            print(f"*** {error}")
            return
        nodes = {node.name: node for node in self.session.fabric.switches}
        view = {name: (nodes[name], ports, counters.get(name, {})) for name, ports in credits.items()}
        console = Console()
        console.print(tables(view, console.width))

    def do_restart(self, line: str) -> None:
        """Restart a switch, and wait until the controller has programmed it again: restart s1"""
        node = self.session.switches.get(line.strip())
        if node is None:
            print(f"*** choose one of: {', '.join(self.session.switches)}")
            return
        self._guarded(lambda: self.session.restart_switch(node.name))

    def _guarded(self, action: Callable[[], object]) -> None:
        try:
            action()
        except LaunchError as error:
            print(f"*** {error}")
