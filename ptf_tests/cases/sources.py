"""Source ids: one may enter the fabric only where it belongs."""

from ptf_tests.base import REMOTE, SWITCH_ID, EthlinkTest
from ptf_tests.frames import store


class Spoofed(EthlinkTest):
    """A GPU cannot speak as another one of its tenant or of another, a remote one, a switch or nobody."""

    def runTest(self) -> None:
        for src in (3, 4, 0, 77, REMOTE[0], SWITCH_ID, 0xFFE, 0xFFF):
            self.expect_dropped(1, store(src, 2), "spoofed_source")
        self.expect_dropped(4, store(1, 2), "spoofed_source")


class SourcesAreAddedLive(EthlinkTest):
    """A port may carry several ids; each is allowed and taken back by its own entry."""

    def runTest(self) -> None:
        self.expect_dropped(2, store(22, 1), "spoofed_source")
        self.insert("source_guard", {"ingress_port": 2, "src": 22}, "allow")
        self.expect_forwarded(2, store(22, 1), 1)
        self.expect_forwarded(2, store(2, 1), 1)
        self.expect_dropped(3, store(22, 1), "spoofed_source")
        self.delete("source_guard", {"ingress_port": 2, "src": 22})
        self.expect_dropped(2, store(22, 1), "spoofed_source")


class UnknownOnFabricPort(EthlinkTest):
    """Between switches an id has to belong to a tenant; an endpoint port's permission does not count there."""

    def runTest(self) -> None:
        self.expect_dropped(5, store(333, 2), "unknown_source")
        self.expect_dropped(5, store(1, 2), "unknown_source")
        self.insert("fabric_tenant", {"owner": 333}, "set_tenant", tenant=1)
        self.expect_forwarded(5, store(333, 2), 2)


class TenantOfFabricSourceChanges(EthlinkTest):
    """Moving a remote id to another tenant moves what it reaches."""

    def runTest(self) -> None:
        self.expect_forwarded(5, store(REMOTE[0], 1), 1)
        self.modify(self.switch.names.entry("fabric_tenant", {"owner": REMOTE[0]}, "set_tenant", tenant=2))
        self.expect_dropped(5, store(REMOTE[0], 1), "other_tenant")
        self.expect_forwarded(5, store(REMOTE[0], 4), 4)
