"""What a bench reports: figures with units, and ratios with targets, in one table and one JSON file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Measurement:
    """One figure: what was measured, how much, in which unit, and how it came about.

    `target` is what the project wants of it, with `at_least` telling the direction (None: no target). `note` says
    what a reader needs to repeat or judge it, such as frame size or what was not installed.
    """

    what: str
    value: float | None
    unit: str
    target: float | None = None
    at_least: bool = True
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Tell whether the target is met; None without a target or a value."""
        if self.target is None or self.value is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target


def print_table(console: Console, group: str, rows: Sequence[Measurement]) -> None:
    """Print the rows of one group."""
    table = Table(title=group, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("")
    table.add_column("measured", justify="right")
    table.add_column("target", justify="right")
    table.add_column("")
    for row in rows:
        target = "" if row.target is None else f"{'≥' if row.at_least else '≤'} {_figure(row.target)} {row.unit}"
        value = "-" if row.value is None else f"{_figure(row.value)} {row.unit}"
        colour = {True: "green", False: "red", None: "default"}[row.met]
        table.add_row(row.what, f"[{colour}]{value}[/{colour}]", target, row.note)
    console.print(table)


def save(path: Path, groups: Iterable[tuple[str, Sequence[Measurement]]]) -> None:
    """Write all groups as JSON."""
    data = [{"group": group, **asdict(row), "met": row.met} for group, rows in groups for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1) + "\n")


def size_name(size: int) -> str:
    """Return a number of bytes as people write it: 64 B, 4 KiB, 1 MiB."""
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << shift and not size % (1 << shift):
            return f"{size >> shift} {unit}"
    return f"{size} B"


def how_calm() -> Measurement:
    """Return how busy the machine is with other things: rates and latencies count only where it is calm."""
    note = f"on {os.cpu_count()} cores; above 0.5, rates and latencies are not comparable"
    return Measurement("load average beforehand", round(os.getloadavg()[0], 2), "", note=note)


def _figure(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
