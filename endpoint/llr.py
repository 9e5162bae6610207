"""Link-layer retry (LLR) of one link direction: both ends of it (docs/protocol.md section 6).

Nothing here does input or output, or looks at a clock: times are passed in, in seconds of one monotonic clock.
`endpoint.managed_link` puts a sender and a receiver per session to work. States and counters have SAI's names.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from enum import Enum
from typing import Final

from codec.layouts import LINK
from endpoint.cyclic import after, distance, steps

_PAUSE_S: Final = 0.001
_PAUSES_PER_TIMER: Final = 5
"""A peer that asks again for what a replay has just sent is answered after `_PAUSE_S`, or this part of the replay timer
where that is shorter: it may have asked before it came. Else each of a burst of NACKs would cost a replay, whose
duplicates may cost the next ones."""
ACK_FRAMES: Final = 16
"""An acknowledgement leaves after so many accepted frames at the latest."""


class TransmitState(Enum):
    """State of the sending end; OFF and INIT are the link's: LLR is not in use, or its link is not up."""

    OFF = "off"
    INIT = "init"
    ADVANCE = "advance"
    REPLAY = "replay"
    FLUSH = "flush"


class ReceiveState(Enum):
    """State of the receiving end; OFF is the link's: there is no session with LLR.

    SEND_NACK: the expected frame is missing, and the next one that shows it is answered with a NACK.
    """

    OFF = "off"
    SEND_ACKS = "send_acks"
    SEND_NACK = "send_nack"
    NACK_SENT = "nack_sent"


class Arrival(Enum):
    """What a numbered frame is to its receiver."""

    NEXT = "next"
    POISONED = "poisoned"
    """The next one, whose sender knows that its content is bad."""
    REFUSED = "refused"
    """A duplicate, or one that came too early."""


class Due(Enum):
    """What the receiver has to tell the sender now."""

    ACK = "ack"
    NACK = "nack"
    NOTHING = "nothing"


_HEADER: Final = LINK.size


# Members by names of their own: what is done for every frame looks none up in its class.
_ADVANCE: Final = TransmitState.ADVANCE
_SEND_ACKS: Final = ReceiveState.SEND_ACKS


