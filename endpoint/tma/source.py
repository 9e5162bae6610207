"""The source side of RDMA: sends the blocks of writes, asks for those of reads, again where they are missing.

A source does no input or output and never waits: it sends through a function that it is given, and is told what came
(`handle`), what time it is (`expire`), and which ways have ended or opened (`moved`, `opened`). All its methods are
called under one lock.

Per destination, messages begin in the order in which they were submitted. What is in flight (blocks sent and not
acknowledged, blocks asked for and not come) shares the destination's congestion window with the load/store requests.
Once per time-out the lowest missing block of a message that made no progress goes out again, with ACK_REQ; the answer
says what else was lost, and that is sent again too. Of a read, what is missing is asked for again. Blocks whose way has
ended go out at once on another plane; where none is left, messages wait for one, for a bounded time.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from codec.constants import (
    BLOCK_WINDOW,
    READ_BLOCKS,
    REQUEST_WINDOW,
    Ecn,
    Next,
    TmaFlag,
    TmaOpcode,
    Vc,
)
from codec.frames import Tma, end_to_end_seed, oefh, tma_packet
from endpoint.congestion import CongestionWindow
from endpoint.errors import REFUSALS, AccessError, AccessRefused, TmaTimeout, Unreachable
from endpoint.initiator import Transmit
from endpoint.options import EndpointOptions
from endpoint.paths import Paths
from endpoint.round_trip import RoundTrip
from endpoint.tma.blocks import Placed, bitmap_of, bits_of, block_count
from endpoint.transfer import Transfer

_MESSAGE_MASK: Final = (1 << 32) - 1
_WRITE: Final = int(TmaOpcode.WRITE)
_READ: Final = int(TmaOpcode.READ)
_READ_DATA: Final = int(TmaOpcode.READ_DATA)
_ACK: Final = int(TmaOpcode.ACK)
_LAST: Final = int(TmaFlag.LAST)
_ACK_REQ: Final = int(TmaFlag.ACK_REQ)
_NOTIFY: Final = int(TmaFlag.NOTIFY)
_ECN_ECHO: Final = int(TmaFlag.ECN_ECHO)
_REQUEST_VC: Final = int(Vc.REQUEST)
_TMA_NEXT: Final = int(Next.TMA)
_CONGESTION: Final = int(Ecn.CONGESTION_EXPERIENCED)

_BYTES: Final = tuple(bytes((value,)) for value in range(256))
_ACK_EVERY: Final = 8
"""Blocks of a message after which an ACK is asked for at the latest."""
_BURST: Final = READ_BLOCKS
_BURST_S: Final = 0.002
"""At most so many blocks per destination are sent again at once: what was lost together for want of room would be lost
together again. One READ asks for as many."""


class _Message:
    """An unfinished message."""

    __slots__ = (
        "address", "again", "attempts", "block", "cost", "count", "deadline", "flags", "index", "key", "label",
        "number", "opcode", "patient", "placed", "planes", "probe", "recover", "sent", "submitted", "timed_at",
        "timed_block", "timeout_s", "total", "touched", "transfer", "uncounted", "view",
    )  # fmt: skip

    def __init__(
        self, opcode: int, key: int, address: int, view: memoryview, notify: bool, block: int, cost: int,
        timeout_s: float, transfer: Transfer, index: int, patient: bool,
    ) -> None:  # fmt: skip
        self.patient = patient
        """Waits for a plane as long as for progress."""
        self.opcode = opcode
        self.key = key
        self.address = address
        self.view = view
        self.total = len(view)
        self.flags = _NOTIFY if notify else 0
        self.block = block
        self.cost = cost
        self.count = block_count(self.total, block)
        self.timeout_s = timeout_s
        self.transfer = transfer
        self.index = index
        self.number = -1
        self.label = 0
        self.placed = Placed()
        """At the target, as far as known, or in `view` when it is a read."""
        self.sent = 0
        """Blocks sent, or asked for, at least once: all below this."""
        self.planes = bytearray(min(self.count, BLOCK_WINDOW))
        """On which each of the blocks in flight was sent, or asked for, last; block i at i modulo 1,024."""
        self.uncounted = 0
        """Blocks read that still count as in flight: they are counted several at a time."""
        self.again: list[int] = []
        """Blocks to be sent again, descending."""
        self.recover = 0
        """After a time-out: once block `probe` is placed, an ACK says which of the blocks below this were lost."""
        self.probe = 0
        self.attempts = 0
        self.timed_block = -1
        self.timed_at = 0.0
        self.submitted = 0.0
        self.touched = 0.0
        """When the lowest missing block was sent last, or became the lowest."""
        self.deadline = 0.0

    @property
    def in_flight(self) -> int:
        return self.sent - self.placed.count


class _Destination:
    """The messages to one GPU."""

    __slots__ = (
        "congestion", "dst", "due", "headers", "heard", "label", "next", "oldest", "round_trip", "seed", "sending",
        "unfinished", "waiting",
    )  # fmt: skip

    def __init__(self, dst: int, first: int, seed: int, congestion: CongestionWindow, round_trip: RoundTrip) -> None:
        self.dst = dst
        self.headers: tuple[bytes, ...] = ()
        """The OEFH with F = 0 and F = 1, without the entropy that ends it."""
        self.seed = seed
        self.congestion = congestion
        self.round_trip = round_trip
        self.next = first
        self.oldest = first
        self.label = first
        """Counts blocks of all messages, so that they are spread evenly."""
        self.unfinished: dict[int, _Message] = {}
        self.sending: list[_Message] = []
        """Those of the unfinished that have blocks to send, now or again, oldest first."""
        self.waiting: deque[_Message] = deque()
        """Not begun yet."""
        self.due = float("inf")
        self.heard = float("-inf")
        """When the last answer came."""


class TmaSource:
    """The messages of one GPU to all others.

    `window_of(dst)` gives the congestion window that a destination's requests have too, and `cost_of(bytes)` what a
    block's frame takes of it; `least_rto()` is the least time-out now. `counters` gains: `tma_responses`,
    `resent_blocks`, `messages_begun_anew` (their target has restarted), `timed_out_messages`, `unreachable_messages`
    (no plane led there), `refused_messages`, and as for load/store `late_response`, `mismatched_response`,
    `stale_response`, `ecn_echo`, `duplicate_block` (of a read).
    """

    def __init__(
        self,
        gpu_id: int,
        incarnation: int,
        paths: Paths,
        transmit: Transmit,
        window_of: Callable[[int], CongestionWindow],
        cost_of: Callable[[int], int],
        least_rto: Callable[[], float],
        counters: Counter[str],
        options: EndpointOptions,
        first_message: int = 1,
        ecn: int = int(Ecn.NOT_CAPABLE),
    ) -> None:
        self._id = gpu_id
        self._incarnation = incarnation
        self._paths = paths
        self._reachability = paths.reachability
        self._transmit = transmit
        self._window_of = window_of
        self._cost_of = cost_of
        self._least_rto = least_rto
        self._counters = counters
        self._options = options
        self._first = first_message
        self._ecn = ecn
        self._block = options.block_bytes.bit_length() - 1
        self._destinations: dict[int, _Destination] = {}

    def write(
        self, now: float, dst: int, key: int, address: int, data: memoryview, notify: bool, timeout_s: float,
        transfer: Transfer, index: int, patient: bool = False,
    ) -> None:  # fmt: skip
        """Send a message of at most 2^32 - 1 bytes, now or behind those before it; complete part `index` of a transfer.

        `data` must stay as it is until then. The message fails when it makes no progress for `timeout_s` seconds. A
        `patient` one waits so long for a plane, too; others as long as the options say.
        """
        self._submit(now, dst, _WRITE, key, address, data, notify, timeout_s, transfer, index, patient)

    def read(
        self, now: float, dst: int, key: int, address: int, into: memoryview, timeout_s: float, transfer: Transfer,
        index: int, patient: bool = False,
    ) -> None:  # fmt: skip
        """Fill `into` (1 to 2^32 - 1 bytes) from another GPU's memory, as `write` does the other way."""
        self._submit(now, dst, _READ, key, address, into, False, timeout_s, transfer, index, patient)

    def unfinished(self, dst: int | None = None) -> set[Transfer]:
        """Return the transfers that have unfinished messages, to one destination or to all."""
        return {
            message.transfer
            for d in self._destinations.values()
            if dst in (None, d.dst)
            for messages in (d.unfinished.values(), d.waiting)
            for message in messages
        }

    def handle(self, now: float, frame: Tma) -> None:
        """Take READ_DATA, an ACK or a NAK; ignore and count what answers nothing."""
        if frame.incarnation != self._incarnation:
            self._counters["stale_response"] += 1
            return
        d = self._destinations.get(frame.src)
        message = None if d is None else d.unfinished.get(frame.message)
        if d is None or message is None:
            self._counters["late_response"] += 1
            return
        if (
            frame.key != message.key
            or frame.address != message.address
            or frame.total != message.total
            or frame.block != message.block
            or frame.length != len(frame.data)
        ):
            self._counters["mismatched_response"] += 1
            return
        d.heard = now
        opcode = frame.opcode
        lowest = message.placed.lowest
        if opcode == _ACK and message.opcode == _WRITE:
            new = self._take_ack(d, message, frame)
        elif opcode == _READ_DATA and message.opcode == _READ:
            new = self._take_data(message, frame)
            if new > 0 and frame.ecn != _CONGESTION and not frame.flags & _ECN_ECHO:
                message.uncounted += 1
                if message.uncounted < _every(message, d.congestion) and message.in_flight:
                    self._counters["tma_responses"] += 1
                    return
                new, message.uncounted = message.uncounted, 0
        elif opcode not in (_ACK, _READ_DATA) and frame.length == 1:
            self._counters["tma_responses"] += 1
            self._counters["refused_messages"] += 1
            error = REFUSALS.get(frame.data[0], AccessRefused)
            self._end(d, message)
            message.transfer.part_failed(
                error(TmaOpcode(message.opcode), d.dst, message.address, message.total, message.key)
            )
            self._pump(now, d)
            return
        else:
            new = -1
        if new < 0:
            self._counters["mismatched_response"] += 1
            return
        self._counters["tma_responses"] += 1
        echo = bool(frame.flags & _ECN_ECHO) or (opcode == _READ_DATA and frame.ecn == _CONGESTION)
        if echo:
            self._counters["ecn_echo"] += 1
        if message.timed_block >= 0 and message.timed_block in message.placed:
            d.round_trip.measured(now - message.timed_at, self._least_rto(), self._options.max_rto_s)
            message.timed_block = -1
        d.congestion.bulk -= new * message.cost
        d.congestion.answered(now, echo, max(d.round_trip.rtt, 0.0), new * message.cost)
        if new:
            message.deadline = now + message.timeout_s
        if message.placed.lowest > lowest:
            message.touched = now
        if message.placed.lowest == message.count:
            if opcode == _ACK and frame.offset != message.total:
                self._begin_anew(d, message, frame)
            else:
                self._end(d, message)
                message.transfer.part_done(message.index, None)
        self._pump(now, d)

    def expire(self, now: float) -> float | None:
        """Send again, or give up, what is due; return when something will be due next, or None."""
        due = min((d.due for d in self._destinations.values()), default=float("inf"))
        if now >= due:
            due = float("inf")
            for d in self._destinations.values():
                if now >= d.due:
                    self._expire(now, d)
                due = min(due, d.due)
        return None if due == float("inf") else due

    def moved(self, now: float, dst: int | None, plane: int) -> int:
        """Send, or ask for, anew the blocks that were last on `plane` to `dst` (None: to anybody).

        Return how many went out; those that have no plane left wait for `opened`.
        """
        count = 0
        for d in self._concerned(dst):
            for message in list(d.unfinished.values()):
                missing = message.placed.missing(message.sent)
                lost = {index for index in missing if message.planes[index % BLOCK_WINDOW] == plane}
                if lost:
                    self._want_again(d, message, lost)
            count += self._send_all_again(now, d)
        return count

    def opened(self, now: float, dst: int | None) -> int:
        """Go on with what waited for a plane to `dst` (None: to anybody), if there is one now; return how many blocks
        went out again."""
        count = 0
        for d in self._concerned(dst):
            if self._reachability.planes_to(d.dst):
                count += self._send_all_again(now, d)
                self._pump(now, d)
        return count

    def fail_all(self, error: BaseException) -> None:
        """End every unfinished message with an error."""
        for d in self._destinations.values():
            for message in [*d.unfinished.values(), *d.waiting]:
                if message.number >= 0:
                    self._end(d, message)
                message.transfer.part_failed(error)
            d.waiting.clear()

    # ------------------------------------------------------------------------------------------------------ beginning

    def _submit(
        self, now: float, dst: int, opcode: int, key: int, address: int, view: memoryview, notify: bool,
        timeout_s: float, transfer: Transfer, index: int, patient: bool,
    ) -> None:  # fmt: skip
        d = self._destinations.get(dst)
        if d is None:
            round_trip = RoundTrip(max(self._options.first_rto_s, self._least_rto()))
            d = _Destination(dst, self._first, end_to_end_seed(self._id, dst), self._window_of(dst), round_trip)
            d.headers = tuple(
                oefh(vc=_REQUEST_VC, dst=dst, src=self._id, next=_TMA_NEXT, ecn=self._ecn, f=f)[:-1] for f in (0, 1)
            )
            self._destinations[dst] = d
        cost = self._cost_of(min(len(view), 1 << self._block))
        message = _Message(opcode, key, address, view, notify, self._block, cost, timeout_s, transfer, index, patient)
        message.submitted = now
        if not self._reachability.planes_to(dst):
            given_up = self._given_up(dst)
            if now >= given_up and not patient:
                self._fail(d, message, self._unreachable(now, d, message))
                return
            d.due = min(d.due, max(given_up, now), now + timeout_s)
        d.waiting.append(message)
        self._pump(now, d)

    def _begin(self, d: _Destination) -> bool:
        """Number the next message, if there is one and the window of messages has room for it."""
        if not d.waiting or d.next - d.oldest & _MESSAGE_MASK >= REQUEST_WINDOW:
            return False
        message = d.waiting.popleft()
        message.number = d.next
        message.label = d.label
        d.next = d.next + 1 & _MESSAGE_MASK
        d.label += message.count
        d.unfinished[message.number] = message
        d.sending.append(message)
        return True

    def _begin_anew(self, d: _Destination, message: _Message, ack: Tma) -> None:
        """Believe an ACK alone: all of them together name every block of the message, yet none says complete.

        What a target has placed only grows, so the last of its ACKs would say so, were they all of one target: it has
        restarted meanwhile, and lacks what its predecessor took.
        """
        self._counters["messages_begun_anew"] += 1
        message.placed = Placed()
        message.placed.merge(ack.offset >> message.block, bits_of(ack.data))
        d.congestion.bulk += message.in_flight * message.cost
        message.recover = 0
        message.timed_block = -1
        self._want_again(d, message, set(message.placed.missing(message.count)))

    # -------------------------------------------------------------------------------------------------------- sending

    def _pump(self, now: float, d: _Destination) -> None:
        """Send what the window has room for: of each message first what was lost, then the next blocks."""
        if not (d.sending or d.waiting) or not self._reachability.planes_to(d.dst):
            return
        window = d.congestion
        at = 0
        while True:
            if at == len(d.sending) and not (window.bulk_room(1) and self._begin(d)):
                return
            message = d.sending[at]
            if message.again:
                self._counters["resent_blocks"] += self._send_again(d, message)
            first = message.sent
            if first < message.count:
                room = window.bulk_room(message.cost)
                if not room:
                    return
                end = min(message.count, first + room, message.placed.lowest + BLOCK_WINDOW)
                if end > first:
                    if message.opcode == _READ and _too_few(message, end, window):
                        return
                    self._send_next(now, d, message, end)
            if message.sent == message.count and not message.again:
                del d.sending[at]
            else:  # its own window, or its burst, is used up
                at += 1

    def _send_next(self, now: float, d: _Destination, message: _Message, end: int) -> None:
        """Send, or ask for, the blocks below `end` that were not yet."""
        first = message.sent
        if not message.in_flight:  # its clock starts
            message.touched = now
            message.deadline = now + message.timeout_s
            d.due = min(d.due, now + d.round_trip.rto, message.deadline)
        if message.timed_block < 0:
            message.timed_block = end - 1
            message.timed_at = now
        message.sent = end
        d.congestion.bulk += (end - first) * message.cost
        if message.opcode == _READ:
            for start in range(first, end, READ_BLOCKS):
                count = min(READ_BLOCKS, end - start)
                self._send_read(d, message, start, (1 << count - 1) - 1)
            return
        every = _every(message, d.congestion)
        last = end - 1
        for index in range(first, end):
            self._send_write(d, message, index, index == last or (index - first) % every == every - 1)

    def _send_again(self, d: _Destination, message: _Message) -> int:
        """Send again, or ask again for, some of the blocks that were lost; return how many."""
        again = message.again
        batch: list[int] = []
        while again and len(batch) < _BURST:
            index = again.pop()
            if index not in message.placed:
                batch.append(index)
        if message.opcode == _WRITE:
            for index in batch:
                self._send_write(d, message, index, index == batch[-1])
        elif batch:
            self._send_read(d, message, batch[0], sum(1 << index - batch[0] - 1 for index in batch[1:]))
        return len(batch)

    def _send_all_again(self, now: float, d: _Destination) -> int:
        """Send again all that is to be, if a plane leads there; return how many blocks."""
        if not self._reachability.planes_to(d.dst):
            d.due = min(d.due, self._given_up(d.dst))
            return 0
        count = 0
        for message in [one for one in d.sending if one.again]:
            message.attempts += 1
            message.timed_block = -1
            message.touched = now
            d.due = min(d.due, now + d.round_trip.rto)
            while message.again:
                count += self._send_again(d, message)
            if message.sent == message.count:
                d.sending.remove(message)
        return count

    def _want_again(self, d: _Destination, message: _Message, lost: set[int]) -> None:
        """Let blocks be sent again, beside those that are to be already."""
        message.again = sorted(lost.union(message.again), reverse=True)
        if message not in d.sending:
            d.sending.insert(0, message)

    def _concerned(self, dst: int | None) -> list[_Destination]:
        if dst is None:
            return list(self._destinations.values())
        return [self._destinations[dst]] if dst in self._destinations else []

    def _send_write(self, d: _Destination, message: _Message, index: int, ack_requested: bool) -> None:
        offset = index << message.block
        end = offset + (1 << message.block)
        flags = message.flags | (_ACK_REQ if ack_requested else 0)
        if end >= message.total:
            end = message.total
            flags |= _LAST
        plane = self._send(d, message, index, flags, offset, message.view[offset:end])
        message.planes[index % BLOCK_WINDOW] = plane

    def _send_read(self, d: _Destination, message: _Message, first: int, after: int) -> None:
        """Ask for a block, and those after it whose bits are set (the first after it in bit 0)."""
        plane = self._send(d, message, first, 0, first << message.block, bitmap_of(after))
        blocks = after << 1 | 1
        for distance in range(blocks.bit_length()):
            if blocks >> distance & 1:
                message.planes[(first + distance) % BLOCK_WINDOW] = plane

    def _send(
        self, d: _Destination, message: _Message, index: int, flags: int, offset: int, data: bytes | memoryview
    ) -> int:
        """Send a frame and return the plane that it took."""
        plane, f, entropy = self._paths.way(d.dst, message.label + index, message.attempts)
        packet = tma_packet(
            d.headers[f] + _BYTES[entropy], d.seed, message.opcode, flags, message.block, self._incarnation,
            message.number, message.key, offset, message.total, message.address, data,
        )  # fmt: skip
        self._transmit(plane, packet)
        return plane

    # ------------------------------------------------------------------------------------------------------ receiving

    def _take_ack(self, d: _Destination, message: _Message, frame: Tma) -> int:
        """Return how many blocks an ACK says are placed that were not known to be; -1 if it cannot be right."""
        if frame.offset == message.total:
            lowest = message.count
        elif frame.offset > message.total or frame.offset & (1 << message.block) - 1:
            return -1
        else:
            lowest = frame.offset >> message.block
        if frame.length > BLOCK_WINDOW // 8:
            return -1
        after = bits_of(frame.data)
        if lowest + (after.bit_length() + 1 if after else 0) > message.sent:
            return -1
        new = message.placed.merge(lowest, after)
        if message.recover and message.placed.lowest > message.probe:
            message.again = message.placed.missing(message.recover)[::-1]
            message.recover = 0
            if message.again and message not in d.sending:
                d.sending.insert(0, message)
        return new

    def _take_data(self, message: _Message, frame: Tma) -> int:
        """Place a block that was read; return 1, 0 if it was there already, -1 if it cannot be right."""
        offset = frame.offset
        size = 1 << message.block
        index = offset >> message.block
        if offset & size - 1 or index >= message.sent or frame.length != min(size, message.total - offset):
            return -1
        if index in message.placed:
            self._counters["duplicate_block"] += 1
            return 0
        message.view[offset : offset + frame.length] = frame.data
        message.placed.add(index)
        return 1

    # ---------------------------------------------------------------------------------------------------------- ending

    def _expire(self, now: float, d: _Destination) -> None:
        """Send again the lowest missing block of every message that made no progress, or give the message up."""
        if not self._reachability.planes_to(d.dst):
            self._wait_for_plane(now, d)
            return
        rto = max(d.round_trip.rto, self._least_rto())
        due = float("inf")
        burst = 0
        gave_up = False
        for message in list(d.unfinished.values()):
            if not message.in_flight:  # it waits for others
                continue
            if now >= message.deadline:
                gave_up = True
                self._give_up(d, message)
                continue
            when = message.touched + _patience(rto, message.deadline - message.touched)
            if now >= when:
                if burst == _BURST:
                    due = min(due, now + _BURST_S)
                    continue
                burst += 1
                d.round_trip.expired(now, self._least_rto(), self._options.max_rto_s)
                message.touched = now
                self._try_again(d, message)
                when = now + _patience(d.round_trip.rto, message.deadline - now)
            due = min(due, when, message.deadline)
        d.due = due
        if gave_up:
            for message in [one for one in d.waiting if now - max(one.submitted, d.heard) >= one.timeout_s]:
                d.waiting.remove(message)
                self._fail(d, message, self._timed_out(d, message))
            self._pump(now, d)

    def _wait_for_plane(self, now: float, d: _Destination) -> None:
        """Fail what has waited for a plane long enough."""
        given_up = self._given_up(d.dst)
        d.due = given_up if given_up > now else float("inf")
        for message in [*d.unfinished.values(), *d.waiting]:
            deadline = message.deadline or message.submitted + message.timeout_s
            if now < (deadline if message.patient else min(given_up, deadline)):
                d.due = min(d.due, deadline)
                continue
            if message.number >= 0:
                self._end(d, message)
            else:
                d.waiting.remove(message)
            self._fail(d, message, self._unreachable(now, d, message))

    def _given_up(self, dst: int) -> float:
        """Return when to wait no longer for a plane to a destination to which none leads."""
        return self._reachability.unreachable_since(dst) + self._options.unreachable_s

    def _try_again(self, d: _Destination, message: _Message) -> None:
        message.attempts += 1
        message.timed_block = -1
        if message.opcode == _READ:
            message.again = message.placed.missing(message.sent)[::-1]
            while message.again:
                self._counters["resent_blocks"] += self._send_again(d, message)
            return
        message.probe = message.placed.lowest
        message.recover = message.sent
        message.again.clear()
        self._counters["resent_blocks"] += 1
        self._send_write(d, message, message.probe, True)

    def _give_up(self, d: _Destination, message: _Message) -> None:
        self._end(d, message)
        self._fail(d, message, self._timed_out(d, message))

    def _fail(self, d: _Destination, message: _Message, error: AccessError) -> None:
        name = "unreachable_messages" if isinstance(error, Unreachable) else "timed_out_messages"
        self._counters[name] += 1
        message.transfer.part_failed(error)

    def _unreachable(self, now: float, d: _Destination, message: _Message) -> Unreachable:
        detail = f"no plane leads there ({self._reachability.explain(d.dst, now)})"
        return Unreachable(TmaOpcode(message.opcode), d.dst, message.address, message.total, message.key, detail)

    def _timed_out(self, d: _Destination, message: _Message) -> TmaTimeout:
        detail = (
            f"no progress in {message.timeout_s:.1f} s after {message.placed.count} of {message.count} blocks; "
            f"is GPU {d.dst} running?"
        )
        return TmaTimeout(TmaOpcode(message.opcode), d.dst, message.address, message.total, message.key, detail)

    def _end(self, d: _Destination, message: _Message) -> None:
        """Forget a message that was begun."""
        d.congestion.bulk -= (message.in_flight + message.uncounted) * message.cost
        unfinished = d.unfinished
        del unfinished[message.number]
        if message in d.sending:
            d.sending.remove(message)
        if message.number == d.oldest:
            oldest = message.number
            while oldest != d.next and oldest not in unfinished:
                oldest = oldest + 1 & _MESSAGE_MASK
            d.oldest = oldest


def _too_few(message: _Message, end: int, window: CongestionWindow) -> bool:
    """Tell whether asking for the blocks below `end` can wait for more room: one READ for many rather than for each."""
    return message.in_flight > 0 and end < message.count and end - message.sent < _every(message, window)


def _every(message: _Message, window: CongestionWindow) -> int:
    """Return after how many blocks something is done for all of them at once: an ACK, a READ."""
    return min(_ACK_EVERY, max(1, window.size // message.cost // 4))


def _patience(rto: float, left: float) -> float:
    """Return how long to wait for progress before trying again: less than the RTO where little time is left to try."""
    return min(rto, max(left / 3, 0.01))
