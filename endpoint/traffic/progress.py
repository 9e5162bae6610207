"""A progress bar on a terminal, and nothing anywhere else."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_REDRAW_S: Final = 0.1


class Progress:
    """Shows how far a pattern is; `total` is in the unit that `advance` counts in."""

    def __init__(self, title: str, total: float, shown: bool) -> None:
        self._title = title
        self._total = total
        self._bar: Bar | None = None
        self._task = 0
        self._done = 0.0
        self._drawn = 0.0
        if shown and sys.stdout.isatty():
            self._bar = _bar()

    def advance(self, amount: float = 1) -> None:
        """Count what was done."""
        self._done += amount
        if self._bar is not None and (now := time.monotonic()) - self._drawn >= _REDRAW_S:
            self._drawn = now
            self._bar.update(self._task, completed=min(self._done, self._total))  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=self._total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            if error is None:
                self._bar.update(self._task, completed=self._total)  # type: ignore[arg-type]
            self._bar.stop()


def _bar() -> Bar:
    # Rich takes a tenth of a second to import: only who shows something pays for it.
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TimeElapsedColumn(),
    )
