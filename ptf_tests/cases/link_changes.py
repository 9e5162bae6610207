"""What the controller needs to run a link otherwise: losses of both directions, and bring-up when it asks for it."""

from codec.constants import Kind
from ptf_tests.frames import forwarded, store
from ptf_tests.links import NONE, ManagedTest, Profile, one_lane
from ptf_tests.retry import RetryTest, stamped

PROFILE = Profile(credit_limit=8, update_threshold=2)


class LossesAreTold(ManagedTest):
    """A bad CRC and credits for what did not come are losses: counted, and told in every update of credits."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=PROFILE)
        self.keepalive()
        peer.expect_freed(NONE)
        before, found = peer.switch_losses, self.count("link_losses_found", 2)
        frame = bytearray(peer.update(Kind.CF_UPDATE, NONE))
        frame[-1] ^= 1
        peer.send(bytes(frame))
        self.expect_count("link_losses_found", 2, found + 1)
        peer.consume(one_lane(0, 5))  # five were lost, and found at once
        peer.expect_freed(one_lane(0, 5))
        peer.consume(one_lane(0, 5))
        self.expect_count("link_losses_found", 2, found + 2)
        self.keepalive()
        peer.expect_freed(one_lane(0, 5))
        self.assertEqual((peer.switch_losses - before) % (1 << 16), 2)
        peer.send(b"\x00" * 60)  # no frame of the link's, but one that it has damaged
        self.expect_count("link_losses_found", 2, found + 3)


class LossesOfTheLinkAlone(ManagedTest):
    """What comes while there is no session, or on an open port, tells nothing of a managed link."""

    def runTest(self) -> None:
        self.manage(2, profile=PROFILE)
        found = [self.count("link_losses_found", port) for port in (1, 2)]
        bad = bytearray(bytes(store(1, 2, b"12345678")))
        bad[-1] ^= 1
        for port in (1, 2):
            self.expect_dropped_here(port, bytes(bad), "bad_crc")
        self.assertEqual([self.count("link_losses_found", port) for port in (1, 2)], found)


class GapsAreLosses(RetryTest):
    """Where the link retries a gap is one loss, however many frames come after it."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2)
        found, dropped = self.count("link_losses_found", 2), self.count("llr_out_of_sequence", 2)
        frames = self.stores(2, 1, 4)
        for seq in (1, 2, 3):
            peer.send(peer.stamp(frames[seq], seq=seq))
        peer.expect_control(Kind.LLR_NACK, ack=-1)
        self.expect_count("llr_out_of_sequence", 2, dropped + 3)
        self.expect_count("link_losses_found", 2, found + 1)


class ThePeersLosses(ManagedTest):
    """What the peer tells counts when it changes: not when it is repeated, nor at the first one of a session."""

    def runTest(self) -> None:
        (peer,) = self.manage(2, profile=PROFILE)
        told = self.count("link_losses_told", 2)
        peer.losses = 7
        peer.bring_up()
        peer.free(NONE)
        self.expect_count("link_losses_told", 2, told)
        for peer.losses, counted in ((8, 1), (8, 1), (65_535, 2), (0, 3)):
            peer.free(NONE)
            self.expect_count("link_losses_told", 2, told + counted)
        peer.losses = 9
        peer.consume(NONE)  # a CC_UPDATE, which may come again, tells nothing
        peer.losses = 0
        peer.free(NONE)
        self.expect_count("link_losses_told", 2, told + 3)


class AnotherGeneration(ManagedTest):
    """A profile of another generation brings the link up anew, at the next keepalive, and it never counts as dead; what
    is held waits and leaves after it; the same generation again changes nothing."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=PROFILE)
        lost, resets = self.count("links_lost", 2), self.count("link_resets", 2)
        frames = self.stores(1, 2, 10)
        for frame in frames[:8]:
            self.send(1, frame)
            peer.expect_data(frame)
        held = self.count("frames_held", 2)
        for frame in frames[8:]:
            self.send(1, frame)
        self.expect_count("frames_held", 2, held + 2)
        session, epoch = peer.session, peer.switch_epoch
        self.change_profile(2, generation=1)
        self.expect_silence_on([2])
        self.keepalive()
        peer.expect_init(peer_epoch=peer.epoch)
        self.assertNotEqual(peer.switch_epoch, epoch)
        self.assertNotEqual(peer.session, session)
        peer.send(peer.init(Kind.LLR_INIT_ECHO))
        peer.expect_freed(NONE)
        peer.free(NONE)
        for frame in frames[8:]:
            peer.expect_data(frame)
        self.expect_credits(2, sender_credits_consumed=one_lane(0, 2), held_frames=NONE)
        self.change_profile(2, generation=1)
        self.keepalive()
        peer.expect_freed(NONE)
        self.assertEqual(self.count("links_lost", 2), lost)
        self.assertEqual(self.count("link_resets", 2), resets + 1)
        back = bytes(store(2, 1, b"12345678"))
        peer.send_data(back)
        self.expect(1, forwarded(back))


class RetryIsSwitchedOn(RetryTest):
    """A link that came up without retry has it after its profile was changed, and can lose it again the same way."""

    def runTest(self) -> None:
        (peer,) = self.retry_links(2, up=False)
        plain = self.retries[2]
        self.delete("llr_profile", {"port": 2})
        self.change_profile(2, capabilities=2)
        peer.bring_up()
        (frame,) = self.stores(1, 2, 1)
        for generation, capabilities in ((1, 3), (2, 2)):
            self.change_profile(2, capabilities=capabilities, generation=generation)
            if capabilities == 3:
                self.install([self._llr_profile(2)])
            else:
                self.delete("llr_profile", {"port": 2})
            self.keepalive()
            peer.switch_epoch = 0
            peer.expect_init(peer_epoch=peer.epoch)
            peer.send(peer.init(Kind.LLR_INIT_ECHO))
            peer.next_seq = peer.expected = 0
            update = peer.next()
            self.assertEqual(update.kind, Kind.CF_UPDATE)
            peer.free(NONE)
            self.send(1, frame)
            if capabilities == 3:
                peer.expect_numbered(frame, 0)
                peer.expected = 1
                peer.acknowledge()
                self.expect_retry(2, outstanding_frames_max=plain.outstanding_frames_max, unacknowledged_seq=1)
            else:
                self.assertEqual(bytes(peer.next()), stamped(forwarded(frame), peer.session, 0))
