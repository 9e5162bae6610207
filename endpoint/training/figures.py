"""Time and bandwidth of each phase of a training profile, from what all GPUs report.

The two bandwidths are those of NCCL's tests (doc/PERFORMANCE.md there): algorithm bandwidth is the bytes that a GPU
gives, per time; bus bandwidth is that times what each link must carry at least of it, so that it can be compared with
the links' rate whatever the number of GPUs: 2 (n - 1) / n for all-reduce, (n - 1) / n for an even all-to-all, 1 from
one GPU to another. In a skewed all-to-all it is what really leaves the GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from endpoint.traffic.report import percentile


def training_figures(reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the figures of each phase, from the reports of all GPUs that have any.

    `time_us_p50` and `time_us_p99` are over all operations of all GPUs; `bytes` is what one GPU gives per operation
    (the mean), and the bandwidths, in MB/s (10^6 bytes), are over the mean time.
    """
    with_phases = [report["phases"] for report in reports if report.get("phases")]
    figures = []
    for parts in zip(*with_phases, strict=False):
        times = sorted(time for part in parts for time in part["times_us"])
        if not times:
            continue
        first = parts[0]
        seconds = sum(times) / 1e6
        figures.append(
            {
                **{key: first[key] for key in ("name", "parallel", "operation", "groups")},
                "gpus_per_group": len(first["group"]),
                "operations": len(first["times_us"]),
                "bytes": round(sum(part["bytes"] for part in parts) / len(times)),
                "time_us_p50": round(percentile(times, 50), 1),
                "time_us_p99": round(percentile(times, 99), 1),
                "algorithm_mb_s": round(sum(part["bytes"] for part in parts) / seconds / 1e6, 3),
                "bus_mb_s": round(sum(part["bus_bytes"] for part in parts) / seconds / 1e6, 3),
            }
        )
    return figures


def figures_line(figures: Mapping[str, Any]) -> str:
    """Return the figures of one phase as people read them."""
    return (
        f"{figures['name']}: {figures['operations']:,} x {figures['operation']} of {figures['bytes']:,} bytes among "
        f"{figures['gpus_per_group']}, p50 {figures['time_us_p50']:,.0f} us, p99 {figures['time_us_p99']:,.0f} us, "
        f"algorithm {figures['algorithm_mb_s']:,.2f} MB/s, bus {figures['bus_mb_s']:,.2f} MB/s"
    )
