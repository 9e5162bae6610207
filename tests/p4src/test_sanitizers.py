"""The switch program itself under AddressSanitizer and UBSan: no frame reads or writes where it should not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from p4switch.toolchain import RUNTIME, compiler

HERE = Path(__file__).parent
PROGRAM = HERE.parents[1] / "p4src" / "ethlink.p4"
FLAGS = ["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{RUNTIME}"]


def test_random_frames(tmp_path: Path) -> None:
    source, program, driver = tmp_path / "ethlink.c", tmp_path / "ethlink.so", tmp_path / "sanitize"
    compiled = subprocess.run(
        [sys.executable, "-m", "p4switch", "compile", str(PROGRAM), "--dump", "c", "-o", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert compiled.returncode == 0, compiled.stderr
    source.write_text(compiled.stdout)
    for command in (
        [compiler(), *FLAGS, "-shared", "-fPIC", source, "-o", program],
        [compiler(), *FLAGS, "-rdynamic", HERE / "sanitize.c", *RUNTIME.glob("*.c"), "-pthread", "-ldl", "-o", driver],
    ):
        built = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if "cannot find -lasan" in built.stderr or "libasan" in built.stderr:
            pytest.skip("the compiler has no sanitizers installed")
        assert built.returncode == 0, built.stderr
    done = subprocess.run([driver, program], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr[-4000:]
