"""Measure one switch with other programs than ours: an IPv4 router, a load balancer, in-band telemetry.

Compared as bench/rates.py says, with the plain forwarder and, where it is installed, BMv2. The programs are in
bench/programs; each one's tables are filled over P4Runtime.

Everything happens in a network namespace of its own, also when run alone: `python -m bench.programs`.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from finsy.proto import p4r
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from bench.rates import SIZES, Contestant, Forwarder, P4Contestant, lay_cables, race, ratios
from bench.report import Measurement
from bench.switches import HERE, compile_tool, in_namespace, installed_targets, main
from ptf_tests.p4runtime import Names, canonical

ROUTES: Final = 10_000
RULES: Final = 1_000
RULE_MASKS: Final = 16
SERVERS: Final = 16
STATIONS: Final = 10_000
OUT: Final = 2
"""The port that the frames leave by."""
ADDRESS: Final = 0x0A000001
SERVICE_PORT: Final = 80
TELEMETRY_TYPE: Final = 0x88B6


def measure() -> Iterator[Measurement]:
    """Yield the figures. Raises RuntimeError when they cannot be taken."""
    yield from in_namespace("programs", timeout_s=600)


# ---------------------------------------------------------------------------------------------- tables, and the frames


def _routes(names: Names) -> Iterator[Any]:
    """Prefixes of 17 to 24 bits, and that of the frames' destination."""
    for number in range(ROUTES):
        length = 24 if not number else 17 + number % 8
        prefix = (ADDRESS + (number << 15)) >> (32 - length) << (32 - length)
        yield names.entry("routes", {"hdr.ipv4.dst": (prefix, length)}, "next_hop", dst=2, src=1, port=OUT)


def _udp(size: int) -> bytes:
    frame = Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02") / IP(src="10.1.0.1", dst="10.0.0.1")
    return _padded(frame / UDP(sport=4242, dport=SERVICE_PORT), size)


def _padded(frame: Packet, size: int) -> bytes:
    return bytes(frame / Raw(bytes(size - len(frame))))


def _balancer(names: Names) -> Iterator[Any]:
    """Rules of several masks of which the last admits the frames; a group of servers for their service."""
    for number in range(RULES):
        mask = 0xFFFFFFFF << number % RULE_MASKS & 0xFFFFFFFF
        match = {"hdr.udp.dst": (SERVICE_PORT, 0xFFFF)}
        if number < RULES - 1:
            match["hdr.ipv4.src"] = (0x0B000000 + (number << 4) & mask, mask)
        rule = names.entry("rules", match, "admit", flow=number)
        rule.priority = RULES - number
        yield rule
    profile = names.find("action_profiles", "servers").preamble.id
    action = names.find("actions", "to_server").preamble.id
    for number in range(1, SERVERS + 1):
        member = p4r.Entity()
        made = member.action_profile_member
        made.action_profile_id, made.member_id, made.action.action_id = profile, number, action
        for param, value in enumerate((number, ADDRESS + number, OUT), 1):
            made.action.params.add(param_id=param, value=canonical(value))
        yield member
    group = p4r.Entity()
    group.action_profile_group.action_profile_id, group.action_profile_group.group_id = profile, 1
    group.action_profile_group.max_size = SERVERS
    for number in range(1, SERVERS + 1):
        group.action_profile_group.members.add(member_id=number, weight=1)
    yield group
    service = names.entry("services", {"hdr.ipv4.dst": ADDRESS, "hdr.udp.dst": SERVICE_PORT})
    service.action.action_profile_group_id = 1
    yield service


def _stations(names: Names) -> Iterator[Any]:
    for number in range(STATIONS):
        yield names.entry("forward", {"hdr.ethernet.dst": 0x020000000001 + number}, "to_port", port=OUT)


def _telemetry(size: int) -> bytes:
    shim = bytes((0, 0, 0, 7)) + (0x0800).to_bytes(2, "big")
    ethernet = Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02", type=TELEMETRY_TYPE)
    return _padded(ethernet / Raw(shim), size)


@dataclass(frozen=True)
class Workload:
    """A program of bench/programs, what its tables hold, and a frame of some size that it forwards."""

    name: str
    entities: Callable[[Names], Iterator[Any]]
    frame: Callable[[int], bytes]


WORKLOADS: Final = (
    Workload("router", _routes, _udp),
    Workload("balancer", _balancer, _udp),
    Workload("telemetry", _stations, _telemetry),
)


def _inside() -> Iterator[Measurement]:
    lay_cables()
    with tempfile.TemporaryDirectory() as directory:
        load = compile_tool(HERE / "load.c", Path(directory) / "load")
        forwarder = Forwarder(Path(directory))
        for workload in WORKLOADS:
            program = HERE / "programs" / f"{workload.name}.p4"
            targets = [P4Contestant(target, workload.entities) for target in installed_targets(program)]
            contestants: list[Contestant] = [forwarder, *targets]
            rates, _ = race(load, contestants, workload.frame)
            for size, shown in SIZES.items():
                for contestant in contestants:
                    figure = round(statistics.median(rates[contestant.name, size]))
                    note = f"{contestant.entries:,} entries" if isinstance(contestant, P4Contestant) else ""
                    yield Measurement(f"{workload.name}, {contestant.name}, {shown}", figure, "frames/s", note=note)
                yield from ratios(f"{workload.name}, {shown}", {c.name: rates[c.name, size] for c in contestants})


if __name__ == "__main__":
    sys.exit(main("programs", _inside))
