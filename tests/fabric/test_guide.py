"""docs/guide.md: every program and every command runs as it stands there, and prints what is shown."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.fabric.conftest import REPOSITORY

GUIDE = (REPOSITORY / "docs" / "guide.md").read_text()
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", GUIDE, re.DOTALL))
OUTPUTS = dict(re.findall(r"<!-- output: (\S+) -->\n```text\n(.*?)```", GUIDE, re.DOTALL))
COMMANDS = [line for text in re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL) for line in text.splitlines()]


def run(command: str, directory: Path) -> tuple[int, str]:
    """Run a command of the guide, with its files in a directory of their own; return status and output."""
    for name, text in FILES.items():
        (directory / name).write_text(text)
        command = command.replace(f"={name}", f"={directory / name}")
    # These tests may run under make themselves, which would pass its own flags and variables on.
    plain = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(
        command, shell=True, cwd=REPOSITORY, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env={**plain, "RUN_DIR": str(directory / "run"), "COLUMNS": "100", "PYTHONPATH": str(REPOSITORY)}, timeout=170,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_everything_shown_is_run() -> None:
    assert len(COMMANDS) == 7
    assert all(command.startswith("make run ") for command in COMMANDS)
    used = [name for name in FILES if sum(f"={name} " in command for command in COMMANDS) == 1]
    assert used == list(FILES)
    assert set(OUTPUTS) == {name for name in FILES if name.endswith(".py")}
    assert GUIDE.count("```python") == len(OUTPUTS)


@pytest.mark.parametrize("command", [command for command in COMMANDS if "failover" not in command])
def test_command(command: str, tmp_path: Path) -> None:
    status, printed = run(command, tmp_path)
    assert status == 0, printed
    assert "\nok: " in printed
    for name, expected in OUTPUTS.items():
        if f"={name} " in command:
            lines = [line for line in printed.splitlines() if re.match(r"g\d+ \| ", line)]
            assert sorted(lines) == sorted(expected.splitlines()), printed


def test_failover_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """How fast it is depends on what else the machine does, and the verdict with it."""
    [command] = [command for command in COMMANDS if "failover" in command]
    _, printed = run(command, tmp_path)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["cuts"], summary["bytes_lost"], summary["bytes_doubled"]) == (10, 0, 0), printed


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", GUIDE):
        assert (REPOSITORY / "docs" / target).exists(), target
