"""Packet I/O: what the controller sends leaves where it says, and what is for the switch reaches the controller."""

from ptf_tests.base import (
    CPU_PORT,
    MODE_MANAGED,
    PORTS,
    REMOTE,
    SWITCH_ID,
    TENANT,
    EthlinkTest,
)
from ptf_tests.frames import SIZES, forwarded, probe, sent, store, with_crc, write

LOCAL = 127  # packet-in reason of a frame addressed to the switch


class PacketOutToPort(EthlinkTest):
    """A packet-out that names a port leaves there, link header and CRC made for it, the rest as given."""

    def runTest(self) -> None:
        for port in PORTS:
            frame = store(0x123, 0x456, hops=1)
            self.switch.packet_out(bytes(frame), egress_port=port)
            self.expect(port, sent(frame))
        self.expect_quiet()


class PacketOutCrcIsMade(EthlinkTest):
    """The CRC of a packet-out may be anything; what leaves has the right one."""

    def runTest(self) -> None:
        frame = bytes(write(1, 2, 513))
        self.switch.packet_out(frame[:8] + b"\xde\xad\xbe\xef" + frame[12:], egress_port=6)
        self.expect(6, frame)


class PacketOutSizes(EthlinkTest):
    """Packet-outs of all sizes."""

    def runTest(self) -> None:
        for size in SIZES:
            self.switch.packet_out(bytes(write(1, 2, size)), egress_port=5)
            self.expect(5, sent(write(1, 2, size)))


class PacketOutNowhere(EthlinkTest):
    """A packet-out to a port that is no configured data port, an internal one above all, is dropped and counted."""

    def runTest(self) -> None:
        for port in (9, 503, 504, 507, 509, CPU_PORT, 511):
            before = self.drops([CPU_PORT])
            self.switch.packet_out(bytes(store(1, 2)), egress_port=port)
            self.wait_for_drops(before, {("bad_egress_port", CPU_PORT): 1})
        self.expect_quiet()
        self.expect_no_packet_in()


class PacketOutToManagedPort(EthlinkTest):
    """A packet-out cannot use a link that is not up."""

    def runTest(self) -> None:
        entry = self.switch.names.entry
        self.modify(entry("egress_config", {"egress_port": 5}, "set_link", mode=MODE_MANAGED))
        before = self.drops([CPU_PORT])
        self.switch.packet_out(bytes(store(1, 2)), egress_port=5)
        self.wait_for_drops(before, {("link_not_up", CPU_PORT): 1})


class PacketOutRouted(EthlinkTest):
    """A packet-out without a port is routed like a frame from another switch, checks included."""

    def runTest(self) -> None:
        self.switch.packet_out(bytes(store(REMOTE[0], 2)), egress_port=0)
        self.expect(2, forwarded(store(REMOTE[0], 2)))
        refused = {
            "unknown_source": bytes(store(1, 2)),
            "other_tenant": bytes(store(REMOTE[0], 4)),
            "hop_expired": bytes(store(REMOTE[0], 2, hops=1)),
            "unknown_version": bytes(store(REMOTE[0], 2, version=1)),
            "overlong": bytes(store(REMOTE[0], 2)) + b"\0",
        }
        for reason, frame in refused.items():
            before = self.drops([CPU_PORT])
            self.switch.packet_out(frame, egress_port=0)
            self.wait_for_drops(before, {(reason, CPU_PORT): 1})
        self.expect_quiet()


class PacketOutTruncated(EthlinkTest):
    """A packet-out of any length that is no whole frame is dropped and counted, an empty one included."""

    def runTest(self) -> None:
        frame = bytes(store(REMOTE[0], 2))
        before = self.drops([CPU_PORT])
        for length in range(len(frame)):
            self.switch.packet_out(with_crc(frame[:length]) if length >= 12 else frame[:length], egress_port=0)
        self.wait_for_drops(before, {("truncated", CPU_PORT): len(frame)})
        self.expect_quiet()


class ProbeForThisSwitch(EthlinkTest):
    """A probe addressed to the switch reaches the controller with its port, from every port and as a packet-out."""

    def runTest(self) -> None:
        for port in (1, 2, 3, 4):
            self.send(port, probe(port, SWITCH_ID))
            self.expect_packet_in(probe(port, SWITCH_ID), ingress_port=port, reason=LOCAL)
        self.send(5, probe(REMOTE[0], SWITCH_ID))
        self.expect_packet_in(probe(REMOTE[0], SWITCH_ID), ingress_port=5, reason=LOCAL)
        self.switch.packet_out(bytes(probe(REMOTE[0], SWITCH_ID)), egress_port=0)
        self.expect_packet_in(probe(REMOTE[0], SWITCH_ID), ingress_port=CPU_PORT, reason=LOCAL)
        self.expect_quiet()


class OnlyProbesForThisSwitch(EthlinkTest):
    """A switch has no memory: other frames for it are dropped and counted."""

    def runTest(self) -> None:
        self.expect_dropped(1, store(1, SWITCH_ID), "not_a_probe")
        self.expect_dropped(5, write(REMOTE[0], SWITCH_ID, 1024), "not_a_probe")
        self.expect_no_packet_in()


class StationChangesLive(EthlinkTest):
    """A switch may have several ids; one that is taken away is routed again."""

    def runTest(self) -> None:
        self.expect_dropped(1, probe(1, 0xF77), "no_route")
        self.insert("station", {"dst": 0xF77}, "local")
        self.send(1, probe(1, 0xF77))
        self.expect_packet_in(probe(1, 0xF77), ingress_port=1, reason=LOCAL)
        self.delete("station", {"dst": 0xF77})
        self.insert("forward", {"tenant": TENANT, "dst": 0xF77}, "to_port", port=8)
        self.expect_forwarded(1, probe(1, 0xF77), 8)
        self.expect_no_packet_in()


class SpoofedProbe(EthlinkTest):
    """A probe for the switch has to pass the same checks as any frame."""

    def runTest(self) -> None:
        self.expect_dropped(1, probe(2, SWITCH_ID), "spoofed_source")
        self.expect_no_packet_in()
