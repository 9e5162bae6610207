"""Plots of what benches found, beside their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.report import size_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PLOTS: Final = Path(__file__).resolve().parent.parent / "build" / "bench"


def plot_rdma(
    path: Path,
    goodput: Sequence[tuple[int, float]],
    latency: Sequence[tuple[int, Mapping[str, float]]],
    overtakes: Mapping[str, int | None],
) -> None:
    """Draw goodput and latency by size."""
    figure, (above, below) = _figure(2)
    above.plot([size for size, _ in goodput], [rate for _, rate in goodput], marker="o", label="RDMA writes")
    _by_size(above, "goodput of writes, as many under way as the window takes", "MB/s")
    for way in ("load", "store", "read", "write"):
        below.plot([size for size, _ in latency], [one[way] for _, one in latency], marker=".", label=way)
    for way, size in overtakes.items():
        if size is not None:
            below.axvline(size, linestyle=":", color="grey", label=f"{way} is faster from {size} B")
    _by_size(below, "one access at a time, median", "microseconds")
    below.set_yscale("log")
    _save(figure, path)


def plot_all_reduce(path: Path, found: Sequence[Mapping[str, Any]]) -> None:
    """Draw bus bandwidth by size, a line per number of GPUs and algorithm."""
    figure, (axes,) = _figure(1)
    for gpus, algorithm in sorted({(one["gpus"], one["algorithm"]) for one in found}):
        line = [one for one in found if (one["gpus"], one["algorithm"]) == (gpus, algorithm)]
        axes.plot(
            [one["size"] for one in line], [one["bus_mb_s"] for one in line], marker="o",
            linestyle="-" if algorithm == "ring" else "--", label=f"{gpus} GPUs, {algorithm}",
        )  # fmt: skip
    _by_size(axes, "all-reduce: bus bandwidth, 2 (n - 1) / n x bytes / time", "MB/s")
    _save(figure, path)


def plot_wire(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw wire efficiency by size, EthLink's as captured and RoCEv2's as computed."""
    figure, (axes,) = _figure(1)
    for way, payload in sorted({(row["way"], row["payload"]) for row in rows}, reverse=True):
        line = [row for row in rows if (row["way"], row["payload"]) == (way, payload)]
        sizes = [row["size"] for row in line]
        title = "store" if way == "store" else f"write, {payload} B per frame"
        [drawn] = axes.plot(sizes, [100 * row["ethlink"] for row in line], marker="o", label=f"EthLink {title}")
        if way == "write":
            axes.plot(
                sizes, [100 * row["roce"] for row in line], linestyle="--", marker="x", color=drawn.get_color(),
                label=f"RoCEv2 {title}",
            )  # fmt: skip
    _by_size(axes, "payload of wire bytes, preamble, FCS and gap included; towards the target", "%")
    axes.set_ylim(0, 100)
    _save(figure, path)


def _figure(plots: int) -> tuple[Figure, Sequence[Axes]]:
    # Loaded here alone: most benches draw nothing, and it takes half a second.
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(plots, 1, figsize=(9, 4.5 * plots), layout="constrained", squeeze=False)
    return figure, [row[0] for row in axes]


def _by_size(axes: Axes, title: str, unit: str) -> None:
    """Finish a plot by size."""
    axes.set_title(title)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda size, _position: size_name(int(size)))
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def _save(figure: Figure, path: Path) -> None:
    from matplotlib import pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
