"""Write one record per conformance case: what was expected, what was measured, and whether they agree.

Two rules decide, as docs/conformance.md has them: a counter must be exact; a rate must differ from its theoretical
value by less than 5%. A record passes when all of its figures do.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

TOLERANCE: Final = 0.05
COLUMNS: Final = (
    "timestamp", "case", "frame_size", "configuration", "expected", "measured", "result", "notes",
)  # fmt: skip
"""Of a record, in JSON and in CSV."""


class Rule(StrEnum):
    """When a measured figure agrees with the expected one."""

    EXACT = "exact"
    WITHIN_5_PERCENT = "within 5%"
    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True)
class Figure:
    """One figure of a record."""

    name: str
    """Counters by SAI's names, in lower case."""
    expected: float | str
    measured: float | str
    unit: str
    rule: Rule = Rule.EXACT

    @property
    def passed(self) -> bool:
        """Whether the measured value agrees with the expected one."""
        if self.rule is Rule.EXACT:
            return self.measured == self.expected
        expected, measured = float(self.expected), float(self.measured)
        match self.rule:
            case Rule.AT_LEAST:
                return measured >= expected
            case Rule.AT_MOST:
                return measured <= expected
        return near(expected, measured)


def near(expected: float, measured: float) -> bool:
    """Tell whether a measured value differs from the theoretical one by less than 5%."""
    return abs(measured - expected) < TOLERANCE * abs(expected) or measured == expected


def exact(name: str, expected: float, measured: float, unit: str = "credits") -> Figure:
    """Return the figure of a counter: it must be exact."""
    return Figure(name, expected, measured, unit)


def state(name: str, expected: str, measured: str) -> Figure:
    """Return the figure of a state, by SAI's name in lower case."""
    return Figure(name, expected, measured, "(state)")


def close(name: str, expected: float, measured: float, unit: str) -> Figure:
    """Return a figure that may differ from its theoretical value by less than 5%, such as a rate."""
    return Figure(name, round(expected, 1), round(measured, 1), unit, Rule.WITHIN_5_PERCENT)


def at_least(name: str, expected: float, measured: float, unit: str = "credits") -> Figure:
    """Return a figure with a lower bound."""
    return Figure(name, expected, measured, unit, Rule.AT_LEAST)


def at_most(name: str, expected: float, measured: float, unit: str = "credits") -> Figure:
    """Return a figure with an upper bound."""
    return Figure(name, expected, measured, unit, Rule.AT_MOST)


@dataclass(frozen=True)
class Record:
    """What became of one case with one frame size and configuration."""

    case: str
    frame_size: int | None
    """Bytes after the link header; None where sizes differ or do not matter."""
    configuration: dict[str, Any]
    figures: tuple[Figure, ...]
    notes: str = ""
    timestamp: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))

    @property
    def passed(self) -> bool:
        """Whether every figure agrees; a record without figures proves nothing and has not passed."""
        return bool(self.figures) and all(figure.passed for figure in self.figures)

    def row(self) -> dict[str, Any]:
        """Return the record by COLUMNS: expected and measured are tables of figures with their units."""
        return {
            "timestamp": self.timestamp,
            "case": self.case,
            "frame_size": self.frame_size,
            "configuration": self.configuration,
            "expected": {
                f.name: {"value": f.expected, "unit": f.unit, "rule": f.rule.value} for f in self.figures
            },
            "measured": {f.name: {"value": f.measured, "unit": f.unit} for f in self.figures},
            "result": "pass" if self.passed else "fail",
            "notes": self.notes,
        }  # fmt: skip

    def failures(self) -> str:
        """Return the figures that do not agree, in words."""
        wrong = [f"{f.name} = {_text(f.measured, f.unit)} instead of {_bound(f)}" for f in self.figures if not f.passed]
        return "; ".join(wrong) or ("" if self.figures else "nothing was measured")

    def to_line(self) -> str:
        """Return the record as one line of JSON, from which `from_line` makes it again."""
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> Record:
        """Make a record from its line."""
        data = json.loads(line)
        figures = tuple(Figure(**{**one, "rule": Rule(one["rule"])}) for one in data.pop("figures"))
        return cls(**data, figures=figures)


class Journal:
    """The file to which the process that runs the cases adds records, and from which the runner reads them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def add(self, record: Record) -> None:
        """Add a record; it is on disk when this returns."""
        with self._path.open("a") as file:
            file.write(record.to_line() + "\n")

    def new(self) -> list[Record]:
        """Return the records added since the last call; a line still being written is left for the next."""
        if not self._path.exists():
            return []
        with self._path.open() as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind("\n") + 1]
        self._read += len(whole)
        return [Record.from_line(line) for line in whole.splitlines()]


def write_json(path: Path, records: Iterable[Record], **about: Any) -> None:
    """Write records, and what else is to be known of the run, as JSON."""
    data = {**about, "records": [record.row() for record in records]}
    path.write_text(json.dumps(data, indent=1) + "\n")


def write_csv(path: Path, records: Sequence[Record]) -> None:
    """Write records as CSV, one per row; tables within a cell as `name=value unit; ...`."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for record in records:
            row = record.row()
            row["frame_size"] = "" if record.frame_size is None else record.frame_size
            row["configuration"] = "; ".join(f"{name}={value}" for name, value in record.configuration.items())
            row["expected"] = "; ".join(f"{figure.name}={_bound(figure)}" for figure in record.figures)
            row["measured"] = "; ".join(f"{f.name}={_text(f.measured, f.unit)}" for f in record.figures)
            writer.writerow(row)


def _text(value: float | str, unit: str) -> str:
    return f"{value:g} {unit}".rstrip() if isinstance(value, float) else f"{value} {unit}".rstrip()


def _bound(figure: Figure) -> str:
    mark = {Rule.AT_LEAST: ">= ", Rule.AT_MOST: "<= ", Rule.WITHIN_5_PERCENT: "~ "}.get(figure.rule, "")
    return mark + _text(figure.expected, figure.unit)
