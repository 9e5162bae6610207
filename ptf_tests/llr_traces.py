"""Traces of link-layer retry, and a reference model that says what has to become of each of their steps.

A trace is what happens to one end of a link with retry: frames that it is to send, and frames that come from its
peer, with everything that goes wrong on the way. It can be played to the switch program as to an endpoint
(`ptf_tests/cases/retry_traces.py`, `tests/endpoint/test_llr_traces.py`). The model is docs/protocol.md, section 6,
written a second time; it shares neither code nor constants with what it judges.

Time is left out, so that a trace means the same everywhere: the replay timer never runs out in one. What is sent only
because time passes (an LLR_ACK that nothing else carried) may come at any step, and has to be right then.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

SEQS: Final = 1 << 20
ACK_EVERY: Final = 16
SUBMIT, DATA, ACK, NACK, KEEPALIVE, RESTART = "submit", "data", "ack", "nack", "keepalive", "restart"
BAD_CRC, POISONED = "bad_crc", "poisoned"


@dataclass(frozen=True)
class Step:
    """One thing that happens to the end under test."""

    what: str
    """`submit`: it gets a frame to send; `data`: a numbered frame comes; `ack`, `nack`: an LLR_ACK or LLR_NACK comes;
    `keepalive`: so much time passes that it sends one; `restart`: its peer starts anew, and the link comes up again."""

    number: int = 0
    """Which frame, of `submit` and `data`."""

    seq: int = 0
    """Of `data`; what `ack` and `nack` acknowledge."""

    replay: bool = False
    """The frame of `data` is flagged REPLAY."""

    fault: str = ""
    """Of `data`: nothing, `bad_crc` or `poisoned`."""


@dataclass
class Outcome:
    """What has to become of a step, at the end under test."""

    sent: list[tuple[int, int, bool]] = field(default_factory=list)
    """Frames that leave, in order: number, sequence, whether they are flagged REPLAY."""

    delivered: list[int] = field(default_factory=list)
    """Frames that go on beyond the link."""

    nack: bool = False
    """One NACK leaves."""

    ack: bool = False
    """An LLR_ACK leaves; without this one may leave, too, as long as nothing is missing."""

    newest: int = 0
    """What every acknowledgement says after this step."""

    missing: bool = False
    """The expected frame is missing after this step: no LLR_ACK may leave."""


class End:
    """One end of a link with retry, as it has to be: `window` frames at most are out, `first` is the first sequence of
    both directions."""

    def __init__(self, window: int, first: int = 0) -> None:
        self.window = window
        self.waiting: list[int] = []
        self._begin(first)

    def _begin(self, first: int) -> None:
        """Begin a session. What was out in the one before is no longer this link's concern; what waits still is."""
        self.oldest = first % SEQS
        self.out: list[int] = []
        """Numbers of the frames that are not acknowledged, from sequence `oldest` on."""
        self.expected = first % SEQS
        self.missing = False
        self.may_ask = False
        """While something is missing: the next frame that shows it is answered with another NACK."""
        self.newest = (first - 1) % SEQS
        self.newest_replayed = False
        self.behind = False
        """The newest numbered frame was a duplicate: whether a bad CRC is asked for then is left open."""
        self.untold = 0

    def take(self, step: Step) -> Outcome:
        """Take a step; return what has to become of it."""
        outcome = Outcome()
        if step.what == SUBMIT:
            self.waiting.append(step.number)
            self._send(outcome)
        elif step.what == DATA:
            self._data(step, outcome)
        elif step.what == KEEPALIVE:
            outcome.nack = self.missing
            self.may_ask = False
            self.untold = 0
        elif step.what == RESTART:
            self._begin(0)
            self._send(outcome)
        else:
            count = (step.seq - self.oldest + 1) % SEQS
            if count <= len(self.out):
                self.oldest = (self.oldest + count) % SEQS
                del self.out[:count]
                if step.what == NACK:
                    again = enumerate(self.out)
                    outcome.sent += [(number, (self.oldest + i) % SEQS, True) for i, number in again]
                self._send(outcome)
        if outcome.sent or outcome.nack or outcome.ack:
            self.untold = 0
        outcome.newest = (self.expected - 1) % SEQS
        outcome.missing = self.missing
        return outcome

    def _send(self, outcome: Outcome) -> None:
        while self.waiting and len(self.out) < self.window:
            outcome.sent.append((self.waiting[0], (self.oldest + len(self.out)) % SEQS, False))
            self.out.append(self.waiting.pop(0))

    def _data(self, step: Step, outcome: Outcome) -> None:
        if step.fault == BAD_CRC:
            outcome.nack = not self.missing or self.may_ask
            self.missing, self.may_ask = True, False
            return
        beyond = 0 < (step.seq - self.newest) % SEQS < SEQS // 2
        begins = step.replay and not (self.newest_replayed and beyond)
        self.newest, self.newest_replayed = step.seq, step.replay
        ahead = (step.seq - self.expected) % SEQS
        self.behind = ahead >= SEQS // 2
        if ahead == 0:
            self.expected = (self.expected + 1) % SEQS
            self.missing = self.may_ask = False
            self.untold += 1
            outcome.ack = self.untold >= ACK_EVERY
            if step.fault != POISONED:
                outcome.delivered.append(step.number)
        elif ahead < SEQS // 2:
            outcome.nack = not self.missing or self.may_ask or begins
            self.missing, self.may_ask = True, False
        elif self.missing:
            self.may_ask = True
        else:
            outcome.ack = ahead == SEQS - 1


