"""Bad input (protocol.md, section 9): each fault is dropped under its own counter, and does no harm."""

import random

from scapy.packet import Packet

from codec.constants import Kind, LsuOpcode, Next, TmaOpcode
from codec.scapy_layers import LSU, OEFH, TMA, Event, Link
from ptf_tests.base import ENDPOINTS, PORTS, REMOTE, SWITCH_ID, UPLINKS, EthlinkTest
from ptf_tests.frames import control_frames, data_frames, forwarded, probe, store, with_crc, write

MIN_SENDABLE = 14  # a veth takes no shorter frame


class MalformedTest(EthlinkTest):
    """What the tests of this file share."""

    def expect_all_dropped(self, port: int, frames: list[bytes], reason: str) -> None:
        """Check that all frames leave nowhere and count under one reason."""
        before = self.drops([port])
        for frame in frames:
            self.send(port, frame)
        self.wait_for_drops(before, {(reason, port): len(frames)})
        self.expect_quiet()
        self.assertEqual(self.new_drops(before), {(reason, port): len(frames)})


class BadCrc(MalformedTest):
    """One wrong bit in any byte is found, in frames of every kind."""

    def runTest(self) -> None:
        for frame in (*data_frames().values(), *control_frames().values()):
            broken = []
            for index in range(len(frame)):
                flipped = bytearray(frame)
                flipped[index] ^= 1 << index % 8
                broken.append(bytes(flipped))
            self.expect_all_dropped(1, broken, "bad_crc")


class BadCrcInPayload(MalformedTest):
    """One wrong bit in the last byte of the largest frame is found."""

    def runTest(self) -> None:
        frame = bytearray(bytes(write(1, 2, 4134)))
        frame[-1] ^= 1
        self.expect_all_dropped(1, [bytes(frame)], "bad_crc")


class CutOnTheWay(MalformedTest):
    """A frame that lost its end has a CRC that no longer fits."""

    def runTest(self) -> None:
        for frame in (*data_frames().values(), *control_frames().values()):
            self.expect_all_dropped(1, [frame[:length] for length in range(MIN_SENDABLE, len(frame))], "bad_crc")


class Truncated(MalformedTest):
    """A frame that ends before what its headers announce is dropped even if its CRC fits, at every length."""

    def runTest(self) -> None:
        for frame in (*data_frames().values(), *control_frames().values()):
            cut = [with_crc(frame[:length]) for length in range(MIN_SENDABLE, len(frame))]
            self.expect_all_dropped(1, cut, "truncated")


class TruncatedEvent(MalformedTest):
    """An EVENT that ends early is dropped, also where events may come from."""

    def runTest(self) -> None:
        frame = bytes(Link() / OEFH(src=SWITCH_ID + 1, dst=2, hops=8, vc=7) / Event(type="LINK_DOWN"))
        cut = [with_crc(frame[:length]) for length in range(MIN_SENDABLE, len(frame))]
        self.expect_all_dropped(5, cut, "truncated")


class Overlong(MalformedTest):
    """A frame that goes on after what its headers announce is dropped."""

    def runTest(self) -> None:
        frames = []
        for opcode in LsuOpcode:
            carried = {LsuOpcode.ATOMIC_CAS: 16, LsuOpcode.LOAD: 0, LsuOpcode.ACK: 0, LsuOpcode.NAK: 0}
            lsu = LSU(opcode=opcode, length=8, data=b"\x2a" * (carried.get(opcode, 8) + 1))
            frames.append(bytes(Link() / OEFH(src=1, dst=2, hops=8) / lsu))
        for length in (0, 1, 2048):
            tma = TMA(opcode="WRITE", length=length, data=b"\x2a" * (length + 1))
            frames.append(bytes(Link() / OEFH(src=1, dst=2, hops=8) / tma))
        frames.append(with_crc(bytes(store(1, 2)) + bytes(1000)))
        self.expect_all_dropped(1, frames, "overlong")


class LengthFieldTooLarge(MalformedTest):
    """A length field that announces more than the frame has makes it a truncated one."""

    def runTest(self) -> None:
        frames = []
        for length in (9, 256):
            lsu = LSU(opcode="STORE", length=length, data=b"\x2a" * 8)
            frames.append(bytes(Link() / OEFH(src=1, dst=2, hops=8) / lsu))
        for length in (9, 4096, 65535):
            tma = TMA(opcode="WRITE", length=length, data=b"\x2a" * 8)
            frames.append(bytes(Link() / OEFH(src=1, dst=2, hops=8) / tma))
        cas = LSU(opcode="ATOMIC_CAS", length=8, data=b"\x2a" * 15)
        frames.append(bytes(Link() / OEFH(src=1, dst=2, hops=8) / cas))
        self.expect_all_dropped(1, frames, "truncated")


