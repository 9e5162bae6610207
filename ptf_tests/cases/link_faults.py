"""Links that are bad on purpose: what `link_fault` does to frames, and that retry repairs it."""

from __future__ import annotations

import time

from codec.constants import Kind
from ptf_tests.frames import forwarded, with_crc
from ptf_tests.retry import REPLAY, RetryTest


class FaultTest(RetryTest):
    """What the tests below share: GPU 1 sends to GPU 2, whose open port has the fault."""

    def out(self, count: int, first: int = 0) -> list[bytes]:
        """Send frames; return what should arrive of each."""
        frames = self.stores(1, 2, first + count)[first:]
        for frame in frames:
            self.send(1, frame)
        return [forwarded(frame) for frame in frames]

    def arrived(self) -> list[bytes]:
        """Return what comes to port 2 until nothing comes any more."""
        came = []
        while (got := self.receive(2, 0.2)) is not None:
            came.append(got)
        return came


class Drop(FaultTest):
    """The next frames are dropped and counted, as many as the entry says; another run begins anew."""

    def runTest(self) -> None:
        drops = self.count("link_fault_drops", 2)
        self.impair(2, "drop_frames", frames=3)
        expected = self.out(5)
        self.assertEqual(self.arrived(), expected[3:])
        self.assertEqual(self.count("link_fault_drops", 2), drops + 3)
        self.change_fault(2, "drop_frames", frames=1)
        expected = self.out(3)
        self.assertEqual(self.arrived(), expected[1:])
        self.change_fault(2, "drop_frames")
        self.out(20)
        self.assertEqual(self.arrived(), [])
        self.delete("link_fault", {"egress_port": 2, "control": 0})
        expected = self.out(5)
        self.assertEqual(self.arrived(), expected)
        self.assertEqual(self.count("link_fault_drops", 2), drops + 24)


class WithAProbability(FaultTest):
    """Each frame is hit with the probability that the entry says."""

    def runTest(self) -> None:
        self.impair(2, "drop_frames", probability=1 << 30)
        came = 0
        for _ in range(20):
            self.out(50)
            came += len(self.arrived_now(50))
        self.assertGreater(came, 654)  # 750 expected; seven standard deviations
        self.assertLess(came, 846)

    def arrived_now(self, sent: int) -> list[bytes]:
        """Return what came of a burst: all has passed when the counters say so."""
        self.wait_until(lambda: self._passed() % sent == self._begun % sent)
        came = []
        while (got := self.receive(2, 0)) is not None:
            came.append(got)
        return came

    def setUp(self) -> None:
        super().setUp()
        self._begun = self._passed()

    def _passed(self) -> int:
        return self.count("link_fault_drops", 2) + self.count("port_tx", 2)


class Corrupt(FaultTest):
    """A corrupted frame has a wrong CRC and is as it was otherwise."""

    def runTest(self) -> None:
        self.impair(2, "corrupt_frames", frames=2)
        expected = self.out(3)
        came = self.arrived()
        self.assertEqual([with_crc(frame) for frame in came], expected)
        self.assertEqual([frame == with_crc(frame) for frame in came], [False, False, True])


class Duplicate(FaultTest):
    """A duplicated frame comes twice, the same both times."""

    def runTest(self) -> None:
        self._replicate(2)
        self.impair(2, "duplicate_frames", frames=2)
        expected = self.out(4)
        came = self.arrived()
        self.assertEqual(sorted(came), sorted([*expected, *expected[:2]]))


class Delay(FaultTest):
    """A delayed frame comes after its time, and others overtake it."""

    def runTest(self) -> None:
        self._replicate(2)
        self.impair(2, "delay_frames", frames=1, delay=300_000)
        started = time.monotonic()
        expected = self.out(3)
        self.assertEqual([self.receive(2), self.receive(2)], expected[1:])
        self.assertEqual(self.receive(2), expected[0])
        self.assertGreaterEqual(time.monotonic() - started, 0.3)
        self.assertEqual(self.arrived(), [])


class DataAndControlApart(FaultTest):
    """Data and control frames of a port have a fault each, and other ports none."""

    def runTest(self) -> None:
        second, _ = self.retry_links(2, 3)
        self.impair(2, "drop_frames", control=1)
        frame = self.stores(1, 2, 1)[0]
        self.send(1, frame)
        second.expect_numbered(frame, 0)
        self.keepalive()
        self.expect_silence_on([2])
        self.assertEqual(self.receive(3) is not None, True)
        self.delete("link_fault", {"egress_port": 2, "control": 1})
        self.impair(2, "drop_frames", control=0, frames=1)
        self.send(1, self.stores(1, 2, 2)[1])
        self.keepalive()
        kinds = [second.next().kind for _ in range(2)]
        self.assertEqual(sorted(kinds), [Kind.CF_UPDATE, Kind.CC_UPDATE])


class RepairedByRetry(FaultTest):
    """A numbered frame that a fault dropped, corrupted or delayed is sent again; the fault is below the copy."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2)
        for action in ("drop_frames", "corrupt_frames", "delay_frames"):
            with self.subTest(action):
                extra = {"delay": 50_000} if action == "delay_frames" else {}
                self.impair(2, action, frames=1, **extra)
                (frame,) = self.stores(1, 2, 1)
                seq = peer.expected
                self.send(1, frame)
                if action == "corrupt_frames":
                    got = self.receive(2)
                    assert got is not None
                    self.assertNotEqual(got, with_crc(got))
                elif action == "delay_frames":
                    peer.expect_numbered(frame, seq)
                self.expect_retry(2, next_seq=seq + 1)
                peer.refuse()
                peer.expect_numbered(frame, seq, replay=True)
                peer.expected = seq + 1
                peer.acknowledge()
                self.expect_retry(2, unacknowledged_seq=seq + 1)
                self.delete("link_fault", {"egress_port": 2, "control": 0})
        self.expect_silence_on([2], 0.1)


class DuplicatesOfNumberedFrames(FaultTest):
    """A numbered frame that a fault sends twice has one copy that waits, and is replayed once."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2)
        self.impair(2, "duplicate_frames", frames=2)
        frames = self.stores(1, 2, 3)
        for frame in frames:
            self.send(1, frame)
        came = sorted(peer.next().seq for _ in range(5))
        self.assertEqual(came, [0, 0, 1, 1, 2])
        peer.refuse()
        for seq, frame in enumerate(frames):
            peer.expect_numbered(frame, seq, replay=True)
        peer.expected = 3
        peer.acknowledge()
        self.expect_retry(2, unacknowledged_seq=3)
        self.expect_silence_on([2])


class ReplaysAreHitToo(FaultTest):
    """A fault hits what is sent again like what is sent for the first time."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2, replay_timer=50_000)
        drops = self.count("link_fault_drops", 2)
        self.impair(2, "drop_frames", frames=3)
        (frame,) = self.stores(1, 2, 1)
        self.send(1, frame)
        got = peer.next()
        self.assertEqual((got.seq, got.flags & REPLAY), (0, REPLAY))
        self.assertEqual(self.count("link_fault_drops", 2), drops + 3)
        peer.expected = 1
        peer.acknowledge()
