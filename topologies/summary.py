"""Turn what the ranks and the switches report into a summary: a table for people, summary.json for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from codec.fabric import Fabric
from controller.reader import PortCounters
from endpoint.training.figures import training_figures
from topologies.errors import LaunchError
from topologies.progress import count
from topologies.ranks import Phase, RankResult
from topologies.training import training_table

if TYPE_CHECKING:
    from topologies.bad_link import BadLinkResult
    from topologies.comparison import Compared
    from topologies.failover import FailoverResult

TOTALS = ("transactions", "bytes_verified", "bytes_wrong", "frames_lost", "frames_retransmitted")


@dataclass(frozen=True)
class PhaseResult:
    """One phase: what ran, how long it took (s), and what became of each rank."""

    phase: Phase
    duration_s: float
    ranks: list[RankResult]

    @property
    def ok(self) -> bool:
        """Tell whether every rank ended well."""
        return all(rank.status == 0 for rank in self.ranks)


@dataclass
class Summary:
    """Everything that a run found out; `data` is what summary.json holds."""

    data: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Tell whether the run did what it was to do."""
        return bool(self.data["ok"])

    def compare(self, compared: Compared) -> None:
        """Add both sides of a comparison; it is their shortfalls that decide whether the run did what it was to do.

        `frames_lost` becomes that of the side with credits, where nothing may be lost.
        """
        self.data["credits_on"], self.data["credits_off"] = compared.on.to_json(), compared.off.to_json()
        self.data["frames_lost"] = compared.on.frames_lost
        self.data["failures"] = compared.failures
        self.data["ok"] = bool(self.data["ok"]) and not compared.failures

    def fail_over(self, result: FailoverResult) -> None:
        """Add what a failover run found; what it falls short of decides whether the run did what it was to do.

        A byte that was lost or took effect twice is a byte in the wrong place.
        """
        self.data |= result.figures
        self.data["failures"] = result.failures
        self.data["ok"] = bool(self.data["ok"]) and not result.failures

    def retry(self, result: BadLinkResult) -> None:
        """Add what a run with bad links found; what it falls short of decides whether the run did what it was to do.

        `frames_lost` becomes that of the links with retry, where nothing may be lost.
        """
        self.data |= result.to_json()
        self.data["frames_lost"] = sum(figures.lost for figures in result.on.cases.values())
        self.data["failures"] = result.failures
        self.data["ok"] = bool(self.data["ok"]) and not result.failures

    def save(self, path: Path) -> None:
        """Write summary.json. Raises LaunchError when the disk does not take it."""
        try:
            path.write_text(json.dumps(self.data, indent=1) + "\n")
        except OSError as error:
            raise LaunchError(f"cannot write {path}: {error.strerror}") from None


def summarise(
    *,
    scenario: str,
    topology: str,
    target: str,
    started: float,
    phases: Sequence[PhaseResult],
    counters: Mapping[str, Mapping[int, PortCounters]],
) -> Summary:
    """Add up the ranks' reports and the switches' counters.

    `started` is the Unix time at which the user asked for the run: `first_verified_s` counts from there (null when no
    byte was verified). `frames_lost` is what the ranks report as lost for good; what they had to send again is
    `frames_retransmitted`, and what the switches refused is `frames_dropped`, by reason under `drops`.
    """
    reports = [rank.report for result in phases for rank in result.ranks]
    totals = {name: sum(int(report.get(name, 0)) for report in reports) for name in TOTALS}
    firsts = [report["first_verified_at"] for report in reports if report.get("first_verified_at")]
    drops: Counter[str] = Counter()
    for ports in counters.values():
        for port in ports.values():
            drops.update(port.drops)
    training = training_figures(reports)
    return Summary(
        {
            "scenario": scenario,
            "topology": topology,
            "target": target,
            "ok": bool(phases) and all(result.ok for result in phases) and totals["bytes_wrong"] == 0,
            "duration_s": round(sum(result.duration_s for result in phases), 3),
            **totals,
            "first_verified_s": round(min(firsts) - started, 3) if firsts else None,
            "frames_dropped": sum(drops.values()),
            "drops": dict(sorted(drops.items())),
            **({"training": training} if training else {}),
            "phases": [
                {
                    "name": result.phase.name,
                    "ok": result.ok,
                    "duration_s": round(result.duration_s, 3),
                    "gpus": {rank.gpu: {"status": rank.status, **_shown(rank.report)} for rank in result.ranks},
                }
                for result in phases
            ],
            "switches": {
                name: {str(number): asdict(port) for number, port in ports.items()} for name, ports in counters.items()
            },
        }
    )


