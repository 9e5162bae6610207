"""The example of docs/p4switch.md: its files as printed there, its commands as printed there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from p4switch.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "p4switch.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)


def test_the_example_works_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("P4SWITCH_CACHE", str(tmp_path / "cache"))
    blocks = BLOCK.findall(PAGE.read_text())
    for kind, text in blocks:
        if kind in ("p4", "stf"):
            name = text.split(maxsplit=2)[1]
            (tmp_path / name).write_text(text)
    (commands,) = (text.splitlines() for kind, text in blocks if kind == "sh")
    (trace,) = (text for kind, text in blocks if kind == "text")
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "p4switch"
        assert main(arguments) == 0, capfd.readouterr()
    assert (tmp_path / "build" / "reflector.p4bin").exists()
    assert (tmp_path / "build" / "reflector.p4info.txtpb").exists()
    output = capfd.readouterr().out
    assert trace in output
    assert "table Forward_stations of ingress" in output  # the IR
