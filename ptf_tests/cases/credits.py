"""Credits of both roles: what frames cost, and that every one is accounted for (docs/protocol.md, section 5)."""

from codec.constants import Kind, LinkFlag
from codec.scapy_layers import OEFH, Link
from ptf_tests.base import DROP_REASONS, REMOTE, SWITCH_ID
from ptf_tests.frames import SIZES, probe, store, write
from ptf_tests.links import CYCLE, NONE, ManagedTest, Profile, credits_of, in_session, one_lane

FORMATS = ((10, 0), (6, 0), (8, 20), (8, -20), (0, 0), (15, 127), (7, -128))
"""log2 of a credit's bytes, and the overhead of a frame."""


def profile_of(size: int, overhead: int) -> Profile:
    """Return a profile with this accounting and room for everything."""
    limit = (1 << 19) - 1
    return Profile(credit_size=size, packet_overhead=overhead, credit_limit=limit, update_threshold=limit)


class SenderCountsEverySize(ManagedTest):
    """What the switch sends costs round_up((size + overhead) / credit size) by the peer's numbers, at every size."""

    def runTest(self) -> None:
        (peer,) = self.manage(2)
        for size, overhead in FORMATS:
            peer.profile = profile_of(size, overhead)
            peer.epoch += 1
            peer.bring_up()
            consumed = 0
            for number in SIZES:
                frame = write(1, 2, number, vc=3)
                self.send(1, frame)
                peer.expect_data(frame)
                consumed += credits_of(frame, size, overhead)
            self.expect_credits(
                2,
                sender_credits_consumed=one_lane(3, consumed % CYCLE),
                sender_credits_freed=NONE,
                sender_credits_used_watermark=one_lane(3, consumed % CYCLE),
            )


class ReceiverCountsEverySize(ManagedTest):
    """What the switch receives counts as consumed and, as it leaves at once, as freed, by the switch's own numbers."""

    def runTest(self) -> None:
        (peer,) = self.manage(2, profile=profile_of(10, 0))
        for size, overhead in FORMATS:
            self.change_profile(2, credit_size=size, packet_overhead=overhead)
            peer.epoch += 1
            peer.bring_up()
            consumed = 0
            for number in SIZES:
                frame = write(2, 1, number, vc=4)
                peer.send_data(frame)
                self.expect_forwarded_to(1, frame)
                consumed += credits_of(frame, size, overhead)
            lane = one_lane(4, consumed % CYCLE)
            self.expect_credits(2, receiver_credits_consumed=lane, receiver_credits_freed=lane)


class EveryVcOfItsOwn(ManagedTest):
    """Each VC counts for itself, in both roles; VC 7 does not count."""

    def runTest(self) -> None:
        first, second = self.links(1, 2)
        sent = [0] * 8
        for vc in range(7):
            for frame in self.stores(1, 2, vc + 1, vc=vc):
                first.send_data(frame)
                second.expect_data(frame)
                sent[vc] += 1
        first.send_data(probe(1, 2))
        second.expect_data(probe(1, 2))
        counts = tuple(sent)
        self.expect_credits(1, receiver_credits_consumed=counts, receiver_credits_freed=counts)
        self.expect_credits(2, sender_credits_consumed=counts, sender_credits_freed=NONE)
        second.free(counts)
        self.expect_credits(2, sender_credits_consumed=counts, sender_credits_freed=counts)


class DroppedFramesCount(ManagedTest):
    """A frame that is dropped after its session was seen to be right has taken credits and frees them at once: the
    sender counted it. One with a bad CRC or session was never there."""

    def runTest(self) -> None:
        (peer,) = self.links(2)
        fate = (
            (in_session(Link(flags=LinkFlag.POISON) / store(2, 1).payload, peer.session), "poisoned", 1),
            (in_session(store(2, 1, version=1), peer.session), "unknown_version", 1),
            (in_session(Link() / OEFH(src=2, dst=1, hops=8, next=9), peer.session), "unknown_next", 1),
            (in_session(store(3, 1), peer.session), "spoofed_source", 1),
            (in_session(store(2, 0xABC), peer.session), "no_route", 1),
            (in_session(store(2, 4), peer.session), "other_tenant", 1),
            (in_session(store(2, 1, hops=1), peer.session), "hop_expired", 1),
            (in_session(store(2, 1), peer.session ^ 1), "wrong_session", 0),
            (in_session(store(2, 1), peer.session)[:-1] + b"\xee", "bad_crc", 0),
            (in_session(store(2, 1, vc=7), peer.session), "reserved_vc", 0),
        )  # fmt: skip
        consumed = 0
        for frame, reason, credits in fate:
            self.expect_dropped_here(2, frame, reason)
            consumed += credits
            lane = one_lane(0, consumed)
            self.expect_credits(2, receiver_credits_consumed=lane, receiver_credits_freed=lane)
        peer.send_data(store(2, SWITCH_ID))  # for the switch, but no probe
        self.expect_credits(2, receiver_credits_freed=one_lane(0, consumed + 1))


