"""What the benches work out, and what they count from frames."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bench.__main__ import BENCHES
from bench.rdma import overtakes
from bench.report import size_name
from bench.wire import REPOSITORY, roce_backward, roce_forward
from codec.constants import CRC_BYTES
from codec.layouts import LINK, LSU, OEFH, TMA
from endpoint.collectives.group import DIRECT_BYTES
from endpoint.options import EndpointOptions

GAP = 12


def test_roce_by_hand() -> None:
    """Preamble 8, Ethernet 14, IPv4 20, UDP 8, BTH 12, RETH 16, ICRC 4, FCS 4, gap 12: 98 bytes and 8 of payload."""
    assert roce_forward(8, 4096) == 106
    assert roce_forward(4096, 4096) == 98 + 4096
    assert roce_forward(4097, 4096) == 98 + 4096 + 84  # no frame is shorter than 64 bytes
    assert roce_forward(3 * 2048, 2048) == 3 * 2048 + 98 + 2 * 82
    assert roce_backward() == 8 + 66 + 12


def test_wire_bytes_are_those_of_the_frames() -> None:
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-m", "bench.wire"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    rows = json.loads(done.stdout)
    assert {(row["way"], row["payload"]) for row in rows} == {("write", 2048), ("write", 4096), ("store", 2048)}
    for row in rows:
        header = LSU if row["way"] == "store" else TMA
        frames = -(-row["size"] // row["payload"])
        wire = row["size"] + frames * (LINK.size + OEFH.size + header.size + CRC_BYTES + GAP)
        assert row["ethlink"] == pytest.approx(row["size"] / wire), row
        assert row["ethlink"] > row["roce"]
        assert row["ethlink"] > row["both"]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [([1, 1, 1], [2, 2, 2], None), ([1, 3, 4], [2, 3, 3], 20), ([9, 1, 9], [1, 2, 1], 30), ([3, 3, 3], [1, 1, 1], 10)],
)
def test_overtakes_for_good(one: list[float], other: list[float], expected: int | None) -> None:
    assert overtakes([10, 20, 30], one, other) == expected


def test_size_names() -> None:
    assert [size_name(size) for size in (8, 1023, 1024, 1536, 1 << 20, 3 << 20)] == [
        "8 B", "1023 B", "1 KiB", "1536 B", "1 MiB", "3 MiB",
    ]  # fmt: skip


def test_documented_defaults_are_the_codes() -> None:
    collectives = (REPOSITORY / "docs" / "collectives.md").read_text()
    assert collectives.count(f"S up to {size_name(DIRECT_BYTES)}, or n = 2") == 3
    endpoint = (REPOSITORY / "docs" / "endpoint.md").read_text()
    assert f"`EndpointOptions.bulk_bytes` ({EndpointOptions().bulk_bytes})" in endpoint


def test_every_bench_is_a_module() -> None:
    for name in BENCHES:
        assert (REPOSITORY / "bench" / f"{name}.py").is_file()
