"""The switch program as source: what both compilers say of it, and the rules that its files keep."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from finsy.proto import p4i
from google.protobuf import text_format

from p4switch.frontend import compile_p4
from p4switch.p4info import p4info_of

P4SRC = Path(__file__).resolve().parents[2] / "p4src"
PROGRAM = P4SRC / "ethlink.p4"
FILES = sorted(P4SRC.rglob("*.p4"))


@pytest.mark.skipif(shutil.which("p4c-bm2-ss") is None, reason="p4c is not installed")
def test_p4c_accepts_it_without_a_word_and_agrees_on_p4info(tmp_path: Path) -> None:
    p4info = tmp_path / "p4info.txtpb"
    done = subprocess.run(
        ["p4c-bm2-ss", "--p4runtime-files", str(p4info), "-o", str(tmp_path / "out.json"), str(PROGRAM)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    theirs, ours = text_format.Parse(p4info.read_text(), p4i.P4Info()), p4info_of(compile_p4(PROGRAM))
    if not any(table.HasField("initial_default_action") for table in theirs.tables):
        for table in ours.tables:  # p4c before 1.2.4.15 does not know this field of P4Runtime 1.4
            table.ClearField("initial_default_action")
    assert theirs == ours


def test_the_ingress_reads_as_a_table_of_contents() -> None:
    """Each step of the main program is one line that applies a control of an included file."""
    text = PROGRAM.read_text()
    instances = dict(re.findall(r"^ {4}(\w+)\(\) (\w+);", text, re.MULTILINE))
    assert len(instances) >= 10
    for control, instance in instances.items():
        assert re.search(rf"^ +{instance}\.apply\([^\n]*\);", text, re.MULTILINE), f"{instance} is never applied"
        defined = [path for path in FILES if re.search(rf"^control {control}\(", path.read_text(), re.MULTILINE)]
        assert [path.stem for path in defined] == [instance]


@pytest.mark.parametrize("path", [path for path in FILES if path != PROGRAM], ids=lambda path: path.name)
def test_a_control_opens_with_what_it_is_for(path: Path) -> None:
    for found in re.finditer(r"^(control|parser) \w+", path.read_text(), re.MULTILINE):
        before = path.read_text()[: found.start()]
        assert before.endswith("*/\n"), f"{found[0]} in {path.name} has no comment that says why it exists"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_depends_on_the_target(path: Path) -> None:
    """The preprocessor serves include guards and lists of fields only, so that every target runs the same program."""
    lines = path.read_text().splitlines()
    conditions = [line for line in lines if re.match(r"#\s*(if|ifdef|else|elif)\b", line)]
    assert not conditions
    guards = [line for line in lines if re.match(r"#\s*ifndef\b", line)]
    assert guards == ([] if path == PROGRAM else [f"#ifndef {path.stem.upper()}_P4"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_stay_readable(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= 800
    assert all(len(line) <= 120 for line in lines)
