"""The measures of a comparison: fairness, percentiles, losses, verdicts; and which scenarios are one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from codec.fabric import Fabric
from controller.reader import PortCounters
from tests.controller.test_credits import some
from topologies.comparison import COMPARED, Compared, Side, check, control_rate, jain, judge, percentile, setting_of
from topologies.describe import describe
from topologies.errors import LaunchError
from topologies.losses import Losses, Snapshot, arrived_frames, link_resets, losses
from topologies.monitor import Sample, peak_share
from topologies.options import COMPARISONS, PATTERNS, Options
from topologies.plot import plot_credits
from topologies.ranks import RankResult
from topologies.topos import parse_topo


def fabric(topo: str) -> Fabric:
    return describe(parse_topo(topo), topo)


def test_jain_is_1_for_equal_shares_and_1_over_n_for_one_taker() -> None:
    assert jain([3.0] * 7) == pytest.approx(1)
    assert jain([5.0, 0, 0, 0]) == pytest.approx(0.25)
    assert jain([]) == jain([0.0, 0.0]) == 0


def test_percentiles_are_nearest_rank() -> None:
    counts = {10: 50, 20: 49, 1000: 1}
    assert [percentile(counts, p) for p in (50, 51, 99, 100)] == [10, 20, 20, 1000]
    assert percentile({}, 50) == 0


GOOD = Side(goodput_ratio=0.96, jain=0.995, neighbours_ratio=0.95)
LOSSY = Side(frames_lost=10)


@pytest.mark.parametrize(
    ("name", "on", "off", "words"),
    [
        ("incast", GOOD, LOSSY, []),
        ("incast", Side(1, 0.96, 0.995), LOSSY, ["1 frames were lost"]),
        ("incast", Side(0, 0.949, 0.995), LOSSY, ["94.9%"]),
        ("incast", Side(0, 0.96, 0.989), LOSSY, ["Jain"]),
        ("all-to-all", Side(0, 0.96, 0.5), LOSSY, []),
        ("hotspot", Side(0, 0.96, 0.995, neighbours_ratio=0.89), LOSSY, ["89.0%"]),
        ("slow-drain", GOOD, Side(), ["proves nothing"]),
    ],
)
def test_the_verdict_names_each_shortfall(name: str, on: Side, off: Side, words: list[str]) -> None:
    lines = judge(name, on, off)
    assert len(lines) == len(words)
    assert all(word in line for word, line in zip(words, lines, strict=True))


def test_every_comparison_is_described_and_slows_what_it_says() -> None:
    assert set(COMPARED) == set(COMPARISONS)
    made = fabric("planes,8,2")
    slowed = {
        name: sum(len(setting_of(name, made, credits).queues_of(node)) for node in made.switches)
        for name in COMPARISONS
        for credits in (True, False)
    }
    assert slowed == {"incast": 2, "all-to-all": 16, "hotspot": 2, "slow-drain": 0}
    assert setting_of("incast", made, credits=False).profile.lossless_mask == 0
    assert setting_of("incast", made, credits=True).profile.lossless_mask == 0b11


def test_two_gpus_or_two_tenants_are_too_few() -> None:
    with pytest.raises(LaunchError, match="SCENARIO=incast needs 3 GPUs or more"):
        check("incast", fabric("planes,2,1"))
    with pytest.raises(LaunchError, match="all in one tenant"):
        check("hotspot", fabric("planes,8,2,2"))
    check("hotspot", fabric("planes,4,1"))


def test_links_decide_whether_a_pattern_is_compared() -> None:
    assert Options(scenario="incast").compares
    assert Options(scenario="incast").link_mode == "managed"
    assert not Options(scenario="incast", links="open").compares
    assert not Options(scenario="all-to-all", links="managed").compares
    assert Options(scenario="hotspot", links="managed").compares
    assert not Options(scenario="random").compares
    assert Options(scenario="random").link_mode == "open"
    assert {"incast", "all-to-all"} == set(COMPARISONS) & set(PATTERNS)


NET_DEV = """\
Inter-|   Receive                                       |  Transmit
 face |bytes  packets errs drop fifo frame comp multicast|bytes  packets errs drop fifo colls carrier comp
    lo:     0       0    0    0    0     0    0         0      0       0    0    0    0     0       0    0
