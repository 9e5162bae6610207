"""The traffic command on two GPUs back to back, as a launcher starts it: environment, results, exit status."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codec.fabric import Fabric, GpuNode, GpuPort
from endpoint import ConfigurationError
from endpoint.environment import place_from_environment
from endpoint.traffic.report import Report, percentile
from endpoint.traffic.verify import Pool, differing
from tests.endpoint.conftest import add_cable

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def fabric(namespace: str, tmp_path: Path) -> Path:
    """Two GPUs with two planes, back to back; return the path of the description."""
    add_cable("ep0", "ep1")
    add_cable("ep2", "ep3")
    path = tmp_path / "fabric.json"
    Fabric(
        "back-to-back",
        tuple(
            GpuNode(number, f"g{number}", ports=(GpuPort(0, f"ep{number - 1}"), GpuPort(1, f"ep{number + 1}")))
            for number in (1, 2)
        ),
    ).save(path)
    return path


def start(fabric: Path, gpu: str, *arguments: str, **popen: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "ETHLINK_FABRIC": str(fabric), "ETHLINK_GPU": gpu}
    return subprocess.Popen(
        [sys.executable, *arguments], env=environment, cwd=ROOT, text=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen},
    )  # fmt: skip


def packets_received(iface: str) -> int:
    shown = subprocess.run(["ip", "-s", "-j", "link", "show", iface], check=True, capture_output=True, text=True)
    return int(json.loads(shown.stdout)[0]["stats64"]["rx"]["packets"])


def run_both(fabric: Path, *arguments: str) -> list[dict[str, Any]]:
    """Run a pattern on both GPUs; return their results once both ended with status 0."""
    files = [fabric.parent / f"g{number}.json" for number in (1, 2)]
    ranks = [
        start(fabric, f"g{number}", "-m", "endpoint", *arguments, "--json", str(file))
        for number, file in enumerate(files, 1)
    ]
    for rank in ranks:
        out, err = rank.communicate(timeout=60)
        assert (rank.returncode, out, err) == (0, "", "")
    return [json.loads(file.read_text()) for file in files]


def check(results: list[dict[str, Any]]) -> None:
    for rank, result in enumerate(results):
        assert (result["ok"], result["error"], result["wrong"]) == (True, None, [])
        assert (result["gpu"], result["rank"], result["ranks"]) == (rank + 1, rank, 2)
        assert result["bytes_wrong"] == result["frames_lost"] == 0


def test_ping(fabric: Path) -> None:
    results = run_both(fabric, "ping", "--count", "200", "--size", "64")
    check(results)
    first, second = results
    assert (first["transactions"], first["bytes_verified"]) == (200, 200 * 64)
    assert 0 < first["latency_us_p50"] <= first["latency_us_p99"]
    assert first["per_peer"]["2"]["p50_us"] == first["latency_us_p50"]
    assert sum(first["latency_counts"]["2"].values()) == 200
    assert (second["transactions"], second["latency_us_p50"]) == (0, None)


def test_random(fabric: Path) -> None:
    results = run_both(fabric, "random", "--count", "2000", "--window", "16", "--size", "256", "--seed", "5")
    check(results)
    for result in results:
        assert result["transactions"] == 2000
        assert result["bytes_verified"] > 50_000
        assert result["counters"]["responses"] >= 2000
        assert all(plane["tx_frames"] > 500 for plane in result["ports"].values())
        assert result["parameters"] == {
            "count": 2000, "size": 256, "window": 16, "seed": 5, "duration_s": None, "semantics": "load_store",
        }  # fmt: skip


def test_random_of_both_semantics(fabric: Path) -> None:
    results = run_both(fabric, "random", "--count", "600", "--size", "20000", "--semantics", "auto", "--window", "8")
    check(results)
    for result in results:
        assert result["transactions"] == 600
        assert result["bytes_verified"] > 1_000_000
        assert result["counters"]["messages"] > 100
        assert result["counters"]["reads"] > 100
        assert result["counters"]["requests"] > 50


@pytest.mark.parametrize("pattern", ["all-to-all", "permutation", "incast"])
def test_bulk_exchange(fabric: Path, pattern: str) -> None:
    results = run_both(fabric, pattern, "--count", "32", "--size", "300000", "--semantics", "rdma")
    check(results)
    assert results[0]["bytes_verified"] == 32 * 300_000
    assert 16 <= results[0]["counters"]["messages"] <= 32  # those that came before its own start are not in it


def test_ping_by_rdma(fabric: Path) -> None:
    results = run_both(fabric, "ping", "--count", "50", "--size", "5000", "--semantics", "rdma")
    check(results)
    assert results[0]["bytes_verified"] == 50 * 5000
    assert 0 < results[1]["counters"]["reads"] <= 50  # those that came before its own start are not in it


@pytest.mark.parametrize(
    ("pattern", "sent"), [("all-to-all", [320, 320]), ("permutation", [320, 320]), ("incast", [0, 320])]
)
def test_exchange(fabric: Path, pattern: str, sent: list[int]) -> None:
    results = run_both(fabric, pattern, "--count", "320", "--size", "1000")
    check(results)
    assert [result["transactions"] for result in results] == sent
    assert [result["bytes_verified"] for result in results] == [1000 * count for count in reversed(sent)]
    assert sum(result["bytes_moved"] for result in results) == sum(result["bytes_verified"] for result in results)


def test_impairments(fabric: Path) -> None:
    """On open ports what is lost is sent again end to end, and every byte is still right."""
    arguments = "--impair", "drop=0.02,plane=0", "--impair", "duplicate=next:5,direction=rx"
    results = run_both(fabric, "random", "--count", "500", *arguments)
    check(results)
    for result in results:
        assert result["ports"]["0"]["impaired_tx_drop"] > 0
        assert result["ports"]["0"]["impaired_rx_duplicate"] == 5
        assert "impaired_tx_drop" not in result["ports"]["1"]
    assert sum(result["frames_retransmitted"] for result in results) > 0


@pytest.mark.parametrize("pattern", ["random", "all-to-all", "ping"])
def test_duration(fabric: Path, pattern: str) -> None:
    results = run_both(fabric, pattern, "--duration", "0.5")
    check(results)
    assert 0.5 <= results[0]["duration_s"] < 5
    assert results[0]["transactions"] > 0


def test_equal_seeds_give_equal_traffic(fabric: Path) -> None:
    moved = [run_both(fabric, "random", "--count", "200", "--seed", seed)[0]["bytes_moved"] for seed in "112"]
    assert moved[0] == moved[1] != moved[2]


def test_missing_peer_fails_in_bounded_time(fabric: Path) -> None:
    script = (
        "import endpoint.barrier, sys; from endpoint.gpu import Gpu; from endpoint.traffic.cli import main\n"
        "full = Gpu.barrier; Gpu.barrier = lambda self, timeout_s=0.3: full(self, timeout_s)\n"
        "sys.exit(main(['ping', '--json', sys.argv[1]]))"
    )
    file = fabric.parent / "alone.json"
    rank = start(fabric, "g1", "-c", script, str(file))
    _, err = rank.communicate(timeout=30)
    assert rank.returncode == 1
    assert "error: barrier 1: GPU 2 did not answer in 0.3 s" in err
    result = json.loads(file.read_text())
    assert (result["ok"], result["transactions"]) == (False, 0)


def test_interrupt(fabric: Path) -> None:
    file = fabric.parent / "g1.json"
    ranks = [
        start(fabric, "g1", "-m", "endpoint", "random", "--duration", "60", "--json", str(file)),
        start(fabric, "g2", "-m", "endpoint", "random", "--duration", "60"),
    ]
    while packets_received("ep0") < 1000:  # both are at work
        assert all(rank.poll() is None for rank in ranks)
        time.sleep(0.05)
    for rank in ranks:
        rank.send_signal(signal.SIGINT)
    for rank in ranks:
        _, err = rank.communicate(timeout=30)
        assert rank.returncode == 130
        assert "Traceback" not in err
    assert json.loads(file.read_text())["error"] == "interrupted"


def test_wrong_bytes_fail(fabric: Path) -> None:
    """A rank whose memory changes under it must not pass: the runner can fail."""
    corrupt = (
        "import sys, endpoint.traffic.patterns as p; from endpoint.traffic.cli import main\n"
        "register = p.Gpu.register\n"
        "def bad(self, size, *more):\n"
        "    region = register(self, size, *more)\n"
        "    class Off:\n"
        "        def __setitem__(self, place, data): region.array[place] = data ^ 1\n"
        "    return type('R', (), {'array': Off()})()\n"
        "p.Gpu.register = bad\n"
        "sys.exit(main(['ping', '--count', '20']))"
    )
    ranks = [start(fabric, "g1", "-m", "endpoint", "ping", "--count", "20"), start(fabric, "g2", "-c", corrupt)]
    _, err = ranks[0].communicate(timeout=60)
    ranks[1].communicate(timeout=60)
    assert ranks[0].returncode == 1
    assert "0 bytes verified, 160 wrong" in err
    assert "8 of 8 bytes wrong: bytes from GPU 2" in err


def test_progress_is_for_terminals(fabric: Path) -> None:
    master, slave = pty.openpty()
    shown = start(fabric, "g1", "-m", "endpoint", "permutation", "--count", "64", stdout=slave, stderr=slave)
    silent = start(
        fabric, "g2", "-m", "endpoint", "permutation", "--count", "64", "--json", str(fabric.parent / "g2.json")
    )
    os.close(slave)
    text = b""
    try:
        while piece := os.read(master, 65536):
            text += piece
    except OSError:  # the terminal's other end was closed
        pass
    os.close(master)
    assert shown.wait(60) == 0
    assert "permutation" in text.decode() and "64/64" in text.decode()
    assert silent.communicate(timeout=60) == ("", "")


def test_own_script(fabric: Path, tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        "from endpoint import Gpu\n"
        "with Gpu.from_environment() as gpu:\n"
        "    region = gpu.register(64)\n"
        "    gpu.barrier()\n"
        "    gpu.store(gpu.peers[0], 0, b'hello from %d' % gpu.id)\n"
        "    gpu.barrier()\n"
        "    print(region.array[:12].tobytes().decode(), gpu.incarnation)\n"
    )
    for incarnation in (1, 2):
        ranks = [start(fabric, f"g{number}", str(script)) for number in (1, 2)]
        assert [rank.communicate(timeout=60) for rank in ranks] == [
            (f"hello from 2 {incarnation}\n", ""),
            (f"hello from 1 {incarnation}\n", ""),
        ]


# ----------------------------------------------------------------------------------------------------- wrong usage


@pytest.mark.parametrize(
    ("environment", "arguments", "message"),
    [
        ({}, ["ping"], "endpoint: ETHLINK_FABRIC is not set: it gives the path of the fabric description"),
        ({"ETHLINK_FABRIC": "/nowhere"}, ["ping"], "endpoint: ETHLINK_GPU is not set"),
        ({"ETHLINK_FABRIC": "/nowhere", "ETHLINK_GPU": "1"}, ["ping"], "/nowhere: cannot be read: No such file"),
        ({}, ["pong"], "invalid choice: 'pong'"),
        ({}, ["ping", "--count", "0"], "'0' is not a whole number from 1 to 1000000000"),
        ({}, ["ping", "--window", "1024"], "'1024' is not a whole number from 1 to 1023"),
        ({}, ["ping", "--duration", "-3"], "'-3' is not a number of seconds above 0"),
        ({}, ["ping", "--impair", "loss=0.1"], "argument --impair: impairment 'loss=0.1': 'loss=0.1' is none of drop="),
        ({}, ["ping", "--impair", "drop=0.1,kind=acks"], "kind = 'acks' is none of data, control, all"),
        ({}, ["ping", "--duration", "nan"], "'nan' is not a number of seconds above 0"),
    ],
)
def test_wrong_usage(environment: dict[str, str], arguments: list[str], message: str) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ETHLINK_")}
    done = subprocess.run(
        [sys.executable, "-m", "endpoint", *arguments], env={**inherited, **environment}, cwd=ROOT,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_interface(fabric: Path) -> None:
    description = Fabric.load(fabric)
    lost = GpuNode(1, "g1", ports=(GpuPort(0, "lost0"),))
    Fabric("x", (lost, *description.gpus[1:])).save(fabric)
    rank = start(fabric, "1", "-m", "endpoint", "ping")
    assert "interface lost0: No such device" in rank.communicate(timeout=60)[1]
    assert rank.returncode == 2


def test_alone_in_its_tenant(fabric: Path) -> None:
    one = Fabric.load(fabric).gpus[0]
    Fabric("x", (one,)).save(fabric)
    rank = start(fabric, "1", "-m", "endpoint", "ping")
    assert "GPU 1 is alone in its tenant" in rank.communicate(timeout=60)[1]
    assert rank.returncode == 2


def test_unwritable_results(fabric: Path) -> None:
    ranks = [
        start(fabric, f"g{n}", "-m", "endpoint", "ping", "--count", "5", "--json", "/proc/no.json") for n in (1, 2)
    ]
    for rank in ranks:
        assert "the results cannot be written to /proc/no.json" in rank.communicate(timeout=60)[1]
        assert rank.returncode == 1


# ---------------------------------------------------------------------------------------------- place, report, pool

Environment = Callable[..., dict[str, str]]


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    path = tmp_path / "fabric.json"
    gpus = (GpuNode(4, "g4", incarnation=0xFFFF, ports=(GpuPort(0, "a"),)), GpuNode(5, "g5", ports=(GpuPort(0, "b"),)))
    Fabric("x", gpus).save(path)
    return lambda **more: {"ETHLINK_FABRIC": str(path), "ETHLINK_GPU": "g4", **more}


def test_each_start_counts(environment: Environment) -> None:
    assert [place_from_environment(environment()).incarnation for _ in range(3)] == [0xFFFF, 0, 1]
    assert place_from_environment(environment(ETHLINK_GPU="5")).incarnation == 1
    assert place_from_environment(environment(ETHLINK_INCARNATION="77")).incarnation == 77
    assert place_from_environment(environment()).incarnation == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"ETHLINK_GPU": "g9"}, r"ETHLINK_GPU = g9: no GPU 'g9' in the fabric; there are g4 \(id 4\), g5 \(id 5\)"),
        ({"ETHLINK_GPU": "9"}, "no GPU 9 in the fabric"),
        ({"ETHLINK_INCARNATION": "65536"}, "ETHLINK_INCARNATION = 65536: not a number from 0 to 65535"),
        ({"ETHLINK_INCARNATION": "two"}, "not a number"),
    ],
)
def test_wrong_environment(environment: Environment, more: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        place_from_environment(environment(**more))


def test_start_that_cannot_be_counted(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "incarnations").write_text("in the way")
    with pytest.raises(ConfigurationError, match=r"cannot be counted: .*; set ETHLINK_INCARNATION instead"):
        place_from_environment(environment())


def test_percentiles() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, p) for p in (0, 1, 50, 99, 100)] == [1, 1, 50, 99, 100]
    assert percentile([7.0], 50) == 7.0


def test_report_counts_only_right_bytes_as_verified() -> None:
    report = Report("x", 1, 0, 2)
    report.verified(10, 10, "nothing right")
    assert report.first_verified_at is None
    report.verified(10, 3, "some")
    assert (report.bytes_verified, report.bytes_wrong) == (7, 13)
    assert report.first_verified_at is not None
    report.finish(1.0, {}, {})
    assert not report.ok


def test_pool_tells_messages_apart() -> None:
    pool = Pool(1, 64)
    assert differing(pool.message(1, 2, 0, 0, 64), Pool(1, 64).message(1, 2, 0, 0, 64)) == 0
    seen = {
        pool.message(s, d, t, b, 64).tobytes() for s in range(4) for d in range(4) for t in range(8) for b in range(8)
    }
    assert len(seen) > 1000
    assert differing(b"abc", b"axc") == 1
