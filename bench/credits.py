"""Measure what credits cost: the same frames through open ports and through managed ones, and what holding takes.

A load generator offers frames on port 1 as fast as it can; port 2's peer is played here, with as many credits as it
likes and at the pace that it likes. What arrives is counted by the kernel, so that no frame has to be read for it. On
BMv2 the same, where it is installed. Ratios compare runs right after each other.

Everything happens in a network namespace of its own, also when run alone: `python -m bench.credits`.
"""

from __future__ import annotations

import ctypes
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from finsy.proto import p4r

from bench.report import Measurement
from bench.switches import (
    HERE,
    SENDER_CPU,
    SWITCH_CPU,
    Target,
    cable,
    compile_tool,
    cpu_s,
    in_namespace,
    installed_targets,
    main,
    pin,
    process_of,
    write_frame,
)
from codec.constants import Kind, NoticeType
from codec.layouts import LINK, NOTICE
from ptf_tests.conformance.link_end import LinkEnd
from ptf_tests.links import CYCLE, KEEPALIVE_GROUP, Profile, announcement_entry, profile_entry, vc_map
from ptf_tests.p4runtime import P4RuntimeClient
from topologies.nodes import HOLD_PACE, HOLD_PORT, FabricSwitch

SIZES: Final = {64: "64 B", 1500: "1,500 B"}
ROUNDS: Final = 3
WARM_UP_S: Final = 0.3
WINDOW_S: Final = 1.0
IN_PORT, OUT_PORT, EVENT_PORT = 1, 2, 507
WIDE_LIMIT: Final = (1 << 19) - 1
NARROW_LIMIT: Final = 64
HELD: Final = 200
SLOW_RATE: Final = 5000.0
"""Frames per second that the congested port's peer takes."""
PACES: Final = (2_000, 5_000, HOLD_PACE, 100_000)
TICK_S: Final = 0.001
_SOL_PACKET: Final = 263
_PACKET_STATISTICS: Final = 6
_PACKET_IGNORE_OUTGOING: Final = 23
_ETH_P_ALL: Final = 3
_SO_ATTACH_FILTER: Final = 26


def measure() -> Iterator[Measurement]:
    """Yield the figures. Raises RuntimeError when they cannot be taken."""
    yield from in_namespace("credits")


# ---------------------------------------------------------------------------------------------------------- the peers


def _is_data(verdict: bool) -> bytes:
    """Return a socket filter: pass a byte of DATA frames only (True), or whole frames of all other kinds (False)."""
    passes, drops = (1, 0) if verdict else (0, 0xFFFF)
    return b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in (
            (0x30, 0, 0, 0),  # load byte 0
            (0x54, 0, 0, 0xF0),  # and 0xF0
            (0x15, 0, 1, int(Kind.DATA) << 4),  # equal: next, else skip one
            (0x06, 0, 0, passes),
            (0x06, 0, 0, drops),
        )
    )


def _packet_socket(iface: str, program: bytes) -> socket.socket:
    """Return a raw socket on an interface, with a filter, that does not see what is sent there."""
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    code = ctypes.create_string_buffer(program)
    raw.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(program) // 8, ctypes.addressof(code)))
    raw.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    raw.setblocking(False)
    raw.bind((iface, _ETH_P_ALL))
    return raw


@dataclass
class Peer:
    """The other side of a managed port: control frames are answered, DATA frames are only counted."""

    iface: str
    profile: Profile
    freed_per_s: float = float("inf")
    """Frames per second that leave its buffer."""
    received: int = 0
    freed: float = 0.0
    end: LinkEnd = field(init=False)

    def __post_init__(self) -> None:
        self.control = _packet_socket(self.iface, _is_data(False))
        self.data = _packet_socket(self.iface, _is_data(True))
        self.end = LinkEnd(self.profile, self._send, lambda packet: None, time.monotonic())

    def _send(self, data: bytes) -> None:
        self.control.send(data)

    def count(self) -> int:
        """Return the DATA frames that have arrived so far; the kernel has counted them, read or not."""
        statistics_of_socket = self.data.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        self.received += struct.unpack("II", statistics_of_socket)[0]
        return self.received

    def poll(self, now: float, passed_s: float) -> None:
        """Answer control frames; count what came, and free what is due."""
        while True:
            try:
                self.end.arrived(self.control.recv(9000), now)
            except BlockingIOError:
                break
        self.freed = min(self.count(), self.freed + self.freed_per_s * passed_s)
        receiver = self.end.receivers[0]
        receiver.consumed, receiver.freed = self.received % CYCLE, int(self.freed) % CYCLE
        if receiver.unreported and self.end.is_ready:
            self.end.report()
        self.end.poll(now)

    def close(self) -> None:
        """Give the sockets back."""
        self.control.close()
        self.data.close()


