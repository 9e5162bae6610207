"""The share of a managed port's queue that best effort may fill: `no_room`, and that places are never lost for good."""

from codec.constants import Kind
from codec.scapy_layers import Link
from ptf_tests.links import NONE, SLOW_PORT, ManagedTest, Peer, Profile, one_lane

SHARE = 48
QUEUE = 64
"""Frames that the slow port's queue holds (`ptf_tests.run`)."""
BEHIND = 0x309
"""An address behind the slow port."""
BEST_EFFORT = {"vc": 5}


class QueueTest(ManagedTest):
    """What the tests below share."""

    def slow_link(self) -> Peer:
        """Bring up a link on the slow port, on which only VC 0 is lossless."""
        entry = self.switch.names.entry
        self.install([
            entry("port_config", {"ingress_port": SLOW_PORT}, "set_port", mode=0, role=2, tenant=0),
            entry("egress_config", {"egress_port": SLOW_PORT}, "set_link", mode=0),
        ])  # fmt: skip
        self.route_to(BEHIND, SLOW_PORT)
        (peer,) = self.links(SLOW_PORT, profile=Profile(lossless_vcs=1, credit_limit=QUEUE, silence=0))
        return peer

    def data_of(self, peer: Peer, count: int) -> list[int]:
        """Return the vc of each of the next frames with data."""
        vcs: list[int] = []
        while len(vcs) < count:
            frame = peer.next()
            if frame.kind == Kind.DATA:
                vcs.append(frame["OEFH"].vc)
        return vcs


class NoRoom(QueueTest):
    """What finds 48 best-effort frames waiting is dropped and counted; lossless and control frames still have room."""

    def runTest(self) -> None:
        peer = self.slow_link()
        before = self.drops([1])
        sent = self.count("port_rx", 1)
        for frame in self.stores(1, BEHIND, 80, **BEST_EFFORT):
            self.send(1, frame)
        for frame in self.stores(1, BEHIND, 2):
            self.send(1, frame)
        self.expect_count("port_rx", 1, sent + 82)
        self.keepalive()
        dropped = self.new_drops(before)
        self.assertEqual(dropped.keys(), {("no_room", 1)})
        refused = dropped["no_room", 1]
        self.assertIn(80 - refused, range(SHARE, SHARE + 12))  # some may have left before the last came
        vcs = self.data_of(peer, 82 - refused)
        self.assertEqual((vcs.count(5), vcs.count(0)), (80 - refused, 2))
        peer.expect_freed(NONE)  # the keepalive's, behind all of them
        peer.expect_update(Kind.CC_UPDATE, one_lane(0, 2))


class LostPlacesComeBack(QueueTest):
    """Best-effort frames that the queue itself lost, as it was full, take no place any more once a later one leaves."""

    def runTest(self) -> None:
        peer = self.slow_link()
        for frame in self.stores(1, BEHIND, QUEUE - 16):
            self.send(1, frame)
        self.expect_credits(SLOW_PORT, sender_credits_consumed=one_lane(0, QUEUE - 16))
        before = self.drops([1])
        sent = self.count("port_rx", 1)
        for frame in self.stores(1, BEHIND, SHARE, **BEST_EFFORT):
            self.send(1, frame)
        self.expect_count("port_rx", 1, sent + SHARE)
        self.assertEqual(self.new_drops(before), {})
        vcs = self.data_of(peer, QUEUE)
        while (data := self.receive(SLOW_PORT, 0.5)) is not None:
            vcs.append(Link(data)["OEFH"].vc)
        self.assertIn(vcs.count(5), range(16, 28))  # of 48
        (one,) = self.stores(1, BEHIND, 1, **BEST_EFFORT)
        self.send(1, one)
        self.assertEqual(self.data_of(peer, 1), [5])
        for frame in self.stores(1, BEHIND, SHARE, **BEST_EFFORT):
            self.send(1, frame)
        self.assertEqual(self.data_of(peer, SHARE), [5] * SHARE)
        self.assertEqual(self.new_drops(before), {})
