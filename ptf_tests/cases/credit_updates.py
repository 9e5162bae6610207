"""CF_UPDATE and CC_UPDATE: lost, repeated, late and wrong ones neither leak credit nor make any."""

import random

from codec.constants import Kind
from ptf_tests.frames import store, with_crc
from ptf_tests.links import CYCLE, NONE, ManagedTest, Profile, one_lane

LIMIT = Profile(credit_limit=20, update_threshold=20)


class AnythingBetween(ManagedTest):
    """A CF_UPDATE may say anything between what was freed and what was consumed, on each VC of its own."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=LIMIT)
        wrong = self.count("wrong_cf_updates", 2)
        for vc, count in ((0, 6), (5, 3)):
            for frame in self.stores(1, 2, count, vc=vc):
                self.send(1, frame)
                peer.expect_data(frame)
        for freed in ((1, 0), (1, 0), (4, 2), (6, 3), (6, 3)):
            told = (freed[0], *NONE[1:5], freed[1], 0, 0)
            peer.free(told)
            self.expect_credits(2, sender_credits_freed=told)
        self.expect_count("wrong_cf_updates", 2, wrong)


class OnlyReportedVcs(ManagedTest):
    """Only the VCs in the mask are taken, in both kinds; the others' values mean nothing."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=LIMIT)
        for vc in (1, 2):
            for frame in self.stores(1, 2, 4, vc=vc):
                self.send(1, frame)
                peer.expect_data(frame)
        nonsense = 0xABCDE
        peer.free((nonsense, 3, nonsense, *[nonsense] * 5), vc_mask=0b010)
        self.expect_credits(2, sender_credits_freed=one_lane(1, 3))
        peer.free((nonsense, 0, 4, *[nonsense] * 5), vc_mask=0b100)
        self.expect_credits(2, sender_credits_freed=(0, 3, 4, *NONE[3:]))
        peer.consume((nonsense, nonsense, nonsense, 5, *[nonsense] * 4), vc_mask=0b1000)
        peer.expect_freed(one_lane(3, 5))
        self.expect_credits(2, receiver_credits_consumed=one_lane(3, 5))


class WrongCfIsIgnored(ManagedTest):
    """Freed more than consumed, or less than before: ignored as a whole and counted; a right one is then taken."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=LIMIT)
        for frame in self.stores(1, 2, 4):
            self.send(1, frame)
            peer.expect_data(frame)
        peer.free((2, *NONE[1:]))
        wrong = self.count("wrong_cf_updates", 2)
        for told in ((5, *NONE[1:]), (1, *NONE[1:])):
            peer.free(told)
        self.expect_count("wrong_cf_updates", 2, wrong + 2)
        peer.free((2, *NONE[1:]))  # right: the count of wrong ones in a row ends
        for told in ((3, 1, *NONE[2:]), (CYCLE - 1, *NONE[1:])):
            peer.free(told)
        self.expect_credits(2, sender_credits_freed=one_lane(0, 2), state=3)
        peer.free((4, *NONE[1:]))
        self.expect_credits(2, sender_credits_freed=one_lane(0, 4))
        self.expect_count("wrong_cf_updates", 2, wrong + 4)


class ThreeWrongInARow(ManagedTest):
    """Three wrong CF_UPDATEs in a row: the two sides do not mean the same; the link is brought up anew at once."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=LIMIT)
        epoch = peer.switch_epoch
        for _ in range(2):
            peer.free(one_lane(6, 1))
        self.expect_silence_on([2])
        peer.free(one_lane(6, 1))
        self.assertNotEqual(peer.expect_init(peer_epoch=peer.epoch).own_epoch, epoch)
        peer.send(peer.init(Kind.LLR_INIT_ECHO))
        peer.expect_freed(NONE)
        peer.free(NONE)
        self.send(1, store(1, 2))
        peer.expect_data(store(1, 2))


