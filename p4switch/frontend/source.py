"""Source files and the map from preprocessed text back to them."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from p4switch.ir import Loc


class SourceFiles:
    """The files of one compilation, as read, by the name under which diagnostics show them."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add(self, file: str, text: str) -> None:
        self._lines[file] = text.split("\n")

    def line(self, file: str, line: int) -> str:
        lines = self._lines.get(file, [])
        return lines[line - 1].rstrip("\r") if 1 <= line <= len(lines) else ""


@dataclass
class Preprocessed:
    """Preprocessed text with the origin of each of its lines.

    `origins[i]` is (file, line) of output line i. `columns[i]`, where a macro was expanded, is a list of
    (output column, source column, verbatim) in ascending order; what a macro produced maps to the macro's use.
    """

    text: str
    origins: list[tuple[str, int]]
    columns: dict[int, list[tuple[int, int, bool]]]
    sources: SourceFiles
    files: list[str] = field(default_factory=list)

    def loc(self, line: int, column: int) -> Loc:
        """Map an output line (0-based) and column (0-based) to where it came from."""
        if line >= len(self.origins):
            file, number = self.origins[-1] if self.origins else (self.files[0] if self.files else "", 1)
            return Loc(file, number, len(self.sources.line(file, number)) + 1)
        file, number = self.origins[line]
        segments = self.columns.get(line)
        if segments:
            out, source, verbatim = segments[max(0, bisect_right(segments, (column, 1 << 30, True)) - 1)]
            column = source + (column - out if verbatim else 0)
        return Loc(file, number, column + 1)