@dataclass(frozen=True)
class Trace:
    """Steps, and what they start from."""

    steps: tuple[Step, ...]
    window: int
    first: int = 0

    def outcomes(self) -> Iterator[tuple[Step, Outcome]]:
        """Yield each step with what has to become of it."""
        end = End(self.window, self.first)
        for step in self.steps:
            yield step, end.take(step)

    def to_json(self) -> dict[str, Any]:
        """Return the trace as JSON can hold it."""
        return {"window": self.window, "first": self.first, "steps": [vars(step) for step in self.steps]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Trace:
        """Make a trace of what `to_json` returned."""
        return cls(tuple(Step(**step) for step in data["steps"]), data["window"], data["first"])


def generate(seed: int, length: int = 120, window: int = 8, first: int = 0) -> Trace:
    """Return a trace of random steps, the same for the same seed.

    The peer behaves as one does behind a bad cable: its frames are lost, doubled, damaged, overtaken and replayed, its
    acknowledgements late, old, and now and then of what was never sent. Now and then it starts anew, but not in a trace
    that is about the wrap: a session begins at 0. In the end everything is acknowledged.
    """
    rng = random.Random(seed)
    end = End(window, first)
    steps: list[Step] = []
    numbers = iter(range(1, 10**9))
    sent: dict[int, int] = {}
    """Number of each sequence that the peer has given out."""
    following = first % SEQS
    replaying: list[int] = []
    undisturbed = 0
    """So many frames in a row arrive as they were sent, and nothing else happens."""

    def arrives(seq: int, replay: bool = False, fault: str = "") -> Step:
        return Step(DATA, sent[seq], seq, replay, fault)

    while len(steps) < length:
        chance = rng.random()
        if replaying:
            seq = replaying.pop(0)
            if chance < 0.15:
                continue
            step = arrives(seq, True, BAD_CRC if chance < 0.2 and not end.behind else "")
        elif undisturbed or chance < 0.03:
            undisturbed = undisturbed - 1 if undisturbed else 2 * ACK_EVERY
            sent[following] = next(numbers)
            step, following = arrives(following), (following + 1) % SEQS
        elif chance < 0.3:
            step = Step(SUBMIT, next(numbers))
        elif chance < 0.6:
            sent[following] = next(numbers)
            seq, following = following, (following + 1) % SEQS
            if rng.random() < 0.15:
                continue  # lost
            fault = rng.choices(("", BAD_CRC, POISONED), (8, 0 if end.behind else 1, 1))[0]
            step = arrives(seq, False, fault)
        elif chance < 0.68 and sent:
            step = arrives(rng.choice(list(sent)[-6:]))  # late, or doubled
        elif chance < 0.75 and sent:
            back = min(rng.randint(0, 3), (end.expected - first) % SEQS)
            start = (end.expected - back) % SEQS
            replaying = [(start + i) % SEQS for i in range((following - start) % SEQS)]
            continue
        elif chance < 0.95 or (chance < 0.97 and first):
            seq = (end.oldest - 1 + rng.choice((-2, -1, 0, 0, 1, 2, len(end.out), len(end.out) + 1))) % SEQS
            step = Step(ACK if rng.random() < 0.6 else NACK, seq=seq)
        elif chance < 0.97:
            step = Step(RESTART)
            sent.clear()
            following = undisturbed = 0
        else:
            step = Step(KEEPALIVE)
        end.take(step)
        steps.append(step)
    while end.out:  # so that nothing is left to the trace that is played next
        step = Step(ACK, seq=(end.oldest + len(end.out) - 1) % SEQS)
        end.take(step)
        steps.append(step)
    return Trace(tuple(steps), window, first)
