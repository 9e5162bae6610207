"""Each conformance case of link-layer retry fails, by its own figures, on a switch with a fault that it looks for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ptf_tests.conformance.records import Journal, Record
from ptf_tests.conformance.run import RETRY_CASES
from tests.conformance.mutations import MUTATIONS, RECORDS, Mutation, prepare

PARTS = 3
"""Switches at once: the cases mostly wait."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the conformance cases need root")


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """Try all mutations; return what the mutated cases recorded."""
    folder = tmp_path_factory.mktemp("mutations")
    prepare(folder)
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.conformance.mutations", str(folder), str(part), str(PARTS)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
        )
        for part in range(PARTS)
    ]  # fmt: skip
    said = [run.communicate(timeout=300) for run in runs]
    assert [run.returncode for run in runs] == [0] * PARTS, said
    return [record for part in range(PARTS) for record in Journal(folder / str(part) / RECORDS).new()]


@needs_root
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[one.name for one in MUTATIONS])
def test_a_wrong_link_layer_retry_fails_its_case(mutation: Mutation, records: list[Record]) -> None:
    own = [record for record in records if record.case == mutation.name]
    failed = {figure.name for record in own for figure in record.figures if not figure.passed}
    shown = [record.failures() for record in own]
    assert mutation.figures <= failed <= mutation.figures | mutation.may, shown


def test_every_case_of_link_layer_retry_has_a_mutation() -> None:
    mutated = {one.test for one in MUTATIONS}
    assert not [case for case, tests in RETRY_CASES.items() if not mutated & set(tests)]
    assert mutated <= {test for tests in RETRY_CASES.values() for test in tests}
    assert len({one.name for one in MUTATIONS}) == len(MUTATIONS)
