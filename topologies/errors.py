"""Carry what went wrong to the person at the keyboard: one message, and what to do about it."""

from __future__ import annotations


class LaunchError(Exception):
    """Report a fault that the user can act on; shown without a traceback.

    `hint` is the next thing to try, `details` are lines to quote below the message (the end of a log, say).
    """

    def __init__(self, message: str, hint: str = "", details: list[str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details or []

    def __str__(self) -> str:
        lines = [self.message, *(f"    {line}" for line in self.details)]
        if self.hint:
            lines.append(self.hint)
        return "\n".join(lines)


class TopologyError(LaunchError, ValueError):
    """Report a topology that cannot be built."""
