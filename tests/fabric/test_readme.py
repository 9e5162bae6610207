"""The README's commands do what it says, its output is the kind that they print, and its bytes are a real frame's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codec.scapy_layers import LSU, OEFH, Link
from controller.routes import next_hops
from tests.fabric.conftest import BMV2_TOOLS, REPOSITORY
from topologies.describe import describe
from topologies.topos import FabricTopo

README = (REPOSITORY / "README.md").read_text()


def block(mark: str, language: str) -> str:
    """Return the code block after the comment `mark`."""
    found = re.search(rf"<!-- {re.escape(mark)} -->\n```{language}\n(.*?)```", README, re.DOTALL)
    assert found, f"README has no block {mark}"
    return found[1]


def commands() -> list[str]:
    """Return every `make run` of the README's shell blocks."""
    lines = [line for text in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) for line in text.splitlines()]
    return [line for line in lines if line.startswith("make run")]


def shape(text: str) -> list[str]:
    """Return the words of a run's output up to where its files are, without figures, spaces and rules."""
    return re.findall(r"[A-Za-z][A-Za-z_./-]*", text.partition("summary.json")[0])


def make(command: str, run_dir: Path) -> str:
    # These tests may run under make themselves, which would pass its own flags and variables on.
    plain = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(
        command, shell=True, cwd=REPOSITORY, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env={**plain, "RUN_DIR": str(run_dir), "COLUMNS": "100", "PYTHONPATH": str(REPOSITORY)}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_there_are_commands_to_check() -> None:
    assert len(commands()) >= 4


def test_make_run_prints_what_the_readme_shows(tmp_path: Path) -> None:
    shown = shape(block("output: run", "text"))
    assert "switches" in shown
    assert shape(make("make run", tmp_path / "run")) == shown


def test_the_script_prints_what_the_readme_shows(tmp_path: Path) -> None:
    script = tmp_path / "my.py"
    script.write_text(block("script", "python"))
    [command] = [line for line in commands() if "SCRIPT=" in line]
    printed = make(command.replace("my.py", str(script)), tmp_path / "run").splitlines()
    expected = block("output: script", "text").splitlines()
    assert sorted(line for line in printed if " | " in line) == sorted(line for line in expected if " | " in line)


@pytest.mark.parametrize("command", [c for c in commands() if c != "make run" and "SCRIPT=" not in c])
def test_other_runs_end_well(command: str, tmp_path: Path) -> None:
    if "bmv2" in command and not all(map(shutil.which, BMV2_TOOLS)):
        pytest.skip("p4c and BMv2 are not installed")
    assert "\nok: " in make(command, tmp_path / "run")


def test_the_topology_is_one() -> None:
    names: dict[str, Any] = {"FabricTopo": FabricTopo}
    exec(block("topology", "python"), names)
    fabric = describe(names["Ring"](gpus=5), "ring")
    assert len(fabric.switches) == 5
    hops = next_hops(fabric, fabric.switch("s1"))
    assert hops == {1: (1,), 2: (2,), 3: (2,), 4: (3,), 5: (3,)}


def test_the_frames_are_real() -> None:
    """Every line is an offset, bytes, and what they mean; together they are a store and its acknowledgement."""
    text = block("output: frames", "text")
    frames = []
    for part in re.split(r"\n\n", text.strip()):
        rows = re.findall(r"^ *(\d+)  ((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  |$)", part, re.MULTILINE)
        data = b""
        for offset, digits in rows:
            assert int(offset) == len(data), "offsets count the bytes"
            data += bytes.fromhex(digits)
        frames.append(data)
    store, ack = (Link(data) for data in frames)
    assert (store[OEFH].src, store[OEFH].dst, store[OEFH].vc) == (1, 2, 0)
    assert (store[LSU].opcode, store[LSU].key, store[LSU].address, store[LSU].length) == (2, 7, 0x40, 8)
    assert b"EthLink!" in frames[0]
    assert (ack[OEFH].src, ack[OEFH].dst, ack[OEFH].vc) == (2, 1, 1)
    assert (ack[LSU].opcode, ack[LSU].request) == (10, store[LSU].request)
    for data in frames:
        rebuilt = Link(data)
        del rebuilt.crc  # filled in anew
        assert bytes(rebuilt) == data
    assert [len(data) for data in frames] == [48, 40]


def test_every_link_leads_somewhere() -> None:
    prose = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)\)", prose):
        assert (REPOSITORY / target).exists(), target
