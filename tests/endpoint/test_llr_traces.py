"""The endpoint does with every trace of link-layer retry what the reference model says, step by step."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from codec.constants import Kind, LinkFlag
from codec.frames import frame, parse_link
from endpoint.managed_link import ManagedLink
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
    Trace,
    generate,
)
from tests.endpoint.test_credits import Pair, packet
from tests.endpoint.test_managed_llr import RETRIED, numbers

SEEDS = range(60)
PROFILE = replace(RETRIED, replay_timer_us=1_000_000, replay_count_max=255, credit_limit=128, update_threshold=128)


class Player:
    """Plays a trace to a link whose peer is in the hands of the test."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.pair = Pair(replace(PROFILE, outstanding_frames_max=trace.window))
        self.pair.up()
        retry = self.link._retry
        assert retry is not None
        retry.sender.next = retry.receiver.expected = trace.first
        retry.sender.acknowledged = retry.receiver._last = (trace.first - 1) % SEQS
        self.told = (trace.first - 1) % SEQS
        """What the peer acknowledges in every frame."""

    @property
    def link(self) -> ManagedLink:
        return self.pair.links[0]

    def run(self) -> None:
        end = End(self.trace.window, self.trace.first)
        for index, step in enumerate(self.trace.steps):
            outcome = end.take(step)
            self.check(self.play(step), outcome, f"step {index}: {step}")
            self.told = (end.oldest - 1) % SEQS

    def play(self, step: Step) -> list[int]:
        """Do a step; return the numbers of the frames that it delivered."""
        before = len(self.pair.received[0])
        if step.what == SUBMIT:
            self.link.send(packet(step.number))
        elif step.what == KEEPALIVE:
            self.pair.advance(0.01)
        elif step.what == RESTART:
            self.restart()
        elif step.what == DATA:
            flags = LinkFlag.LLR | (LinkFlag.REPLAY if step.replay else 0)
            flags |= LinkFlag.POISON if step.fault == POISONED else 0
            session = self.link.bringup.session
            data = frame(Kind.DATA, packet(step.number), flags=flags, seq=step.seq, ack=self.told, session=session)
            self.pair.deliver(0, data[:-1] + bytes([data[-1] ^ 1]) if step.fault == BAD_CRC else data)
        else:
            kind = Kind.LLR_NACK if step.what == NACK else Kind.LLR_ACK
            assert self.link._retry is not None
            self.link._retry.sender._replayed_at = -math.inf  # the pause before another replay is over
            self.pair.deliver(0, frame(kind, bytes(6), ack=step.seq, session=self.link.bringup.session))
        return numbers(self.pair.received[0][before:])

    def restart(self) -> None:
        """Let the peer start anew and the link come up; keep what the end under test then sends, for the peer does not
        take it by itself."""
        pair = self.pair
        pair.links[1] = pair.make(1)
        pair.wires[0].frames.clear()
        data: list[bytes] = []
        while not all(link.is_up for link in pair.links):
            pair.advance(0.01)
            for _ in range(6):
                for side in (0, 1):
                    frames = pair.wires[1 - side].frames
                    while frames:
                        one = frames.popleft()
                        if side == 1 and parse_link(memoryview(one)).kind == Kind.DATA:
                            data.append(one)
                        else:
                            pair.deliver(side, one)
        pair.wires[0].frames.extend(data)

    def check(self, delivered: list[int], expected: Outcome, where: str) -> None:
        """Compare what has become of a step with what has to."""
        sent, acks, nacks = [], [], []
        for data in self.pair.wires[0].frames:
            header = parse_link(memoryview(data))
            if header.kind == Kind.DATA:
                assert header.flags & LinkFlag.LLR, where
                sent.append((int.from_bytes(data[18:22], "big"), header.seq, bool(header.flags & LinkFlag.REPLAY)))
            elif header.kind == Kind.LLR_ACK:
                acks.append(header.ack)
            elif header.kind == Kind.LLR_NACK:
                nacks.append(header.ack)
        self.pair.wires[0].frames.clear()
        assert sent == expected.sent, where
        assert delivered == expected.delivered, where
        assert nacks == [expected.newest] * expected.nack, where
        assert acks == [expected.newest] * expected.ack, where  # time stands still: none leaves for want of others
        sender = self.link.senders[0]
        sender.freed = sender.consumed  # the peer has credits for everything


@pytest.mark.parametrize("first", [0, SEQS - 20])
@pytest.mark.parametrize("seed", SEEDS)
def test_trace(seed: int, first: int) -> None:
    Player(generate(seed, first=first)).run()


def test_traces_tell_rules_apart() -> None:
    """They contain what they are for."""
    seen = {
        "replay": 0, "window full": 0, "nack": 0, "nack again": 0, "duplicate acknowledged": 0, "every 16": 0,
        "restart while one waits": 0, "restart while one is missing": 0,
    }  # fmt: skip
    for seed in SEEDS:
        trace = generate(seed)
        missing = False
        for step, outcome in trace.outcomes():
            seen["replay"] += any(replayed for _, _, replayed in outcome.sent)
            seen["window full"] += step.what == SUBMIT and not outcome.sent
            seen["nack"] += outcome.nack and not missing
            seen["nack again"] += outcome.nack and missing and step.what == DATA
            seen["duplicate acknowledged"] += outcome.ack and not outcome.delivered
            seen["every 16"] += outcome.ack and bool(outcome.delivered)
            seen["restart while one waits"] += step.what == RESTART and bool(outcome.sent)
            seen["restart while one is missing"] += step.what == RESTART and missing
            missing = outcome.missing
    assert min(seen.values()) > 5, seen


def test_traces_travel_as_json() -> None:
    trace = generate(3, first=SEQS - 1)
    assert Trace.from_json(json.loads(json.dumps(trace.to_json()))) == trace
    assert generate(3, first=SEQS - 1) == trace != generate(4, first=SEQS - 1)