class LlrSender:
    """The sending end: numbers frames, keeps each until it is acknowledged, sends them again when they are not.

    `frames_max` and `bytes_max` (link headers included) bound what is kept. When the peer asks for it, or nothing
    was acknowledged for `replay_timer_s` seconds, everything that is kept goes out again in order, and nothing new
    before; after `replay_count_max` such replays in a row without any acknowledgement the sender gives up (FLUSH) and
    forgets what it kept. `first` is the first sequence. `counters` gains `llr_tx_ok` (numbered frames sent for the
    first time), `llr_tx_replayed` (sent again), `llr_tx_replay` (replays begun), `llr_replay_timeouts` (of which by the
    timer), `llr_flushes`, `llr_tx_discard` (frames given up) and `llr_rx_ack_nack_seq_error` (acknowledgements of what
    was never sent).
    """

    __slots__ = (
        "_again", "_bytes_max", "_counters", "_frames_max", "_kept", "_replay_count_max", "_replay_timer_s",
        "_replayed_at", "acknowledged", "bytes", "deadline", "fruitless", "next", "state",
    )  # fmt: skip

    def __init__(
        self,
        counters: Counter[str],
        *,
        frames_max: int,
        bytes_max: int,
        replay_timer_s: float,
        replay_count_max: int,
        first: int = 0,
    ) -> None:
        self._counters = counters
        self._frames_max = frames_max
        self._bytes_max = bytes_max
        self._replay_timer_s = replay_timer_s
        self._replay_count_max = replay_count_max
        self._kept: deque[tuple[int, bytes]] = deque()
        """Kind, and what follows the link header, of what waits for its acknowledgement."""
        self._again = 0
        """How many of the kept frames the replay under way has sent."""
        self._replayed_at = -math.inf
        """When the last replay began."""
        self.state = _ADVANCE
        self.next = first
        """Sequence of the next new frame."""
        self.acknowledged = after(first, -1)
        """Newest sequence that is acknowledged."""
        self.bytes = 0
        """Bytes of what is kept, link headers included."""
        self.fruitless = 0
        """Replays since the last acknowledgement."""
        self.deadline = math.inf
        """When the replay timer runs out."""

    @property
    def outstanding(self) -> int:
        """Frames that are not acknowledged."""
        return len(self._kept)

    def has_room(self, size: int) -> bool:
        """Tell whether a new frame with so many bytes after its link header may be sent now."""
        return (
            self.state is _ADVANCE
            and len(self._kept) < self._frames_max
            and self.bytes + _HEADER + size <= self._bytes_max
        )

    def push(self, now: float, kind: int, body: bytes) -> int:
        """Keep a new frame that is sent now, and return its sequence. There must be room."""
        sequence = self.next
        if not self._kept:
            self.deadline = now + self._replay_timer_s
        self._kept.append((kind, body))
        self.bytes += _HEADER + len(body)
        self.next = after(sequence, 1)
        self._counters["llr_tx_ok"] += 1
        return sequence

    def acknowledge(self, now: float, sequence: int, explicit: bool = False) -> int:
        """Take the peer's newest sequence, which rides on every frame; return how many frames that acknowledged.

        -1: it is none of what is outstanding, and ignored; an old one has been overtaken by a newer one, one of what
        was never sent is counted where it is `explicit`, an LLR_ACK's or LLR_NACK's.
        """
        count = steps(self.acknowledged, sequence)
        if not count:
            return 0
        if count > len(self._kept):
            if explicit and distance(self.acknowledged, sequence) > 0:
                self._counters["llr_rx_ack_nack_seq_error"] += 1
            return -1
        for _ in range(count):
            self.bytes -= _HEADER + len(self._kept.popleft()[1])
        self.acknowledged = sequence
        self.fruitless = 0
        self._again = max(0, self._again - count)
        if self.state is _ADVANCE:
            self.deadline = now + self._replay_timer_s if self._kept else math.inf
        else:
            self._end_replay(now)
        return count

    def asked(self, now: float) -> None:
        """Take note that the peer asks for what is not acknowledged: begin a replay, now or soon."""
        soonest = self._replayed_at + min(_PAUSE_S, self._replay_timer_s / _PAUSES_PER_TIMER)
        if not self.fruitless or now >= soonest:
            self.replay(now)
        elif self.state is _ADVANCE:
            self.deadline = min(self.deadline, soonest)

    def replay(self, now: float) -> None:
        """Send everything again that is kept. Gives up instead if that is of no use."""
        if not self._kept:
            return
        if self.fruitless >= self._replay_count_max:
            self.flush()
            return
        self.fruitless += 1
        self._counters["llr_tx_replay"] += 1
        self.state = TransmitState.REPLAY
        self.deadline = math.inf
        self._replayed_at = now
        self._again = 0

    def expire(self, now: float) -> None:
        """Begin a replay if the timer has run out."""
        if now >= self.deadline:
            self._counters["llr_replay_timeouts"] += 1
            self.replay(now)

    def take_again(self, now: float) -> tuple[int, int, bytes] | None:
        """Return sequence, kind and body of the next frame of the replay, to be sent now; None when there is none."""
        if self.state is not TransmitState.REPLAY:
            return None
        kind, body = self._kept[self._again]
        self._again += 1
        sequence = after(self.acknowledged, self._again)
        self._counters["llr_tx_replayed"] += 1
        self._end_replay(now)
        return sequence, kind, body

    def flush(self) -> None:
        """Give up: forget what is kept, and take nothing more."""
        self._counters["llr_flushes"] += 1
        self._counters["llr_tx_discard"] += len(self._kept)
        self._kept.clear()
        self.bytes = 0
        self.state = TransmitState.FLUSH
        self.deadline = math.inf

    def _end_replay(self, now: float) -> None:
        if self.state is TransmitState.REPLAY and self._again == len(self._kept):
            self.state = _ADVANCE
            self.deadline = now + self._replay_timer_s if self._kept else math.inf


