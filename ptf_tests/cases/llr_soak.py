"""Random traffic both ways over links with retry that lose, double, delay and corrupt: exactly once and in order."""

from __future__ import annotations

import random
import time
from collections import deque
from dataclasses import dataclass, field

from codec import layouts
from codec.constants import Kind
from codec.scapy_layers import Link, LlrControl
from ptf_tests.frames import store
from ptf_tests.links import CYCLE, VCS, Profile, one_lane
from ptf_tests.retry import LLR, REPLAY, SEQS, RetryPeer, RetryTest, stamped

LIMIT = 60
PROFILE = Profile(
    lossless_vcs=1, credit_limit=LIMIT, update_threshold=8, capabilities=3, outstanding_frames_max=16, silence=0
)
WINDOW = 12
TIMER_S = 0.06
DATA = layouts.LINK.size + layouts.OEFH.size + layouts.LSU.size


@dataclass
class Station:
    """A peer that follows docs/protocol.md, over a cable that does not deliver everything."""

    peer: RetryPeer
    rng: random.Random
    loss: float
    """Share of the frames that the cable loses, and, a third as often, doubles or delays; each way."""
    test: RetryTest
    queue: deque[bytes] = field(default_factory=deque)
    """Frames to be sent."""
    kept: deque[tuple[int, bytes]] = field(default_factory=deque)
    """Frames that were sent and not acknowledged."""
    sent_at: float = 0.0
    consumed: int = 0
    freed: int = 0
    gap: bool = False
    nack_sent: bool = False
    newest: int = SEQS - 1
    accepted: list[bytes] = field(default_factory=list)
    late: deque[tuple[float, bytes, bool]] = field(default_factory=deque)

    def work(self) -> None:
        """Send what may be sent, and take what has come."""
        now = time.monotonic()
        for _ in range(len(self.late)):
            due, data, outwards = self.late.popleft()
            if due > now:
                self.late.append((due, data, outwards))
            elif outwards:
                self.peer.send(data)
            else:
                self._take(data)
        for _ in range(32):
            got = self.test.receive(self.peer.port, 0)
            if got is None:
                break
            for copy in self._cable(got, outwards=False):
                self._take(copy)
        while self.queue and len(self.kept) < WINDOW and self.consumed - self.freed < LIMIT:
            frame = self.queue.popleft()
            self.consumed += 1
            self.kept.append((self.peer.next_seq, frame))
            self.peer.next_seq = (self.peer.next_seq + 1) % SEQS
            self.sent_at = now
            self._send(self.peer.stamp(frame, self.kept[-1][0]))
        if self.kept and now - self.sent_at > TIMER_S:
            self._replay()

    def keepalive(self) -> None:
        """Send what a peer sends at every keepalive."""
        self.nack_sent = False
        self._send(self.peer.update(Kind.CF_UPDATE, one_lane(0, len(self.accepted))))

    def _replay(self) -> None:
        self.sent_at = time.monotonic()
        for seq, frame in self.kept:
            self._send(self.peer.stamp(frame, seq, LLR | REPLAY))

    def _cable(self, data: bytes, outwards: bool) -> list[bytes]:
        """Return what comes out of the cable at once of a frame that goes in."""
        fate = self.rng.random()
        if fate < self.loss:
            return []
        if fate < self.loss * 4 / 3:
            self.late.append((time.monotonic() + self.rng.random() * 0.01, data, outwards))
            return []
        if fate < self.loss * 5 / 3:
            return [data, data]
        if outwards and fate < self.loss * 2:
            return [data[:-1] + bytes([data[-1] ^ 0x10])]
        return [data]

    def _send(self, data: bytes) -> None:
        for copy in self._cable(data, outwards=True):
            self.peer.send(copy)

    def _reply(self, kind: Kind) -> None:
        self._send(stamped(Link(kind=kind) / LlrControl(), self.peer.session, self.peer.expected - 1))

    def _take(self, data: bytes) -> None:
        self.test.assertEqual(data[6:8], self.peer.session.to_bytes(2, "big"))
        kind, flags = data[0] >> 4, data[0] & 0xF
        seq, ack = int.from_bytes(data[1:4], "big") >> 4, int.from_bytes(data[3:6], "big") & 0xFFFFF
        while self.kept and (ack - self.kept[0][0]) % SEQS < SEQS // 2:
            self.kept.popleft()
            self.sent_at = time.monotonic()
        if kind == Kind.LLR_NACK:
            self._replay()
        elif kind == Kind.CF_UPDATE:
            freed = self._credits(data)
            if (freed - self.freed) % CYCLE < CYCLE // 2:
                self.freed = freed
                self.test.assertLessEqual(freed, self.consumed)
        elif flags & LLR:
            self._numbered(data, kind, flags, seq)

    def _numbered(self, data: bytes, kind: int, flags: int, seq: int) -> None:
        ahead = (seq - self.peer.expected) % SEQS
        begins = flags & REPLAY and (seq - self.newest - 1) % SEQS >= SEQS // 2
        self.newest = seq
        if ahead == 0:
            self.peer.expected = (self.peer.expected + 1) % SEQS
            self.gap = self.nack_sent = False
            if kind == Kind.DATA:
                self.accepted.append(data[DATA : DATA + 8])
            else:
                self.test.assertLessEqual(self._credits(data), len(self.accepted), "nothing was overtaken")
            if seq % 4 == 0:
                self._reply(Kind.LLR_ACK)
        elif ahead >= SEQS // 2:
            self.nack_sent = False
            if not self.gap and ahead == SEQS - 1:
                self._reply(Kind.LLR_ACK)
        else:
            self.gap = True
            if begins or not self.nack_sent:
                self.nack_sent = True
                self._reply(Kind.LLR_NACK)

    def _credits(self, data: bytes) -> int:
        """Return what an update says of VC 0."""
        return int.from_bytes(data[18:21], "big")


