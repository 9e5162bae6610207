"""Random frames against the reference model: whatever comes in, what leaves and what counts is what the model says."""

import random
from collections import Counter
from collections.abc import Iterator

from scapy.packet import Packet

from codec.constants import LsuOpcode, Next, TmaOpcode
from codec.scapy_layers import LSU, OEFH, TMA, Event, Link, Probe
from ptf_tests.base import (
    BURST,
    ENDPOINTS,
    FENCE_DST,
    OTHER_TENANT,
    PORTS,
    REMOTE,
    REMOTE_OTHER_TENANT,
    SWITCH_ID,
    TENANT,
    UPLINKS,
    EthlinkTest,
)
from ptf_tests.frames import control_frames, with_crc
from ptf_tests.model import Dropped, Forwarded, Local, Outcome, Tables, outcome

FRAMES = 2500
SEED = 20261
MIN_SENDABLE = 14
VLAN_TAGS = (b"\x81\x00", b"\x88\xa8")
VLAN_MIN = 20  # Linux drops a frame that ends before the EtherType behind its VLAN tag, unseen by any socket

LOCAL_IDS = (*ENDPOINTS, *REMOTE[:4], REMOTE_OTHER_TENANT, FENCE_DST + 2)
IDS = (*LOCAL_IDS, *LOCAL_IDS, SWITCH_ID, SWITCH_ID + 1, 0, 0x777, 0xEFF, 0xFFE, 0xFFF)


def fabric_tables() -> Tables:
    """Return what the base class installs, as the model takes it."""
    remote = dict.fromkeys(REMOTE, TENANT) | {REMOTE_OTHER_TENANT: OTHER_TENANT}
    routes: dict[tuple[int, int], int | tuple[int, ...]] = {(tenant, gpu): gpu for gpu, tenant in ENDPOINTS.items()}
    routes |= {(TENANT, gpu): UPLINKS for gpu in REMOTE}
    routes |= {(TENANT, FENCE_DST + port): port for port in PORTS}
    return Tables(
        endpoint_ports=ENDPOINTS,
        fabric_ports=frozenset(UPLINKS),
        sources=frozenset((port, port) for port in ENDPOINTS),
        tenants=remote,
        owners=remote | ENDPOINTS,
        stations=frozenset({SWITCH_ID}),
        routes=routes,
    )


