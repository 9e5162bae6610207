"""A link that replays too often is degraded: its neighbours are told, each time that it is found so."""

from __future__ import annotations

from dataclasses import replace

from codec.constants import EventType
from ptf_tests.events import EventTest
from ptf_tests.links import one_lane
from ptf_tests.retry import RETRIED, RetryPeer, RetryTest


class NeighboursAreTold(EventTest, RetryTest):
    """An EVENT LINK_DEGRADED with a sequence of its own goes out at the keepalive after the last such replay.

    The count begins anew after each, and after a second without reaching the threshold.
    """

    def runTest(self) -> None:
        peer = self._replayed_before()
        (frame,) = self.stores(1, 2, 1)
        self.send(1, frame)
        peer.expect_numbered(frame, 0)
        peer.free(one_lane(0, 1))  # or a CC_UPDATE would leave with each keepalive
        degraded = self.count("links_degraded", 2)

        def replays(count: int) -> None:
            for _ in range(count):
                peer.refuse()
                peer.expect_numbered(frame, 0, replay=True)
            self.keepalive()
            peer.expect_freed()

        replays(2)
        self.expect_silence_on([1, 3])
        replays(1)
        for port in (1, 3):
            self.expect_event(port, EventType.LINK_DEGRADED, 2, new=port == 1)
        self.assertEqual(self.count("links_degraded", 2), degraded + 1)
        replays(2)
        self.expect_silence_on([1, 3])
        self.tick(1000)
        for _ in range(100):
            peer.expect_freed()
        replays(2)
        self.expect_silence_on([1, 3])
        replays(1)
        self.expect_event(1, EventType.LINK_DEGRADED, 2, new=True)
        self.assertEqual(self.count("links_degraded", 2), degraded + 2)

    def _replayed_before(self) -> RetryPeer:
        """Bring a link up that has replayed in an earlier session, without a threshold: that does not count."""
        (peer,) = self.retry_links(2, profile=replace(RETRIED, silence=0))
        (frame,) = self.stores(1, 2, 1)
        self.send(1, frame)
        peer.expect_numbered(frame, 0)
        for _ in range(5):
            peer.refuse()
            peer.expect_numbered(frame, 0, replay=True)
        self.change_retry(2, degraded_replays=3)
        peer.epoch ^= 0x77
        peer.bring_up()
        return peer


class NotByDefault(EventTest, RetryTest):
    """Without a threshold nothing is told, however often the link replays."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2, replay_count_max=255)
        (frame,) = self.stores(1, 2, 1)
        self.send(1, frame)
        peer.expect_numbered(frame, 0)
        for _ in range(40):
            peer.refuse()
            peer.expect_numbered(frame, 0, replay=True)
        self.keepalive()
        self.expect_silence_on([1, 3])
