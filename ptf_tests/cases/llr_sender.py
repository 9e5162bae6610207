"""Link-layer retry, the switch as the sender: numbers, copies until acknowledged, replays."""

from __future__ import annotations

from ptf_tests.retry import TX_ADVANCE, RetryTest


class FramesAreNumbered(RetryTest):
    """Frames for a link with retry leave with numbers from 0 on; an acknowledgement ends their copies."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2)
        frames = self.stores(1, 2, 5)
        for frame in frames:
            self.send(1, frame)
        for seq, frame in enumerate(frames):
            peer.expect_numbered(frame, seq)
        self.expect_retry(2, next_seq=5, unacknowledged_seq=0, tx_state=TX_ADVANCE)
        peer.expected = 5
        peer.acknowledge()
        self.expect_retry(2, next_seq=5, unacknowledged_seq=5, outstanding_bytes=0)
        self.expect_silence_on([2])


class ReplayOnNack(RetryTest):
    """A NACK makes the switch send again all that it does not acknowledge, in order, flagged REPLAY."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2)
        frames = self.stores(1, 2, 5)
        for frame in frames:
            self.send(1, frame)
        for seq, frame in enumerate(frames):
            peer.expect_numbered(frame, seq)
        replays = self.count("llr_tx_replay", 2)
        peer.expected = 2
        peer.refuse()
        for seq in (2, 3, 4):
            peer.expect_numbered(frames[seq], seq, replay=True)
        self.assertEqual(self.count("llr_tx_replay", 2), replays + 1)
        self.expect_silence_on([2])


class ReplayOnTimer(RetryTest):
    """Without an acknowledgement for the time of the replay timer all is sent again."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2, replay_timer=200_000)
        frames = self.stores(1, 2, 3)
        for frame in frames:
            self.send(1, frame)
        for seq, frame in enumerate(frames):
            peer.expect_numbered(frame, seq)
        for seq, frame in enumerate(frames):
            peer.expect_numbered(frame, seq, replay=True)
        peer.expected = 3
        peer.acknowledge()
        self.expect_silence_on([2], 0.5)
