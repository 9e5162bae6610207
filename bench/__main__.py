"""Run the benches and print one table each: `make bench`, or `python -m bench [NAME ...]` for some of them."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.report import Measurement, print_table, save

RESULTS = Path(__file__).resolve().parent.parent / "build" / "bench" / "results.json"

BENCHES = {
    "packet_rate": "one switch: frames per second against a plain forwarder, and round trip",
    "programs": "one switch: an IPv4 router, a load balancer and telemetry, against a plain forwarder",
    "tables": "one switch: frames per second by entries, updates, updates under traffic, rounds inside",
    "credits": "one switch: what credits cost, and what holding frames takes",
    "llr": "one switch, then two: what link-layer retry costs where it is off, and where it is on",
    "endpoint": "one GPU: load/store round trips and rates",
    "rdma": "two GPUs: RDMA writes by size, and where they overtake stores",
    "wire": "two GPUs: payload of wire bytes, towards the target (target: RoCEv2's)",
    "collectives": "whole fabrics: bus bandwidth of all-reduce by size and number of GPUs",
    "compiler": "compiling ethlink.p4",
    "fabric": "a whole fabric: start-up and memory",
}
"""Modules of this package, each with `measure()`, which yields Measurements; in the order of the report."""


def main(argv: list[str] | None = None) -> int:
    """Run the benches asked for; return 1 when one of them fails, 0 also when a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the switch, the GPU and the fabric.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these of: {', '.join(BENCHES)}")
    names = parser.parse_args(argv).names or list(BENCHES)
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        print(f"bench: no bench is called {', '.join(unknown)}; there are {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    console = Console(highlight=False)
    groups: list[tuple[str, Sequence[Measurement]]] = []
    failed = False
    for name in names:
        started = time.monotonic()
        with console.status(f"{name} ..."):
            try:
                rows = list(importlib.import_module(f"bench.{name}").measure())
            except (OSError, RuntimeError) as error:
                console.print(f"[red]{name} failed:[/red] {error}")
                failed = True
                continue
        print_table(console, f"{BENCHES[name]}  ({time.monotonic() - started:.0f} s)", rows)
        groups.append((BENCHES[name], rows))
    save(RESULTS, groups)
    console.print(f"[dim]{RESULTS}[/dim]")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