class UpdateAtTheThreshold(ManagedTest):
    """As soon as the threshold was freed on a VC a CF_UPDATE goes out, with all VCs; then counting starts anew."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(update_threshold=(4, 8, 8, 8, 8, 8, 8, 8)))
        for frame in self.stores(2, 1, 3, vc=0) + self.stores(2, 1, 7, vc=1):
            peer.send_data(frame)
            self.expect_forwarded_to(1, frame)
        self.expect_silence_on([2])
        peer.send_data(store(2, 1, vc=0))
        peer.expect_freed((4, 7, 0, 0, 0, 0, 0, 0))
        for _ in range(7):
            peer.send_data(store(2, 1, vc=1))
        self.expect_silence_on([2])
        peer.send_data(store(2, 1, vc=1))
        peer.expect_freed((4, 15, 0, 0, 0, 0, 0, 0))


class UpdateAtEveryKeepalive(ManagedTest):
    """A keepalive tells what is free, whether or not anything was sent."""

    def runTest(self) -> None:
        (peer,) = self.links(2)
        peer.send_data(store(2, 1, vc=2))
        self.expect_forwarded_to(1, store(2, 1, vc=2))
        for _ in range(3):
            self.keepalive()
            peer.expect_freed(one_lane(2, 1))
        transmitted = self.count("cbfc_num_cf_update_messages_tx", 2)
        self.keepalive()
        peer.expect_freed(one_lane(2, 1))
        self.expect_count("cbfc_num_cf_update_messages_tx", 2, transmitted + 1)


class ConsumedAtEveryKeepalive(ManagedTest):
    """While credits are in use the keepalive tells what was consumed too, and no longer."""

    def runTest(self) -> None:
        (peer,) = self.links(2)
        self.keepalive()
        peer.expect_freed(NONE)
        self.send(1, store(1, 2, vc=5))
        peer.expect_data(store(1, 2, vc=5))
        for _ in range(2):
            self.keepalive()
            peer.expect_freed(NONE)
            peer.expect_update(Kind.CC_UPDATE, one_lane(5, 1))
        peer.free(one_lane(5, 1))
        self.keepalive()
        peer.expect_freed(NONE)
        self.expect_silence_on([2])


class OverTheLimit(ManagedTest):
    """A peer that sends more than its credits finds no buffer: dropped, counted, and not believed to be there."""

    def runTest(self) -> None:
        profile = Profile(credit_limit=8, update_threshold=8)
        sender, receiver = self.links(2, 3, profile=profile)
        for frame in self.stores(2, 3, 8):
            sender.send_data(frame)
            receiver.expect_data(frame)
        for frame in self.stores(2, 3, 8):  # held: the receiver frees nothing
            sender.send_data(frame)
        sender.expect_freed(one_lane(0, 8))
        self.expect_credits(2, receiver_credits_consumed=one_lane(0, 16), receiver_credits_freed=one_lane(0, 8))
        self.expect_dropped_here(2, in_session(store(2, 3), sender.session), "over_limit")
        self.expect_credits(2, receiver_credits_consumed=one_lane(0, 16))
        sender.send_data(store(2, 1, vc=1))  # another VC has a buffer of its own
        self.expect_forwarded_to(1, store(2, 1, vc=1))
        receiver.free(one_lane(0, 8))
        for frame in self.stores(2, 3, 8):
            receiver.expect_data(frame)
        sender.expect_freed((16, 1, 0, 0, 0, 0, 0, 0))


class LargerThanTheLimit(ManagedTest):
    """A frame that the peer could never take is dropped instead of waiting for ever."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(credit_limit=3, update_threshold=1))
        self.expect_dropped_here(1, write(1, 2, 3073), "exceeds_limit")
        self.send(1, write(1, 2, 3072))
        peer.expect_data(write(1, 2, 3072))


