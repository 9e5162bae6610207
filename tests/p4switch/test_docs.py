"""The examples of docs/p4switch.md: their files as printed there, their commands as printed there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from p4switch.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "p4switch.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)


def write_files(directory: Path) -> dict[str, list[str]]:
    """Write the page's files; give its other blocks by kind."""
    others: dict[str, list[str]] = {}
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind in ("p4", "stf", "py"):
            (directory / text.split(maxsplit=2)[1]).write_text(text)
        else:
            others.setdefault(kind, []).append(text)
    return others


def test_the_example_works_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("P4SWITCH_CACHE", str(tmp_path / "cache"))
    blocks = write_files(tmp_path)
    (trace,) = blocks["text"]
    for command in blocks["sh"][0].splitlines():
        program, *arguments = shlex.split(command)
        assert program == "p4switch"
        assert main(arguments) == 0, capfd.readouterr()
    assert (tmp_path / "build" / "reflector.p4bin").exists()
    assert (tmp_path / "build" / "reflector.p4info.txtpb").exists()
    output = capfd.readouterr().out
    assert trace in output
    assert "table Forward_stations of ingress" in output  # the IR


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_the_switch_runs_as_printed(tmp_path: Path) -> None:
    """In a network namespace of its own, the installed commands stood in for by this interpreter's."""
    (commands,) = write_files(tmp_path)["sh"][1:]
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, command in (("p4switch", f"{sys.executable} -m p4switch"), ("python3", sys.executable)):
        (tools / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (tools / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(PAGE.parents[1])}
    script = f"set -e\nip link set lo up\n{commands}wait %1 || true\n"
    done = subprocess.run(
        ["unshare", "--net", "--pid", "--fork", "--kill-child", "bash", "-c", script],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "p4switch: device 1 ready, grpc 127.0.0.1:50051"
    assert "reflect" in lines[1]
    assert lines[2] == "answer 0200000000020200000000010800aabb"
