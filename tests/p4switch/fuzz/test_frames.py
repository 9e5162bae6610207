"""Random and mutated frames at the test programs under AddressSanitizer and UBSan, while tables change at random.

The frames to start from are those of the programs' STF scripts. $P4SWITCH_FUZZ multiplies the rounds.
"""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from p4switch.build import compile_container
from p4switch.stf.script import parse
from p4switch.toolchain import RUNTIME, compiler
from tests.p4switch.fuzz import TIMES

TESTS = Path(__file__).parents[1]
INCLUDE = TESTS / "language" / "programs"
PROGRAMS = sorted(
    program
    for folder in ("language/programs", "server/programs", "trace", "frontend/p4info", "runtime")
    for program in (TESTS / folder).glob("*.p4")
    if program.name not in ("common.p4", "parser_types.p4")  # which others include
    and program.name != "own_metadata.p4"  # needs a v1model.p4 of its own
)
FLAGS = ["-std=gnu11", "-O1", "-g", "-w", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{RUNTIME}"]
ROUNDS = 300


def compile_c(*arguments: str | Path) -> None:
    built = subprocess.run([compiler(), *FLAGS, *map(str, arguments)], capture_output=True, text=True, check=False)
    if "cannot find -lasan" in built.stderr or "libasan" in built.stderr:
        pytest.skip("the compiler has no sanitizers installed")
    assert built.returncode == 0, built.stderr


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("driver") / "driver"
    source = Path(__file__).with_name("driver.c")
    compile_c("-rdynamic", source, *sorted(RUNTIME.glob("*.c")), "-pthread", "-ldl", "-lm", "-o", path)
    return path


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_random_frames(program: Path, driver: Path, tmp_path: Path) -> None:
    source, library, frames = (tmp_path / file for file in ("program.c", "program.so", "frames"))
    container = compile_container(program, [INCLUDE], {})
    source.write_text(container.c_source)
    compile_c("-shared", "-fPIC", source, "-o", library)
    scripts = program.parent.glob(f"{program.stem}.*stf")
    packets = [s.data for script in scripts for s in parse(script) if s.keyword == "packet"]
    data = [bytes.fromhex(digits or "") for digits in packets]
    frames.write_bytes(b"".join(struct.pack("=I", len(frame)) + frame for frame in data))
    command = [driver, library, frames, "1", str(ROUNDS * TIMES)]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr[-4000:]