class FrameMaker:
    """Makes frames that are right in most of what they say, so that each check is reached."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Yield (port, frame) pairs without end."""
        while True:
            port = self.rng.choice(PORTS)
            frame = self._spoil(self._frame(port))
            if len(frame) >= (VLAN_MIN if frame[12:14] in VLAN_TAGS else MIN_SENDABLE):
                yield port, frame

    def _sometimes(self, one_in: int) -> bool:
        return self.rng.randrange(one_in) == 0

    def _frame(self, port: int) -> bytes:
        rng = self.rng
        if self._sometimes(10):
            return rng.choice(list(control_frames().values()))
        src = port if port in ENDPOINTS else rng.choice(REMOTE)
        if self._sometimes(8):
            src = rng.choice(IDS)
        if port not in ENDPOINTS and self._sometimes(8):
            src = SWITCH_ID + port
        oefh = OEFH(src=src, dst=rng.choice(IDS), vc=rng.randrange(7), ecn=rng.randrange(4), f=rng.randrange(2))
        oefh.hops = rng.choice((0, 1, 2, 8, 15))
        oefh.entropy = rng.randrange(256)
        if self._sometimes(10):
            oefh.vc = 7
        if self._sometimes(20):
            oefh.version = rng.randrange(4)
        link = Link()
        if self._sometimes(20):
            link.flags = rng.randrange(16)
        if self._sometimes(20):
            link.session = rng.randrange(1 << 16)
        if self._sometimes(5):
            link.seq, link.ack = rng.randrange(1 << 20), rng.randrange(1 << 20)
        return bytes(link / oefh / self._transaction())

    def _transaction(self) -> Packet:
        rng = self.rng
        data = rng.randbytes(rng.choice((0, 1, 7, 8, 16, 100, 255, 256)))
        following = rng.choice((Next.LSU, Next.LSU, Next.TMA, Next.TMA, Next.EVENT, Next.PROBE))
        if following == Next.LSU:
            opcode = rng.randrange(16) if self._sometimes(8) else rng.choice(list(LsuOpcode))
            lsu = LSU(
                opcode=opcode, status=rng.randrange(16), request=rng.randrange(1 << 32), key=rng.randrange(1 << 16)
            )
            carries: dict[int, bytes] = {
                LsuOpcode.LOAD: b"",
                LsuOpcode.ACK: b"",
                LsuOpcode.NAK: b"",
                LsuOpcode.ATOMIC_CAS: data * 2,
            }
            lsu.data = carries.get(opcode, data or b"\0")[:512]
            if self._sometimes(8):
                lsu.length = rng.randrange(1, 257)
            return lsu
        if following == Next.TMA:
            opcode = rng.randrange(16) if self._sometimes(8) else rng.choice(list(TmaOpcode))
            tma = TMA(opcode=opcode, flags=rng.randrange(16), message=rng.randrange(1 << 32), data=data)
            if self._sometimes(8):
                tma.length = rng.randrange(1 << 16)
            return tma
        if following == Next.EVENT:
            subject = 0xF00 + rng.randrange(256) if self._sometimes(3) else rng.randrange(1 << 16)
            return Event(type=rng.randrange(5), subject=subject)
        return Probe(op=rng.randrange(256)) / rng.randbytes(rng.randrange(40))

    def _spoil(self, frame: bytes) -> bytes:
        """Return the frame, or one with a fault that its making does not give."""
        rng = self.rng
        changed = bytearray(frame)
        if self._sometimes(25):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)  # on the wire: the CRC no longer fits
            return bytes(changed)
        if self._sometimes(15):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        if self._sometimes(15):
            changed = changed[: rng.randrange(MIN_SENDABLE, len(changed) + 1)]
        if self._sometimes(15):
            changed += rng.randbytes(rng.randrange(1, 30))
        if self._sometimes(40):
            changed[0] = rng.randrange(16) << 4 | changed[0] & 15
        if self._sometimes(60):
            changed[12:14] = rng.choice(VLAN_TAGS)
        return with_crc(bytes(changed))


class RandomFrames(EthlinkTest):
    """Frames of every make and fault, on every port."""

    def runTest(self) -> None:
        tables = fabric_tables()
        maker = FrameMaker(SEED).frames()
        seen: Counter[str] = Counter()
        for _ in range(0, FRAMES, BURST):
            burst = [next(maker) for _ in range(BURST)]
            expected = [outcome(tables, port, frame) for port, frame in burst]
            self._run(burst, expected)
            seen.update(result.reason if isinstance(result, Dropped) else type(result).__name__ for result in expected)
        self.expect_quiet()
        self.expect_no_packet_in()
        # A generator that stopped to reach a check would prove nothing about it.
        reachable = {"Forwarded", "Local", "Consumed", "truncated", "bad_crc", "odd_byte_0", "high_byte_12"}
        reachable |= {"unknown_kind"}
        reachable |= {"wrong_session", "poisoned", "unexpected_control", "unknown_version", "unknown_next", "overlong"}
        reachable |= {"unknown_opcode", "reserved_vc", "forged_event", "spoofed_source", "unknown_source", "no_route"}
        reachable |= {"reserved_destination", "not_a_probe", "other_tenant", "hop_expired"}
        self.assertEqual(set(seen), reachable)

    def _run(self, burst: list[tuple[int, bytes]], expected: list[Outcome]) -> None:
        """Send a burst port by port, as only frames of one port keep their order, and check all that comes of it."""
        for port in PORTS:
            mine = [(frame, result) for (at, frame), result in zip(burst, expected, strict=True) if at == port]
            drops = Counter((result.reason, port) for _, result in mine if isinstance(result, Dropped))
            before = self.drops([port])
            for frame, _ in mine:
                self.send(port, frame)
            for frame, result in mine:
                if isinstance(result, Forwarded):
                    self.expect(result.port, result.frame)
                elif isinstance(result, Local):
                    self.expect_packet_in(frame, ingress_port=port, reason=127)
            self.wait_for_drops(before, dict(drops))