class SparesInALane(ManagedTest):
    """A value that 20 bits cannot hold is wrong."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=LIMIT)
        wrong = self.count("wrong_cf_updates", 2)
        body = bytearray(peer.update(Kind.CF_UPDATE, NONE))
        body[18] = 0x10  # VC 0's highest byte
        peer.send(with_crc(bytes(body)))
        self.expect_count("wrong_cf_updates", 2, wrong + 1)


class LossesAreWrittenOff(ManagedTest):
    """A CC_UPDATE tells of frames that the link lost: they count as consumed and freed, and the peer hears
    of it at once. Repeated, it changes nothing."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=LIMIT)
        for frame in self.stores(2, 1, 3):
            peer.send_data(frame)
            self.expect_forwarded_to(1, frame)
        written_off = self.count("losses_written_off", 2)
        peer.consume(one_lane(0, 10))  # seven were lost
        peer.expect_freed(one_lane(0, 10))
        self.expect_credits(2, receiver_credits_consumed=one_lane(0, 10), receiver_credits_freed=one_lane(0, 10))
        for _ in range(3):
            peer.consume(one_lane(0, 10))
        self.expect_silence_on([2])
        self.expect_count("losses_written_off", 2, written_off + 1)
        for frame in self.stores(2, 1, 3):
            peer.send_data(frame)
            self.expect_forwarded_to(1, frame)
        self.expect_credits(2, receiver_credits_consumed=one_lane(0, 13), receiver_credits_freed=one_lane(0, 13))


class CorruptedFramesAreWrittenOff(ManagedTest):
    """Corrupted frames change no counter of the receiver; the sender's next CC_UPDATE makes both sides equal."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(credit_limit=120, update_threshold=120))
        before = self.drops([2])
        for frame in self.stores(2, 1, 100):
            peer.send(frame[:-1] + bytes([frame[-1] ^ 1]))
        self.wait_for_drops(before, {("bad_crc", 2): 100})
        self.expect_credits(2, receiver_credits_consumed=NONE, receiver_credits_freed=NONE)
        peer.consume(one_lane(0, 100))
        peer.expect_freed(one_lane(0, 100))
        self.expect_credits(2, receiver_credits_consumed=one_lane(0, 100), receiver_credits_freed=one_lane(0, 100))


class WrongCcIsIgnored(ManagedTest):
    """A CC_UPDATE from before what has arrived, or beyond the limit, is ignored and counted."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=LIMIT)
        for frame in self.stores(2, 1, 5):
            peer.send_data(frame)
            self.expect_forwarded_to(1, frame)
        wrong = self.count("wrong_cc_updates", 2)
        for number, told in enumerate((4, 0, CYCLE - 1, 26, 5 + (1 << 19)), 1):
            peer.consume(one_lane(0, told))
            self.expect_count("wrong_cc_updates", 2, wrong + number)
        self.expect_silence_on([2])
        self.expect_credits(2, receiver_credits_consumed=one_lane(0, 5), receiver_credits_freed=one_lane(0, 5))


class UpdatesLostRepeatedLate(ManagedTest):
    """Frames and updates that are lost, repeated and late at random: in the end, all credits are back."""

    def runTest(self) -> None:
        rng = random.Random(5)
        first, second = self.links(1, 2, profile=LIMIT)
        sent = arrived_lost = taken = told = 0
        for _ in range(150):
            if sent - told < 20:  # as the peer's own sender may
                sent += 1
                frame = store(1, 2, sent.to_bytes(8, "big"))
                if rng.random() < 0.3:
                    arrived_lost += 1
                else:
                    first.send_data(frame)
            while (data := self.receive(2, 0.002)) is not None:
                taken += data[0] >> 4 == Kind.DATA
            if rng.random() < 0.5:
                for _repeated in range(rng.choice((1, 1, 2))):
                    second.send(second.update(Kind.CF_UPDATE, one_lane(0, taken)))
            if rng.random() < 0.2:
                for _repeated in range(rng.choice((1, 2))):
                    first.consume(one_lane(0, sent))
                while (data := self.receive(1, 0.01)) is not None:
                    told = int.from_bytes(data[18:21], "big") if data[0] >> 4 == Kind.CF_UPDATE else told
        first.consume(one_lane(0, sent))
        second.free(one_lane(0, taken))
        while (data := self.receive(2, 0.1)) is not None:
            taken += data[0] >> 4 == Kind.DATA
        second.free(one_lane(0, taken))
        self.assertEqual(taken, sent - arrived_lost)
        self.expect_credits(
            1, receiver_credits_consumed=one_lane(0, sent), receiver_credits_freed=one_lane(0, sent), state=3
        )
        self.expect_credits(
            2, sender_credits_consumed=one_lane(0, taken), sender_credits_freed=one_lane(0, taken), held_frames=NONE
        )
