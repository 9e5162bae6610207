"""A reference model of the switch: what docs/pipeline.md says becomes of a frame, written a second time, in Python.

It shares neither code nor constants with the switch program, and works on bits of the frame instead of headers, so that
a mistake is unlikely to stand in both.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

LINK = 12
DATA_KIND = 1
CONTROL_BODY = {2: 6, 3: 6, 4: 65, 5: 65, 6: 30, 7: 30}
TRANSACTION = {1: 18, 2: 28, 3: 14, 4: 8}
LSU_DATA = {1: 0, 2: 1, 3: 1, 4: 1, 5: 2, 9: 1, 10: 0, 11: 1, 15: 0}  # in units of `length`, by opcode
TMA_OPCODES = {1, 2, 3, 4, 15}
LSU, TMA, EVENT, PROBE = 1, 2, 3, 4


@dataclass(frozen=True)
class Forwarded:
    """The frame leaves by a port, as these bytes."""

    port: int
    frame: bytes


@dataclass(frozen=True)
class Dropped:
    """The frame counts under a reason."""

    reason: str


@dataclass(frozen=True)
class Local:
    """The frame goes to the controller, as it is."""


@dataclass(frozen=True)
class Consumed:
    """The frame was for the switch alone, and leaves nowhere."""


Outcome = Forwarded | Dropped | Local | Consumed


@dataclass(frozen=True)
class Tables:
    """What is installed in the switch; every port is open."""

    endpoint_ports: Mapping[int, int]
    """Tenant by port."""
    fabric_ports: frozenset[int]
    sources: frozenset[tuple[int, int]]
    """(port, id) pairs that may send."""
    tenants: Mapping[int, int]
    """Tenant of each id that may come from another switch."""
    owners: Mapping[int, int]
    """Tenant of each id that has one (destination_tenant)."""
    stations: frozenset[int]
    routes: Mapping[tuple[int, int], int | tuple[int, ...]]
    """By (tenant, dst): a port, or the ports of a group by slot."""
    known_ports: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "known_ports", frozenset(self.endpoint_ports) | self.fabric_ports)


def bits(data: bytes, first: int, width: int) -> int:
    """Return `width` bits of the data from bit `first` on, bit 0 being the most significant one of byte 0."""
    shift = len(data) * 8 - first - width
    return int.from_bytes(data, "big") >> shift & (1 << width) - 1


def link_crc(frame: bytes) -> int:
    """Return the CRC-32 over everything but the CRC field."""
    return zlib.crc32(frame[12:], zlib.crc32(frame[:8]))


def outcome(tables: Tables, port: int, frame: bytes) -> Outcome:
    """Return what is to become of a frame that comes in on a port."""
    if port not in tables.known_ports:
        return Dropped("unknown_port")
    if len(frame) < LINK:
        return Dropped("truncated")
    fault = _link_fault(frame)
    if fault:
        return Dropped(fault)
    head = frame[LINK:]
    vc, dst, src = bits(head, 2, 3), bits(head, 8, 12), bits(head, 20, 12)
    following, hops = bits(head, 32, 4), bits(head, 36, 4)
    from_fabric = port in tables.fabric_ports
    fault = _form_fault(frame, following, vc, src, from_fabric)
    if fault:
        return Dropped(fault)
    if following == EVENT and 0xF00 <= bits(head, 8 * 6 + 16, 16) < 0xFFF:
        return Consumed()
    if from_fabric:
        owner = dst if following == EVENT else src
        if owner not in tables.tenants:
            return Dropped("unknown_source")
        tenant = tables.tenants[owner]
    else:
        if (port, src) not in tables.sources:
            return Dropped("spoofed_source")
        tenant = tables.endpoint_ports[port]
    if dst == 0xFFF:
        return Dropped("reserved_destination")
    if dst in tables.stations:
        return Local() if following == PROBE else Dropped("not_a_probe")
    route = tables.routes.get((tenant, dst))
    if route is None:
        foreign = dst in tables.owners and tables.owners[dst] != tenant
        return Dropped("other_tenant" if foreign else "no_route")
    if isinstance(route, tuple):
        entropy = bits(head, 40, 8) if bits(head, 7, 1) else 0
        key = (dst << 20 | src << 8 | entropy).to_bytes(4, "big")
        route = route[zlib.crc32(key) * len(route) // 2**32]
    if route not in tables.known_ports:
        return Dropped("bad_egress_port")
    if hops < 2:
        return Dropped("hop_expired")
    return Forwarded(route, _next_hop(frame))


def _link_fault(frame: bytes) -> str:
    """Return why the link did not deliver a DATA frame to be believed, or nothing."""
    kind = frame[0] >> 4
    if bits(frame, 64, 32) != link_crc(frame):
        return "bad_crc"
    if frame[0] & 1:
        return "odd_byte_0"
    if len(frame) > LINK and frame[LINK] > 0x7F:
        return "high_byte_12"
    if kind not in {DATA_KIND, *CONTROL_BODY}:
        return "unknown_kind"
    needed = CONTROL_BODY.get(kind, 6)
    if kind == DATA_KIND and len(frame) >= LINK + 6:
        needed += TRANSACTION.get(frame[16] >> 4, 0)
    if len(frame) < LINK + needed:
        return "truncated"
    if frame[6:8] != b"\0\0":
        return "wrong_session"
    if frame[0] & 8:
        return "poisoned"
    return "" if kind == DATA_KIND else "unexpected_control"


def _form_fault(frame: bytes, following: int, vc: int, src: int, from_fabric: bool) -> str:
    """Return why a DATA frame is not well formed, or nothing."""
    if frame[12] >> 6:
        return "unknown_version"
    if following == EVENT:
        return "" if from_fabric and 0xF00 <= src < 0xFFF else "forged_event"
    if following == PROBE:
        return ""
    if following not in TRANSACTION:
        return "unknown_next"
    opcode = frame[18] >> 4
    if following == LSU:
        if opcode not in LSU_DATA:
            return "unknown_opcode"
        data = LSU_DATA[opcode] * (frame[19] + 1)
    else:
        if opcode not in TMA_OPCODES:
            return "unknown_opcode"
        data = bits(frame, 28 * 8, 16)
    whole = LINK + 6 + TRANSACTION[following] + data + 4
    if len(frame) != whole:
        return "truncated" if len(frame) < whole else "overlong"
    return "reserved_vc" if vc == 7 else ""


def _next_hop(frame: bytes) -> bytes:
    """Return the frame as it leaves on an open link: kind and zeros in the link header, one hop less, a fresh CRC."""
    changed = bytearray(frame)
    changed[:LINK] = bytes([frame[0] & 0xF0]) + bytes(LINK - 1)
    changed[16] -= 1
    changed[8:12] = link_crc(bytes(changed)).to_bytes(4, "big")
    return bytes(changed)
