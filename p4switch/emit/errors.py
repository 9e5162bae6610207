"""The emitter's one exception."""

from __future__ import annotations

from p4switch.ir import Loc


class EmitError(Exception):
    """Something in a valid program that cannot be turned into C: where it stands, what it is, what to do instead."""

    def __init__(self, loc: Loc | None, message: str, hint: str = "") -> None:
        self.loc = loc
        self.message = message
        self.hint = hint
        place = f"{loc}: " if loc else ""
        super().__init__(f"{place}error: {message}" + (f"\n  hint: {hint}" if hint else ""))
