"""Translate between the controller's entries and P4Runtime table entries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import finsy as fy

from controller.entries import Entry, entry
from controller.packets import DROP_REASONS, PROBE_REASON

PACKET_INS_PER_S: Final = 500
PACKET_IN_BURST: Final = 100


def to_p4(item: Entry) -> fy.P4TableEntry:
    """Return the P4Runtime form of an entry."""
    return fy.P4TableEntry(
        item.table, match=fy.Match(dict(item.match)), action=fy.Action(item.action, **dict(item.params))
    )


def from_p4(item: fy.P4TableEntry) -> Entry:
    """Return the comparable form of what a switch holds."""
    action = item.action
    if isinstance(action, fy.P4TableAction):
        return entry(item.table_id, dict(item.match or {}), action.name, **action.args)
    return entry(item.table_id, dict(item.match or {}), "(no action)")


def packet_in_limits() -> list[fy.P4MeterEntry]:
    """Return what bounds the packet-ins of each reason: a flood of one neither drowns the others nor the controller."""
    limit = fy.P4MeterConfig(cir=PACKET_INS_PER_S, cburst=PACKET_IN_BURST, pir=PACKET_INS_PER_S, pburst=PACKET_IN_BURST)
    return [fy.P4MeterEntry("packet_in_rate", index=reason, config=limit) for reason in (*DROP_REASONS, PROBE_REASON)]


def drift(intended: Iterable[Entry], actual: Iterable[Entry]) -> list[str]:
    """Return how a switch differs from what the controller means it to hold: one line for each entry, sorted."""
    want = {item.key: item for item in intended}
    have = {item.key: item for item in actual}
    lines = [f"missing: {item}" for key, item in want.items() if key not in have]
    lines += [f"added: {item}" for key, item in have.items() if key not in want]
    lines += [f"changed: {item} (the controller installed {want[key]})" for key, item in have.items()
              if key in want and item != want[key]]  # fmt: skip
    return sorted(lines)
