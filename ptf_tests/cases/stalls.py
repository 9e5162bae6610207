"""The stall watchdog: a peer that is alive but frees no credit (docs/protocol.md, section 4)."""

from codec.constants import Kind
from ptf_tests.frames import store
from ptf_tests.links import KEEPALIVE_TICKS, NONE, Lanes, ManagedTest, Peer, Profile, one_lane

STALL = 50
WATCHED = Profile(credit_limit=8, update_threshold=2, silence=0, stall=STALL)
BEFORE = STALL // KEEPALIVE_TICKS
"""Keepalives that pass without a verdict, the one at which the time begins included."""


class StallTest(ManagedTest):
    """What the tests below share."""

    def fill(self, peer: Peer, vc: int = 0, held: int = 2) -> None:
        """Use up the credits of a VC, and let frames wait for more."""
        before = self.count("frames_held", peer.port)
        for frame in self.stores(1, peer.port, 8, vc=vc):
            self.send(1, frame)
            peer.expect_data(frame)
        for frame in self.stores(1, peer.port, held, vc=vc):
            self.send(1, frame)
        self.expect_count("frames_held", peer.port, before + held)

    def keepalives(self, peer: Peer, count: int) -> None:
        """Let keepalives pass in which the link stays up, with credits in use."""
        for _ in range(count):
            self.keepalive()
            peer.expect_freed(NONE)
            peer.expect_update(Kind.CC_UPDATE)

    def expect_stall(self, peer: Peer, held: int, in_use: Lanes = NONE) -> None:
        """Check that the next keepalive draws a new epoch, and that what waits leaves; bring the link up again."""
        old, before = peer.switch_epoch, self.drops([1])
        self.keepalive()
        peer.expect_init(peer_epoch=peer.epoch)
        self.assertNotEqual(peer.switch_epoch, old)
        self.wait_for_drops(before, {("dead_port", 1): held})
        self.expect_credits(peer.port, held_frames=NONE)
        peer.in_use = in_use
        peer.send(peer.init())
        peer.expect_init(Kind.LLR_INIT_ECHO)
        peer.expect_freed(NONE)
        peer.free(NONE)


class BroughtUpAnew(StallTest):
    """Frames wait and no credit comes for the set time: the link counts as down, what waits for it leaves, and it is
    brought up anew."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=WATCHED)
        stalls, resets = self.count("stalls", 2), self.count("link_resets", 2)
        self.fill(peer, held=0)
        self.keepalives(peer, 2 * BEFORE)  # nothing waits
        self.fill(peer, vc=1)
        self.keepalives(peer, BEFORE)
        self.expect_stall(peer, held=2, in_use=one_lane(1, 7))
        self.expect_count("stalls", 2, stalls + 1)
        self.expect_count("link_resets", 2, resets + 1)
        first, second = self.stores(1, 2, 2, vc=1)
        self.send(1, first)
        peer.expect_data(first)
        self.send(1, second)
        self.keepalives(peer, BEFORE)
        peer.free(one_lane(1, 1))
        peer.expect_data(second)
        self.keepalives(peer, 2 * BEFORE)
        self.expect_count("stalls", 2, stalls + 1)


class NotWhileComingUp(StallTest):
    """A link that is being brought up does not stall, however long frames wait for it."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=WATCHED)
        stalls = self.count("stalls", 2)
        self.fill(peer)
        peer.epoch ^= 0x55
        peer.switch_epoch = 0
        peer.send(peer.init())
        peer.expect_init(Kind.LLR_INIT_ECHO)
        for _ in range(2 * BEFORE):
            self.keepalive()
            peer.expect_init(peer_epoch=peer.epoch)
        peer.send(peer.init())
        peer.expect_init(Kind.LLR_INIT_ECHO)
        peer.expect_freed(NONE)
        peer.free(NONE)
        for frame in self.stores(1, 2, 2):
            peer.expect_data(frame)
        self.expect_count("stalls", 2, stalls)


class AnyCreditIsProgress(StallTest):
    """One credit within the time is enough, also where it lets nothing go."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=WATCHED)
        stalls = self.count("stalls", 2)
        self.fill(peer, held=5)
        for freed in range(1, 4):
            self.keepalives(peer, BEFORE)
            peer.free(one_lane(0, freed))
            peer.expect_data(self.stores(1, 2, 5)[freed - 1])
        self.keepalives(peer, 1 + BEFORE)  # the first one sees that a credit has come
        self.expect_count("stalls", 2, stalls)
        self.expect_stall(peer, held=2)
        self.expect_count("stalls", 2, stalls + 1)


class EachVcOfItsOwn(StallTest):
    """A VC that is stuck is noticed although another one flows."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=WATCHED)
        stalls = self.count("stalls", 2)
        self.fill(peer, vc=3)
        for sent in range(1, BEFORE + 1):
            self.send(1, store(1, 2, vc=1))
            peer.expect_data(store(1, 2, vc=1))
            peer.free(one_lane(1, sent))
            self.keepalives(peer, 1)
        self.expect_stall(peer, held=2)
        self.expect_count("stalls", 2, stalls + 1)


class OffByDefault(StallTest):
    """Without a time a peer may take as long as it likes."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(credit_limit=8, update_threshold=2, silence=0))
        stalls = self.count("stalls", 2)
        self.fill(peer)
        self.keepalives(peer, 4 * BEFORE)
        self.expect_count("stalls", 2, stalls)
        peer.free(one_lane(0, 2))
        for frame in self.stores(1, 2, 2):
            peer.expect_data(frame)