class SoakTest(RetryTest):
    """What the tests below share."""

    loss = 0.05
    frames = 400
    seconds = 40.0
    replay_timer = 60_000

    def run_soak(self) -> None:
        """Choose a seed, which a failure names."""
        seed = random.randrange(1 << 32)
        with self.subTest(seed=seed):
            self.soak(random.Random(seed))

    def soak(self, rng: random.Random) -> None:
        """Bring two links up, and let both peers send until everything has arrived."""
        peers = self.retry_links(
            1, 2, profile=PROFILE, outstanding_frames_max=16, replay_timer=self.replay_timer, replay_count_max=255
        )
        a, b = (Station(peer, rng, self.loss, self) for peer in peers)
        expected = {}
        for source, target in ((a, b), (b, a)):
            src, dst = source.peer.port, target.peer.port
            numbers = [n.to_bytes(8, "big") for n in range(self.frames)]
            source.queue.extend(bytes(store(src, dst, number)) for number in numbers)
            expected[dst] = numbers
        self.begin(a, b)
        deadline = time.monotonic() + self.seconds
        ticked = kept_alive = time.monotonic()
        while len(a.accepted) < self.frames or len(b.accepted) < self.frames or a.kept or b.kept:
            now = time.monotonic()
            self.assertLess(now, deadline, f"{self.state(a)}\n{self.state(b)}")
            if now - ticked > 0.001:
                ticked = now
                self.send(507, self._tick)
            if now - kept_alive > 0.01:
                kept_alive = now
                a.keepalive()
                b.keepalive()
            a.work()
            b.work()
            for station in (a, b):
                got = expected[station.peer.port][: len(station.accepted)]
                self.assertEqual(station.accepted, got, "exactly once and in order")
        self.finish(a, b)

    def begin(self, a: Station, b: Station) -> None:
        """Do what a test does before the traffic."""

    def finish(self, a: Station, b: Station) -> None:
        """Check the switch when all has arrived: nothing waits, and every credit is back."""
        for station in (a, b):
            port = station.peer.port
            station.loss = 0.0
            for _ in range(200):
                station.keepalive()
                station.work()
                state, credits = self.retry_state(port), self.credits(port)
                if (
                    state["next_seq"] == state["unacknowledged_seq"]
                    and credits["sender_credits_freed"][0] == credits["sender_credits_consumed"][0] == self.frames
                ):
                    break
                self.send(507, self._tick)
                time.sleep(0.005)
            self.assertEqual(state["next_seq"], state["unacknowledged_seq"], state)
            self.assertEqual(credits["sender_credits_consumed"][0], self.frames)
            self.assertEqual(credits["sender_credits_freed"][0], self.frames)
            self.assertEqual(credits["receiver_credits_consumed"][0], self.frames)
            self.assertEqual(credits["receiver_credits_freed"][0], self.frames)
            self.assertEqual(credits["held_frames"], (0,) * VCS)

    def state(self, station: Station) -> str:
        """Return what is known when it takes too long."""
        port = station.peer.port
        names = ("llr_tx_replay", "llr_flushes", "llr_copies_lost", "llr_rx_missing_seq", "link_ups", "frames_held")
        counted = {name: self.count(name, port) for name in names}
        return (
            f"port {port}: accepted {len(station.accepted)}, kept {[seq for seq, _ in station.kept]}, expected "
            f"{station.peer.expected}, switch {self.retry_state(port)} {counted} {self.credits(port)}"
        )

    _tick = bytes(12) + bytes([2, 0, 0, 0])


class GoodLinks(SoakTest):
    """Nothing is lost: every frame arrives, and few are sent again."""

    loss = 0.0

    def runTest(self) -> None:
        self.run_soak()


class BadLinks(SoakTest):
    """One frame in twenty is lost on each link in each direction, data and control alike, and some more go wrong."""

    def runTest(self) -> None:
        self.run_soak()


class TerribleLinks(SoakTest):
    """One frame in five is lost."""

    loss = 0.2
    frames = 200

    def runTest(self) -> None:
        self.run_soak()


class AcrossTheWrap(SoakTest):
    """Bad links whose sequence numbers wrap meanwhile."""

    frames = 300

    def begin(self, a: Station, b: Station) -> None:
        start = SEQS - 150
        for station in (a, b):
            peer, port = station.peer, station.peer.port
            registers = ("llr_next_seq", "llr_unacknowledged_seq", "llr_expected_seq", "llr_ack_asked")
            if not all(self.switch.write_register(name, port, start) for name in registers):
                self.skipTest("this target's P4Runtime server writes no registers")
            peer.next_seq = peer.expected = start
            station.newest = start - 1

    def runTest(self) -> None:
        self.run_soak()


class FaultsOfTheSwitch(SoakTest):
    """Links that the switch's own link faults make bad: frames dropped and doubled."""

    loss = 0.0

    def begin(self, a: Station, b: Station) -> None:
        self.impair(1, "drop_frames", probability=(1 << 32) // 10)
        self.impair(2, "duplicate_frames", probability=(1 << 32) // 10)
        self.impair(2, "drop_frames", control=1, probability=(1 << 32) // 10)

    def runTest(self) -> None:
        self.run_soak()
