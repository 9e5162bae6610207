"""Draw what credits and buffers did over time, with credits and without; and what bad links cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from controller.credits import PortCredits
    from topologies.bad_link import BadLinkResult
    from topologies.comparison import Compared
    from topologies.monitor import Sample

PLOT_FILE: Final = "credits.png"
BAD_LINK_PLOT_FILE: Final = "bad-link.png"
_REQUESTS: Final = 0
"""The virtual channel that is drawn: requests are what piles up."""
_LINES_SHOWN: Final = 10
_LOST_SCALE: Final = 10
"""So that the lost ones fit beside those that wait."""
_TRAFFIC: Final = 20
"""Frames in the switches from which on there is traffic."""


def plot_credits(path: Path, title: str, compared: Compared) -> None:
    """Write a PNG: credits in use per port, what the switches' own buffers hold, and frames in less frames out."""
    # Loaded here alone: most runs draw nothing, and it takes half a second.
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (sent, kept, inside) = plt.subplots(3, 1, sharex=True, figsize=(9, 9), layout="constrained")
    figure.suptitle(f"{title}: requests (VC {_REQUESTS}), with credits and without")
    on, off = compared.on.samples, compared.off.samples
    _draw_sent(sent, on)
    _draw_kept(kept, on)
    for samples, label in ((on, "credits on: queued or held"), (off, "credits off: queued")):
        inside.plot(_times(samples), [sum(s.inside.values()) for s in samples], label=label)
    lost = [sum(s.dropped.values()) for s in off]
    if any(lost):
        inside.plot(_times(off), [count / _LOST_SCALE for count in lost], "--", label="credits off: lost so far, / 10")
    inside.set_title("frames in the switches")
    inside.set_ylabel("frames")
    inside.set_xlabel("seconds of traffic")
    inside.legend(loc="upper left", fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def plot_bad_link(path: Path, result: BadLinkResult) -> None:
    """Write a PNG: loss above the links, goodput and latency over the links' loss, with link-layer retry and without.

    A loss of 0 is drawn on the axis.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (lost, goodput, latency) = plt.subplots(3, 1, sharex=True, figsize=(8, 9), layout="constrained")
    figure.suptitle("links that lose frames, with link-layer retry and without")
    for side, label in ((result.on, "retry"), (result.off, "none")):
        data = {float(loss): figures for loss, figures in side.to_json().items()}
        losses = sorted(data)
        lost.plot(losses, [data[loss]["effective_loss"] for loss in losses], "o-", label=label)
        goodput.plot(losses, [data[loss]["goodput_ratio"] for loss in losses], "o-", label=label)
        for key, line in (("latency_us_p50", "o-"), ("latency_us_p99", "s--"), ("latency_us_p99_9", "^:")):
            percent = key.removeprefix("latency_us_").replace("_", ".")
            latency.plot(losses, [data[loss][key] for loss in losses], line, label=f"{label}, {percent}")
    lost.set_xscale("log")
    lost.set_yscale("symlog", linthresh=1e-6)
    lost.set_ylabel("share lost above the links")
    goodput.set_ylim(bottom=0)
    goodput.set_ylabel("goodput, of clean links'")
    latency.set_yscale("log")
    latency.set_ylabel("latency, µs")
    latency.set_xlabel("frames lost by the links")
    for axes in (lost, goodput, latency):
        axes.legend(fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_sent(axes: Axes, samples: list[Sample]) -> None:
    """Credits in use at the peers of the busiest ports."""
    axes.set_title("credits on: the peers' buffers, as the switches see them (sender_credits_used)")
    axes.set_ylabel("credits")
    lines = _lines(samples, lambda port: port.sender_credits_used[_REQUESTS])
    for label, points in lines:
        axes.plot(_times(samples), points, label=label)
    limits = [p.sender_credit_limit[_REQUESTS] for s in samples for ports in s.credits.values() for p in ports.values()]
    if limits:
        axes.axhline(max(limits), linestyle="--", color="black", label="limit")
        axes.legend(loc="upper right", fontsize="small")


def _draw_kept(axes: Axes, samples: list[Sample]) -> None:
    """What the switches' own buffers hold."""
    axes.set_title("credits on: the switches' own buffers (receiver_credits_used)")
    axes.set_ylabel("credits")
    lines = _lines(samples, lambda port: port.receiver_credits_used[_REQUESTS])
    for label, points in lines:
        axes.plot(_times(samples), points, label=label)
    if lines:
        axes.legend(loc="upper right", fontsize="small")


def _lines(samples: list[Sample], value: Callable[[PortCredits], int]) -> list[tuple[str, list[int]]]:
    """Return the ports with the greatest values, each with its value in every sample (0 where it was not read)."""
    ports = sorted({(switch, port) for s in samples for switch, some in s.credits.items() for port in some})
    lines = []
    for switch, port in ports:
        points = [value(s.credits[switch][port]) if port in s.credits.get(switch, {}) else 0 for s in samples]
        if any(points):
            lines.append((f"{switch} port {port}", points))
    lines.sort(key=lambda line: -sum(line[1]))
    return lines[:_LINES_SHOWN]


def _times(samples: list[Sample]) -> list[float]:
    """Return the samples' times, counted from where the traffic begins, so that both sides begin alike."""
    first = next((s.at_s for s in samples if sum(s.inside.values()) > _TRAFFIC), 0.0)
    return [s.at_s - first for s in samples]
