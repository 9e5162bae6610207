"""Switches that benches measure: a P4 target with a program, the cables it stands between, its processor time.

What a bench does with them happens in a network namespace of its own: `in_namespace` runs a module of this package
there.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

from bench.report import Measurement
from codec import frames
from codec.constants import CRC_BYTES, MTU, Kind, Next
from codec.layouts import LINK, OEFH, TMA, end_to_end_crc
from ptf_tests.p4runtime import Names, P4RuntimeClient
from topologies.nodes import HOLD_PACE, REPOSITORY, SWITCHES, FabricIntf, FabricSwitch
from topologies.options import TOOLS
from topologies.session import Artefacts, compile_command

HERE: Final = Path(__file__).resolve().parent
OUTPUT: Final = REPOSITORY / "build" / "bench"
PROGRAM: Final = REPOSITORY / "p4src" / "ethlink.p4"
SENDER_CPU: Final = 0
SWITCH_CPU: Final = 1


def in_namespace(module: str, timeout_s: int = 300) -> Iterator[Measurement]:
    """Run `python -m bench.MODULE inside` in a namespace of its own; yield the measurements that it prints as JSON.

    Raises RuntimeError with what it said when it fails.
    """
    command = ["unshare", "--net", sys.executable, "-m", f"bench.{module}", "inside"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=timeout_s)
    if done.returncode:
        said = done.stderr.strip()
        raised = list(re.finditer(r"^[\w.]*(Error|Exception|Expired): ", said, re.MULTILINE))
        said = said[raised[-1].start() :][:500] if raised else said[-500:]
        raise RuntimeError(f"the measuring process failed, it needs root: {said}")
    for row in json.loads(done.stdout.splitlines()[-1]):
        yield Measurement(**row)


def main(module: str, inside: Callable[[], Iterable[Measurement]]) -> int:
    """Print the figures of a bench; with "inside" as an argument, measure in this namespace and print JSON."""
    if "inside" in sys.argv[1:]:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        print(json.dumps([asdict(row) for row in inside()]))
    else:
        for row in in_namespace(module):
            print(row)
    return 0


def cable(near: str, far: str) -> None:
    """Make a cable that carries the largest frame, without offloads and IPv6; both ends up, in this namespace."""
    mtu = ("mtu", str(MTU))
    subprocess.run(["ip", "link", "add", near, *mtu, "type", "veth", "peer", "name", far, *mtu], check=True)
    for end in (near, far):
        Path(f"/proc/sys/net/ipv6/conf/{end}/disable_ipv6").write_text("1")
        off = ("tx", "off", "rx", "off", "gso", "off", "gro", "off", "tso", "off")
        subprocess.run(["ethtool", "-K", end, *off], check=False, capture_output=True)
        subprocess.run(["ip", "link", "set", end, "up"], check=True)


def write_frame(size: int, session: int = 0, any_path: bool = False) -> bytes:
    """Build a frame of this size from GPU 1 to GPU 2: an RDMA write, which can be of any length.

    `session` is the link's, 0 on an open port; with `any_path` it may overtake others.
    """
    length = size - LINK.size - OEFH.size - TMA.size - CRC_BYTES
    transaction = TMA.pack(opcode=1, length=length, total=length) + bytes(length)
    header = frames.oefh(vc=0, dst=2, src=1, next=int(Next.TMA), f=int(any_path))
    crc = end_to_end_crc(1, 2, transaction).to_bytes(CRC_BYTES, "big")
    return frames.frame(Kind.DATA, header + transaction + crc, session=session)


def received(iface: str) -> int:
    """Return the frames that an interface has received."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == iface:
            return int(counts.split()[1])
    raise RuntimeError(f"{iface} has gone")


class Target:
    """A P4 target with a program, compiled for it."""

    def __init__(self, target: str, name: str, program: Path = PROGRAM) -> None:
        self.target, self.name = target, name
        folder = OUTPUT / target
        folder.mkdir(parents=True, exist_ok=True)
        suffix = ".json" if target == "bmv2" else ".p4bin"
        artefacts = Artefacts(folder / f"{program.stem}.p4info.txtpb", folder / f"{program.stem}{suffix}")
        subprocess.run(compile_command(target, program, artefacts), check=True, capture_output=True, cwd=REPOSITORY)
        self.names = Names.load(artefacts.p4info.read_text())
        self._config = artefacts.config.read_bytes()

    @property
    def one_core(self) -> bool:
        """Tell whether one thread does the work, so that it can be kept on one core."""
        return self.target != "bmv2"

    @contextmanager
    def running(
        self, ports: Mapping[int, str], device_id: int = 1, hold_pace: int = HOLD_PACE, senses: bool = False
    ) -> Iterator[tuple[FabricSwitch, P4RuntimeClient]]:
        """Run it with interfaces on these ports and empty tables; give the switch and its controller.

        With `senses` it is told the time, and of its ports' carriers.
        """
        switch = SWITCHES[self.target](f"s{device_id}", device_id=device_id, run_dir=OUTPUT, senses=senses)
        switch.hold_pace = hold_pace
        for port, iface in ports.items():
            FabricIntf(iface, node=switch, port=port)
        switch.start()
        try:
            switch.wait_ready()
            with P4RuntimeClient(switch.grpc, device_id, self.names) as client:
                client.set_pipeline(self._config)
                yield switch, client
        finally:
            switch.stop_process()


def installed_targets(program: Path = PROGRAM) -> list[Target]:
    """Return p4switch with a program and, where it is installed, BMv2 with it."""
    targets = [Target("p4switch", "p4switch", program)]
    if all(shutil.which(tool) for tool in TOOLS["bmv2"]):
        targets.append(Target("bmv2", "BMv2", program))
    return targets


def process_of(switch: FabricSwitch) -> int:
    """Return the process id of a switch that runs."""
    assert switch.process is not None
    return switch.process.pid


def pin(pid: int, cpu: int) -> None:
    """Keep a process, all its threads, on one core, where there are several."""
    if len(os.sched_getaffinity(0)) > 1:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):  # a thread may have ended meanwhile
                os.sched_setaffinity(int(task.name), {cpu})


def cpu_s(pid: int) -> float:
    """Return the processor time of a process, all threads, in seconds."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) * 1e-9


def compile_tool(source: Path, target: Path) -> Path:
    """Compile a C tool of this folder; raise RuntimeError with what the compiler said."""
    done = subprocess.run(
        [os.environ.get("CC", "cc"), "-O2", str(source), "-o", str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{source.name} does not compile: {done.stderr.strip()[-500:]}")
    return target
