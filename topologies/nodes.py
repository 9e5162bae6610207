"""Define the fabric's parts for Mininet: GPUs, cables that carry bare OEFH frames, and the two kinds of switch.

Everything here also works under Mininet's own command (see `topologies.custom`), with nothing but the standard library.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

from mininet.link import Intf, Link
from mininet.node import Host, Switch

from codec.constants import MTU
from topologies.errors import LaunchError

REPOSITORY: Final = Path(__file__).resolve().parent.parent
DEFAULT_RUN_DIR: Final = REPOSITORY / "build" / "run"

FIRST_GRPC_PORT: Final = 50051
"""P4Runtime port of the first switch (device id 1); the others follow. The number that P4Runtime tools default to."""
FIRST_THRIFT_PORT: Final = 9090
"""Thrift port of the first BMv2 switch; each needs one of its own."""
CPU_PORT: Final = 510
DROP_PORT: Final = 511
EVENT_PORT: Final = 507
"""Where a switch learns of the time, and of its ports going up and down."""
TICK_US: Final = 1000
HOLD_PORT: Final = 509
HOLD_PACE: Final = 20_000
"""Frames per second that go round while they wait for credit: well above the frame rate of a slow link, and some 20% of
a core when many wait."""
HOLD_DEPTH: Final = 32_768
"""Twice what the switch program lets in, which is more than the receivers of 32 ports have credits for."""
_PACE_PER_FRAME: Final = 5
"""Rounds of the hold loop per frame that slow links carry; at least 2."""
LINE_PORTS: Final = (508, 504)
"""Where copies of numbered frames wait for their acknowledgement; on the second one while their port replays."""
LINE_PACE: Final = 50_000
"""Frames per second that go round on the first of them: at least the rate of numbered frames of all ports."""
LINE_DEPTH: Final = 8192
"""More than the window of every port of a switch, and twice what stops new frames."""
DELAY_PORT: Final = 505
DELAY_PACE: Final = 20_000
"""Frames per second that go round while a link fault delays them."""
BMV2_QUEUE_DEPTH: Final = 1024
"""Frames per egress queue of BMv2, whose default of 64 overflows silently."""
BMV2_QUEUES: Final = f"""
set_queue_depth {BMV2_QUEUE_DEPTH}
set_queue_depth {HOLD_DEPTH} {HOLD_PORT}
set_queue_depth {LINE_DEPTH} {LINE_PORTS[0]}
set_queue_depth {LINE_DEPTH} {LINE_PORTS[1]}
set_queue_rate {LINE_PACE} {LINE_PORTS[0]}
set_queue_rate {DELAY_PACE} {DELAY_PORT}
"""
"""What BMv2 is told about its queues, over Thrift."""


@dataclass(frozen=True, slots=True)
class PortQueue:
    """An egress port slowed down: so many frames of `frame_bytes` per second, and a queue of `depth` frames.

    p4switch limits bits, so that small frames cost little; BMv2 limits frames.
    """

    frames_per_s: int
    frame_bytes: int
    depth: int

    @property
    def bits_per_s(self) -> int:
        """The rate in bits of whole frames."""
        return self.frames_per_s * self.frame_bytes * 8


START_TIMEOUT_S: Final = 20.0
STOP_TIMEOUT_S: Final = 3.0
LOG_LINES_SHOWN: Final = 12


def grpc_address(device_id: int) -> str:
    """Return the address on which the switch with this device id serves P4Runtime."""
    return f"127.0.0.1:{FIRST_GRPC_PORT + device_id - 1}"


def last_lines(path: Path, count: int = LOG_LINES_SHOWN) -> list[str]:
    """Return the last lines of a log, or a line that says that there is none."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError as error:
        return [f"(no log: {error.strerror})"]
    return lines[-count:] or ["(the log is empty)"]


class GpuHost(Host):
    """A GPU's namespace: ports without addresses, and a kernel that sends nothing by itself."""

    def __init__(self, name: str, **params: Any) -> None:
        super().__init__(name, **params)
        self.cmd("for c in all default; do echo 1 > /proc/sys/net/ipv6/conf/$c/disable_ipv6; done 2>/dev/null")

    def config(self, **_params: Any) -> dict[str, Any]:
        """Bring the ports up; addresses and MACs that Mininet offers are not for these ports."""
        self.cmd("; ".join(f"ip link set {name} up" for name in ["lo", *self.intfNames()]))
        return {}