class OddByte0(MalformedTest):
    """The lowest bit of byte 0 makes a frame an Ethernet multicast: dropped, in frames of every kind."""

    def runTest(self) -> None:
        frames = [bytes([frame[0] | 1]) + frame[1:] for frame in (*data_frames().values(), *control_frames().values())]
        self.expect_all_dropped(1, [with_crc(frame) for frame in frames], "odd_byte_0")


class HighByte12(MalformedTest):
    """A byte 12 above 0x7F is dropped, in frames of every kind; in OEFH it is version 2 or 3."""

    def runTest(self) -> None:
        for frame in (*data_frames().values(), *control_frames().values()):
            high = [frame[:12] + bytes([value]) + frame[13:] for value in (0x80, 0x90, 0xC0, 0xFF)]
            self.expect_all_dropped(1, [with_crc(frame) for frame in high], "high_byte_12")


class LooksLikeVlan(MalformedTest):
    """A VLAN tag to Linux, which takes it out of the frame on the way in: the switch sees the frame whole."""

    def runTest(self) -> None:
        for tag in (b"\x81\x00", b"\x88\xa8"):
            for control in (b"\x00\x00", b"\x00\x01", b"\x0f\xff", b"\xff\xff"):
                frame = bytes(store(1, 2))
                self.expect_all_dropped(1, [with_crc(frame[:12] + tag + control + frame[16:])], "high_byte_12")


class UnknownKind(MalformedTest):
    """Kinds 0 and 8 to 15 do not exist."""

    def runTest(self) -> None:
        frame = bytes(store(1, 2))
        frames = [with_crc(bytes([kind << 4]) + frame[1:]) for kind in range(16) if kind not in set(Kind)]
        self.assertEqual(len(frames), 9)
        self.expect_all_dropped(1, frames, "unknown_kind")


class WrongSession(MalformedTest):
    """An open port has session 0: anything else is another link's frame."""

    def runTest(self) -> None:
        frames = (*data_frames().values(), *control_frames().values())
        for session in (1, 0x8000, 0xFFFF):
            changed = [with_crc(frame[:6] + session.to_bytes(2, "big") + frame[8:]) for frame in frames]
            self.expect_all_dropped(1, changed, "wrong_session")


class Poisoned(MalformedTest):
    """A frame whose sender knows that its content is bad is believed in that."""

    def runTest(self) -> None:
        frames = [with_crc(bytes([frame[0] | 8]) + frame[1:]) for frame in data_frames().values()]
        self.expect_all_dropped(1, frames, "poisoned")


class UnexpectedControl(MalformedTest):
    """Control frames mean nothing on an open port, be it an endpoint's or another switch's."""

    def runTest(self) -> None:
        frames = list(control_frames().values())
        self.expect_all_dropped(1, frames, "unexpected_control")
        self.expect_all_dropped(5, frames, "unexpected_control")


class UnknownVersion(MalformedTest):
    """OEFH version 1 is unknown; 2 and 3 are barred already by byte 12."""

    def runTest(self) -> None:
        self.expect_dropped(1, store(1, 2, version=1), "unknown_version")
        self.expect_dropped(1, probe(1, 2, version=1), "unknown_version")
        self.expect_dropped(1, store(1, 2, version=2), "high_byte_12")
        self.expect_dropped(1, store(1, 2, version=3), "high_byte_12")


class UnknownNext(MalformedTest):
    """A transaction other than LSU, TMA, EVENT and PROBE does not exist, with or without bytes behind it."""

    def runTest(self) -> None:
        unknown = [value for value in range(16) if value not in set(Next)]
        self.assertEqual(len(unknown), 12)
        for rest in (b"", b"\x11" * 40):
            frames = [bytes(Link() / OEFH(src=1, dst=2, hops=8, next=value) / rest) for value in unknown]
            self.expect_all_dropped(1, frames, "unknown_next")


class UnknownOpcode(MalformedTest):
    """Opcodes that LSU and TMA do not have."""

    def runTest(self) -> None:
        lsu = [value for value in range(16) if value not in set(LsuOpcode)]
        tma = [value for value in range(16) if value not in set(TmaOpcode)]
        self.assertEqual((len(lsu), len(tma)), (7, 11))
        frames = [bytes(Link() / OEFH(src=1, dst=2, hops=8) / LSU(opcode=value, data=bytes(8))) for value in lsu]
        frames += [bytes(Link() / OEFH(src=1, dst=2, hops=8) / TMA(opcode=value, data=bytes(8))) for value in tma]
        self.expect_all_dropped(1, frames, "unknown_opcode")


