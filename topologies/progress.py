"""Say what the launcher is doing, one line per step, with the time that it took."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape


def count(number: int, thing: str) -> str:
    """Return a number with its noun: 1 switch, 2 switches."""
    plural = "es" if thing.endswith("ch") else "s"
    return f"{number:,} {thing}{'' if number == 1 else plural}"


class Step:
    """One step under way; `done` sets what its line will say."""

    def __init__(self) -> None:
        self.text = ""

    def done(self, text: str) -> None:
        """Set the line's text."""
        self.text = text


class Progress:
    """Lines for people on standard output: a spinner on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console if console is not None else Console(highlight=False)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time a step and print its line when it ends well."""
        step = Step()
        started = time.monotonic()
        with self.console.status(f"{name} ..."):
            yield step
        took = time.monotonic() - started
        self.console.print(f"  [bold]{name:<11}[/bold] {escape(step.text):<58} [dim]{took:5.1f} s[/dim]")

    def say(self, text: str) -> None:
        """Print a line of markup."""
        self.console.print(text)

    def warn(self, text: str) -> None:
        """Print a warning."""
        self.console.print(f"[yellow]warning:[/yellow] {escape(text)}")
