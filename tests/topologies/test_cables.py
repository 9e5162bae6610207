"""Cables that are cut and restored, and who witnesses the events: on a real cable between two namespaces."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from topologies.cables import Cable

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="cables need root")
REPOSITORY = Path(__file__).resolve().parents[2]

PROGRAM = """
import os, socket, subprocess, sys, time
from codec.constants import EventType, Kind, Next, Vc
from codec.frames import frame, oefh
from codec.layouts import EVENT
from topologies.cables import Cable
from topologies.namespace import network_of, run_isolated
from topologies.witness import Witness


def carrier(name):
    return open(f"/sys/class/net/{name}/carrier").read().strip()


def wait_until(condition, what):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def event(kind, subject, sequence):
    head = oefh(vc=int(Vc.CONTROL), dst=1, src=0xF01, next=int(Next.EVENT))
    body = EVENT.pack(type=int(kind), plane=1, subject=subject, sequence=sequence)
    return frame(Kind.DATA, head + body)


def body():
    gpu = subprocess.Popen(["unshare", "--net", "sleep", "60"])
    wait_until(lambda: os.readlink(f"/proc/{gpu.pid}/ns/net") != os.readlink("/proc/self/ns/net"), "a namespace")
    run = lambda *words: subprocess.run(words, check=True)
    run("ip", "link", "add", "sw", "mtu", "4132", "type", "veth", "peer", "name", "g1-eth0", "mtu", "4132")
    run("ip", "link", "set", "g1-eth0", "netns", str(gpu.pid))
    run("ip", "link", "set", "sw", "up")
    run("nsenter", f"--net=/proc/{gpu.pid}/ns/net", "ip", "link", "set", "g1-eth0", "up")
    wait_until(lambda: carrier("sw") == "1", "the cable is whole")

    with Cable(1, 1, gpu.pid, "g1-eth0") as cable:
        before = time.time_ns()
        change = cable.cut()
        assert before <= change.before_ns <= change.after_ns <= time.time_ns()
        assert carrier("sw") == "0", "the switch has lost its carrier when the call returns"
        assert not cable.is_up
        cable.restore()
        wait_until(lambda: carrier("sw") == "1", "restored")
        with Witness([(1, gpu.pid, "g1-eth0")]) as witness:
            out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            out.bind(("sw", 0))
            began = time.time_ns()
            store = frame(Kind.DATA, oefh(vc=0, dst=1, src=2, next=int(Next.LSU)) + bytes(30))
            for data in (store, event(EventType.LINK_DOWN, 2, 5), frame(Kind.CF_UPDATE, bytes(30)),
                         event(EventType.LINK_UP, 3, 6), event(9, 3, 7)):
                out.send(data)
            wait_until(lambda: len(witness.seen) == 2, "two events")
            time.sleep(0.05)
            cable.cut()
            cable.restore()
            wait_until(lambda: carrier("sw") == "1", "restored again")
            out.send(event(EventType.LINK_DOWN, 2, 8))
            wait_until(lambda: len(witness.seen) == 3, "it goes on after a cut")
        said = [(one.gpu, one.plane, one.type.name, one.subject, one.sequence) for one in witness.seen]
        assert said == [(1, 1, "LINK_DOWN", 2, 5), (1, 1, "LINK_UP", 3, 6), (1, 1, "LINK_DOWN", 2, 8)], said
        assert all(began <= one.at_ns <= time.time_ns() for one in witness.seen)
        cable.cut()
    wait_until(lambda: carrier("sw") == "1", "closing a cable restores it")
    gpu.kill()
    print("all as it should be")
    return 0


sys.exit(run_isolated(body))
"""


def test_a_cut_is_timed_and_seen_and_ends_with_the_cable() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False, cwd=REPOSITORY
    )
    assert (done.returncode, done.stdout) == (0, "all as it should be\n"), done.stdout + done.stderr


def test_a_namespace_that_is_gone_is_an_error() -> None:
    with pytest.raises(OSError, match="No such file"):
        Cable(1, 0, 2**22 + 1, "g1-eth0")
