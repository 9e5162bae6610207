"""Show the credits of managed links as tables for people: once, or live (`make watch`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from codec.constants import VC_COUNT
from codec.fabric import SwitchNode
from controller.credits import INIT_COUNTERS, UPDATE_COUNTERS, PortCredits
from controller.reader import PortCounters
from controller.retries import PortRetry

REFRESH_S: Final = 0.5
_WIDE: Final = 170
"""Columns from which on a terminal has room for all counters of a port; below, for the most telling ones."""
_ALL: Final = (*UPDATE_COUNTERS, *INIT_COUNTERS, "link_ups", "link_resets", "silences", "frames_held", "frames_marked")
_TELLING: Final = (*UPDATE_COUNTERS, "link_resets", "frames_held")
_RETRY: Final = ("llr_tx_ok", "llr_tx_replay", "llr_tx_replayed", "llr_rx_ok", "llr_rx_nack_ctl_os")
_RETRY_ALL: Final = (
    *_RETRY, "llr_tx_nack_ctl_os", "llr_tx_ack_ctl_os", "llr_rx_ack_ctl_os", "llr_replay_timeouts", "llr_flushes",
    "llr_rx_expected_seq_good", "llr_rx_missing_seq", "llr_rx_bad", "llr_rx_replay",
)  # fmt: skip
_RETRY_CAPTION: Final = "out: outstanding frames / outstanding_frames_max; more: make watch ARGS=--llr"
_CAPTION: Final = (
    "snd: sender_credits_limit, _used, _consumed, _freed, _used_watermark; "
    "rcv: receiver_credits_used, _consumed, _freed; held: frames that wait for the port"
)

View = Mapping[str, tuple[SwitchNode, Mapping[int, PortCredits], Mapping[int, PortCounters]]]
"""By switch: its node, the credits of its managed ports, and its counters."""


def tables(view: View, width: int = _WIDE) -> Group:
    """Return what the switches hold, for a terminal of so many columns.

    A row per port and VC in use, then a row per port with its counters, then one per port that retries.
    """
    columns = _ALL if width >= _WIDE else _TELLING
    retry_columns = _RETRY_ALL if width >= _WIDE else _RETRY
    per_vc, per_port, retrying = _vc_table(), _port_table(columns), _retry_table(retry_columns)
    for name, (node, credits, counters) in view.items():
        peers = {port.port: port.peer for port in node.ports}
        for number, port in sorted(credits.items()):
            where = f"{name} {number} {peers[number]}"
            for vc in range(VC_COUNT):
                if port.sender_credit_limit[vc] or port.receiver_credits_consumed[vc] or port.held_frames[vc]:
                    per_vc.add_row(where, *_vc_row(port, vc))
            link = counters[number].link if number in counters else {}
            figures = (str(link[column]) if column in link else "-" for column in columns)
            per_port.add_row(where, port.state.name.lower(), *figures)
            if port.retry is not None and port.retry.outstanding_frames_max:
                figures = (str(link[column]) if column in link else "-" for column in retry_columns)
                retrying.add_row(where, *_retry_state(port.retry), *figures)
    if not per_port.row_count:
        return Group(Text("No managed links here: start the fabric with `make run LINKS=managed`."))
    if not per_vc.row_count:
        return Group(Text("No virtual channel has credits yet."), per_port)
    return Group(per_vc, Text(), per_port, *((Text(), retrying) if retrying.row_count else ()))


def watch(render: Callable[[], RenderableType], console: Console, refresh_s: float = REFRESH_S) -> None:
    """Show live what `render` returns, until interrupted; it may raise ReadError."""
    with Live(console=console, auto_refresh=False, screen=console.is_terminal, vertical_overflow="crop") as live:
        while True:
            live.update(render(), refresh=True)
            time.sleep(refresh_s)


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("switch\nport peer", no_wrap=True)
    return table


def _vc_table() -> Table:
    table = _table("credits, by port and virtual channel")
    table.caption, table.caption_justify = _CAPTION, "left"
    table.add_column("vc", no_wrap=True)
    for name in (
        "snd\nlimit", "snd\nused", "snd\nconsumed", "snd\nfreed", "used_\nwater\nmark",
        "rcv\nused", "rcv\nconsumed", "rcv\nfreed", "\nheld",
    ):  # fmt: skip
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _vc_row(port: PortCredits, vc: int) -> list[str]:
    limit, used = port.sender_credit_limit[vc], port.sender_credits_used[vc]
    figures = (
        port.sender_credits_consumed, port.sender_credits_freed, port.sender_credits_used_watermark,
        port.receiver_credits_used, port.receiver_credits_consumed, port.receiver_credits_freed, port.held_frames,
    )  # fmt: skip
    shown = f"[red]{used}[/red]" if limit and used >= limit else str(used)
    return [str(vc), str(limit), shown, *(str(lanes[vc]) for lanes in figures)]


def _port_table(columns: Sequence[str]) -> Table:
    table = _table("counters, by port")
    table.add_column("state", no_wrap=True)
    for name in columns:
        table.add_column(_broken(name), justify="right", no_wrap=True)
    return table


def _retry_table(columns: Sequence[str]) -> Table:
    table = _table("link-layer retry, by port")
    table.caption, table.caption_justify = _RETRY_CAPTION, "left"
    for name in ("tx", "rx", "out", "next\nseq"):
        table.add_column(name, no_wrap=True)
    for name in columns:
        table.add_column(_broken(name), justify="right", no_wrap=True)
    return table


def _retry_state(retry: PortRetry) -> list[str]:
    """Return the states by SAI's names, what is outstanding of what may be, and the next number."""
    states = [state.name.lower().replace("_", "\n_") for state in (retry.tx_state, retry.rx_state)]
    return [*states, f"{retry.outstanding_frames}/{retry.outstanding_frames_max}", str(retry.next_seq)]


def _broken(name: str) -> str:
    """Return a counter's name on several lines, so that its column stays narrow."""
    for prefix in ("cbfc_num_", "llr_tx_", "llr_rx_"):
        name = name.replace(prefix, prefix + "\n")
    for piece in ("_update", "_messages", "_ctl_os", "_echo"):
        name = name.replace(piece, f"\n{piece}")
    if name.endswith(("_tx", "_rx")):
        name = f"{name[:-3]}\n{name[-3:]}"
    return name if "\n" in name else name.replace("_", "\n_", 1)