class Clock:
    """Gives the switch its ticks, and the peers their turns."""

    def __init__(self, iface: str) -> None:
        self._cable = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._cable.bind((iface, _ETH_P_ALL))
        self._tick = bytes(LINK.size) + NOTICE.pack(type=int(NoticeType.TICK))
        self.peers: list[Peer] = []
        self.offered: tuple[Peer, bytes, float] | None = None
        """Frames that a peer offers: what, and how many per second."""
        self._owed = 0.0
        self._last = time.monotonic()

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Run for so long, or until a condition is true; return whether it came true."""
        deadline = time.monotonic() + seconds
        while (now := time.monotonic()) < deadline:
            if until():
                return True
            passed = min(now - self._last, 0.02)
            self._last = now
            self._cable.send(self._tick)
            for peer in self.peers:
                peer.poll(now, passed)
            if self.offered is not None:
                source, frame, rate = self.offered
                self._owed += rate * passed
                while self._owed >= 1:
                    source.end.forge(frame)
                    self._owed -= 1
            time.sleep(TICK_S)
        return until()

    def close(self) -> None:
        """Give the socket back."""
        self._cable.close()


# --------------------------------------------------------------------------------------------------------- the switches


@contextmanager
def _configured(target: Target, profile: Profile | None, pace: int) -> Iterator[FabricSwitch]:
    """Run a target with ports 1 and 2 open, or managed with this profile, and a pace of the hold loop."""
    ports = {port: f"s1-eth{port}" for port in (IN_PORT, OUT_PORT, EVENT_PORT)}
    with target.running(ports, hold_pace=pace) as (switch, client):
        _configure(client, profile)
        if target.one_core:
            pin(process_of(switch), SWITCH_CPU)
        yield switch


def _configure(client: P4RuntimeClient, profile: Profile | None) -> None:
    names = client.names
    entry = names.entry
    entries: list[Any] = []
    if profile is not None:
        client.write("INSERT", _replication())
    for port in (IN_PORT, OUT_PORT):
        mode = 0
        if profile is None:
            entries.append(entry("egress_config", {"egress_port": port}, "set_link", mode=0))
        else:
            mode = 1
            link = {"vc_map": vc_map(profile.vc_map), "ecn_threshold": 0}
            entries += [
                announcement_entry(names, port, profile),
                profile_entry(names, port, profile),
                entry("egress_config", {"egress_port": port}, "set_managed_link", **link),
            ]
        entries += [
            entry("source_guard", {"ingress_port": port, "src": port}, "allow"),
            entry("forward", {"tenant": 1, "dst": port}, "to_port", port=port),
            entry("destination_tenant", {"dst": port}, "belongs_to", tenant=1),
            entry("port_config", {"ingress_port": port}, "set_port", mode=mode, role=1, tenant=1),
        ]
    client.write("INSERT", entries)


def _replication() -> list[p4r.Entity]:
    """Return the clone sessions and the keepalive group of two managed ports."""
    entities = []
    for port in (IN_PORT, OUT_PORT, HOLD_PORT):
        entity = p4r.Entity()
        session = entity.packet_replication_engine_entry.clone_session_entry
        session.session_id = port
        session.replicas.add(egress_port=port, instance=1)
        entities.append(entity)
    entity = p4r.Entity()
    group = entity.packet_replication_engine_entry.multicast_group_entry
    group.multicast_group_id = KEEPALIVE_GROUP
    for port in (IN_PORT, OUT_PORT):
        group.replicas.add(egress_port=port, instance=port)
    return [*entities, entity]


# -------------------------------------------------------------------------------------------------------- the measuring


class Lab:
    """A target's switch, its two peers and its clock, for one measurement."""

    def __init__(self, target: Target, load: Path) -> None:
        self._target = target
        self._load = load

    @contextmanager
    def links(
        self, own: Profile | None, peer: Profile | None = None, pace: int = HOLD_PACE
    ) -> Iterator[tuple[FabricSwitch, Clock, Peer, Peer]]:
        """Run the switch with managed links that are up (own and peer's profile), or with open ports (None)."""
        with ExitStack() as stack:
            switch = stack.enter_context(_configured(self._target, own, pace))
            clock = Clock(f"far{EVENT_PORT}")
            stack.callback(clock.close)
            sides = [Peer(f"far{port}", peer or Profile()) for port in (IN_PORT, OUT_PORT)]
            for side in sides:
                stack.callback(side.close)
            if own is not None:
                clock.peers = sides
                if not clock.run(10, lambda: all(side.end.is_ready for side in sides)):
                    raise RuntimeError(f"{self._target.name}: the links did not come up")
                clock.run(0.05)
            source, sink = sides
            yield switch, clock, source, sink

    def rate(self, size: int, own: Profile | None, peer: Profile | None = None) -> float:
        """Return the frames per second that reach port 2's peer when port 1 offers as many as it can."""
        return self.rate_and_cost(size, own, peer)[0]

    def rate_and_cost(self, size: int, own: Profile | None, peer: Profile | None = None) -> tuple[float, float]:
        """Return the same, and the switch's processor time per frame, in microseconds."""
        with self.links(own, peer) as (switch, clock, source, sink):
            frame = write_frame(size, source.end.session if own is not None else 0, any_path=True)
            with self.offering(frame):
                before, came = cpu_s(process_of(switch)), sink.count()
                rate = self._rate_at(sink, clock)
                return rate, (cpu_s(process_of(switch)) - before) / (sink.count() - came) * 1e6

    def congested_rate(self, own: Profile, peer: Profile, pace: int) -> float:
        """Return the frames per second that reach a peer that takes SLOW_RATE when twice as many are offered."""
        with self.links(own, peer, pace) as (_, clock, source, sink):
            sink.freed_per_s = SLOW_RATE
            clock.offered = (source, write_frame(64, source.end.session, any_path=True), 2 * SLOW_RATE)
            return self._rate_at(sink, clock)

    def _rate_at(self, sink: Peer, clock: Clock) -> float:
        clock.run(WARM_UP_S)
        start, before = time.monotonic(), sink.count()
        clock.run(WINDOW_S)
        rate = (sink.count() - before) / (time.monotonic() - start)
        if not rate:
            raise RuntimeError(f"{self._target.name}: no frame came through the switch")
        return rate

    @contextmanager
    def offering(self, frame: bytes) -> Iterator[None]:
        """Offer a frame over and over."""
        command = [str(self._load), f"far{IN_PORT}", str(WARM_UP_S + WINDOW_S + 0.2)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as load:
            assert load.stdin is not None
            pin(load.pid, SENDER_CPU)
            load.stdin.write(frame)
            load.stdin.close()
            try:
                yield
            finally:
                load.wait()

    def cpu_of_holding(self, count: int) -> float:
        """Return the share of a core that the switch takes while so many frames are held."""
        own = Profile(credit_limit=max(count, 1), update_threshold=1, silence=0)
        peer = Profile(credit_limit=1, silence=0)
        with self.links(own, peer) as (switch, clock, source, sink):
            sink.freed_per_s = 0.0
            frame = write_frame(64, source.end.session, any_path=True)
            for _ in range(count and count + 1):  # one goes, and uses the credit
                source.end.forge(frame)
            clock.run(WARM_UP_S)
            if sink.count() != min(count, 1):
                raise RuntimeError(f"{self._target.name}: {sink.count()} frames went, where all but one should be held")
            before, start = cpu_s(process_of(switch)), time.monotonic()
            clock.run(WINDOW_S)
            return (cpu_s(process_of(switch)) - before) / (time.monotonic() - start)


def _measure(lab: Lab, name: str) -> Iterator[Measurement]:
    own = Profile(lossless_vcs=1, credit_limit=400, update_threshold=100, silence=0)
    wide = Profile(lossless_vcs=1, credit_limit=WIDE_LIMIT, silence=0)
    for size, shown in SIZES.items():
        pairs = [(lab.rate(size, own, wide), lab.rate(size, None)) for _ in range(ROUNDS)]
        credited, plain = (statistics.median(rates) for rates in zip(*pairs, strict=True))
        ratio = statistics.median(one / other for one, other in pairs)
        yield Measurement(f"{name}, {shown}, with credits", round(credited), "frames/s")
        yield Measurement(f"{name}, {shown}, open ports", round(plain), "frames/s")
        yield Measurement(f"{name}, {shown}, with credits : without", round(ratio, 2), "x")
    narrow = Profile(lossless_vcs=1, credit_limit=NARROW_LIMIT, silence=0)
    for pace in PACES:
        rate = lab.congested_rate(own, narrow, pace)
        note = f"{NARROW_LIMIT} credits, a peer that takes {SLOW_RATE:,.0f} frames/s, {rate:,.0f} frames/s arrive"
        yield Measurement(
            f"{name}, congested port, pace {pace:,}/s : its peer's rate", round(rate / SLOW_RATE, 2), "x", note=note
        )
    idle, holding = lab.cpu_of_holding(0), lab.cpu_of_holding(HELD)
    note = f"pace {HOLD_PACE:,}/s; with nothing held {idle:.1%}"
    yield Measurement(f"{name}, processor while {HELD} frames are held", round(100 * holding, 1), "%", note=note)


def _inside() -> Iterator[Measurement]:
    for port in (IN_PORT, OUT_PORT, EVENT_PORT):
        cable(f"s1-eth{port}", f"far{port}")
    with tempfile.TemporaryDirectory() as directory:
        load = compile_tool(HERE / "load.c", Path(directory) / "load")
        for target in installed_targets():
            yield from _measure(Lab(target, load), target.name)


if __name__ == "__main__":
    sys.exit(main("credits", _inside))
