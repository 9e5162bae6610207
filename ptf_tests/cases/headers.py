"""Header integrity: each field at its offset, the CRC renewed, what a hop does not change intact, every size (E1)."""

import json
from pathlib import Path

from codec.constants import LsuOpcode, TmaOpcode
from codec.scapy_layers import LSU, OEFH, TMA, Event, Link
from ptf_tests.base import REMOTE, SWITCH_ID, TENANT, UPLINKS, EthlinkTest
from ptf_tests.frames import SIZES, forwarded, probe, store, with_crc, write

VECTORS = Path(__file__).resolve().parents[2] / "tests" / "codec" / "vectors.json"


class FieldOffsets(EthlinkTest):
    """A frame written out by hand: the switch reads dst, src, hops and the opcode where protocol.md puts them."""

    def runTest(self) -> None:
        written = (
            "1000000000000000 00000000"  # DATA, no flags, seq 0, ack 0, session 0; the CRC comes below
            "00 002 001 1 8 00"  # version 0, vc 0, ecn 0, F 0; dst 2; src 1; LSU; 8 hops; entropy 0
            "2 0 07 0007 00000001 beef 0000000000001000"  # STORE of 8 bytes
            "0001020304050607 00000000"
        )
        frame = bytes.fromhex(written.replace(" ", ""))
        hop = bytearray(frame)
        hop[16] = 0x17
        self.expect_forwarded(1, with_crc(frame), 2)
        self.send(1, with_crc(frame))
        self.expect(2, with_crc(bytes(hop)))


class Vectors(EthlinkTest):
    """The wire vectors' DATA frames of open ports pass as they are, hop limit, link header and CRC apart."""

    def runTest(self) -> None:
        vectors = json.loads(VECTORS.read_text())["frames"]
        tried = 0
        for vector in vectors:
            fields = vector["fields"]
            if fields["kind"] != 1 or fields["session"] or fields["next"] not in (1, 2) or fields["hops"] < 2:
                continue
            tried += 1
            self.insert("fabric_tenant", {"owner": fields["src"]}, "set_tenant", tenant=7)
            self.insert("forward", {"tenant": 7, "dst": fields["dst"]}, "to_port", port=2)
            with self.subTest(vector["name"]):
                self.expect_forwarded(5, bytes.fromhex(vector["hex"]), 2)
            self.delete("fabric_tenant", {"owner": fields["src"]})
            self.delete("forward", {"tenant": 7, "dst": fields["dst"]})
        self.assertGreaterEqual(tried, 5)


class LinkHeaderIsOneLinks(EthlinkTest):
    """Flags, sequence and acknowledgement of the incoming link do not reach the outgoing one."""

    def runTest(self) -> None:
        frame = store(1, 2)
        frame[Link].flags = "LLR+REPLAY"
        frame[Link].seq = 0xABCDE
        frame[Link].ack = 0x12345
        self.send(1, frame)
        self.expect(2, forwarded(store(1, 2)))


class UntouchedFields(EthlinkTest):
    """Everything behind the hop limit arrives as it was sent, whatever its bits."""

    def runTest(self) -> None:
        ones = LSU(opcode="STORE", status=15, incarnation=0xFFFF, request=0xFFFFFFFF, key=0xFFFF, address=2**64 - 1)
        ones.data = b"\xff" * 256
        for entropy in (0x00, 0x55, 0xAA, 0xFF):
            for f in (0, 1):
                self.expect_forwarded(1, Link() / OEFH(src=1, dst=2, hops=8, f=f, entropy=entropy) / ones, 2)
        tma = TMA(opcode="READ", flags=15, block=255, incarnation=0xFFFF, message=0xFFFFFFFF, key=0xFFFF)
        tma.offset, tma.total, tma.address = 0xFFFFFFFF, 0xFFFFFFFF, 2**64 - 1
        self.expect_forwarded(1, Link() / OEFH(src=1, dst=2, hops=8) / tma, 2)


class EndToEndCrcUntouched(EthlinkTest):
    """The end-to-end CRC is the endpoints' business: a wrong one passes, unchanged."""

    def runTest(self) -> None:
        frame = store(1, 2)
        frame[LSU].crc = 0xDEADBEEF
        self.expect_forwarded(1, frame, 2)


class EveryOpcode(EthlinkTest):
    """Each LSU and TMA opcode passes, with the bytes that it carries."""

    def runTest(self) -> None:
        for opcode in LsuOpcode:
            carried = {LsuOpcode.ATOMIC_CAS: 16, LsuOpcode.LOAD: 0, LsuOpcode.ACK: 0, LsuOpcode.NAK: 0}
            lsu = LSU(opcode=opcode, data=b"\x2a" * carried.get(opcode, 8))
            self.expect_forwarded(1, Link() / OEFH(src=1, dst=2, hops=8) / lsu, 2)
        for tma_opcode in TmaOpcode:
            for data in (b"", b"\xc0"):
                self.expect_forwarded(1, Link() / OEFH(src=1, dst=2, hops=8) / TMA(opcode=tma_opcode, data=data), 2)


class EveryStoreLength(EthlinkTest):
    """Stores of 1 to 256 bytes pass whole."""

    def runTest(self) -> None:
        frames = [store(1, 2, data=bytes(range(256))[:length]) for length in range(1, 257)]
        self.expect_all_forwarded(1, [(frame, 2) for frame in frames])
        self.expect_quiet()


class EverySize(EthlinkTest):
    """Every frame size of conformance.md passes whole, up to the largest frame, between all kinds of ports."""

    def runTest(self) -> None:
        for size in SIZES:
            self.assertEqual(len(bytes(write(1, 2, size))), 12 + size)
            self.expect_forwarded(1, write(1, 2, size), 2)
            self.expect_forwarded(5, write(REMOTE[0], 3, size), 3)


class LooksLikeIp(EthlinkTest):
    """A frame whose bytes 12 and 13 read 0x0800, IPv4's EtherType, is not taken by anybody's IP stack."""

    def runTest(self) -> None:
        self.insert("source_guard", {"ingress_port": 2, "src": 0x00A}, "allow")
        self.insert("forward", {"tenant": TENANT, "dst": 0x00B}, "to_port", port=3)
        frame = store(0x00A, 0x00B, vc=1)
        self.assertEqual(bytes(frame)[12:14], b"\x08\x00")
        self.expect_forwarded(2, frame, 3)


class ProbesAndEvents(EthlinkTest):
    """A PROBE between GPUs, and an EVENT from another switch, pass whole."""

    def runTest(self) -> None:
        self.expect_forwarded(1, probe(1, 2), 2)
        self.expect_forwarded(1, probe(1, 2) / (b"\x01" * 100), 2)
        self.insert("fabric_tenant", {"owner": 2}, "set_tenant", tenant=TENANT)  # an event is its reader's
        event = Event(type="LINK_DOWN", plane=1, subject=101, sequence=65535, detail=7, timestamp=2**48 - 1)
        self.expect_forwarded(UPLINKS[1], Link() / OEFH(src=SWITCH_ID + 1, dst=2, hops=8, vc=7) / event, 2)


class InOrder(EthlinkTest):
    """Bursts between two ports arrive whole and in order."""

    def runTest(self) -> None:
        frames = [store(1, 2, data=number.to_bytes(8, "little")) for number in range(300)]
        self.expect_all_forwarded(1, [(frame, 2) for frame in frames])
        self.expect_quiet()
