"""Records of the conformance cases: the rules, the formats, and what survives the way between two processes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from ptf_tests.conformance.records import (
    COLUMNS,
    Figure,
    Journal,
    Record,
    at_least,
    at_most,
    close,
    exact,
    write_csv,
    write_json,
)

PASSING = Record("CBFC-01", 64, {"vc": 0}, (exact("sender_credits_used", 3, 3), close("rate", 1000, 951, "frames/s")))
FAILING = Record("CBFC-02", None, {}, (exact("receiver_credits_freed", 3, 2), at_least("held", 1, 4, "frames")), "why")


@pytest.mark.parametrize(
    ("figure", "passes"),
    [
        (exact("counter", 5, 5), True),
        (exact("counter", 5, 6), False),
        (close("rate", 1000, 950.1, "frames/s"), True),
        (close("rate", 1000, 950, "frames/s"), False),  # less than 5%, not 5%
        (close("rate", 1000, 1049.9, "frames/s"), True),
        (close("rate", 1000, 1050, "frames/s"), False),
        (close("rate", 0, 0, "frames/s"), True),
        (close("rate", 0, 0.1, "frames/s"), False),
        (at_least("frames", 2, 2), True),
        (at_least("frames", 2, 1), False),
        (at_most("frames", 2, 2), True),
        (at_most("frames", 2, 3), False),
    ],
)
def test_rules(figure: Figure, passes: bool) -> None:
    assert figure.passed is passes


def test_a_record_passes_with_all_of_its_figures_and_never_without_any() -> None:
    assert PASSING.passed
    assert not FAILING.passed
    assert not Record("CBFC-01", 64, {}, ()).passed
    assert FAILING.failures() == "receiver_credits_freed = 2 credits instead of 3 credits"
    assert Record("CBFC-01", 64, {}, ()).failures() == "nothing was measured"


def test_a_journal_gives_whole_records_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    writer, reader = Journal(path), Journal(path)
    assert reader.new() == []
    writer.add(PASSING)
    assert reader.new() == [PASSING]
    writer.add(FAILING)
    with path.open("a") as file:
        file.write(PASSING.to_line()[:20])  # still being written
    assert reader.new() == [FAILING]
    with path.open("a") as file:
        file.write(PASSING.to_line()[20:] + "\n")
    assert reader.new() == [PASSING]
    assert reader.new() == []


def test_json(tmp_path: Path) -> None:
    write_json(tmp_path / "records.json", [PASSING, FAILING], target="p4switch")
    data = json.loads((tmp_path / "records.json").read_text())
    assert data["target"] == "p4switch"
    first, second = data["records"]
    assert tuple(first) == COLUMNS
    assert first["expected"]["sender_credits_used"] == {"value": 3, "unit": "credits", "rule": "exact"}
    assert first["measured"]["rate"] == {"value": 951, "unit": "frames/s"}
    assert (first["result"], second["result"], second["frame_size"]) == ("pass", "fail", None)


def test_csv(tmp_path: Path) -> None:
    write_csv(tmp_path / "records.csv", [PASSING, FAILING])
    with (tmp_path / "records.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert tuple(first) == COLUMNS
    assert first["expected"] == "sender_credits_used=3 credits; rate=~ 1000 frames/s"
    assert first["measured"] == "sender_credits_used=3 credits; rate=951 frames/s"
    assert (first["configuration"], first["frame_size"], first["result"]) == ("vc=0", "64", "pass")
    assert (second["frame_size"], second["result"], second["notes"]) == ("", "fail", "why")
