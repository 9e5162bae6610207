"""Traps: dropped frames of the reasons that the controller asked for reach it, as they came in, within a rate."""

import time

from codec.scapy_layers import LSU, OEFH, Event, Link
from ptf_tests.base import DROP_REASONS, GROUP, REMOTE, SWITCH_ID, UPLINKS, EthlinkTest
from ptf_tests.frames import control_frames, probe, slot, store, with_crc
from ptf_tests.p4runtime import PacketIn

CREDIT_REASONS = {
    "bad_init", "over_limit", "control_rate", "exceeds_limit", "no_room", "llr_rx_duplicate_seq", "llr_out_of_sequence",
    "llr_flushed", "dead_port", "bad_retry_profile", "hold_full",
}  # fmt: skip
"""Reasons that a port has to be managed, limited or dead for: their traps are tested with what causes them."""


class EveryReason(EthlinkTest):
    """Each reason can be trapped: the frame arrives byte by byte as it came in, and still counts as dropped."""

    def frames(self) -> dict[str, tuple[int, bytes]]:
        """Return a frame for each reason, with the port to send it to."""
        plain = bytes(store(1, 2))
        opcode = store(1, 2)
        opcode[LSU].opcode = 0
        empty_slot = next(f for e in range(256) if slot(f := store(1, REMOTE[0], f=1, entropy=e), len(UPLINKS)) == 2)
        return {
            "unknown_port": (8, plain),
            "truncated": (1, with_crc(plain[:30])),
            "bad_crc": (1, plain[:-1] + b"\0"),
            "odd_byte_0": (1, with_crc(b"\x11" + plain[1:])),
            "high_byte_12": (1, bytes(store(1, 2, version=2))),
            "unknown_kind": (1, with_crc(b"\xf0" + plain[1:])),
            "link_not_up": (7, bytes(store(REMOTE[0], 2))),
            "wrong_session": (1, with_crc(plain[:6] + b"\x12\x34" + plain[8:])),
            "poisoned": (1, with_crc(b"\x18" + plain[1:])),
            "unexpected_control": (1, control_frames()["CF_UPDATE"]),
            "unknown_version": (1, bytes(store(1, 2, version=1))),
            "unknown_next": (1, bytes(Link() / OEFH(src=1, dst=2, hops=8, next=9))),
            "unknown_opcode": (1, bytes(opcode)),
            "overlong": (1, with_crc(plain + b"\0")),
            "reserved_vc": (1, bytes(store(1, 2, vc=7))),
            "forged_event": (1, bytes(Link() / OEFH(src=1, dst=2, hops=8, vc=7) / Event(type="LINK_DOWN"))),
            "spoofed_source": (1, bytes(store(3, 2))),
            "unknown_source": (5, bytes(store(333, 2))),
            "reserved_destination": (1, bytes(store(1, 0xFFF))),
            "not_a_probe": (1, bytes(store(1, SWITCH_ID))),
            "no_route": (1, bytes(store(1, 0xABC))),
            "other_tenant": (1, bytes(store(1, 4))),
            "no_member": (1, bytes(empty_slot)),
            "bad_egress_port": (1, bytes(store(1, 0x700))),
            "hop_expired": (1, bytes(store(1, 2, hops=1))),
        }

    def runTest(self) -> None:
        entry = self.switch.names.entry
        self.install(entry("trap", {"reason": reason}, "to_cpu") for reason in DROP_REASONS.values())
        self.delete("port_config", {"ingress_port": 8})
        self.modify(self.port_entry(7, mode=1))
        self.modify(self.group_entry(GROUP, (*UPLINKS[:2], 0, UPLINKS[3])))
        self.insert("forward", {"tenant": 1, "dst": 0x700}, "to_port", port=99)
        frames = self.frames()
        self.assertEqual(frames.keys(), DROP_REASONS.keys() - CREDIT_REASONS)
        for reason, (port, frame) in frames.items():
            with self.subTest(reason):
                before = self.drops([port])
                self.send(port, frame)
                self.expect_packet_in(frame, ingress_port=port, reason=DROP_REASONS[reason])
                self.assertEqual(self.new_drops(before), {(reason, port): 1})


class OnlyWhatIsTrapped(EthlinkTest):
    """Without its trap a reason is not shown; taking a trap back stops it."""

    def runTest(self) -> None:
        self.insert("trap", {"reason": DROP_REASONS["no_route"]}, "to_cpu")
        self.expect_dropped(1, store(3, 2), "spoofed_source")
        self.send(1, store(1, 0xABC))
        self.expect_packet_in(store(1, 0xABC), ingress_port=1, reason=DROP_REASONS["no_route"])
        self.delete("trap", {"reason": DROP_REASONS["no_route"]})
        self.expect_dropped(1, store(1, 0xABC), "no_route")
        self.expect_no_packet_in()


class RateTest(EthlinkTest):
    """What the tests of the packet-in rate share."""

    def flood(self, frame: bytes, count: int, reason: int, rate: int, burst: int) -> None:
        """Send a frame `count` times; check that its packet-ins are as many as the meter allows, the rest refused."""
        self.limit("packet_in_rate", reason, rate, burst)
        cell = ("packet_in_refused", reason)
        before = self.switch.counts([cell])[cell]
        started = time.monotonic()
        for _ in range(count):
            self.send(1, frame)

        def refused() -> int:
            return (self.switch.counts([cell])[cell] - before).packets

        shown: list[PacketIn] = []

        def all_accounted_for() -> bool:
            while (packet := self.switch.packet_in(0)) is not None:
                shown.append(packet)
            return len(shown) + refused() == count

        self.wait_until(all_accounted_for)
        self.assertEqual(len(shown) + refused(), count)
        self.assertEqual(set(shown), {PacketIn(frame, ingress_port=1, reason=reason)})
        allowed = burst + 1 + rate * (time.monotonic() - started)
        self.assertLessEqual(len(shown), allowed, f"more than a meter of {rate}/s with a burst of {burst} passes")
        self.expect_no_packet_in()
        self.expect_quiet()


class RateLimited(RateTest):
    """A flood of one reason is cut to its meter's rate, counts whole, and leaves the other reasons their own."""

    def runTest(self) -> None:
        no_route, spoofed = DROP_REASONS["no_route"], DROP_REASONS["spoofed_source"]
        for reason in (no_route, spoofed):
            self.insert("trap", {"reason": reason}, "to_cpu")
        before = self.drops([1])
        self.flood(bytes(store(1, 0xABC)), 200, no_route, rate=1, burst=5)
        self.assertEqual(self.new_drops(before), {("no_route", 1): 200})
        self.send(1, store(3, 2))
        self.expect_packet_in(store(3, 2), ingress_port=1, reason=spoofed)


class ProbesAreRateLimited(RateTest):
    """Probes for the switch have a meter cell of their own; what exceeds it is refused and counted."""

    def runTest(self) -> None:
        self.flood(bytes(probe(1, SWITCH_ID)), 100, 127, rate=1, burst=3)
