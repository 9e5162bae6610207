"""Checks of failover inside a fabric's namespaces, through the real switch program: cables cut, a switch killed, a GPU
killed, under traffic of loads, stores, atomics and RDMA that is verified.

They are part of `tests.fabric.inside`, which runs them. The time-outs of the GPUs are so long that whoever waits for
one is seen to wait: what moves in time moved for an event, or for the state of its own link.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from random import Random
from typing import Any, Final

from rich.console import Console

from tests.fabric.managed_inside import Program
from topologies.options import Options
from topologies.progress import Progress
from topologies.session import FabricSession

GPUS: Final = ("g1", "g2", "g3")
TIME_OUT_S: Final = 20

MEMBER: Final = f"""
import json, sys, threading, time
import numpy as np
from endpoint import EndpointOptions, Gpu, Unreachable
told = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()
LONG = {TIME_OUT_S}
options = EndpointOptions(
    timeout_s=3 * LONG, first_rto_s=LONG, min_rto_s=LONG, max_rto_s=LONG, lossless_rto_s=LONG,
    unreachable_s=UNREACHABLE_S,
)
SIZE = 24000
chooser = np.random.default_rng()
gone, longest, rounds = set(), 0.0, 0
with Gpu.from_environment(options=options) as gpu:
    region = gpu.register(1 << 18)
    slices = {{dst: 4096 + 32768 * gpu.id for dst in gpu.peers}}
    before = {{dst: [] for dst in gpu.peers}}
    print("up", flush=True)
    gpu.barrier()
    while not told.is_set():
        for dst in gpu.peers:
            if dst in gone:
                continue
            began = time.monotonic()
            try:
                adds = [gpu.atomic_add_async(dst, 8 * gpu.id, 1) for _ in range(16)]
                data = chooser.integers(0, 256, SIZE, np.uint8).tobytes()
                wrote = gpu.write_async(dst, slices[dst], data)
                stored = gpu.store_async(dst, slices[dst] + SIZE, data[:2000])
                before[dst] += [add.result() for add in adds]
                wrote.result(), stored.result()
                assert gpu.read(dst, slices[dst], SIZE) == data
                assert gpu.load(dst, slices[dst] + SIZE, 2000) == data[:2000]
            except Unreachable:
                gone.add(dst)
                continue
            longest = max(longest, time.monotonic() - began)
            rounds += 1
    adds = {{str(dst): len(values) for dst, values in before.items() if dst not in gone}}
    once = all(sorted(values) == list(range(len(values))) for dst, values in before.items() if dst not in gone)
    counters = gpu.counters()
    print(json.dumps({{"adds": adds, "once": once, "gone": sorted(gone), "longest_s": longest, "rounds": rounds,
        "counters": counters, "log": gpu.event_log()}}), flush=True)
    sys.stdin.readline()
    print(json.dumps([int(word) for word in region.u64[:8]]), flush=True)
    sys.stdin.readline()
"""


def _session(run_dir: Path, target: str) -> FabricSession:
    options = Options(topo="planes,3,2", target=target, links="managed", run_dir=run_dir, timeout_s=40)
    return FabricSession(options, Progress(Console(highlight=False)))


def _start(session: FabricSession, unreachable_s: float) -> dict[str, Program]:
    """Start the traffic and let it run for a while."""
    source = MEMBER.replace("UNREACHABLE_S", str(unreachable_s))
    programs = {gpu: Program(session, gpu, source) for gpu in GPUS}
    time.sleep(1.5)
    return programs


def _cut(session: FabricSession, gpu: str, plane: int, at_switch: bool, up: bool = False) -> None:
    """Take down one end of a GPU's cable, or bring it up again."""
    assert session.ranks is not None
    port = next(port for port in session.fabric.gpu(gpu).ports if port.plane == plane)
    state = "up" if up else "down"
    if at_switch:
        assert port.switch is not None
        ports = session.fabric.switch(port.switch).ports
        iface = next(end.iface for end in ports if end.port == port.switch_port)
        subprocess.run(["ip", "link", "set", iface, state], check=True)
    else:
        enter = ["nsenter", f"--net=/proc/{session.ranks.hosts[gpu].pid}/ns/net", "--"]
        subprocess.run([*enter, "ip", "link", "set", port.iface, state], check=True)