class ForgedEvent(MalformedTest):
    """An EVENT closes paths, so it must come from a switch: not from an endpoint port, not with a GPU's id."""

    def event(self, src: int) -> bytes:
        return bytes(Link() / OEFH(src=src, dst=2, hops=8, vc=7) / Event(type="LINK_DOWN", subject=3))

    def runTest(self) -> None:
        for port in ENDPOINTS:
            self.expect_dropped(port, self.event(port), "forged_event")
        self.insert("source_guard", {"ingress_port": 1, "src": SWITCH_ID + 1}, "allow")
        self.expect_dropped(1, self.event(SWITCH_ID + 1), "forged_event")
        for src in (REMOTE[0], 0xEFF, 0xFFF):
            self.expect_dropped(UPLINKS[0], self.event(src), "forged_event")


class FirstFaultCounts(MalformedTest):
    """A frame with several faults counts under the first in the order that docs/pipeline.md gives."""

    def runTest(self) -> None:
        everything: Packet = store(3, 0xABC, version=1, hops=0, vc=7)  # spoofed, unroutable, expired as well
        everything[LSU].opcode = 0
        everything[Link].session = 9
        everything[Link].flags = "POISON"
        data = bytearray(bytes(everything))
        data[-1] ^= 1
        self.expect_dropped(1, bytes(data), "bad_crc")
        self.expect_dropped(1, with_crc(bytes([data[0] | 1]) + bytes(data[1:])), "odd_byte_0")
        self.expect_dropped(1, with_crc(bytes(data[:12]) + b"\xff" + bytes(data[13:])), "high_byte_12")
        self.expect_dropped(1, with_crc(bytes([0xF8]) + bytes(data[1:])), "unknown_kind")
        self.expect_dropped(1, with_crc(bytes(data)), "wrong_session")
        data[6:8] = b"\0\0"
        self.expect_dropped(1, with_crc(bytes(data)), "poisoned")
        data[0] &= 0xF7
        self.expect_dropped(1, with_crc(bytes(data)), "unknown_version")
        data[12] &= 0x3F
        self.expect_dropped(1, with_crc(bytes(data)), "unknown_opcode")
        data[18] = 0x20
        self.expect_dropped(1, with_crc(bytes(data) + b"\0"), "overlong")
        self.expect_dropped(1, with_crc(bytes(data)), "reserved_vc")
        data[12] &= 0xC7
        self.expect_dropped(1, with_crc(bytes(data)), "spoofed_source")
        data[14:16] = bytes([data[14] & 0xF0, 1])
        self.expect_dropped(1, with_crc(bytes(data)), "no_route")
        data[13:15] = b"\x00\x20"
        self.expect_dropped(1, with_crc(bytes(data)), "hop_expired")


class Noise(MalformedTest):
    """Random bytes, half of them with a CRC that fits, all end in a counter; the switch forwards on as before."""

    def runTest(self) -> None:
        rng = random.Random(20260)
        before = self.drops(PORTS)
        received = self.traffic("port_rx")
        frames = []
        for number in range(600):
            # Neither a VLAN tag, which is tested apart, nor an address that reaches somebody.
            noise = bytearray(rng.randbytes(rng.randrange(MIN_SENDABLE, 300)))
            noise[12] &= 0x7F
            noise[13] |= 0x80
            if number % 2:
                noise[0] = rng.choice(list(Kind)) << 4
                noise[6:8] = b"\0\0"
                noise = bytearray(with_crc(bytes(noise)))
            frames.append(bytes(noise))
        for number, frame in enumerate(frames):
            self.send(PORTS[number % len(PORTS)], frame)
        port_of = {port: len(frames[PORTS.index(port) :: len(PORTS)]) for port in PORTS}
        self.wait_until(lambda: self.dropped_by_port(before) == port_of)
        self.assertEqual(self.dropped_by_port(before), port_of)
        now = self.traffic("port_rx")
        self.assertEqual({port: (now[port] - received[port]).packets for port in PORTS}, port_of)
        self.expect_quiet()
        for src, dst in ((1, 2), (2, 3), (3, 1)):
            self.send(src, store(src, dst))
            self.expect(dst, forwarded(store(src, dst)))

    def dropped_by_port(self, before: dict) -> dict[int, int]:
        total = dict.fromkeys(PORTS, 0)
        for (_, port), count in self.new_drops(before).items():
            total[port] += count
        return total