s1-eth1: 96000    120    0    0    0     0    0         0   1000      10    0    0    0     0       0    0
"""


def test_losses_are_what_is_missing_between_in_and_out() -> None:
    made = fabric("planes,2,1")
    clean = {n: PortCounters() for n in (1, 2, 510)}
    nothing = {"s1-eth1": 0, "s1-eth2": 0}
    before = Snapshot({"s1": clean}, nothing, nothing, {"s1": 0})
    ports = {
        # 120 arrived at the interface, 117 in the switch: 7 of them control, 4 refused, so that 106 are DATA
        1: PortCounters(117, 0, 3, 0, {"no_room": 4}, {"cbfc_num_cf_update_messages_rx": 7, "llr_tx_init_ctl_os": 3}),
        # 95 left as DATA, one more was dropped as its session had ended
        2: PortCounters(0, 0, 100, 0, {}, {"cbfc_num_cf_update_messages_tx": 5, "stale_session": 1, "silences": 2}),
        510: PortCounters(),
    }
    arrived = arrived_frames(NET_DEV) | {"s1-eth2": 0}
    after = Snapshot({"s1": ports}, arrived, arrived | {"s1-eth1": 300}, {"s1": 2})  # more came while this was read
    rank = RankResult("g1", 0, Path(), {"frames_lost": 6, "ports": {"0": {"rx_dropped_full": 5, "rx_frames": 9}}})
    found = losses(made, before, after, [rank])
    assert found == Losses(switch_queues=106 - 96 - 2, switch_rings=3, endpoint_buffers=5, no_room=4, given_up=6)
    assert found.for_want_of_room == 20
    assert found.total == 26
    assert link_resets(before, after) == 2


def test_the_greatest_share_counts_watermarks_and_own_buffers() -> None:
    port = some(sender_credits_used_watermark=(96, 0, 0, 0, 0, 0, 0, 0))
    sample = Sample(0.0, {"s1": {3: port}}, {"s1": 0})
    assert peak_share([sample], (128,) * 8) == 0.75
    assert peak_share([sample], (40,) * 8) == 0.8
    assert peak_share([], (1,) * 8) == 0


def test_control_frames_count_while_rates_are_measured() -> None:
    """Not before, when links come up, nor afterwards, when they are idle."""
    sent = [(0.0, 0), (1.0, 10), (2.0, 30), (3.0, 60), (4.0, 61)]
    samples = [Sample(at, {}, {}, {}, {"s1": {1: count, 2: 0}, "s2": {1: count}}, 100 + at) for at, count in sent]
    ports = [("s1", 1), ("s2", 1)]
    assert control_rate(samples, ports, 101.2, 102.9) == pytest.approx(2 * 25)
    assert control_rate(samples, ports, 101.0, 102.0) == pytest.approx(2 * 20)
    assert control_rate(samples, ports, 50.0, 500.0) == pytest.approx(2 * 61 / 4)
    assert control_rate(samples[:1], ports, 0.0, 1.0) == 0


def test_the_plot_is_a_png_also_without_samples(tmp_path: Path) -> None:
    samples = [Sample(at, {"s1": {3: some()}}, {"s1": int(at)}) for at in (0.0, 0.1)]
    for name, some_samples in (("full", samples), ("empty", [])):
        path = tmp_path / f"{name}.png"
        plot_credits(path, name, Compared(Side(samples=some_samples), Side(samples=some_samples), [], []))
        assert Image.open(path).size[0] > 500


def test_a_side_is_plain_json_without_samples() -> None:
    data = json.loads(json.dumps(Side(goodput_ratio=0.951234, samples=[Sample(0, {}, {})]).to_json()))
    assert data["goodput_ratio"] == 0.9512
    assert {"frames_lost", "jain", "latency_us_p50", "latency_us_p99", "buffer_peak_ratio"} <= data.keys()
    assert "samples" not in data
