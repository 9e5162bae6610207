"""Switch events in packet tests: who hears of which port is configured here, what they hear is checked here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from finsy.proto import p4r

from codec import layouts
from codec.constants import HOPS, EventType, Kind, Next
from codec.scapy_layers import OEFH, Event, Link
from ptf_tests.base import (
    ENDPOINTS,
    FENCE_DST,
    FENCE_PORT,
    MODE_MANAGED,
    MODE_OPEN,
    PORTS,
    SWITCH_ID,
    TIMEOUT_S,
    UPLINKS,
)
from ptf_tests.frames import forwarded, probe, with_crc
from ptf_tests.links import KEEPALIVE_GROUP, ManagedTest, Peer, Profile, in_session

PLANE: Final = 5
SPINES: Final = {port: 0xF10 + port for port in UPLINKS}
"""Id of the switch on each uplink."""
FABRIC_GROUP: Final = 3
TENANT_GROUPS: Final = {1: 4, 2: 5}
"""Multicast group of the endpoint ports of each tenant."""
DEFAULT: Final = Profile()
EVENT_BYTES: Final = layouts.LINK.size + layouts.OEFH.size + layouts.EVENT.size


class EventTest(ManagedTest):
    """A packet test in which every port is known to the event tables, and keepalives reach all ports."""

    def setUp(self) -> None:
        super().setUp()
        entry = self.switch.names.entry
        for port in PORTS:
            group = TENANT_GROUPS[ENDPOINTS[port]] if port in ENDPOINTS else FABRIC_GROUP
            said = {"source": SWITCH_ID, "plane": PLANE, "subject": neighbour(port), "group": group}
            self.install([
                entry("link_events", {"port": port}, "tell_of_link", **said),
                self.listener(port, MODE_OPEN),
            ])  # fmt: skip
        self.install(
            entry("fabric_tenant", {"owner": port}, "set_tenant", tenant=tenant) for port, tenant in ENDPOINTS.items()
        )
        self._groups: list[Any] = []
        for tenant, group in TENANT_GROUPS.items():
            self._hear(group, [port for port, owner in ENDPOINTS.items() if owner == tenant])
        self._hear(FABRIC_GROUP, UPLINKS)
        self._set_group(KEEPALIVE_GROUP, self.keepalive_ports())
        self.addCleanup(self._forget_events)
        self.sequence = 0

    def _hear(self, group: int, ports: Iterable[int]) -> None:
        entity = p4r.Entity()
        multicast = entity.packet_replication_engine_entry.multicast_group_entry
        multicast.multicast_group_id = group
        for port in ports:
            multicast.replicas.add(egress_port=port, instance=port)
        self.switch.write("INSERT", [entity])
        self._groups.append(entity)

    def _forget_events(self) -> None:
        self.switch.write("DELETE", self._groups)
        for port in PORTS:
            if port not in self.profiles:  # those are taken down by themselves
                self.carrier(port, up=True)

    def keepalive_ports(self) -> Iterable[int]:
        return PORTS

    def listener(self, port: int, mode: int) -> Any:
        """Return the entry that says who listens on a port."""
        return self.switch.names.entry(
            "event_listener", {"egress_port": port}, "address_to", dst=neighbour(port), link_mode=mode
        )

    def manage(self, *ports: int, profile: Profile = DEFAULT) -> list[Peer]:
        for port in ports:
            self.modify(self.listener(port, MODE_MANAGED))
        return super().manage(*ports, profile=profile)

    # ------------------------------------------------------------------------------------------------------- events

    def expect_event(
        self,
        port: int,
        kind: EventType,
        about: int,
        *,
        new: bool = False,
        session: int = 0,
        subject: int | None = None,
        dst: int | None = None,
    ) -> Event:
        """Check that the next frame on a port is an EVENT of this switch about another port; return it. On a managed
        link, given its session: the next frame but for the link's own.

        `new`: of a state change of its own, the first that this test sees or the next after the last one; otherwise of
        the same one as the last event that was checked. `subject` and `dst` are by default who is on the two ports.
        """
        data = self.receive(port)
        while session and data is not None and data[0] >> 4 != Kind.DATA:
            data = self.receive(port)  # what the link says of itself, as it comes up, may come late
        assert data is not None, f"no event came to port {port} within {TIMEOUT_S:g} s"
        self.assertEqual(len(data), EVENT_BYTES, data.hex())
        self.assertEqual(data, with_crc(data), "the link CRC")
        got = Link(data)
        event = got[Event]
        if new:
            self.sequence = (self.sequence + 1) % (1 << 16) if self.sequence else event.sequence
        head = Link(kind=Kind.DATA) / OEFH(
            vc=7, dst=neighbour(port) if dst is None else dst, src=SWITCH_ID, next=Next.EVENT, hops=HOPS
        )
        body = Event(
            type=kind, plane=PLANE, subject=neighbour(about) if subject is None else subject,
            sequence=self.sequence, detail=about, timestamp=event.timestamp,
        )  # fmt: skip
        expected = in_session(head / body, session) if session else bytes(head / body)
        self.assertEqual(data, expected, f"got {got!r}\nexpected {Link(expected)!r}")
        return event

    def expect_told(self, ports: Iterable[int], kind: EventType, about: int, *, new: bool = True) -> list[Event]:
        """Check that each of these ports gets an EVENT next, all of the same state change; return them."""
        return [self.expect_event(port, kind, about, new=new and index == 0) for index, port in enumerate(ports)]

    def expect_nothing_on(self, ports: Iterable[int]) -> None:
        """Check that nothing but a fence comes to open ports that are alive."""
        ports = list(ports)
        for port in ports:
            self.send(FENCE_PORT, probe(FENCE_PORT, FENCE_DST + port, op=port))
        for port in ports:
            self.expect(port, forwarded(probe(FENCE_PORT, FENCE_DST + port, op=port)))


def neighbour(port: int) -> int:
    """Return the id of who is on a port."""
    return port if port in ENDPOINTS else SPINES[port]
