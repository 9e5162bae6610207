"""Traces of link-layer retry that are played to the endpoint too: the switch does what the reference model says."""

from __future__ import annotations

from dataclasses import replace

from codec.constants import Kind
from codec.scapy_layers import Link
from ptf_tests.base import TIMEOUT_S
from ptf_tests.frames import LINK_BYTES, forwarded, store
from ptf_tests.links import one_lane
from ptf_tests.llr_traces import (
    BAD_CRC,
    DATA,
    KEEPALIVE,
    NACK,
    POISONED,
    RESTART,
    SEQS,
    SUBMIT,
    End,
    Outcome,
    Step,
    generate,
)  # fmt: skip
from ptf_tests.retry import LLR, POISON, REPLAY, RETRIED, RetryPeer, RetryTest

GPU = 1
"""On an open port: what it sends is submitted, what it gets was delivered."""
PORT = 2
"""The link under test."""
STATE = ("llr_next_seq", "llr_unacknowledged_seq", "llr_expected_seq", "llr_ack_asked")
PROFILE = replace(RETRIED, credit_limit=2000, update_threshold=2000, silence=0)
DATA_OFFSET = LINK_BYTES + 6 + 18


class TraceTest(RetryTest):
    """What the tests below share."""

    first = 0
    seeds = range(12)

    def play_all(self) -> None:
        """Play a trace of each seed."""
        for seed in self.seeds:
            with self.subTest(seed=seed):
                self.play(seed)

    def play(self, seed: int) -> None:
        """Bring the link up anew, and play one trace step by step."""
        trace = generate(seed, first=self.first)
        if PORT not in self.profiles:
            (self.peer,) = self.retry_links(PORT, profile=PROFILE, outstanding_frames_max=trace.window, up=False)
        self.peer.epoch += 1
        self.peer.bring_up()
        if self.first and not all(self.switch.write_register(name, PORT, self.first) for name in STATE):
            self.skipTest("this target's P4Runtime server writes no registers")
        self.sent = 0
        self.received = {port: self.count("port_rx", port) for port in (GPU, PORT)}
        end = End(trace.window, trace.first)
        for index, step in enumerate(trace.steps):
            self.peer.expected = end.oldest  # what the peer acknowledges in every frame
            if step.what == KEEPALIVE:
                self.peer.free(one_lane(0, self.sent))  # so that no CC_UPDATE takes a number
                self.received[PORT] += 1
            outcome = end.take(step)
            where = f"step {index}: {step}"
            self.stimulate(step)
            self.check_link(step, outcome, where)
            for number in outcome.delivered:
                self.assertEqual(self.receive(GPU), forwarded(self.of(PORT, GPU, number)), where)
        self.expect_silence_on([GPU, PORT])

    @staticmethod
    def of(src: int, dst: int, number: int) -> bytes:
        """Return the frame of a number."""
        return bytes(store(src, dst, number.to_bytes(8, "big")))

    def stimulate(self, step: Step) -> None:
        """Do a step, and wait until the switch has taken note of it."""
        peer: RetryPeer = self.peer
        if step.what == KEEPALIVE:
            self.keepalive()
            return
        if step.what == RESTART:
            peer.epoch += 1
            peer.bring_up()
            self.sent = 0
            self.received[PORT] = self.count("port_rx", PORT)
            return
        port = GPU if step.what == SUBMIT else PORT
        if step.what == SUBMIT:
            self.send(GPU, self.of(GPU, PORT, step.number))
        elif step.what == DATA:
            flags = LLR | (REPLAY if step.replay else 0) | (POISON if step.fault == POISONED else 0)
            data = peer.stamp(self.of(PORT, GPU, step.number), step.seq, flags)
            peer.send(data[:-1] + bytes([data[-1] ^ 1]) if step.fault == BAD_CRC else data)
        else:
            peer.send(peer.control(Kind.LLR_NACK if step.what == NACK else Kind.LLR_ACK, step.seq))
        self.received[port] += 1
        self.wait_until(lambda: self.count("port_rx", port) >= self.received[port])

    def check_link(self, step: Step, expected: Outcome, where: str) -> None:
        """Check what leaves on the link: frames in their order, acknowledgements and NACKs anywhere among them."""
        sent: list[tuple[int, int, bool]] = []
        told = {Kind.LLR_ACK: 0, Kind.LLR_NACK: 0, Kind.CF_UPDATE: 0}
        due = {Kind.LLR_ACK: int(expected.ack), Kind.LLR_NACK: int(expected.nack)}
        due[Kind.CF_UPDATE] = int(step.what == KEEPALIVE)
        while len(sent) < len(expected.sent) or any(told[kind] < due[kind] for kind in due):
            data = self.receive(PORT, TIMEOUT_S)
            assert data is not None, f"{where}: {sent} and {told} came, expected were {expected}"
            frame = Link(data)
            self.assertEqual((frame.session, frame.ack), (self.peer.session, expected.newest), where)
            if frame.kind == Kind.DATA:
                number = int.from_bytes(data[DATA_OFFSET : DATA_OFFSET + 8], "big")
                sent.append((number, frame.seq, bool(frame.flags & REPLAY)))
                self.sent += not frame.flags & REPLAY
            else:
                told[Kind(frame.kind)] += 1
        self.assertEqual(sent, expected.sent, where)
        if step.what == KEEPALIVE and not expected.missing:  # a tick acknowledges what nothing else has
            due[Kind.LLR_ACK] = told[Kind.LLR_ACK]
        self.assertEqual(told, due, where)


class Traces(TraceTest):
    """From sequence 0 on."""

    def runTest(self) -> None:
        self.play_all()


class TracesAcrossTheWrap(TraceTest):
    """Both directions begin just before their sequences start anew."""

    first = SEQS - 20

    def runTest(self) -> None:
        self.play_all()
