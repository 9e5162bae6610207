"""P4Info: p4info/NAME.p4 gives exactly p4info/NAME.txtpb, which p4c-bm2-ss writes for the same program.

They are p4c 1.2.5.16's. Of objects.p4 and types.p4 its back end refuses a part (registers of structs, action data of
enums), but not before it has written P4Info.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from p4switch.frontend import CompileError, compile_p4
from p4switch.frontend.identity import jenkins_one_at_a_time
from p4switch.p4info import p4info_of, text_of

PROGRAMS = sorted((Path(__file__).parent / "p4info").glob("*.p4"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_same_as_p4c(program: Path) -> None:
    assert text_of(p4info_of(compile_p4(program))) == program.with_suffix(".txtpb").read_text()


def test_there_are_programs() -> None:
    assert len(PROGRAMS) >= 4


def test_hash() -> None:
    # The id that every P4 programmer has seen: NoAction is 21257015 = 0x01445b37.
    assert jenkins_one_at_a_time(b"NoAction") & 0xFFFFFF == 0x445B37


def test_two_runs_agree() -> None:
    first, second = (text_of(p4info_of(compile_p4(PROGRAMS[0]))) for _ in range(2))
    assert first == second


def test_a_file_without_a_package_has_empty_p4info(tmp_path: Path) -> None:
    path = tmp_path / "library.p4"
    path.write_text("#include <v1model.p4>\nconst bit<8> x = 1;\n")
    with pytest.raises(CompileError, match="the program has no 'main'"):
        compile_p4(path)
    assert not p4info_of(compile_p4(path, control_plane_only=True)).ListFields()
