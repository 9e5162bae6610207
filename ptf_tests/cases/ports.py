"""Port configuration: a port that nobody configured, or whose link is not up, passes nothing."""

from scapy.packet import Packet

from codec.constants import NoticeType
from codec.scapy_layers import Link, Notice
from ptf_tests.base import EVENT_PORT, MODE_MANAGED, REMOTE, UPLINKS, EthlinkTest
from ptf_tests.frames import control_frames, data_frames, probe, store

CONSUMED = 125  # packet-in reason of a frame that has done its work in the switch


class UnknownPort(EthlinkTest):
    """Frames of a port without configuration are dropped and counted, good and bad alike."""

    def runTest(self) -> None:
        self.delete("port_config", {"ingress_port": 3})
        self.expect_dropped(3, store(3, 1), "unknown_port")
        self.expect_dropped(3, bytes(20), "unknown_port")
        self.install([self.port_entry(3)])
        self.expect_forwarded(3, store(3, 1), 1)


class ManagedPort(EthlinkTest):
    """A managed link carries nothing before its bring-up, neither data nor control."""

    def runTest(self) -> None:
        for port in (3, UPLINKS[0]):
            self.modify(self.port_entry(port, mode=MODE_MANAGED))
        for frame in (*data_frames().values(), *control_frames().values()):
            self.expect_dropped(3, frame, "link_not_up")
        self.expect_dropped(UPLINKS[0], store(REMOTE[0], 1), "link_not_up")
        self.expect_forwarded(1, store(1, 2), 2)
        self.modify(self.port_entry(3))
        self.expect_forwarded(3, store(3, 1), 1)


class UnknownModeAndRole(EthlinkTest):
    """A mode that does not exist is as strict as managed, a role that does not exist as strict as endpoint."""

    def runTest(self) -> None:
        entry = self.switch.names.entry
        for mode in (2, 3):
            self.modify(entry("port_config", {"ingress_port": 3}, "set_port", mode=mode, role=1, tenant=1))
            self.expect_dropped(3, store(3, 1), "link_not_up")
        for role in (0, 3):
            self.modify(entry("port_config", {"ingress_port": 3}, "set_port", mode=0, role=role, tenant=1))
            self.expect_dropped(3, store(REMOTE[0], 1), "spoofed_source")
            self.expect_forwarded(3, store(3, 1), 1)


class RoleDecides(EthlinkTest):
    """The same frame from the same port is a spoofed one on an endpoint port, a remote one on a fabric port."""

    def runTest(self) -> None:
        entry = self.switch.names.entry
        self.expect_dropped(3, store(REMOTE[1], 1), "spoofed_source")
        self.modify(entry("port_config", {"ingress_port": 3}, "set_port", mode=0, role=2, tenant=0))
        self.expect_forwarded(3, store(REMOTE[1], 1), 1)
        self.expect_dropped(3, store(3, 1), "unknown_source")


class TenantIsThePorts(EthlinkTest):
    """The port says whose frames these are: with another tenant it reaches another tenant's GPUs."""

    def runTest(self) -> None:
        self.expect_dropped(3, store(3, 4), "other_tenant")
        entry = self.switch.names.entry
        self.modify(entry("port_config", {"ingress_port": 3}, "set_port", mode=0, role=1, tenant=2))
        self.expect_forwarded(3, store(3, 4), 4)
        self.expect_dropped(3, probe(3, 1), "other_tenant")


class EventPortTrapped(EthlinkTest):
    """A controller that wants to know sees what the switch is told."""

    def runTest(self) -> None:
        self.insert("trap", {"reason": CONSUMED}, "to_cpu")
        notice = Link(kind=0, crc=0) / Notice(type=NoticeType.PORT_STATUS, state=1, port=3)
        self.send(EVENT_PORT, notice)
        self.expect_packet_in(notice, ingress_port=EVENT_PORT, reason=CONSUMED)
        self.expect_quiet()


class EventPort(EthlinkTest):
    """What the target senses is for the switch alone: nothing leaves, and nothing counts as dropped."""

    def runTest(self) -> None:
        notices: list[Packet] = [
            Link(kind=0, crc=0) / Notice(type=NoticeType.PORT_STATUS, state=state, port=3) for state in (0, 1)
        ]
        notices += [Link(kind=0, crc=0) / Notice(type=NoticeType.TICK)]
        received, drops = self.switch.counts([("port_rx", EVENT_PORT)]), self.drops([EVENT_PORT])
        for frame in [*map(bytes, notices), bytes(14), bytes(store(1, 2))]:
            self.send(EVENT_PORT, frame)
        cell = ("port_rx", EVENT_PORT)
        self.wait_until(lambda: (self.switch.counts([cell])[cell] - received[cell]).packets == 5)
        self.assertEqual((self.switch.counts([cell])[cell] - received[cell]).packets, 5)
        self.expect_quiet()
        self.assertEqual(self.new_drops(drops), {})
        self.expect_no_packet_in()