class FabricIntf(Intf):
    """An end of a fabric cable, which `FabricLink` has set up already."""

    def config(self, **_params: Any) -> dict[str, Any]:
        return {}

    def delete(self) -> None:
        """Forget the interface; the cable goes with its namespace or with its other end."""
        self.node.delIntf(self)
        self.link = None


class FabricLink(Link):
    """A cable for bare OEFH frames: a veth pair with the fabric's MTU, no offloads, and no IPv6.

    Offloads have to be off before a switch opens its ports: with them on, BMv2's receive ring holds 32 frames.
    """

    def __init__(self, node1: Any, node2: Any, **params: Any) -> None:
        super().__init__(node1, node2, **{**params, "intf": FabricIntf})

    @classmethod
    def makeIntfPair(  # Mininet calls it by position
        cls,
        intfname1: str,
        intfname2: str,
        addr1: str | None = None,
        addr2: str | None = None,
        node1: Any = None,
        node2: Any = None,
        deleteIntfs: bool = True,
    ) -> None:
        """Create the pair where this process runs, prepare both ends, and move those of namespaced nodes home."""
        ends = ((intfname1, addr1, node1), (intfname2, addr2, node2))
        script = ["set -e"]
        if deleteIntfs:
            script.append(f"ip link del {intfname1} 2>/dev/null || true")
        mac1, mac2 = (f"address {mac}" if mac else "" for _, mac, _ in ends)
        script.append(f"ip link add {intfname1} mtu {MTU} {mac1} type veth peer name {intfname2} mtu {MTU} {mac2}")
        for name, _, node in ends:
            script.append(f"ethtool -K {name} tx off rx off gso off gro off tso off >/dev/null")
            if node is not None and node.inNamespace:
                script.append(f"ip link set {name} netns {node.pid}")
            else:
                script.append(f"sysctl -qw net.ipv6.conf.{name}.disable_ipv6=1 2>/dev/null || true")
                script.append(f"ip link set {name} up")
        done = subprocess.run(["/bin/sh", "-c", "\n".join(script)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise LaunchError(f"cannot make the link {intfname1} - {intfname2}: {done.stderr.strip()}")

    def delete(self) -> None:
        """Remove the cable: one end takes the other with it."""
        end = self.intf1 if not self.intf1.node.inNamespace else self.intf2
        if not end.node.inNamespace:
            subprocess.run(["ip", "link", "del", end.name], capture_output=True, check=False)
        for intf in (self.intf1, self.intf2):
            intf.delete()


class FabricSwitch(Switch):
    """A switch process in the fabric's namespace, without a program: the controller pushes it over P4Runtime.

    Parameters: `device_id` (from the topology), `run_dir` (where logs and captures go; default: $RUN_DIR or build/run),
    `pcap` (capture every port), `senses` (it is told the time, and of its ports' carriers). The topology's `switch_id`
    and `plane` are not used here.
    """

    def __init__(
        self,
        name: str,
        *,
        device_id: int | None = None,
        run_dir: Path | None = None,
        pcap: bool = False,
        senses: bool = False,
        **params: Any,
    ) -> None:
        super().__init__(name, **{**params, "inNamespace": False})
        self.senses = senses
        self.device_id = device_id if device_id is not None else int(self.dpid, 16)
        self.grpc = grpc_address(self.device_id)
        run_dir = run_dir if run_dir is not None else Path(os.environ.get("RUN_DIR") or DEFAULT_RUN_DIR)
        self.pcap_dir: Path | None = run_dir / "pcap" / name if pcap else None
        self.log_path = run_dir / "logs" / f"{name}.log"
        self.queues: dict[int, PortQueue] = {}
        """Ports to be slowed down, from the next start on."""
        self.process: subprocess.Popen[bytes] | None = None
        self._log: TextIO | None = None

    hold_pace: int = HOLD_PACE
    """Frames per second that go round while they wait for credit."""

    def slow_down(self, queues: dict[int, PortQueue]) -> None:
        """Let ports be the bottlenecks of the switch, from its next start on."""
        self.queues = queues

    def command(self) -> list[str]:
        """Return the command that runs the switch."""
        raise NotImplementedError

    def ports_used(self) -> list[int]:
        """Return the TCP ports that the switch listens on."""
        return [int(self.grpc.rpartition(":")[2])]

    def port_map(self) -> dict[int, str]:
        """Return the interface on each port; the loopback that Mininet gives every switch is port 0."""
        return {port: intf.name for port, intf in sorted(self.intfs.items()) if port != 0}

    def start(self, _controllers: Any = ()) -> None:
        """Start the process; `wait_ready` tells when it serves. A log of an earlier start is continued."""
        for port in self.ports_used():
            _check_free(port, self.name)
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        if self.pcap_dir is not None:
            self.pcap_dir.mkdir(parents=True, exist_ok=True)
        command = self.command()
        self._log = self.log_path.open("a")
        try:
            # A session of its own, so that Ctrl-C at the Mininet prompt does not reach it.
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, start_new_session=True,
                cwd=REPOSITORY,
            )  # fmt: skip
        except OSError as error:
            raise LaunchError(f"switch {self.name}: cannot run {command[0]}: {error.strerror}") from None

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the switch serves P4Runtime; raise LaunchError with the end of its log if it does not."""
        deadline = time.monotonic() + timeout_s
        while not self.connected():
            status = self.process.poll() if self.process is not None else None
            if self.process is None or status is not None:
                self.fail(f"stopped with exit status {status}")
            if time.monotonic() > deadline:
                self.fail(f"does not serve P4Runtime on {self.grpc} after {timeout_s:g} s")
            time.sleep(0.01)

    def fail(self, what: str) -> NoReturn:
        """Raise LaunchError about this switch, quoting the end of its log."""
        raise LaunchError(
            f"switch {self.name} {what}. The last lines of its log:",
            f"The whole log: {self.log_path}",
            last_lines(self.log_path),
        )

    def connected(self) -> bool:
        """Tell whether the switch's P4Runtime port accepts connections."""
        host, _, port = self.grpc.rpartition(":")
        with socket.socket() as probe:
            probe.settimeout(0.5)
            # While nobody listens, TCP may connect a probe to itself, when its own port is the one asked for.
            return (
                self.running and probe.connect_ex((host, int(port))) == 0 and probe.getsockname() != probe.getpeername()
            )

    @property
    def running(self) -> bool:
        """Tell whether the switch's process lives."""
        return self.process is not None and self.process.poll() is None

    @classmethod
    def batchStartup(cls, switches: list[FabricSwitch], **_params: Any) -> list[FabricSwitch]:  # Mininet's name
        """Wait for all switches at once, after all were started."""
        for switch in switches:
            switch.wait_ready()
        return list(switches)

    def stop_process(self) -> None:
        """End the switch's process: politely first, so that it can close its captures."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def stop(self, deleteIntfs: bool = True) -> None:  # Mininet's name
        self.stop_process()
        super().stop(deleteIntfs)

    def restart(self) -> None:
        """Stop the process and start it anew, as `py s1.restart()` at the Mininet prompt does; tables start empty."""
        self.stop_process()
        self.start()
        self.wait_ready()


class P4SwitchNode(FabricSwitch):
    """The embedded target, p4switch."""

    def command(self) -> list[str]:
        ports = [word for port, intf in self.port_map().items() for word in ("-i", f"{port}@{intf}")]
        options = ["--pcap", str(self.pcap_dir)] if self.pcap_dir is not None else []
        options += ["--port-rate", f"{HOLD_PORT}={self.hold_pace}", "--port-depth", f"{HOLD_PORT}={HOLD_DEPTH}"]
        options += ["--port-rate", f"{LINE_PORTS[0]}={LINE_PACE}", "--port-rate", f"{DELAY_PORT}={DELAY_PACE}"]
        options += [word for port in LINE_PORTS for word in ("--port-depth", f"{port}={LINE_DEPTH}")]
        if self.senses:
            options += ["--event-port", str(EVENT_PORT), "--tick-us", str(TICK_US)]
        for port, queue in self.queues.items():
            options += ["--port-rate", f"{port}={queue.bits_per_s}bit", "--port-depth", f"{port}={queue.depth}"]
        return [
            *(project_python(), "-m", "p4switch", "run", "--no-p4", *ports),
            *("--grpc-addr", self.grpc, "--device-id", str(self.device_id), "--cpu-port", str(CPU_PORT)),
            *options,
        ]


class Bmv2Switch(FabricSwitch):
    """BMv2's simple_switch_grpc, with the settings that it needs to carry this fabric.

    The offloads of its ports are off before it starts (`FabricLink`), its Thrift port is its own, and its queues are
    deepened through Thrift once it serves. No --priority-queues: without it a priority other than 0 drops silently,
    which the switch program never sets. What p4switch senses by itself, an agent beside it tells its event port.
    """

    def __init__(self, name: str, **params: Any) -> None:
        super().__init__(name, **params)
        self._agent: subprocess.Popen[bytes] | None = None

    @property
    def event_ifaces(self) -> tuple[str, str]:
        """Return the two ends of the cable on the event port: the switch's and the agent's."""
        return f"{self.name}-ev", f"{self.name}-agent"

    def start(self, controllers: Any = ()) -> None:
        if self.senses:
            FabricLink.makeIntfPair(*self.event_ifaces)
        super().start(controllers)
        if self.senses:
            ports = [f"{port}@{name}" for port, name in self.port_map().items()]
            command = [project_python(), "-m", "topologies.event_agent", self.event_ifaces[1], *ports]
            self._agent = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, start_new_session=True,
                cwd=REPOSITORY,
            )  # fmt: skip

    def stop_process(self) -> None:
        if self._agent is not None:
            self._agent.terminate()
            self._agent.wait()
            self._agent = None
            subprocess.run(["ip", "link", "del", self.event_ifaces[0]], capture_output=True, check=False)
        super().stop_process()

    def slow_down(self, queues: dict[int, PortQueue]) -> None:
        """Let ports be the bottlenecks; the hold loop shares a thread with a quarter of the ports, so it is to be no
        faster than they need."""
        super().slow_down(queues)
        needed = _PACE_PER_FRAME * sum(queue.frames_per_s for queue in queues.values())
        self.hold_pace = min(HOLD_PACE, needed) if queues else HOLD_PACE

    @property
    def thrift_port(self) -> int:
        """Return the switch's Thrift port."""
        return FIRST_THRIFT_PORT + self.device_id - 1

    def ports_used(self) -> list[int]:
        return [*super().ports_used(), self.thrift_port]

    def command(self) -> list[str]:
        ports = [word for port, intf in self.port_map().items() for word in ("-i", f"{port}@{intf}")]
        if self.senses:
            ports += ["-i", f"{EVENT_PORT}@{self.event_ifaces[0]}"]
        capture = [f"--pcap={self.pcap_dir}"] if self.pcap_dir is not None else []
        return [
            *("simple_switch_grpc", "--no-p4", "--device-id", str(self.device_id), *ports, *capture),
            *("--thrift-port", str(self.thrift_port), "--log-console", "-L", "warn", "--"),
            *("--grpc-server-addr", self.grpc, "--cpu-port", str(CPU_PORT), "--drop-port", str(DROP_PORT)),
        ]

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        super().wait_ready(timeout_s)
        cli = shutil.which("simple_switch_CLI")
        if cli is None:
            raise LaunchError(
                f"switch {self.name}: simple_switch_CLI is missing, so BMv2's queues stay at 64 frames.",
                "Install it beside simple_switch_grpc, or use the embedded target (leave P4_TARGET unset).",
            )
        slow = "".join(
            f"set_queue_depth {queue.depth} {port}\nset_queue_rate {queue.frames_per_s} {port}\n"
            for port, queue in self.queues.items()
        )
        slow += f"set_queue_rate {self.hold_pace} {HOLD_PORT}\n"
        done = subprocess.run(
            [cli, "--thrift-port", str(self.thrift_port)],
            input=BMV2_QUEUES + slow, capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
        if done.returncode or "Error" in done.stdout:
            self.fail(f"refused the queue depth ({(done.stderr or done.stdout).strip()[-200:]})")


def project_python() -> str:
    """Return the Python of the project's environment, whichever Python runs Mininet."""
    candidate = REPOSITORY / ".venv" / "bin" / "python"
    return str(candidate) if os.access(candidate, os.X_OK) else sys.executable


def _check_free(port: int, name: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise LaunchError(
                f"switch {name}: port {port} on 127.0.0.1 is in use ({error.strerror}).",
                f"Find its owner with `ss -ltnp sport = :{port}` and stop it.",
            ) from None


HOSTS: Final = {"gpu": GpuHost}
LINKS: Final = {"ethlink": FabricLink}
SWITCHES: Final[dict[str, type[FabricSwitch]]] = {"p4switch": P4SwitchNode, "bmv2": Bmv2Switch}
