"""Read the credits of managed links with probes: frames by packet-out that the switch answers by packet-in.

Only a switch's primary client may send packet-outs, and that is the running controller. So whoever wants to see credits
asks it: a file beside its status says that somebody looks (its age is what counts), and the controller, as long as
somebody does, probes every managed port and writes what comes back into another one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from codec.files import write_whole
from controller.credits import PortCredits

PERIOD_S: Final = 0.2
"""Between two rounds of probes."""
LEASE_S: Final = 3.0
"""How long the controller goes on after somebody has last asked."""
WAIT_S: Final = 5.0
STALE_S: Final = 2.0
_WANTED: Final = "probes.wanted"
_ANSWERS: Final = "probes.json"

Answers = Mapping[str, Mapping[int, PortCredits]]
"""By switch and port."""


class NoAnswers(Exception):
    """The controller does not answer; the message says what to do."""


class ProbeFiles:
    """The two files by which the controller is asked for probes; `directory` is where its status file is."""

    def __init__(self, directory: Path) -> None:
        self._wanted = directory / _WANTED
        self._answers = directory / _ANSWERS

    def ask(self) -> None:
        """Say that somebody looks."""
        self._wanted.touch()

    def wanted(self) -> bool:
        """Tell whether somebody looks."""
        try:
            return time.time() - self._wanted.stat().st_mtime < LEASE_S
        except OSError:
            return False

    def publish(self, answers: Answers) -> None:
        """Write what the switches answered last."""
        data = {name: {str(n): port.to_json() for n, port in ports.items()} for name, ports in answers.items()}
        write_whole(self._answers, json.dumps(data) + "\n")

    def read(self, wait_s: float = WAIT_S) -> dict[str, dict[int, PortCredits]]:
        """Ask, and return what the switches answered, not older than two seconds. Raises NoAnswers."""
        self.ask()
        deadline = time.monotonic() + wait_s
        while True:
            try:
                if time.time() - os.stat(self._answers).st_mtime < STALE_S:
                    data = json.loads(self._answers.read_text())
                    return {
                        name: {int(n): PortCredits.from_json(port) for n, port in ports.items()}
                        for name, ports in data.items()
                    }
            except FileNotFoundError:
                pass
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise NoAnswers(f"{self._answers} is not what this version writes ({error})") from None
            if time.monotonic() > deadline:
                raise NoAnswers(f"the controller has answered nothing for {wait_s:g} s; is it running, and in charge?")
            time.sleep(0.05)
