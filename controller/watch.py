"""Show the credits of managed links as tables for people: once, or live (`make watch`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from codec.constants import VC_COUNT
from codec.fabric import SwitchNode
from controller.credits import INIT_COUNTERS, UPDATE_COUNTERS, PortCredits
from controller.reader import PortCounters

REFRESH_S: Final = 0.5
_PORT_COLUMNS: Final = (*UPDATE_COUNTERS, *INIT_COUNTERS, "link_ups", "link_resets", "silences", "frames_held",
                        "frames_marked")  # fmt: skip

View = Mapping[str, tuple[SwitchNode, Mapping[int, PortCredits], Mapping[int, PortCounters]]]
"""By switch: its node, the credits of its managed ports, and its counters."""


def tables(view: View) -> Group:
    """Return what the switches hold: a row per port and VC in use, then a row per port with its counters."""
    per_vc, per_port = _vc_table(), _port_table()
    for name, (node, credits, counters) in view.items():
        peers = {port.port: port.peer for port in node.ports}
        for number, port in sorted(credits.items()):
            for vc in range(VC_COUNT):
                if port.sender_credit_limit[vc] or port.receiver_credits_consumed[vc] or port.held_frames[vc]:
                    per_vc.add_row(*_vc_row(name, peers[number], port, vc))
            link = counters[number].link if number in counters else {}
            per_port.add_row(
                name, str(number), peers[number], port.state.name.lower(),
                *(f"{link[column]:,}" if column in link else "-" for column in _PORT_COLUMNS),
            )  # fmt: skip
    if not per_port.row_count:
        return Group(Text("No managed links here: start the fabric with `make run LINKS=managed`."))
    if not per_vc.row_count:
        return Group(Text("No virtual channel has credits yet."), per_port)
    return Group(per_vc, per_port)


def watch(read: Callable[[], View], console: Console, refresh_s: float = REFRESH_S) -> None:
    """Show the tables live until interrupted; `read` gets what they show and may raise ReadError."""
    with Live(console=console, auto_refresh=False, screen=console.is_terminal, vertical_overflow="crop") as live:
        while True:
            live.update(tables(read()), refresh=True)
            time.sleep(refresh_s)


def _vc_table() -> Table:
    table = Table(
        title="credits, by port and virtual channel", title_justify="left", title_style="bold", box=SIMPLE_HEAD
    )
    for name in ("switch", "port", "peer", "state", "vc"):
        table.add_column(name)
    for group, names in (
        ("sender_credits", ("limit", "used", "consumed", "freed", "used_watermark")),
        ("receiver_credits", ("used", "consumed", "freed")),
        ("frames", ("held",)),
    ):
        for name in names:
            table.add_column(f"{group}\n{name}".replace("_credit", "\n_credit", 1), justify="right", no_wrap=True)
    return table


def _vc_row(switch: str, peer: str, port: PortCredits, vc: int) -> list[str]:
    limit, used = port.sender_credit_limit[vc], port.sender_credits_used[vc]
    shown = f"[red]{used:,}[/red]" if limit and used >= limit else f"{used:,}"
    return [
        switch, str(port.port), peer, port.state.name.lower(), str(vc), f"{limit:,}", shown,
        f"{port.sender_credits_consumed[vc]:,}", f"{port.sender_credits_freed[vc]:,}",
        f"{port.sender_credits_used_watermark[vc]:,}", f"{port.receiver_credits_used[vc]:,}",
        f"{port.receiver_credits_consumed[vc]:,}", f"{port.receiver_credits_freed[vc]:,}",
        f"{port.held_frames[vc]:,}",
    ]  # fmt: skip


def _port_table() -> Table:
    table = Table(title="counters, by port", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name in ("switch", "port", "peer", "state"):
        table.add_column(name)
    for name in _PORT_COLUMNS:
        table.add_column(_broken(name), justify="right", no_wrap=True)
    return table


def _broken(name: str) -> str:
    """Return a counter's name on several lines, so that its column stays narrow."""
    for end in ("_messages_tx", "_messages_rx", "_ctl_os"):
        if name.endswith(end):
            start = name.removesuffix(end)
            break
    else:
        return name.replace("_", "_\n", 1)
    for prefix in ("cbfc_num_", "llr_tx_", "llr_rx_"):
        if start.startswith(prefix):
            return "\n".join((prefix, start.removeprefix(prefix), end))
    return name
