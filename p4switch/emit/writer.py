"""Lines of C with indentation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Writer:
    """Collect lines; `block` opens a brace and closes it."""

    def __init__(self, depth: int = 0) -> None:
        self._lines: list[str] = []
        self._depth = depth

    def line(self, text: str = "") -> None:
        """Append one line at the current depth."""
        self._lines.append("    " * self._depth + text if text else "")

    def trace(self, text: str) -> None:
        """Append what only a traced build of the program does: a statement without its semicolon, or a block."""
        self.line(f"P4_TRACE({text};)")

    def label(self, name: str) -> None:
        """Append a label; the empty statement lets it stand before a closing brace or a declaration."""
        self._lines.append("    " * max(self._depth - 1, 0) + f"{name}:;")

    @contextmanager
    def block(self, head: str = "", tail: str = "}") -> Iterator[None]:
        """Indent what is written inside between `head {` and `tail`."""
        self.line(f"{head} {{" if head else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line(tail)

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"