def print_summary(console: Console, summary: Summary, fabric: Fabric) -> None:
    """Print the tables and the verdict."""
    data = summary.data
    for phase in data["phases"]:
        if any(rank.get("flows") for rank in phase["gpus"].values()) and phase["ok"]:
            continue  # the comparison has their figures
        if any(rank.get("transactions") is not None for rank in phase["gpus"].values()):
            console.print(_phase_table(phase))
            continue
        failed = [f"{gpu} (status {rank['status']})" for gpu, rank in phase["gpus"].items() if rank["status"]]
        console.print(
            f"\n{phase['name']}: " + (f"failed on {', '.join(failed)}" if failed else "ended well on every GPU")
        )
    if "training" in data:
        console.print(training_table(data["training"]))
    if data["switches"]:
        console.print(_switch_table(data["switches"], fabric))
    if "credits_on" in data:
        console.print(_comparison_table(data["credits_on"], data["credits_off"]))
    if "speedup_over_timeouts" in data:
        console.print(_failover_table(data))
    if "llr_on" in data:
        console.print(_bad_link_table(data))
    for line in data.get("failures", ()):
        console.print(f"[red]falls short:[/red] {line}")
    parts = [f"{data['scenario']}, {data['duration_s']:.1f} s"]
    if data["transactions"]:
        parts += [
            f"{data['transactions']:,} transactions", f"{data['bytes_verified']:,} bytes verified",
            f"{data['bytes_wrong']:,} wrong", f"{data['frames_lost']:,} frames lost",
        ]  # fmt: skip
    verdict = "[bold green]ok[/bold green]" if summary.ok else "[bold red]FAILED[/bold red]"
    console.print(f"\n{verdict}: {', '.join(parts)}", soft_wrap=True)
    if data["first_verified_s"] is not None:
        console.print(f"First byte verified {data['first_verified_s']:.1f} s after the start.")


