"""Run the launcher as a user does, and check that nothing of it stays behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
BMV2_TOOLS = ("p4c-bm2-ss", "simple_switch_grpc", "simple_switch_CLI")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() != 0:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="a fabric needs root"))


@pytest.fixture(
    params=[
        "p4switch",
        pytest.param(
            "bmv2",
            marks=pytest.mark.skipif(not all(map(shutil.which, BMV2_TOOLS)), reason="p4c and BMv2 are not installed"),
        ),
    ]
)
def target(request: pytest.FixtureRequest) -> str:
    """Each of the two targets, BMv2 where it is installed."""
    return str(request.param)


@dataclass
class Launcher:
    """One way to run the launcher: from a network namespace `netns`, with everything it writes in `run_dir`.

    `mark` is a variable of its environment that all its descendants inherit.
    """

    run_dir: Path
    netns: str
    mark: str
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def marked(self) -> dict[str, str]:
        """The marking variable."""
        name, _, value = self.mark.partition("=")
        return {name: value}

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of `python -m topologies`, as started from the namespace."""
        program = [sys.executable, "-m", "topologies", "--run-dir", str(self.run_dir), *arguments]
        return ["ip", "netns", "exec", self.netns, *program]

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start `python -m topologies`."""
        names = ("TOPO", "SCENARIO", "SCRIPT", "PROFILE", "P4_TARGET", "PCAP", "LINKS", "RUN_DIR", "ETHLINK_STARTED")
        plain = {name: value for name, value in os.environ.items() if name not in names}
        process = subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY,
            env={**plain, **environment, **self.marked},
        )  # fmt: skip
        self.started.append(process)
        return process

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        """Run it to its end and return status, output and errors."""
        process = self.start(*arguments, **environment)
        output, errors = process.communicate(timeout=100)
        return process.returncode, output, errors


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    """A launcher with a run directory and a network of its own; afterwards nothing of the fabric may be left."""
    unique = f"{os.getpid()}-{time.time_ns()}"
    netns = f"ethlink-{unique}"
    subprocess.run(["ip", "netns", "add", netns], check=True)
    try:
        made = Launcher(tmp_path / "run", netns, f"ETHLINK_TEST={unique}")
        yield made
        for process in made.started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=20)
        wait_until(lambda: not leftovers(made.mark), "nothing of the fabric runs", lambda: leftovers(made.mark))
        links = subprocess.run(["ip", "-n", netns, "-br", "link"], check=True, capture_output=True, text=True).stdout
        assert [line.split()[0] for line in links.splitlines()] == ["lo"]
        assert not (made.run_dir / "launcher.json").exists() or any(p.returncode == -9 for p in made.started)
    finally:
        subprocess.run(["ip", "netns", "del", netns], check=True)


def leftovers(mark: str) -> list[str]:
    """Return the command lines of the processes that descend from a launcher with this mark in its environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it ended meanwhile
    return found


def wait_until(condition: Callable[[], bool], what: str, detail: Callable[[], object], timeout_s: float = 20) -> None:
    """Wait for a condition; fail with its name and `detail` when it does not come."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not so after {timeout_s:g} s: {what}; {detail()}"
        time.sleep(0.02)
