"""The server driven by stock p4runtime-shell, in the environment that `make repl` uses.

Each script of shell/ runs in a process of its own, as its protobuf and this one's do not go together. It gets the
server's address, the P4Info and the device config as arguments, and prints "done" at its end.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from google.protobuf import text_format

from p4switch.build import BuildResult, build
from p4switch.dataplane import DataPlane
from p4switch.server import P4RuntimeServer
from tests.p4switch.server.conftest import PROGRAMS

SCRIPTS = Path(__file__).parent / "shell"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(shell_python: Path, empty_server: P4RuntimeServer, tmp_path: Path) -> Run:
    """Run a script of shell/ against a switch that has no program yet; it gets one to push."""

    def run(script: str, program: BuildResult) -> subprocess.CompletedProcess[str]:
        p4info, blob = tmp_path / "program.p4info.txtpb", tmp_path / "program.p4bin"
        p4info.write_text(text_format.MessageToString(program.p4info))
        blob.write_bytes(program.container)
        command: list[str | Path] = [shell_python, SCRIPTS / script, f"127.0.0.1:{empty_server.port}", p4info, blob]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        assert result.stdout.endswith("done\n"), result.stdout + result.stderr
        return result

    return run


@pytest.fixture
def traffic(dataplane: DataPlane) -> Iterator[None]:
    """Let a frame arrive on port 6 every 20 ms."""
    frame = bytes.fromhex("00000000000a00000000000b1234") + bytes(46)
    done = threading.Event()

    def send() -> None:
        while not done.wait(0.02):
            dataplane.packet_out(frame, 6)

    thread = threading.Thread(target=send)
    thread.start()
    yield
    done.set()
    thread.join()


@pytest.mark.parametrize(
    "script", ["tables.py", "entities.py", "batches.py", "reads.py", "resources.py", "sessions.py"]
)
def test_scripts(run: Run, program: BuildResult, script: str) -> None:
    run(script, program)


def test_errors(run: Run, program: BuildResult) -> None:
    output = run("errors.py", program).stdout
    assert "At index 0: INVALID_ARGUMENT" in output
    assert "need a priority above 0" in output
    assert "ALREADY_EXISTS" in output


def test_packets(run: Run, program: BuildResult, traffic: None) -> None:
    run("packets.py", program)


@pytest.mark.parametrize("name", ["initial_entries", "profiles", "translated", "zero_width"])
def test_other_programs(run: Run, name: str) -> None:
    run(f"{name}.py", build(PROGRAMS / f"{name}.p4"))


def test_watched_ports(run: Run, cabled: str) -> None:
    run("watched.py", build(PROGRAMS / "profiles.p4"))