def _results(programs: dict[str, Program]) -> dict[str, dict[str, Any]]:
    """End the traffic; return what each GPU found out, after checking each against what is in the others' memory."""
    for program in programs.values():
        program.tell()
    reports: dict[str, dict[str, Any]] = {name: json.loads(program.line()) for name, program in programs.items()}
    for program in programs.values():
        program.tell()
    words = {name: json.loads(program.line()) for name, program in programs.items()}
    for program in programs.values():
        program.end()
    for name, report in reports.items():
        assert report["once"], (name, report)
        for dst, adds in report["adds"].items():
            assert words[f"g{dst}"][int(name[1:])] == adds, (name, dst, adds, words)
        assert "timed_out_requests" not in report["counters"], report
        assert "timed_out_messages" not in report["counters"], report
    print({name: {key: value for key, value in report.items() if key != "log"} for name, report in reports.items()})
    return reports


def cables_cut(run_dir: Path, target: str) -> None:
    """Cut cables at random, at either end: every transaction completes on the other plane, once, without a time-out."""
    chooser = Random(3)
    with _session(run_dir, target) as session:
        programs = _start(session, unreachable_s=TIME_OUT_S)
        for _ in range(20):
            gpu, plane, at_switch = chooser.choice(GPUS), chooser.randrange(2), chooser.random() < 0.5
            _cut(session, gpu, plane, at_switch)
            time.sleep(chooser.choice((0.01, 0.1, 0.3)))
            _cut(session, gpu, plane, at_switch, up=True)
            time.sleep(0.5)  # until the link is up again, or another cut could leave no plane
        reports = _results(programs)
        for report in reports.values():
            assert report["gone"] == []
            assert report["longest_s"] < TIME_OUT_S / 2, report
            assert report["counters"]["events_link_down"] > 0
            assert report["counters"]["own_links_down"] > 0
            assert report["counters"]["moved_requests"] > 0


def switch_lost(run_dir: Path, target: str) -> None:
    """Kill a whole switch: everything completes on the other plane; the switch comes back and is used again."""
    with _session(run_dir, target) as session:
        programs = _start(session, unreachable_s=TIME_OUT_S)
        process = session.switches["s2"].process
        assert process is not None
        process.kill()
        process.wait()
        time.sleep(1.0)
        session.restart_switch("s2")
        time.sleep(1.0)
        before = sum(port.rx_bytes for port in session.counters()["s2"].values())
        time.sleep(1.5)
        carried = sum(port.rx_bytes for port in session.counters()["s2"].values()) - before
        assert carried > 100_000, "used again: control frames alone are a fifth of that"
        reports = _results(programs)
        for report in reports.values():
            assert report["gone"] == []
            assert report["longest_s"] < TIME_OUT_S / 2, report
            downs = {(what, plane) for _, _, what, plane, *_ in report["log"]}
            assert ("own link down", 1) in downs
            assert ("own link up", 1) in downs


def gpu_lost(run_dir: Path, target: str) -> None:
    """Kill a GPU: its peers learn it from the switches, and nothing that is for others stops."""
    with _session(run_dir, target) as session:
        programs = _start(session, unreachable_s=1.0)
        programs.pop("g3").kill()
        time.sleep(3.0)
        reports = _results(programs)
        for report in reports.values():
            assert report["gone"] == [3]
            assert report["longest_s"] < TIME_OUT_S / 2, report
            unreachable = [report["counters"].get(f"unreachable_{what}", 0) for what in ("requests", "messages")]
            assert sum(unreachable) > 0
        rounds = [report["rounds"] for report in reports.values()]
        assert min(rounds) > 5, rounds
