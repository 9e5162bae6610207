"""`make conformance`, on a part of its cases: what it writes, and that it fails when it should."""

from __future__ import annotations

import ast
import csv
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from ptf_tests.conformance.records import COLUMNS
from ptf_tests.conformance.run import ALL, CASES, CREDIT_CASES, HEADER_GROUPS, LINK_CASES, RETRY_CASES
from topologies.options import TOOLS

REPOSITORY = Path(__file__).resolve().parents[2]
QUICK = ("CBFC-01", "CBFC-08", *RETRY_CASES, "E5")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the conformance cases need root")
needs_bmv2 = pytest.mark.skipif(not all(map(shutil.which, TOOLS["bmv2"])), reason="p4c and BMv2 are not installed")


def run(output: Path, *arguments: str, timeout_s: float = 170, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the cases as `make conformance` does, with results in `output`."""
    return subprocess.run(
        [sys.executable, "-m", "ptf_tests.conformance", "--output", str(output), *arguments],
        capture_output=True, text=True, check=False, cwd=REPOSITORY, env={**os.environ, **environment},
        timeout=timeout_s,
    )  # fmt: skip


def cases(*names: str) -> list[str]:
    return [word for name in names for word in ("--case", name)]


@pytest.mark.parametrize("target", ["p4switch", pytest.param("bmv2", marks=needs_bmv2)])
def test_cases_pass_and_leave_records(target: str, tmp_path: Path) -> None:
    done = run(tmp_path, "--target", target, "--quick", *cases(*QUICK), timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"conformance on {target}: (\d+) of \1 records passed, {len(QUICK)} cases, passed", done.stdout)
    data = json.loads((tmp_path / target / "records.json").read_text())
    records = data["records"]
    assert (data["target"], data["passed"], data["cases"]) == (target, True, list(QUICK))
    assert {record["case"] for record in records} == set(QUICK)
    for record in records:
        assert tuple(record) == COLUMNS
        datetime.fromisoformat(record["timestamp"])
        assert record["result"] == "pass"
        assert record["expected"].keys() == record["measured"].keys() != set()
        assert all(figure["unit"] for figure in record["measured"].values())
    (first, *_) = [record for record in records if record["case"] == "CBFC-01"]
    assert first["frame_size"] == 64
    assert first["configuration"]["credit_size"] == 1024
    assert first["measured"]["sender_credits_used"] == {"value": 3, "unit": "credits"}
    with (tmp_path / target / "records.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["timestamp"], row["case"]) for row in rows] == [(one["timestamp"], one["case"]) for one in records]


def test_a_wrong_program_fails_with_the_figures(tmp_path: Path) -> None:
    """A switch that rounds credits down is found out, and the record says by which counter."""
    changed = tmp_path / "p4src"
    shutil.copytree(REPOSITORY / "p4src", changed)
    file = changed / "lanes.p4"
    text = file.read_text()
    assert "(counted + (32w1 << size) - 1) >> size" in text
    file.write_text(text.replace("(counted + (32w1 << size) - 1) >> size", "counted >> size"))
    done = run(tmp_path, "--program", str(changed / "ethlink.p4"), "--quick", *cases("CBFC-01"))
    assert done.returncode == 1
    assert "FAIL CBFC-01" in done.stdout
    assert "sender_credits_used = 0 credits instead of 3 credits" in done.stdout
    assert "FAILED" in done.stdout
    data = json.loads((tmp_path / "p4switch" / "records.json").read_text())
    assert not data["passed"]
    assert any(record["result"] == "fail" for record in data["records"])


@pytest.mark.parametrize("target", ["p4switch", pytest.param("bmv2", marks=needs_bmv2)])
def test_a_short_soak_leaves_every_credit_right(target: str, tmp_path: Path) -> None:
    """Frames lost, repeated and late, peers and the switch killed: see ptf_tests/conformance/soak.py."""
    done = run(tmp_path, "--target", target, "--soak", "18000")
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads((tmp_path / target / "soak.json").read_text())
    [record] = data["records"]
    assert (data["target"], data["passed"], record["case"], record["result"]) == (target, True, "SOAK", "pass")
    measured = {name: figure["value"] for name, figure in record["measured"].items()}
    assert measured["frames_sent"] >= 18_000
    assert measured["switch killed"] == 2
    for name in ("sender_credits_used", "receiver_credits_used", "held_frames", "tester's sender_credits_used"):
        assert measured[f"{name}, in the end"] == 0
    assert (tmp_path / target / "soak.csv").read_text().count("SOAK") == 1


def test_a_switch_that_leaks_credits_fails_the_soak(tmp_path: Path) -> None:
    """One that knows what the link lost, and does not free it."""
    changed = tmp_path / "p4src"
    shutil.copytree(REPOSITORY / "p4src", changed)
    file = changed / "credits" / "credit_updates.p4"
    text = file.read_text()
    leaks = "receiver_credits_freed.write(port, lanes_plus(freed, lanes_minus(told, consumed)));"
    assert leaks in text
    file.write_text(text.replace(leaks, ""))
    done = run(tmp_path, "--program", str(changed / "ethlink.p4"), "--soak", "18000")
    assert done.returncode == 1
    data = json.loads((tmp_path / "p4switch" / "soak.json").read_text())
    assert (data["passed"], data["records"][0]["result"]) == (False, "fail")


def test_a_soak_of_no_length_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "--soak", "10")
    assert done.returncode == 2
    assert "--soak 10 is out of range: 5,000 to 100,000,000 frames" in done.stderr


def test_unknown_cases_and_targets_are_refused(tmp_path: Path) -> None:
    unknown = run(tmp_path, "--case", "CBFC-99")
    assert unknown.returncode == 2
    assert "there is no case CBFC-99; there are CBFC-01" in unknown.stderr
    target = run(tmp_path, P4_TARGET="tofino")
    assert target.returncode == 2
    assert "p4switch" in target.stderr


def test_every_test_belongs_to_a_case_and_every_case_is_documented() -> None:
    listed = {test for tests in LINK_CASES.values() for test in tests}
    there = set()
    for path in CASES.glob("*.py"):
        text = path.read_text()
        gone = set(re.findall(r"^del (\w+)", text, re.MULTILINE))
        there |= {
            f"{path.stem}.{name}" for name in re.findall(r"^class (\w+)\(", text, re.MULTILINE) if name not in gone
        }
    assert there == listed
    assert tuple(CREDIT_CASES) == tuple(f"CBFC-{number:02}" for number in range(1, 13))
    assert tuple(HEADER_GROUPS) == tuple(f"E{number}" for number in range(1, 7))
    page = (REPOSITORY / "docs" / "conformance.md").read_text()
    assert all(f"| {case} |" in page for case in ALL)


def test_what_is_expected_is_not_what_was_measured() -> None:
    """A figure whose expected value comes of the reading that it is compared with passes whatever is read."""
    figures = 0
    for path in CASES.glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in (
                "exact",
                "close",
                "at_least",
                "at_most",
                "state",
            ):
                _, expected, measured = call.args[:3]
                figures += 1
                assert not _read(expected) & _read(measured), f"{path.name}:{call.lineno}"
    assert figures > 100


def _read(expression: ast.expr) -> set[str]:
    """Return what an expression reads that can change: attributes, items of tables, calls."""
    reads = (ast.Attribute, ast.Subscript, ast.Call)
    parts = {ast.unparse(one) for one in ast.walk(expression) if isinstance(one, reads)}
    return {one for one in parts if not one.startswith(("len(", "round(", "int(", "sum(", "min(", "max("))}