class BestEffort(ManagedTest):
    """A VC that one of both sides calls best effort needs no credit and counts none."""

    def runTest(self) -> None:
        (peer,) = self.manage(2, profile=Profile(lossless_vcs=0b0011, credit_limit=1, update_threshold=1))
        peer.profile = Profile(lossless_vcs=0b0110, credit_limit=1, update_threshold=1)
        peer.bring_up()
        for vc in (0, 2, 3):
            for frame in self.stores(1, 2, 5, vc=vc):
                self.send(1, frame)
                peer.expect_data(frame)
            for frame in self.stores(2, 1, 5, vc=vc):
                peer.send_data(frame)
                self.expect_forwarded_to(1, frame)
        self.expect_credits(2, sender_credits_consumed=NONE, receiver_credits_consumed=NONE)
        self.send(1, store(1, 2, vc=1))
        peer.expect_data(store(1, 2, vc=1))
        self.expect_credits(2, sender_credits_consumed=one_lane(1, 1))


class WithoutTheCapability(ManagedTest):
    """A peer without CBFC gets everything as best effort."""

    def runTest(self) -> None:
        (peer,) = self.manage(2)
        peer.profile = Profile(capabilities=0, credit_limit=1)
        peer.bring_up()
        for frame in self.stores(1, 2, 5):
            self.send(1, frame)
            peer.expect_data(frame)
        self.expect_credits(2, sender_credits_consumed=NONE)


class MappedVcs(ManagedTest):
    """The port's map says whose credits a VC uses, in both directions; the frame's own vc stays."""

    def runTest(self) -> None:
        table = (3, 3, 0, 1, 6, 5, 4, 0)
        (peer,) = self.links(2, profile=Profile(vc_map=table))
        sent = [0] * 8
        for vc in range(7):
            for frame in self.stores(1, 2, vc + 1, vc=vc):
                self.send(1, frame)
                peer.expect_data(frame)
                sent[table[vc]] += 1
            for frame in self.stores(2, 1, vc + 1, vc=vc):
                peer.send_data(frame)
                self.expect_forwarded_to(1, frame)
        counts = tuple(sent)
        self.expect_credits(2, sender_credits_consumed=counts, receiver_credits_freed=counts)


