"""Link-layer retry gives up: replays without progress are counted, and FLUSH does what the profile says."""

from __future__ import annotations

from codec.constants import Kind
from ptf_tests.frames import forwarded
from ptf_tests.retry import BEST_EFFORT, BLOCK, DISCARD, LLR, REPLAY, SEQS, TX_FLUSH, RetryPeer, RetryTest, stamped


class FlushTest(RetryTest):
    """What the tests below share: a link on port 2 that gives up after three replays without progress."""

    def give_up(self, action: int, re_init: int = 0) -> tuple[RetryPeer, list[bytes]]:
        """Bring the link up, send two frames and refuse them until the switch gives up."""
        (peer,) = self.retry_links(2, replay_count_max=3, flush_action=action, re_init_on_flush=re_init)
        frames = self.stores(1, 2, 2)
        for frame in frames:
            self.send(1, frame)
        for seq, frame in enumerate(frames):
            peer.expect_numbered(frame, seq)
        flushes, ended = self.count("llr_flushes", 2), self.count("llr_line_ended", 2)
        for _ in range(3):
            peer.refuse()
            for seq, frame in enumerate(frames):
                peer.expect_numbered(frame, seq, replay=True)
        peer.refuse()
        self.expect_count("llr_flushes", 2, flushes + 1)
        self.expect_count("llr_line_ended", 2, ended + 2)
        self.expect_retry(2, tx_state=TX_FLUSH)
        self.expect_silence_on([2])
        return peer, self.stores(1, 2, 5)[2:]


class Discard(FlushTest):
    """FLUSH with discard: what comes for the link is dropped and counted, and takes none of the sender's buffer."""

    def runTest(self) -> None:
        peer, frames = self.give_up(DISCARD)
        for frame in frames:
            self.expect_dropped_here(1, frame, "llr_flushed")
        peer.epoch ^= 0x77
        peer.bring_up()
        self.send(1, frames[0])
        peer.expect_numbered(frames[0], 0)


class Block(FlushTest):
    """FLUSH with block: what comes for the link waits, and leaves in order when it has been brought up anew."""

    def runTest(self) -> None:
        peer, frames = self.give_up(BLOCK)
        held = self.count("frames_held", 2)
        for frame in frames:
            self.send(1, frame)
        self.expect_count("frames_held", 2, held + len(frames))
        self.expect_silence_on([2])
        peer.epoch ^= 0x77
        peer.bring_up()
        for seq, frame in enumerate(frames):
            peer.expect_numbered(frame, seq)


class BestEffort(FlushTest):
    """FLUSH with best effort: what comes leaves at once, without a number, and is not sent again."""

    def runTest(self) -> None:
        peer, frames = self.give_up(BEST_EFFORT)
        for frame in frames:
            self.send(1, frame)
            self.assertEqual(bytes(peer.next()), stamped(forwarded(frame), peer.session, SEQS - 1))
        peer.refuse()
        self.expect_silence_on([2])


class ReInit(FlushTest):
    """With re_init_on_flush the next keepalive brings the link up anew, and it retries as before."""

    def runTest(self) -> None:
        peer, frames = self.give_up(BLOCK, re_init=1)
        before = peer.switch_epoch
        self.keepalive()
        peer.expect_init(Kind.LLR_INIT)
        self.assertNotEqual(peer.switch_epoch, before)
        peer.next_seq = peer.expected = 0
        peer.send(peer.init(Kind.LLR_INIT_ECHO))
        peer.expect_freed()
        peer.free((0,) * 8)
        for frame in frames:
            self.send(1, frame)
        for seq, frame in enumerate(frames):
            peer.expect_numbered(frame, seq)
        peer.refuse()
        for seq, frame in enumerate(frames):
            peer.expect_numbered(frame, seq, replay=True)


class WithoutReInit(FlushTest):
    """Without re_init_on_flush the link stays in FLUSH, and alive: keepalives and the other direction go on."""

    def runTest(self) -> None:
        peer, _ = self.give_up(DISCARD)
        for _ in range(3):
            self.keepalive()
            peer.expect_freed()
        self.expect_retry(2, tx_state=TX_FLUSH)
        (frame,) = self.stores(2, 1, 1)
        peer.send_numbered(frame)
        self.expect_forwarded_to(1, frame)


class OnTheTimer(RetryTest):
    """Acknowledgements that never come: as many replays as allowed, each a timer after the last, then FLUSH."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2, replay_timer=250_000, replay_count_max=3, outstanding_frames_max=4)
        replays, flushes = self.count("llr_tx_replay", 2), self.count("llr_flushes", 2)
        held = self.count("frames_held", 2)
        frames = self.stores(1, 2, 8)
        for frame in frames:
            self.send(1, frame)
        for flags in (LLR, *(3 * [LLR | REPLAY])):
            for seq in range(4):
                got = peer.next()
                self.assertEqual((got.flags, got.seq), (flags, seq))
        self.expect_count("llr_flushes", 2, flushes + 1)
        self.assertEqual(self.count("llr_tx_replay", 2), replays + 3)
        self.assertEqual(self.count("frames_held", 2), held + 4)
        self.expect_silence_on([2], 0.4)
        peer.epoch ^= 0x77
        self.change_retry(2, replay_timer=1_000_000)
        peer.bring_up()
        for seq, frame in enumerate(frames[4:]):
            peer.expect_numbered(frame, seq)


class ProgressCounts(RetryTest):
    """Only replays in a row without progress count: one more acknowledged frame, and they are counted anew."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2, replay_count_max=2)
        frames = self.stores(1, 2, 5)
        for frame in frames:
            self.send(1, frame)
        for seq, frame in enumerate(frames):
            peer.expect_numbered(frame, seq)
        for got in range(4):
            peer.expected = got
            for _ in range(2):
                peer.refuse()
                for seq in range(got, 5):
                    peer.expect_numbered(frames[seq], seq, replay=True)
        flushes = self.count("llr_flushes", 2)
        peer.refuse()
        self.expect_count("llr_flushes", 2, flushes + 1)
