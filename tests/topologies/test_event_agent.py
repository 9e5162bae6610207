"""The event agent: what it sends, against a cable of its own in a namespace of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codec.constants import NoticeType
from topologies.event_agent import main, notice

REPOSITORY = Path(__file__).resolve().parents[2]
INSIDE = """
import signal, socket, subprocess, sys, time
signal.alarm(30)
def ip(*words): subprocess.run(["ip", *words], check=True)
for a, b in (("ev", "agent"), ("p1", "q1"), ("p2", "q2")):
    ip("link", "add", a, "type", "veth", "peer", "name", b)
    for end in (a, b): ip("link", "set", end, "up")
ip("link", "set", "q2", "down")
listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
listener.bind(("ev", 0)); listener.settimeout(2)
def frames():  # not the kernel's own IPv6 chatter
    while True:
        data = listener.recv(2000)
        if data[:12] == bytes(12): yield data
agent = subprocess.Popen([sys.executable, "-m", "topologies.event_agent", "agent", "1@p1", "2@p2"])
came = frames()
first = [next(came) for _ in range(20)]
states = [f[12:] for f in first if f[12] == 1]
assert sorted(states) == [bytes([1, 0, 0, 2]), bytes([1, 1, 0, 1])], states
start, ticks = time.monotonic(), 0
while ticks < 300: ticks += next(came)[12] == 2
elapsed = time.monotonic() - start
assert 0.28 < elapsed < 3, elapsed  # never faster than one per millisecond
ip("link", "set", "q1", "down")
assert next(f for f in came if f[12] == 1)[12:] == bytes([1, 0, 0, 1])
ip("link", "set", "q1", "up")
assert next(f for f in came if f[12] == 1)[12:] == bytes([1, 1, 0, 1])
ip("link", "del", "ev")
assert agent.wait(5) == 1  # its interface is gone
"""


def test_frames() -> None:
    assert notice(NoticeType.TICK) == bytes(12) + bytes([2, 0, 0, 0])
    assert notice(NoticeType.PORT_STATUS, state=1, port=0x123) == bytes(12) + bytes([1, 1, 1, 0x23])


def test_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["agent", "one@p1"])
    assert "one@p1: write PORT@IFACE" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_ticks_and_carriers() -> None:
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", INSIDE], cwd=REPOSITORY, capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
