"""A check of the scenario `bad-link` inside a fabric's namespaces, with one loss and few frames.

It is part of `tests.fabric.inside`, which runs it.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from topologies import bad_link
from topologies.options import Options
from topologies.progress import Progress
from topologies.session import FabricSession

LOSS = 1e-1


def bad_link_short(run_dir: Path, target: str) -> None:
    """One frame in ten is lost: without retry accesses are sent again end to end, with it none is."""
    bad_link.LOSSES = (LOSS,)  # type: ignore[misc]
    bad_link.SEMANTICS = {"load_store": 256}  # type: ignore[misc]
    bad_link.CLEAN_S = bad_link.MOST_S = bad_link.MOST_WITHOUT_S = 0.5  # type: ignore[misc]
    bad_link.WARM_UP_S = 0.2  # type: ignore[misc]
    bad_link.LAST, bad_link.LAST_WITHOUT = 50, 10  # type: ignore[misc]
    bad_link.LINGER_WITHOUT_S = 0.75  # type: ignore[misc]
    bad_link.LINGER_S = 0.2  # type: ignore[misc]
    options = Options(topo="planes,3,2", target=target, links="managed", run_dir=run_dir, timeout_s=60)
    with FabricSession(options, Progress(Console(highlight=False)), bad_link.setting(retry=False)) as session:
        result = bad_link.run(session, 1000, seed=1)
    found = result.to_json()
    on, off = found["llr_on"]["0.1"], found["llr_off"]["0.1"]
    assert set(on) == set(off)
    assert {"effective_loss", "goodput_ratio", "latency_us_p99", "replays"} <= set(on)
    assert len(on["cases"]) == len(off["cases"]) == 2
    assert on["effective_loss"] == on["frames_lost"] == 0, on
    assert on["frames"] >= 1000 and on["frames_dropped_by_links"] > 20 and on["replays"] > 5, on
    assert off["frames_lost"] > 20 and off["effective_loss"] > 0 and off["replays"] == 0, off
    for semantics in bad_link.SEMANTICS:
        with_retry, without = (found["last_frame"][side][semantics] for side in ("llr_on", "llr_off"))
        assert with_retry["frames_lost"] == 0 and with_retry["frames_dropped_by_links"] > 0, with_retry
        assert without["frames_dropped_by_links"] > 0 and without["frames_lost"] > 0, without
        assert 0 < with_retry["latency_us_max"] < 1e6 * bad_link.RTO_S
    assert not [line for line in result.failures if "goodput" not in line and "carried" not in line], result.failures
