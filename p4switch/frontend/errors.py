"""Diagnostics: what was wrong, where, and what to do.

Every phase of the front end raises or collects `Diagnostic`s; `CompileError` carries all of one run. Its text names
file, line and column, shows the source line with a caret, and ends with a hint where there is something to choose
from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from p4switch.ir import Loc

MAX_ERRORS = 20
MAX_SHOWN = 200  # characters of a source line

_TOKEN = re.compile(r'[A-Za-z_]\w*|\d\w*|"[^"\n]*"|\S')


@dataclass(frozen=True)
class Diagnostic:
    """One error: a place, one sentence, and what the author may do about it."""

    loc: Loc
    message: str
    hint: str = ""


class SourceLines(Protocol):
    """Gives the text of a line of a source file, for display."""

    def line(self, file: str, line: int) -> str: ...


class Failure(Exception):
    """Raised inside a phase to give up the construct at hand; the phase collects the diagnostic and goes on."""

    def __init__(self, loc: Loc, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(loc, message, hint)


class CompileError(Exception):
    """A program that cannot be compiled. `diagnostics` in the order of discovery; str() is made for people."""

    def __init__(self, diagnostics: Iterable[Diagnostic], sources: SourceLines | None = None) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        self._sources = sources
        super().__init__(self.diagnostics[0].message if self.diagnostics else "compilation failed")

    def __str__(self) -> str:
        return "\n".join(render(d, self._sources) for d in self.diagnostics)


class ErrorList:
    """Collects diagnostics without repeats and stops a run that has too many."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self._seen: set[tuple[Loc, str]] = set()

    def add(self, diagnostic: Diagnostic) -> None:
        key = (diagnostic.loc, diagnostic.message)
        if key not in self._seen:
            self._seen.add(key)
            self.diagnostics.append(diagnostic)
        if len(self.diagnostics) >= MAX_ERRORS:
            raise CompileError(self.diagnostics)

    def error(self, loc: Loc, message: str, hint: str = "") -> None:
        self.add(Diagnostic(loc, message, hint))


def render(diagnostic: Diagnostic, sources: SourceLines | None, severity: str = "error") -> str:
    """Format one diagnostic as compilers do: location and message, source line, caret, hint."""
    loc = diagnostic.loc
    lines = [f"{loc}: {severity}: {diagnostic.message}"]
    text = sources.line(loc.file, loc.line) if sources is not None else ""
    if text and loc.column >= 1:
        start = min(loc.column - 1, len(text))
        token = _TOKEN.match(text, start)
        width = max(1, token.end() - start if token else 1)
        if len(text) > MAX_SHOWN:  # only the surroundings of the place
            cut = max(0, start - MAX_SHOWN // 2)
            text, start = ("..." if cut else "") + text[cut : cut + MAX_SHOWN] + "...", start - cut + (3 if cut else 0)
        # Tabs are kept in front of the caret so that it stands below its token in any terminal.
        lead = "".join("\t" if c == "\t" else " " for c in text[:start])
        lines += ["    " + text.rstrip(), "    " + lead + "^" + "~" * (width - 1)]
    if diagnostic.hint:
        lines.append(f"    hint: {diagnostic.hint}")
    return "\n".join(lines)


def did_you_mean(name: str, choices: Iterable[str], what: str = "choices") -> str:
    """Give a hint for a misspelt name: the nearest of the valid choices, or a list of them when it is short."""
    import difflib

    valid = sorted({c for c in choices if c and not c.startswith("__")})
    near = [c for c in valid if c.lower() == name.lower()]
    near = near or difflib.get_close_matches(name, valid, n=1, cutoff=0.6)
    listing = f"{what}: {', '.join(valid)}" if 0 < len(valid) <= 12 else ""
    if near:
        return f"did you mean '{near[0]}'?" + (f" ({listing})" if listing and len(valid) > 1 else "")
    return listing