def _comparison_table(on: Mapping[str, Any], off: Mapping[str, Any]) -> Table:
    table = Table(title="\nwith credits and without", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("")
    table.add_column("credits on", justify="right")
    table.add_column("credits off", justify="right")
    rows: list[tuple[str, str, str]] = [
        ("frames lost", "frames_lost", ",.0f"),
        ("  sent again", "frames_retransmitted", ",.0f"),
        ("  links fell silent", "link_resets", ",.0f"),
        ("requests/s", "requests_per_s", ",.0f"),
        ("goodput, of what the slowest can carry", "goodput_ratio", ".1%"),
        ("  control frames take, of all it carries", "control_share", ".1%"),
        ("fairness (Jain)", "jain", ".4f"),
        ("latency p50, µs", "latency_us_p50", ",.0f"),
        ("latency p99, µs", "latency_us_p99", ",.0f"),
        ("greatest buffer use", "buffer_peak_ratio", ".0%"),
        ("neighbours keep, of their rate", "neighbours_ratio", ".1%"),
    ]
    for title, key, style in rows:
        if on[key] is not None:
            table.add_row(title, format(on[key], style), format(off[key], style))
    return table


def _failover_table(data: Mapping[str, Any]) -> Table:
    title = f"\n{data['cuts']} cuts, from the loss of the carrier, µs"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for column in ("", "p50", "p99", "max"):
        table.add_column(column, justify="right" if column else "left")
    rows = {
        "first EVENT frame at a GPU": "event_us",
        "every other GPU has one": "notified_us",
        "every GPU has sent anew": "moved_us",
        "longest access to or from the GPU": "stall_us",
        f"  with time-outs alone ({data['cuts_without_events']} cuts)": "timeouts_stall_us",
    }
    for row, name in rows.items():
        table.add_row(row, *(_number(data[f"{name}_{key}"]) for key in ("p50", "p99", "max")))
    table.caption_justify = "left"
    table.caption = (
        f"{data['moved']:,} requests and blocks sent anew; "
        f"{data['bytes_lost']:,} bytes lost, {data['bytes_doubled']:,} doubled; "
        f"{_number(data['speedup_over_timeouts'])} times as fast as time-outs; "
        f"the machine was {data['processor_share']:.0%} busy"
    )
    return table


def _bad_link_table(data: Mapping[str, Any]) -> Table:
    title = "\nlinks that lose frames, with link-layer retry and without"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for column in ("loss", "", "lost above", "goodput", "p50 ms", "p99", "p99.9", "replays", "per loss"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    latencies = ("latency_us_p50", "latency_us_p99", "latency_us_p99_9")
    for loss in data["llr_on"]:
        for row, side in (("retry", "llr_on"), ("none", "llr_off")):
            one = data[side][loss]
            lost = f"{one['effective_loss']:.1e}" if one["frames_lost"] else "0"
            per_loss = "-" if one["replays_per_loss"] is None else f"{one['replays_per_loss']:.2f}"
            milliseconds = [f"{one[name] / 1000:,.1f}" for name in latencies]
            shown = loss if side == "llr_on" else ""
            table.add_row(
                shown, row, lost, f"{one['goodput_ratio']:.1%}", *milliseconds, f"{one['replays']:,}", per_loss
            )
    table.caption_justify = "left"
    lines = []
    for semantics, on in data["last_frame"]["llr_on"].items():
        off = data["last_frame"]["llr_off"][semantics]
        lines.append(
            f"last frames, {semantics.replace('_', '/')}: of {on['frames_dropped_by_links']:,} that links dropped "
            f"{on['frames_lost']:,} were sent again end to end, p99 {on['latency_us_p99'] / 1000:,.1f} ms; "
            f"without retry {off['frames_lost']:,} of {off['frames_dropped_by_links']:,}, "
            f"{off['latency_us_p99'] / 1000:,.1f} ms"
        )
    lines.append(f"{data['llr_frames']:,} frames on the links with retry; goodput: of that of clean links")
    table.caption = "\n".join(lines)
    return table


def _phase_table(phase: Mapping[str, Any]) -> Table:
    table = Table(title=f"\n{phase['name']}", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("GPU")
    columns = {
        "transactions": "transactions",
        "bytes verified": "bytes_verified",
        "wrong": "bytes_wrong",
        "sent again": "frames_retransmitted",
        "p50 µs": "latency_us_p50",
        "p99 µs": "latency_us_p99",
    }
    for title in columns:
        table.add_column(title, justify="right")
    answering = 0
    for gpu, rank in phase["gpus"].items():
        if rank["status"] == 0 and rank.get("transactions") == 0:
            answering += 1
            continue
        name = gpu if rank["status"] == 0 else f"[red]{gpu} failed[/red]"
        table.add_row(name, *(_number(rank.get(key)) for key in columns.values()))
    if answering:
        table.caption, table.caption_justify = f"{count(answering, 'other GPU')} answered", "left"
    return table


_COMING_UP = ("link_not_up", "unknown_port", "unknown_source")
"""Drop reasons of what comes while tables are filled and links come up: the links' own frames, for the most part."""


def _switch_table(switches: Mapping[str, Mapping[str, Mapping[str, Any]]], fabric: Fabric) -> Table:
    table = Table(title="\nswitches, as they count", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("switch")
    columns = {"frames in": "rx_frames", "bytes in": "rx_bytes", "frames out": "tx_frames", "bytes out": "tx_bytes"}
    for title in columns:
        table.add_column(title, justify="right")
    table.add_column("dropped", overflow="fold")
    seen: set[str] = set()
    for node in fabric.switches:
        ports = switches.get(node.name)
        if ports is None:
            table.add_row(node.name, *["?"] * 4, "not read")
            continue
        drops: Counter[str] = Counter()
        for port in ports.values():
            drops.update(port["drops"])
        sums = [sum(port[key] for port in ports.values()) for key in columns.values()]
        seen |= drops.keys()
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in drops.most_common())
        table.add_row(node.name, *(f"{value:,}" for value in sums), reasons or "0")
    usual = [reason for reason in _COMING_UP if reason in seen]
    if usual:
        table.caption_justify = "left"
        table.caption = f"{', '.join(usual)}: what came before a link was up, the link's own frames included"
    return table


def _shown(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rank's report without what is only there to be added up."""
    hidden = ("latency_counts", "failover", "phases")
    return {name: value for name, value in report.items() if name not in hidden}


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if isinstance(value, (int, float)) else str(value)