class LlrReceiver:
    """The receiving end: accepts frames in order only, acknowledges them, asks for what is missing.

    An acknowledgement is due after 16 accepted frames, or `ack_delay_s` seconds after the first of them, unless a frame
    that leaves anyway has carried it; and at once when the newest accepted frame comes again, as then the sender has
    not heard of it. A missing frame is asked for once, then every `nack_repeat_s` seconds; sooner only where a
    duplicate or the start of a replay has shown that the sender is at it, and yet the expected frame is missing.
    `counters` gains `llr_rx_ok`, `llr_rx_poisoned`, `llr_rx_bad`, `llr_rx_missing_seq` (gaps, which count in
    `link_losses_found` as well), `llr_rx_duplicate_seq`, `llr_out_of_sequence` (frames dropped after a gap),
    `llr_rx_replay` (replays noticed) and `llr_rx_expected_seq_{good,poisoned,bad}`.
    """

    __slots__ = (
        "_ack_delay_s", "_behind", "_counters", "_last", "_nack_due", "_nack_repeat_s", "_replayed", "_unacknowledged",
        "deadline", "expected", "state",
    )  # fmt: skip

    def __init__(self, counters: Counter[str], *, ack_delay_s: float, nack_repeat_s: float, first: int = 0) -> None:
        self._counters = counters
        self._ack_delay_s = ack_delay_s
        self._nack_repeat_s = nack_repeat_s
        self.state = _SEND_ACKS
        self.expected = first
        """Sequence of the next frame that is accepted."""
        self._last = after(first, -1)
        self._replayed = False
        """The last numbered frame, `_last`, was a replayed one."""
        self._behind = False
        """The last numbered frame was a duplicate."""
        self._unacknowledged = 0
        self._nack_due = False
        self.deadline = math.inf
        """When an acknowledgement is due, or the NACK is to be repeated."""

    def take(self, now: float, sequence: int, replayed: bool = False, poisoned: bool = False) -> Arrival:
        """Take a numbered frame whose CRC holds."""
        self._counters["llr_rx_poisoned" if poisoned else "llr_rx_ok"] += 1
        if replayed and not (self._replayed and distance(self._last, sequence) > 0):
            self._counters["llr_rx_replay"] += 1
            self._arm()
        self._last = sequence
        self._replayed = replayed
        ahead = distance(self.expected, sequence)
        self._behind = ahead < 0
        if ahead > 0:
            self._counters["llr_out_of_sequence"] += 1
            if self.state is _SEND_ACKS:
                self._counters["link_losses_found"] += 1
            self._missed("llr_rx_missing_seq")
            return Arrival.REFUSED
        if ahead < 0:
            self._counters["llr_rx_duplicate_seq"] += 1
            if self.state is not _SEND_ACKS:
                self._arm()
            elif ahead == -1:
                self.deadline = now
            return Arrival.REFUSED
        self.expected = after(sequence, 1)
        if self.state is not _SEND_ACKS or not self._unacknowledged:
            self.state = _SEND_ACKS
            self._nack_due = False
            self.deadline = now + self._ack_delay_s
        self._unacknowledged += 1
        self._counters["llr_rx_expected_seq_poisoned" if poisoned else "llr_rx_expected_seq_good"] += 1
        return Arrival.POISONED if poisoned else Arrival.NEXT

    def take_bad(self) -> None:
        """Take a frame with a bad CRC: nothing in it is believed, but it may have been the expected one.

        While the sender replays what has come already it hardly was, and if so the next frame shows it.
        """
        self._counters["llr_rx_bad"] += 1
        if not self._behind:
            self._missed("llr_rx_expected_seq_bad")

    def due(self, now: float) -> Due:
        """Return what has to be sent now; that it leaves is said by `told` or `asked`."""
        if self.state is not _SEND_ACKS:
            return Due.NACK if self._nack_due or now >= self.deadline else Due.NOTHING
        return Due.ACK if self._unacknowledged >= ACK_FRAMES or now >= self.deadline else Due.NOTHING

    def told(self) -> int:
        """Take note that a frame leaves now, and return the acknowledgement that it carries."""
        self._unacknowledged = 0
        if self.state is _SEND_ACKS:
            self.deadline = math.inf
        return after(self.expected, -1)

    def asked(self, now: float) -> int:
        """Take note that a NACK leaves now, and return the acknowledgement that it carries."""
        self._nack_due = False
        self.state = ReceiveState.NACK_SENT
        self.deadline = now + self._nack_repeat_s
        return self.told()

    def _missed(self, counter: str) -> None:
        if self.state is not ReceiveState.NACK_SENT:
            if self.state is _SEND_ACKS:
                self._counters[counter] += 1
            self.state = ReceiveState.SEND_NACK
            self._nack_due = True

    def _arm(self) -> None:
        if self.state is ReceiveState.NACK_SENT:
            self.state = ReceiveState.SEND_NACK
