"""Static forwarding: each destination by its own port, nothing learnt, unknown and reserved ids by policy (E2)."""

from ptf_tests.base import (
    ENDPOINTS,
    MODE_MANAGED,
    OTHER_TENANT,
    REMOTE,
    REMOTE_OTHER_TENANT,
    TENANT,
    UPLINKS,
    EthlinkTest,
)
from ptf_tests.frames import store


class EveryPair(EthlinkTest):
    """Every GPU of a tenant reaches every other, and itself."""

    def runTest(self) -> None:
        for src, tenant in ENDPOINTS.items():
            for dst in (gpu for gpu, other in ENDPOINTS.items() if other == tenant):
                self.expect_forwarded(src, store(src, dst), dst)


class FromFabric(EthlinkTest):
    """A frame from another switch reaches a local GPU from any uplink."""

    def runTest(self) -> None:
        for port in UPLINKS:
            self.expect_forwarded(port, store(REMOTE[0], 2), 2)


class NothingLearnt(EthlinkTest):
    """A source that has been seen on a port is still unknown as a destination."""

    def runTest(self) -> None:
        self.insert("source_guard", {"ingress_port": 3, "src": 33}, "allow")
        self.expect_forwarded(3, store(33, 1), 1)
        self.expect_dropped(1, store(1, 33), "no_route")


class UnknownDestination(EthlinkTest):
    """An id without a route is dropped; a route makes it reachable; without it, it is dropped again."""

    def runTest(self) -> None:
        self.expect_dropped(1, store(1, 0xABC), "no_route")
        self.insert("forward", {"tenant": TENANT, "dst": 0xABC}, "to_port", port=2)
        self.expect_forwarded(1, store(1, 0xABC), 2)
        self.delete("forward", {"tenant": TENANT, "dst": 0xABC})
        self.expect_dropped(1, store(1, 0xABC), "no_route")


class ReservedDestination(EthlinkTest):
    """0xFFF is nobody, even with a route."""

    def runTest(self) -> None:
        self.insert("forward", {"tenant": TENANT, "dst": 0xFFF}, "to_port", port=2)
        self.expect_dropped(1, store(1, 0xFFF), "reserved_destination")


class LargestAndSmallestIds(EthlinkTest):
    """Ids 0x000 and 0xEFF are GPUs like any other."""

    def runTest(self) -> None:
        for gpu in (0x000, 0xEFF):
            self.insert("source_guard", {"ingress_port": 3, "src": gpu}, "allow")
            self.insert("forward", {"tenant": TENANT, "dst": gpu}, "to_port", port=3)
            self.expect_forwarded(3, store(gpu, 1), 1)
            self.expect_forwarded(1, store(1, gpu), 3)


class OtherSwitchId(EthlinkTest):
    """Another switch's id is routed like any other destination."""

    def runTest(self) -> None:
        self.expect_dropped(1, store(1, 0xF02), "no_route")
        self.insert("forward", {"tenant": TENANT, "dst": 0xF02}, "to_port", port=6)
        self.expect_forwarded(1, store(1, 0xF02), 6)


class RouteChangedLive(EthlinkTest):
    """A route that is modified takes effect for the next frame."""

    def runTest(self) -> None:
        self.expect_forwarded(1, store(1, 2), 2)
        self.modify(self.switch.names.entry("forward", {"tenant": TENANT, "dst": 2}, "to_port", port=7))
        self.expect_forwarded(1, store(1, 2), 7)


class RouteToNowhere(EthlinkTest):
    """A route to a port that is not configured, an internal one above all, leads nowhere."""

    def runTest(self) -> None:
        for number, port in enumerate((0, 9, 504, 507, 510, 511)):
            self.insert("forward", {"tenant": TENANT, "dst": 0x700 + number}, "to_port", port=port)
            self.expect_dropped(1, store(1, 0x700 + number), "bad_egress_port")
        self.expect_no_packet_in()


class RouteToManagedPort(EthlinkTest):
    """A managed link is not up before its bring-up: nothing leaves by it."""

    def runTest(self) -> None:
        entry = self.switch.names.entry
        self.modify(entry("egress_config", {"egress_port": 5}, "set_link", mode=MODE_MANAGED))
        self.insert("forward", {"tenant": TENANT, "dst": 0x600}, "to_port", port=5)
        before = self.drops([1])
        self.send(1, store(1, 0x600))
        self.wait_for_drops(before, {("link_not_up", 1): 1})
        self.modify(entry("egress_config", {"egress_port": 5}, "set_link", mode=0))
        self.expect_quiet()


class OtherTenant(EthlinkTest):
    """No frame crosses from one tenant to another, in either direction, local or remote."""

    def runTest(self) -> None:
        self.expect_dropped(1, store(1, 4), "other_tenant")
        self.expect_dropped(4, store(4, 1), "other_tenant")
        self.expect_dropped(4, store(4, REMOTE[0]), "other_tenant")
        self.expect_dropped(1, store(1, REMOTE_OTHER_TENANT), "other_tenant")
        self.expect_dropped(5, store(REMOTE[0], 4), "other_tenant")
        self.expect_dropped(5, store(REMOTE_OTHER_TENANT, 1), "other_tenant")
        self.expect_forwarded(5, store(REMOTE_OTHER_TENANT, 4), 4)


class SameIdInTwoTenants(EthlinkTest):
    """Routes are looked up by tenant and destination: one id may lead two tenants to two places."""

    def runTest(self) -> None:
        self.insert("forward", {"tenant": TENANT, "dst": 0x500}, "to_port", port=5)
        self.insert("forward", {"tenant": OTHER_TENANT, "dst": 0x500}, "to_port", port=6)
        self.expect_forwarded(1, store(1, 0x500), 5)
        self.expect_forwarded(4, store(4, 0x500), 6)
