"""Namespaces: nothing that the body starts outlives it, on every way out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")

PROGRAM = """
import os, signal, subprocess, sys, time
from topologies.namespace import run_isolated
def body():
    subprocess.run(["ip", "link", "add", "tc-a", "type", "veth", "peer", "name", "tc-b"], check=True)
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True).stdout.split()
    subprocess.Popen(["sleep", sys.argv[2]], start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
    signal.signal(signal.SIGINT, lambda *_: os._exit(76))
    print("inside", os.getpid(), "lo" in links, "tc-a@tc-b" in links, flush=True)
    if sys.argv[1] == "raise":
        raise RuntimeError("broken body")
    if sys.argv[1] == "wait":
        try:
            time.sleep(60)
        except SystemExit as leaving:
            return leaving.code
    return 5
sys.exit(run_isolated(body, lambda pid: print("entered", pid, flush=True)))
"""


def unique_nap() -> str:
    """Return a number of seconds that no other process sleeps."""
    return f"{3600 + os.getpid()}.{time.time_ns() % 1_000_000}"


def sleepers(nap: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", nap.encode()]:
            found.append(int(path.parent.name))
    return found


def assert_gone(nap: str) -> None:
    deadline = time.monotonic() + 3
    while sleepers(nap):
        assert time.monotonic() < deadline, "a process outlived its namespace"
        time.sleep(0.02)


def start(mode: str, nap: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, mode, nap], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def read_start(process: subprocess.Popen[str]) -> None:
    """Wait until the body runs, in a process namespace and with a network of its own."""
    assert process.stdout is not None
    lines = sorted([process.stdout.readline(), process.stdout.readline()])
    assert lines[0].startswith("entered ")
    word, pid, loopback, cable = lines[1].split()
    assert (word, loopback, cable) == ("inside", "True", "True")
    assert int(pid) < 20, "process ids start anew in a process namespace"


def test_the_status_comes_back_and_the_orphans_go() -> None:
    nap = unique_nap()
    process = start("return", nap)
    read_start(process)
    assert process.wait(10) == 5
    assert_gone(nap)
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
    assert "tc-a" not in links


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 75), (signal.SIGINT, 76), (signal.SIGKILL, -9)])
def test_signals_reach_the_body_and_nothing_stays(number: int, status: int) -> None:
    nap = unique_nap()
    process = start("wait", nap)
    read_start(process)
    deadline = time.monotonic() + 3
    while not sleepers(nap):
        assert time.monotonic() < deadline, "what the body starts is visible from outside"
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(10) == status
    assert_gone(nap)


def test_an_exception_in_the_body_is_shown_and_fails() -> None:
    nap = unique_nap()
    process = start("raise", nap)
    _, stderr = process.communicate(timeout=10)
    assert process.returncode == 1
    assert "RuntimeError: broken body" in stderr
    assert_gone(nap)
