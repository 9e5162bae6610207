"""Table entries by P4 names, in a form that can be compared."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One table entry by P4 names, in a form that can be compared: fields and parameters as (name, value) pairs.

    `table` and `action` are the aliases of P4Info. All tables that the controller fills have exact keys.
    """

    table: str
    match: tuple[tuple[str, int], ...]
    action: str
    params: tuple[tuple[str, int], ...] = ()

    @property
    def key(self) -> tuple[str, tuple[tuple[str, int], ...]]:
        """What identifies the entry on its switch: the table and the matched values."""
        return self.table, self.match

    def __str__(self) -> str:
        match = ", ".join(f"{name}={value}" for name, value in self.match)
        params = ", ".join(f"{name}={value}" for name, value in self.params)
        return f"{self.table}({match}) -> {self.action}({params})"


def entry(table: str, match: dict[str, int], action: str, **params: int) -> Entry:
    """Make an entry; fields and parameters are kept in alphabetical order, so that equal entries compare equal."""
    return Entry(table, tuple(sorted(match.items())), action, tuple(sorted(params.items())))
