"""CBFC-01 to CBFC-03: the counters of both roles, for every frame size, and after losses."""

from __future__ import annotations

from typing import Final

from codec.constants import Kind
from ptf_tests.conformance.link_end import AT_ONCE
from ptf_tests.conformance.records import at_least, exact
from ptf_tests.conformance.tester import ConformanceTest, cost, describe, growth, patient, sizes
from ptf_tests.conformance.wire import Harm
from ptf_tests.frames import SIZES
from ptf_tests.links import Profile

FRAMES: Final = 3
CORRUPTED: Final = 100
SETTINGS: Final = (
    patient(credit_size=10, packet_overhead=0, credit_limit=60),
    patient(credit_size=8, packet_overhead=20, credit_limit=160),
    patient(credit_size=6, packet_overhead=-4, credit_limit=520),
)
LOSSLESS: Final = range(7)


class Sender(ConformanceTest):
    """The switch as sender: what it consumed and what was freed, per VC, with the peer's credit size and overhead."""

    case = "CBFC-01"

    def runTest(self) -> None:
        for profile in SETTINGS:
            self._with(profile)
        self.conclude()

    def _with(self, profile: Profile) -> None:
        (sink,) = self.link_ends(2, profile=SETTINGS[0], tester=profile)
        for index, size in enumerate(sizes(SIZES)):
            vc = LOSSLESS[index % len(LOSSLESS)]
            expected = FRAMES * cost(size, profile)
            flow = self.flow(1, 2, size, vc)
            sink.drain(0)
            before = self.credits_at(2)
            self.send_openly(1, flow, FRAMES)
            self.delivered(flow)
            full = self.credits_at(2)
            registers = self.check_registers(2, full)
            sink.drain(AT_ONCE)
            freed = self.used(2, "sender", vc, 0)
            others = sum(full.sender_credits_used) - full.sender_credits_used[vc]
            self.record(
                size,
                describe(profile, vc=vc, frames=FRAMES),
                [
                    exact("sender_credits_used", expected, full.sender_credits_used[vc]),
                    exact("sender_credits_consumed", expected, growth(before, full, vc).sender_credits_consumed),
                    exact("sender_credits_freed, not drained", 0, growth(before, full, vc).sender_credits_freed),
                    exact("sender_credits_freed, drained", expected, growth(before, freed, vc).sender_credits_freed),
                    exact("sender_credits_used, drained", 0, freed.sender_credits_used[vc]),
                    exact("sender_credits_used of other VCs", 0, others),
                    at_least("sender_credits_used_watermark", expected, full.sender_credits_used_watermark[vc]),
                    exact("frames_lost", 0, flow.outstanding, "frames"),
                ],
                f"counters {registers}",
            )  # fmt: skip


class Receiver(ConformanceTest):
    """The switch as receiver: what arrived and what has left its buffer, per VC, by its own credit size."""

    case = "CBFC-02"

    def runTest(self) -> None:
        for profile in SETTINGS:
            self._with(profile)
        self.conclude()

    def _with(self, profile: Profile) -> None:
        """Frames for port 1 have to wait in the switch: its peer's buffer is full of one largest frame."""
        room = patient(credit_size=12, packet_overhead=0, credit_limit=2)
        (source,) = self.link_ends(2, profile=profile)
        (sink,) = self.link_ends(1, profile=SETTINGS[0], tester=room)
        for index, size in enumerate(sizes(SIZES)):
            vc = LOSSLESS[index % len(LOSSLESS)]
            expected = FRAMES * cost(size, profile)
            filler, flow = self.flow(3, 1, 4097, vc), self.flow(2, 1, size, vc)
            sink.drain(0)
            self.send_openly(3, filler, 1)
            self.delivered(filler)
            before = self.credits_at(2)
            self.burst(source, flow, FRAMES)
            held = self.used(2, "receiver", vc, expected)
            waiting = self.credits_at(1).held_frames[vc]
            registers = self.check_registers(2, held)
            sink.drain(AT_ONCE)
            self.delivered(flow)
            freed = self.used(2, "receiver", vc, 0)
            self.freed(source, vc)
            others = sum(held.receiver_credits_used) - held.receiver_credits_used[vc]
            self.record(
                size,
                describe(profile, vc=vc, frames=FRAMES),
                [
                    exact("receiver_credits_consumed", expected, growth(before, held, vc).receiver_credits_consumed),
                    exact("receiver_credits_freed, held", 0, growth(before, held, vc).receiver_credits_freed),
                    exact("held_frames", FRAMES, waiting, "frames"),
                    exact("receiver_credits_freed, sent", expected, growth(before, freed, vc).receiver_credits_freed),
                    exact("receiver_credits of other VCs in use", 0, others),
                    exact("sender_credits_used of the tester", 0, source.senders[vc].used),
                    exact("frames_lost", 0, flow.outstanding, "frames"),
                ],
                f"counters {registers}",
            )  # fmt: skip


