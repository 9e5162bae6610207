"""The fabric at a terminal: the Mininet prompt with the fabric's own commands, Ctrl-C at it, the REPL beside it."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.repl import SHELL_PYTHON
from tests.fabric.conftest import REPOSITORY, Launcher, wait_until
from tests.fabric.test_readme import block


class Terminal:
    """A launcher on a pseudo-terminal, spoken to as a person would."""

    def __init__(self, launcher: Launcher, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40", **launcher.marked}
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *launcher.command(*arguments)],
            stdin=slave, stdout=slave, stderr=slave, cwd=REPOSITORY, env=environment,
        )  # fmt: skip
        os.close(slave)

    def expect(self, pattern: str, timeout_s: float = 40) -> str:
        """Read until `pattern` appears and return everything read; control sequences are left out."""
        text = ""
        deadline = time.monotonic() + timeout_s
        while not re.search(pattern, text):
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no {pattern!r} within {timeout_s:g} s in: {text}"
            try:
                data = os.read(self._master, 4096).decode(errors="replace")
            except OSError:
                data = ""  # the other side is closed
            assert data, f"ended before {pattern!r}: {text}"
            text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", data)
        return text

    def send(self, text: str) -> None:
        """Type."""
        os.write(self._master, text.encode())

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            os.close(self._master)


@pytest.fixture
def terminal(launcher: Launcher) -> Iterator[Terminal]:
    """A fabric at its prompt."""
    made = Terminal(launcher, "--topo", "planes,3,2", "--scenario", "ping", "--count", "20")
    try:
        made.expect("mininet> ")
        yield made
    finally:
        made.close()
        try:
            made.process.wait(20)
        except subprocess.TimeoutExpired:
            made.process.kill()
            raise


def test_the_prompt_runs_scenarios_and_restarts_switches(terminal: Terminal) -> None:
    terminal.send("scenario random --count 100\n")
    assert "ok: random" in terminal.expect("mininet> ")
    terminal.send("scenario flood\n")
    assert "*** choose one of: ping, random, all-to-all, incast, permutation" in terminal.expect("mininet> ")
    terminal.send("counters\n")
    assert re.search(r"s1 port 1: [\d,]+ in, [\d,]+ out\r\n", terminal.expect("mininet> "))
    terminal.send("credits\n")
    assert "No managed links here" in terminal.expect("mininet> ")
    terminal.send("restart s1\n")
    terminal.expect("mininet> ")
    terminal.send("counters\n")
    assert "s1 port" not in terminal.expect("mininet> "), "a new switch has counted nothing"
    terminal.send("restart s7\n")
    assert "*** choose one of: s1, s2" in terminal.expect("mininet> ")
    terminal.send("g1 ip -br link\n")
    assert "g1-eth1" in terminal.expect("mininet> ")
    terminal.send('g2 python -c "from endpoint import Gpu; print(Gpu.from_environment())"\n')
    assert "Gpu(id=2, planes=[0, 1]" in terminal.expect("mininet> ")
    terminal.send("scenario ping --count 10\n")
    assert "ok: ping" in terminal.expect("mininet> ")
    terminal.send("exit\n")
    terminal.expect("stopping")
    assert terminal.process.wait(20) == 0


def test_ctrl_c_at_the_prompt_is_mininets(terminal: Terminal) -> None:
    terminal.send("g1 sleep 30\n")
    time.sleep(0.5)
    terminal.send("\x03")
    terminal.expect("mininet> ")
    terminal.send("g1 echo still here\n")
    assert "still here\r\n" in terminal.expect("mininet> ")
    terminal.send("\x04")
    terminal.expect("stopping")
    assert terminal.process.wait(20) == 0


def test_hanging_up_ends_the_fabric(terminal: Terminal) -> None:
    terminal.close()
    assert terminal.process.wait(20) != 0


def test_the_repl_edits_the_running_fabric(terminal: Terminal, launcher: Launcher) -> None:
    """`make repl`, as it is: stock p4runtime-shell entering the namespaces, fed from a pipe."""
    if not SHELL_PYTHON.exists():
        pytest.fail("p4runtime-shell is missing; `make .venv-repl/.ready` installs it")
    typed = block("repl", "python") + "print(len(list(table_entry['forward'].read())), 'routes')\n"
    done = subprocess.run(
        [sys.executable, "-m", "controller.repl", "s2", "--run-dir", str(launcher.run_dir)],
        input=typed, capture_output=True, text=True, timeout=60, check=False, cwd=REPOSITORY,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "p4runtime-shell on s2 (127.0.0.1:50052, device 2)" in done.stdout
    assert "3 routes" in done.stdout

    def drifted() -> bool:
        return "s2: changed: forward(dst=2, tenant=1) -> to_port(port=3)" in ask("drift", launcher.run_dir)

    wait_until(drifted, "the edit shows as drift", lambda: ask("drift", launcher.run_dir))
    assert "s1" not in ask("drift", launcher.run_dir)
    status = ask("status", launcher.run_dir)
    assert re.search(r"s2 .*programmed .*controller .*1 .*1", status), status
    assert "s2" in ask("counters", launcher.run_dir, "s2")
    terminal.send("restart s2\n")
    terminal.expect("mininet> ")
    assert ask("drift", launcher.run_dir) == "The switches hold what the controller installed.\n"
    terminal.send("exit\n")
    terminal.expect("stopping")
    assert terminal.process.wait(20) == 0


def ask(command: str, run_dir: Path, *arguments: str) -> str:
    """Return what one of the controller's commands prints about the running fabric."""
    done = subprocess.run(
        [sys.executable, "-m", "controller", command, *arguments, "--fabric", str(run_dir / "fabric.json")],
        capture_output=True, text=True, timeout=30, check=False, cwd=REPOSITORY,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout
