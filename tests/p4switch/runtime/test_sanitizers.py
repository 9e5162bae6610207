"""The runtime under AddressSanitizer and UBSan."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from p4switch.toolchain import RUNTIME, compiler

HERE = Path(__file__).parent
FLAGS = ["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{RUNTIME}"]


def test_random_frames_and_updates(tmp_path: Path) -> None:
    program, driver = tmp_path / "verbs.so", tmp_path / "sanitize"
    builds = [
        [compiler(), *FLAGS, "-shared", "-fPIC", HERE / "verbs.c", "-o", program],
        [compiler(), *FLAGS, "-rdynamic", HERE / "sanitize.c", *RUNTIME.glob("*.c"), "-pthread", "-ldl", "-o", driver],
    ]
    for command in builds:
        built = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if "cannot find -lasan" in built.stderr or "libasan" in built.stderr:
            pytest.skip("the compiler has no sanitizers installed")
        assert built.returncode == 0, built.stderr
    done = subprocess.run([driver, program], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0 and done.stdout == "ok\n", done.stderr[-4000:]