class OneLimitPerPort(ManagedTest):
    """With all VCs mapped to one, they share its limit: what one uses the other has not."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(vc_map=(0,) * 8, lossless_vcs=1, credit_limit=4, update_threshold=4))
        frames = [store(1, 2, bytes([vc] * 8), vc=vc) for vc in (0, 1, 2, 3, 4)]
        for frame in frames:
            self.send(1, frame)
        for frame in frames[:4]:
            peer.expect_data(frame)
        self.expect_silence_on([2])
        self.expect_credits(2, sender_credits_consumed=one_lane(0, 4), held_frames=one_lane(0, 1))
        peer.free(one_lane(0, 1))
        peer.expect_data(frames[4])
        peer.free(one_lane(0, 5))


class CountersWrap(ManagedTest):
    """Both roles count on across 2^20: the peer starts them just below by announcing, and then freeing, that much."""

    def runTest(self) -> None:
        (peer,) = self.manage(2)
        near = CYCLE - 3
        peer.in_use = (near, near, *NONE[2:])
        peer.bring_up(freed=(near, near - 1, *NONE[2:]))
        for sent, frame in enumerate(self.stores(1, 2, 8), 1):
            self.send(1, frame)
            peer.expect_data(frame)
            peer.free((near + sent, near, *NONE[2:]))
        self.expect_credits(
            2,
            sender_credits_consumed=(5, near, *NONE[2:]),
            sender_credits_freed=(5, near, *NONE[2:]),
        )
        # As receiver: the switch's counter gets there by losses that the peer tells of.
        self.change_profile(2, credit_limit=(1 << 19) - 1)
        for told in (1 << 18, 2 << 18, 3 << 18, near):
            peer.consume(one_lane(0, told))
            peer.expect_freed(one_lane(0, told))
        for index, frame in enumerate(self.stores(2, 1, 8), 1):
            peer.send_data(frame)
            self.expect_forwarded_to(1, frame)
            self.expect_credits(2, receiver_credits_freed=one_lane(0, (near + index) % CYCLE))


class ControlRate(ManagedTest):
    """VC 7 is limited per port that it comes in on; the other VCs are not."""

    def runTest(self) -> None:
        (peer,) = self.links(2)
        self.limit("control_rate_limit", 1, rate=1, burst=3)
        before = self.drops([1])
        for _ in range(20):
            self.send(1, probe(1, 2))
        for _ in range(20):
            self.send(1, store(1, 2))
        got = list(iter(lambda: self.receive(2, 0.2), None))
        probes = sum(frame[12] >> 3 & 7 == 7 for frame in got)
        self.assertEqual(len(got) - probes, 20)
        self.assertIn(probes, range(1, 6))
        self.assertEqual(self.new_drops(before), {("control_rate", 1): 20 - probes})
        self.send(3, probe(3, 2))
        peer.expect_data(probe(3, 2))


class PacketOutOnAManagedLink(ManagedTest):
    """A packet-out uses the link as others do: its credits and its session. Control frames are the link's own."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(credit_limit=1, update_threshold=1))
        frames = [store(REMOTE[0], 2, bytes([index] * 8)) for index in range(2)]
        for frame in frames:
            self.switch.packet_out(bytes(frame), egress_port=0)
        peer.expect_data(frames[0])
        self.expect_silence_on([2])
        peer.free(one_lane(0, 1))
        peer.expect_data(frames[1])
        before = self.drops([510])
        self.switch.packet_out(peer.update(Kind.CF_UPDATE, NONE), egress_port=2)
        self.wait_for_drops(before, {("unexpected_control", 510): 1})
        peer.free(one_lane(0, 2))


class TrapsOfManagedPorts(ManagedTest):
    """The reasons that only managed ports have can be trapped like the others."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(credit_limit=1, update_threshold=1))
        entry = self.switch.names.entry
        for reason in ("bad_init", "over_limit", "control_rate", "exceeds_limit"):
            self.install([entry("trap", {"reason": DROP_REASONS[reason]}, "to_cpu")])
        bad = peer.init(version=9)
        peer.send(bad)
        self.expect_packet_in(bad, ingress_port=2, reason=DROP_REASONS["bad_init"])
        large = write(1, 2, 2000)
        self.send(1, large)
        self.expect_packet_in(large, ingress_port=1, reason=DROP_REASONS["exceeds_limit"])
        beyond = in_session(write(2, 1, 2000), peer.session)
        peer.send(beyond)
        self.expect_packet_in(beyond, ingress_port=2, reason=DROP_REASONS["over_limit"])
        self.limit("control_rate_limit", 1, rate=1, burst=1)
        for _ in range(3):
            self.send(1, probe(1, 4))
        got = self.switch.packet_in()
        self.assertIsNone(got)  # another tenant's: dropped before the meter is asked
        for _ in range(3):
            self.send(1, probe(1, 3))
        got = self.switch.packet_in()
        assert got is not None
        self.assertEqual(got.reason, DROP_REASONS["control_rate"])


class ManyFramesLeakNothing(ManagedTest):
    """After many frames both ways, with updates as they come, every credit is accounted for."""

    def runTest(self) -> None:
        first, second = self.links(1, 2, profile=Profile(credit_limit=64, update_threshold=16))
        for burst in range(20):
            frames = self.stores(1, 2, 32, vc=burst % 2)
            for frame in frames:
                first.send_data(frame)
            for frame in frames:
                second.expect_data(frame)
            second.free((32 * (burst // 2 + 1), 32 * ((burst + 1) // 2), *NONE[2:]))
        lanes = (320, 320, *NONE[2:])
        self.expect_credits(1, receiver_credits_consumed=lanes, receiver_credits_freed=lanes)
        self.expect_credits(2, sender_credits_consumed=lanes, sender_credits_freed=lanes, held_frames=NONE)