class LossesWrittenOff(ConformanceTest):
    """CC_UPDATE withheld, 100 frames corrupted, CC_UPDATE resumed: the switch, as receiver, catches up."""

    case = "CBFC-03"

    def runTest(self) -> None:
        profile = patient(credit_limit=CORRUPTED, update_threshold=25)
        (source,) = self.link_ends(2, profile=profile)
        flow = self.flow(2, 1, 512, 0)
        before, drops = self.credits_at(2), self.drops([2])
        source.out.harm(Harm.DROP, {Kind.CC_UPDATE})
        source.out.harm(Harm.CORRUPT, {Kind.DATA})
        self.burst(source, flow, CORRUPTED)
        self.run_for(0.05)
        lost = self.credits_at(2)
        used = source.senders[0].used
        dropped = self.new_drops(drops).get(("bad_crc", 2), 0)
        source.out.heal()
        self.freed(source, 0)
        after = self.used(2, "receiver", 0, 0)
        self.record(
            512,
            describe(profile, vc=0, frames=CORRUPTED, role="receiver"),
            [
                exact("frames dropped with bad_crc", CORRUPTED, dropped, "frames"),
                exact("sender_credits_used of the tester, CC withheld", CORRUPTED, used),
                exact("receiver_credits_consumed, CC withheld", 0, growth(before, lost, 0).receiver_credits_consumed),
                exact("receiver_credits_freed, CC withheld", 0, growth(before, lost, 0).receiver_credits_freed),
                exact("receiver_credits_consumed", source.senders[0].consumed, after.receiver_credits_consumed[0]),
                exact("receiver_credits_freed", source.senders[0].freed, after.receiver_credits_freed[0]),
                exact("sender_credits_used of the tester", 0, source.senders[0].used),
            ],
            f"counters {self.check_registers(2, after)}",
        )  # fmt: skip
        self.conclude()


class OwnLossesAreTold(ConformanceTest):
    """The other role: 100 frames of the switch are lost; its CC_UPDATEs let the peer catch up."""

    case = "CBFC-03"

    def runTest(self) -> None:
        profile = patient(credit_limit=CORRUPTED, update_threshold=25)
        (sink,) = self.link_ends(2, profile=profile)
        flow = self.flow(1, 2, 512, 0)
        withheld = sink.into.harm(Harm.DROP, {Kind.CC_UPDATE})
        damaged = sink.into.harm(Harm.CORRUPT, {Kind.DATA})
        self.send_openly(1, flow, CORRUPTED)
        self.run_until(lambda: damaged.done == CORRUPTED, 2.0)
        self.run_for(0.05)
        full = self.credits_at(2)
        sink.into.heal()
        after = self.used(2, "sender", 0, 0)
        receiver = sink.receivers[0]
        self.record(
            512,
            describe(profile, vc=0, frames=CORRUPTED, role="sender"),
            [
                exact("frames corrupted", CORRUPTED, damaged.done, "frames"),
                at_least("CC_UPDATEs withheld", 1, withheld.done, "frames"),
                exact("sender_credits_used, CC withheld", CORRUPTED, full.sender_credits_used[0]),
                exact("credits written off by the tester", CORRUPTED, sink.counters["credits_written_off"]),
                exact("sender_credits_consumed", receiver.consumed, after.sender_credits_consumed[0]),
                exact("sender_credits_freed", receiver.freed, after.sender_credits_freed[0]),
                exact("sender_credits_used", 0, after.sender_credits_used[0]),
            ],
            f"counters {self.check_registers(2, after)}",
        )
        self.conclude()
