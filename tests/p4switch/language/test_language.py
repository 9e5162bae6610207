"""Each language feature by a small P4 program and an STF script, run through `p4switch stf`.

The cache is one directory for the whole run, so that the runtime is compiled once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from p4switch.cli import main

PROGRAMS = Path(__file__).parent / "programs"
SCRIPTS = sorted(PROGRAMS.glob("*.stf"))


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("p4switch-cache")


def run_stf(program: Path, script: Path, cache_dir: Path) -> int:
    return main(["stf", str(program), str(script), "--cache-dir", str(cache_dir)])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: s.stem)
def test_feature(script: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # NAME.stf, or NAME.WHAT.stf for a further script of the same program
    program = script.with_name(script.name.split(".")[0] + ".p4")
    status = run_stf(program, script, cache_dir)
    captured = capsys.readouterr()
    assert status == 0, captured.out + captured.err


BAD_SCRIPTS = {
    "wrong byte": (
        "packet 1 01 02 0003 00000004\nexpect 2 01 02 0003 00000005",
        "bad.stf:2: port 2: the frame differs in byte 7",
    ),
    "wrong length": (
        "packet 1 01 02 0003 00000004\nexpect 2 01 02 0003 $",
        "bad.stf:2: port 2: the frame has 8 bytes, exactly 4",
    ),
    "missing": ("expect 2 01", "bad.stf:1: port 2: nothing came"),
    "unexpected": (
        "packet 1 01 02 0003 00000004\nexpect 3 01\npacket 2 00 00 0000 00000000",
        "bad.stf:1: port 2: not expected",
    ),
    "no_packet": ("packet 1 01 02 0003 00000004\nno_packet", "bad.stf:2: no packet was expected"),
    "register": ("register_read cells 1 == 5", "bad.stf:1: register cells[1] is 0x0, not == 0x5"),
    "unknown table": ("add tabel a:1 x()", "bad.stf:1: no table 'tabel' in the program"),
    "unknown statement": ("# comment\nsend 1 00", "bad.stf:2: unknown statement 'send'"),
    "odd digits": ("packet 1 123", "bad.stf:1: the frame has an odd number of hexadecimal digits"),
}


@pytest.mark.parametrize("name", BAD_SCRIPTS)
def test_failures_say_where(name: str, tmp_path: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, message = BAD_SCRIPTS[name]
    script = tmp_path / "bad.stf"
    script.write_text(text)
    program = tmp_path / "echo.p4"
    program.write_text(
        '#include "common.p4"\n'
        "register<bit<8>>(4) cells;\n"
        "control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {\n"
        "apply { std.egress_spec = 2; cells.write(0, hdr.h.a); } }\nMAIN(I)\n"
    )
    status = main(["stf", str(program), str(script), "-I", str(PROGRAMS), "--cache-dir", str(cache_dir)])
    captured = capsys.readouterr()
    assert status == 1
    assert message in captured.out + captured.err
