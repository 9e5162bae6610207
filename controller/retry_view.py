"""Show the link-layer retry of managed links in full, under SAI's names: a column per port, a row per figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from codec.fabric import SwitchNode
from controller.credits import INIT_COUNTERS, LOSS_COUNTERS, RETRY_COUNTERS, PortCredits
from controller.reader import PortCounters
from controller.retries import PortRetry, RetryProfile

NONE: Final = "-"
"""What this switch does not have, or has not told."""
STATES: Final = (
    "tx_state", "rx_state", "outstanding_frames", "outstanding_bytes", "next_seq", "unacknowledged_seq", "replay_seq",
    "replays", "expected_seq",
)  # fmt: skip
"""Of a session; replays are those in a row without progress."""
ABSENT: Final = ("pcs_lost_timeout", "data_age_timeout", "ctlos_target_spacing")
"""SAI's attributes that have no counterpart here (docs/llr.md)."""
PROFILE: Final = (
    "outstanding_frames_max", "outstanding_bytes_max", "replay_timer_max", "replay_count_max", "init_frame_action",
    "flush_frame_action", "re_init_on_flush", *ABSENT, "degraded_replays",
)  # fmt: skip
"""SAI's attributes of an LLR profile, and this switch's own."""
DROPS: Final = ("llr_rx_duplicate_seq", "llr_out_of_sequence", "llr_flushed", "bad_retry_profile")
"""Drop reasons of link-layer retry."""
SAI_COUNTERS: Final = (
    *INIT_COUNTERS,
    "llr_tx_ack_ctl_os", "llr_rx_ack_ctl_os", "llr_tx_nack_ctl_os", "llr_rx_nack_ctl_os",
    "llr_tx_ok", "llr_tx_poisoned", "llr_tx_discard", "llr_tx_replay",
    "llr_rx_ok", "llr_rx_poisoned", "llr_rx_bad", "llr_rx_expected_seq_good", "llr_rx_expected_seq_poisoned",
    "llr_rx_expected_seq_bad", "llr_rx_missing_seq", "llr_rx_duplicate_seq", "llr_rx_replay",
    "llr_rx_ack_nack_seq_error",
)  # fmt: skip
OWN_COUNTERS: Final = tuple(name for name in (*RETRY_COUNTERS, *LOSS_COUNTERS, *DROPS) if name not in SAI_COUNTERS)
_COLUMN: Final = 14
"""Characters of a port's column at most, with the gap before it."""
_NAMES: Final = 30


class PortView(NamedTuple):
    """What there is to show of one port."""

    where: str
    retry: PortRetry | None
    profile: RetryProfile | None
    counters: PortCounters


def retry_tables(
    view: Mapping[str, tuple[SwitchNode, Mapping[int, PortCredits], Mapping[int, PortCounters]]],
    profiles: Mapping[str, Mapping[int, RetryProfile]],
    width: int,
) -> Group:
    """Return the tables for a terminal of so many columns: all managed ports, some beside each other.

    `profiles` are those that ports have, by switch.
    """
    ports = []
    for name, (node, credits, counters) in view.items():
        peers = {port.port: port.peer for port in node.ports}
        for number in sorted({port.port for port in node.ports if port.mode == "managed"}):
            retry = credits[number].retry if number in credits else None
            profile = profiles.get(name, {}).get(number)
            where = f"{name} {number}\n{peers[number]}"
            ports.append(PortView(where, retry, profile, counters.get(number, PortCounters())))
    if not ports:
        return Group(Text("No managed links here: start the fabric with `make run LINKS=managed`."))
    beside = max(1, (width - _NAMES) // _COLUMN)
    parts: list[RenderableType] = []
    for first in range(0, len(ports), beside):
        parts += [_table(ports[first : first + beside]), Text()]
    return Group(*parts[:-1])


def _table(ports: list[PortView]) -> Table:
    table = Table(title="link-layer retry, by port", title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.padding = (0, 1, 0, 0)
    table.caption, table.caption_justify = f"{NONE}: not here, or not told; docs/llr.md", "left"
    table.add_column("switch port\npeer", no_wrap=True)
    for port in ports:
        table.add_column(port.where, justify="right", no_wrap=True)
    for heading, names, of in (
        ("state", STATES, _state),
        ("profile", PROFILE, _attribute),
        ("counters", SAI_COUNTERS, _counter),
        ("counters of this switch", OWN_COUNTERS, _counter),
    ):
        table.add_row(Text(heading, "dim"))
        for name in names:
            table.add_row(f" {name}", *(of(port, name) for port in ports))
    return table


def _state(port: PortView, name: str) -> str:
    if port.retry is None:
        return NONE
    value = getattr(port.retry, name)
    return value.name.lower() if name.endswith("state") else str(value)


def _attribute(port: PortView, name: str) -> str:
    if port.profile is None or name in ABSENT:
        return NONE
    value = getattr(port.profile, name)
    if name == "replay_timer_max":
        return f"{value} us"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _counter(port: PortView, name: str) -> str:
    if name in DROPS:
        return str(port.counters.drops.get(name, 0))
    return str(port.counters.link.get(name, NONE))
