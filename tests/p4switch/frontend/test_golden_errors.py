"""Every kind of mistake, with the exact message that it gives: golden/NAME.p4 with golden/NAME.txt.

To accept changed messages after reading them: P4SWITCH_UPDATE_GOLDEN=1 pytest
tests/p4switch/frontend/test_golden_errors.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from p4switch.frontend import CompileError, compile_p4

GOLDEN = Path(__file__).parent / "golden"
PROGRAMS = sorted(GOLDEN.glob("*.p4"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_message(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN)  # so that messages name files without their directories
    with pytest.raises(CompileError) as caught:
        compile_p4(Path(program.name))
    message = str(caught.value) + "\n"
    expected = program.with_suffix(".txt")
    if os.environ.get("P4SWITCH_UPDATE_GOLDEN"):
        expected.write_text(message)
    assert message == expected.read_text()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_every_diagnostic_has_a_place(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN)
    with pytest.raises(CompileError) as caught:
        compile_p4(Path(program.name))
    for diagnostic in caught.value.diagnostics:
        assert diagnostic.loc.file == program.name
        assert 1 <= diagnostic.loc.line <= program.read_text().count("\n") + 1
        assert diagnostic.loc.column >= 1


def test_there_are_messages_of_every_phase() -> None:
    phases = {p.stem.split("_")[0] for p in PROGRAMS}
    assert {"pp", "lex", "parse", "name", "type", "call", "table", "parser", "extern", "package"} <= phases
    assert len(PROGRAMS) >= 40
