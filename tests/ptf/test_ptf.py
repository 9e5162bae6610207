"""The packet tests on both targets, and their runner: it has to fail when it should, say why, and leave nothing."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from topologies.options import TOOLS

REPOSITORY = Path(__file__).resolve().parents[2]
P4SRC = REPOSITORY / "p4src"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="packet tests need root")
needs_bmv2 = pytest.mark.skipif(not all(map(shutil.which, TOOLS["bmv2"])), reason="p4c and BMv2 are not installed")


def run(run_dir: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the runner as a user does, with its logs in `run_dir`."""
    return subprocess.run(
        [sys.executable, "-m", "ptf_tests.run", "--run-dir", str(run_dir), *arguments],
        capture_output=True, text=True, check=False, cwd=REPOSITORY, env={**os.environ, **environment}, timeout=170,
    )  # fmt: skip


def interfaces() -> set[str]:
    """Return the names of this namespace's interfaces."""
    return {path.name for path in Path("/sys/class/net").iterdir()}


@pytest.mark.parametrize("target", ["p4switch", pytest.param("bmv2", marks=needs_bmv2)])
def test_packet_tests(target: str, tmp_path: Path) -> None:
    before = interfaces()
    done = run(tmp_path, "--target", target)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"packet tests on {target}: (\d+) of \1 ran, passed", done.stdout)
    assert interfaces() == before


def test_a_wrong_program_fails(tmp_path: Path) -> None:
    """A program that does not decrement the hop limit is noticed, by name of the test."""
    changed = tmp_path / "p4src"
    shutil.copytree(P4SRC, changed)
    file = changed / "credits" / "departures.p4"
    text = file.read_text()
    assert "hdr.oefh.hops - 1" in text
    file.write_text(text.replace("hdr.oefh.hops - 1", "hdr.oefh.hops"))
    done = run(tmp_path, "--program", str(changed / "ethlink.p4"), "--filter", "hop_limit")
    assert done.returncode == 1
    assert "FAIL: hop_limit.Decremented" in done.stdout
    assert "FAILED" in done.stdout.splitlines()[-1]


def test_a_program_with_an_error_is_named(tmp_path: Path) -> None:
    program = tmp_path / "broken.p4"
    program.write_text("#include <core.p4>\n#include <v1model.p4>\nconst bit<8> x = y;\n")
    done = run(tmp_path, "--program", str(program))
    assert done.returncode == 1
    assert "does not compile" in done.stderr
    assert "broken.p4:3" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_switch_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    """With stand-ins for BMv2's tools: what the switch said last is shown."""
    tools = tmp_path / "bin"
    tools.mkdir()
    touch = 'while [ $# -gt 0 ]; do [ "$1" = --p4runtime-files ] && : > "$2"; shift; done'
    for name, script in {
        "p4c-bm2-ss": touch,
        "simple_switch_CLI": "exit 0",
        "simple_switch_grpc": "echo the floor is lava; exit 3",
    }.items():
        (tools / name).write_text(f"#!/bin/sh\n{script}\nexit 0\n")
        (tools / name).chmod(0o755)
    done = run(tmp_path, "--target", "bmv2", "--filter", "ecn", PATH=f"{tools}:{os.environ['PATH']}")
    assert done.returncode == 1
    assert "exit status 3" in done.stderr
    assert "the floor is lava" in done.stderr
    assert "Traceback" not in done.stderr


def test_filter_and_list(tmp_path: Path) -> None:
    listed = run(tmp_path, "--list", "--filter", "hop_limit")
    assert listed.returncode == 0
    assert "hop_limit.Expired" in listed.stdout.split()
    assert all(name.startswith("hop_limit.") for name in listed.stdout.split())
    nothing = run(tmp_path, "--filter", "no_such_test")
    assert nothing.returncode == 1
    assert "no test's name contains no_such_test" in nothing.stderr


def test_an_unknown_target_is_refused(tmp_path: Path) -> None:
    for done in (run(tmp_path, "--target", "tofino"), run(tmp_path, P4_TARGET="tofino")):
        assert done.returncode == 2
        assert "p4switch" in done.stderr
        assert "Traceback" not in done.stderr


def test_nothing_is_left_after_an_interrupt(tmp_path: Path) -> None:
    before = interfaces()
    runner = subprocess.Popen(
        [sys.executable, "-m", "ptf_tests.run", "--run-dir", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=REPOSITORY,
    )  # fmt: skip
    log = tmp_path / "logs" / "s1.log"
    deadline = time.monotonic() + 60
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert log.exists(), "the switch was not started"
    runner.send_signal(signal.SIGTERM)
    runner.communicate(timeout=30)
    assert runner.returncode not in (0, None)
    assert interfaces() == before
    mark = str(tmp_path).encode()
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark in _content(path)]
    assert not left


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # the process has ended


def test_the_documented_test_runs(tmp_path: Path) -> None:
    """The example of docs/packet-tests.md, in a folder of its own as the page says."""
    (example,) = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs" / "packet-tests.md").read_text(), re.DOTALL)
    folder = tmp_path / "my_tests"
    folder.mkdir()
    (folder / "moves.py").write_text(example)
    done = run(tmp_path, "--tests", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 ran, passed" in done.stdout


def test_every_file_of_tests_is_documented() -> None:
    text = (REPOSITORY / "docs" / "packet-tests.md").read_text()
    for path in (REPOSITORY / "ptf_tests" / "cases").glob("*.py"):
        assert path.name in text
