"""Make the switches' ends of links bad while a fabric runs: the table `link_fault` (docs/llr.md, "Trying it")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from codec.fabric import SwitchNode
from controller.editor import SwitchEditor
from controller.entries import Entry, entry

_CERTAIN: Final = (1 << 32) - 1
"""Of a probability in 2^-32: always."""


def drop_entries(ports: Iterable[int], probability: float, control: bool = True) -> list[Entry]:
    """Return the entries by which ports lose DATA frames on their way out, and control frames alike unless told not
    to."""
    chance = min(_CERTAIN, round(probability * (1 << 32)))
    return [
        entry(
            "link_fault", {"egress_port": port, "control": kind}, "drop_frames",
            probability=chance, frames=0, run=0,
        )
        for port in ports
        for kind in ((0, 1) if control else (0,))
    ]  # fmt: skip


class LinkFaults:
    """The link faults of a fabric's switches, from when they have started on."""

    def __init__(self, switches: Iterable[SwitchNode]) -> None:
        self._switches = list(switches)
        self._made: dict[str, list[Entry]] = {}

    def lose(self, ports: Mapping[str, Iterable[int]], probability: float, control: bool = True) -> None:
        """Let these ports, by switch, and no others lose frames with a probability; 0: none. Control frames are spared
        where told so. Raises ReadError."""
        for node in self._switches:
            old = self._made.pop(node.name, [])
            new = drop_entries(ports.get(node.name, ()), probability, control) if probability else []
            if old or new:
                with SwitchEditor(node) as editor:
                    editor.delete(old)
                    editor.insert(new)
            self._made[node.name] = new
