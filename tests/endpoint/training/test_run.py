"""`python -m endpoint profile FILE` on two GPUs back to back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from endpoint.training.figures import training_figures
from tests.endpoint.test_cli import check, fabric, run_both, start  # noqa: F401  (fabric is a fixture)

PROFILE = """
layout: {data: 2}
iterations: 3
phases:
  - {name: layers, parallel: tensor, over: data, bytes: 4 KiB, repeat: 2, compute_ms: 1}
  - {name: gradients, parallel: data, bytes: 200 KiB, dtype: float16, algorithm: ring}
  - {name: stages, parallel: pipeline, over: data, bytes: 1 KiB, microbatches: 2}
  - {name: experts, parallel: expert, over: data, bytes: 64, tokens: 10, top_k: 1, dtype: int64}
"""


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "my.yaml"
    path.write_text(PROFILE)
    return path


def test_every_byte_is_compared(fabric: Path, profile: Path) -> None:  # noqa: F811
    results = run_both(fabric, "profile", str(profile))
    check(results)
    assert [result["transactions"] for result in results] == [3 * 5, 3 * 5]
    reduced = 3 * (2 * 4096 + 204_800)
    # One stage gets two microbatches there, the other one two back; tokens are compared at their experts and again
    # when they have come back.
    passed = 3 * 2 * 1024
    experts = 2 * 2 * 3 * 10 * 64
    assert sum(result["bytes_verified"] for result in results) == 2 * (reduced + passed) + experts
    assert results[0]["parameters"] == {"profile": str(profile)}
    figures = {phase["name"]: phase for phase in training_figures(results)}
    assert list(figures) == ["layers", "gradients", "stages", "experts"]
    assert [figures[name]["operation"] for name in figures] == [
        "all-reduce",
        "all-reduce",
        "send/receive",
        "all-to-all",
    ]
    assert [figures[name]["operations"] for name in figures] == [6, 3, 3, 6]
    assert [figures[name]["bytes"] for name in ("layers", "gradients", "stages")] == [4096, 204_800, 4 * 1024]
    for phase in figures.values():
        assert 0 < phase["time_us_p50"] <= phase["time_us_p99"]
    # 2 (n - 1) / n is 1 for two GPUs.
    assert figures["gradients"]["bus_mb_s"] == figures["gradients"]["algorithm_mb_s"] > 0


def test_figures_are_printed_where_no_file_is_asked_for(fabric: Path, profile: Path) -> None:  # noqa: F811
    ranks = [start(fabric, gpu, "-m", "endpoint", "profile", str(profile)) for gpu in ("g1", "g2")]
    for rank in ranks:
        printed, _ = rank.communicate(timeout=60)
        assert rank.returncode == 0
        lines = printed.splitlines()
        assert "15 transactions" in lines[0]
        assert [line.partition(":")[0] for line in lines[1:]] == ["layers", "gradients", "stages", "experts"]
        assert re.match(
            r"layers: 6 x all-reduce of 4,096 bytes among 2, p50 [\d,]+ us, p99 [\d,]+ us, "
            r"algorithm [\d,.]+ MB/s, bus [\d,.]+ MB/s$",
            lines[1],
        )


def test_a_wrong_bit_is_found(fabric: Path, profile: Path) -> None:  # noqa: F811
    """The check can fail: one GPU gets one number of one sum wrong."""
    script = (
        "import sys; from endpoint import Group; from endpoint.traffic.cli import main\n"
        "right = Group.all_reduce\n"
        "def wrong(self, array, *a, **k):\n"
        "    result = right(self, array, *a, **k)\n"
        "    if array.nbytes == 204800: result[77] += 1\n"
        "    return result\n"
        "Group.all_reduce = wrong\n"
        "sys.exit(main(['profile', sys.argv[1]]))"
    )
    ranks = [
        start(fabric, "g1", "-c", script, str(profile)), start(fabric, "g2", "-m", "endpoint", "profile", str(profile))
    ]  # fmt: skip
    outputs = [rank.communicate(timeout=60) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [1, 0]
    assert "bytes wrong: gradients of GPUs 1, 2, iteration 0, 0" in outputs[0][1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["profile"], "profile takes a FILE, and nothing else does"),
        (["ping", "x.yaml"], "profile takes a FILE, and nothing else does"),
        (["profile", "x.yaml", "--count", "3"], "profile takes no --count, --size, --window or --duration"),
        (["profile", "/nowhere.yaml"], "endpoint: /nowhere.yaml: cannot be read: No such file or directory\n"),
    ],
)
def test_wrong_usage(fabric: Path, arguments: list[str], message: str) -> None:  # noqa: F811
    rank = start(fabric, "g1", "-m", "endpoint", *arguments)
    _, errors = rank.communicate(timeout=30)
    assert rank.returncode == 2
    assert message in errors


def test_wrong_number_of_gpus(fabric: Path, profile: Path) -> None:  # noqa: F811
    profile.write_text(PROFILE.replace("data: 2", "data: 3"))
    rank = start(fabric, "g1", "-m", "endpoint", "profile", str(profile))
    assert (rank.communicate(timeout=30)[1], rank.returncode) == (
        f"endpoint: {profile}: layout: data 3 is 3 GPUs, but the tenant has 2\n", 2
    )  # fmt: skip
