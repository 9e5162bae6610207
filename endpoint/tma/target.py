"""The target side of RDMA: places each block of a message once, wherever and whenever it comes, and answers reads.

A target does no input or output: `handle` takes a request and returns what is to be sent in answer. Of a message that
is half received it keeps which blocks are placed, never their bytes; of one that is complete or refused, that it is. A
read leaves no trace: it is answered as often as it is asked.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from codec.constants import (
    BLOCK_WINDOW,
    READ_BLOCKS,
    REQUEST_WINDOW,
    TMA_MAX_BLOCK,
    TMA_MIN_BLOCK,
    Ecn,
    LsuStatus,
    Next,
    TmaFlag,
    TmaOpcode,
    Vc,
)
from codec.frames import Tma, end_to_end_seed, oefh, tma_packet
from endpoint.memory import Memory
from endpoint.target import incarnation_is_newer
from endpoint.tma.blocks import Placed, bits_of, block_count
from endpoint.tma.notifications import Notification, Notifications

_MESSAGE_MASK: Final = (1 << 32) - 1
_SLOT_MASK: Final = REQUEST_WINDOW - 1

_WRITE: Final = int(TmaOpcode.WRITE)
_READ: Final = int(TmaOpcode.READ)
_READ_DATA: Final = int(TmaOpcode.READ_DATA)
_ACK: Final = int(TmaOpcode.ACK)
_NAK: Final = int(TmaOpcode.NAK)
_LAST: Final = int(TmaFlag.LAST)
_ACK_REQ: Final = int(TmaFlag.ACK_REQ)
_NOTIFY: Final = int(TmaFlag.NOTIFY)
_ECN_ECHO: Final = int(TmaFlag.ECN_ECHO)
_RESPONSE_VC: Final = int(Vc.RESPONSE)
_TMA_NEXT: Final = int(Next.TMA)
_CONGESTION: Final = int(Ecn.CONGESTION_EXPERIENCED)

Answer = bytes | list[bytes] | None
"""One packet, several (READ_DATA), or none."""


class _Message:
    """A message that is half received."""

    __slots__ = ("congested", "form", "left", "owed", "placed")

    def __init__(self, form: tuple[int, int, int, int, int], count: int) -> None:
        self.form = form
        """Key, address, total, block and the NOTIFY flag, which all its frames repeat."""
        self.left = count
        """Blocks that are missing."""
        self.placed = Placed()
        self.owed = False
        """An ACK was asked for while blocks were missing: another one goes out when they are there."""
        self.congested = False
        """A frame met congestion since the last ACK."""


class _Source:
    """What a target knows of one source: its incarnation, and its last 1,024 messages, each at its number mod 1,024.

    A message is half received (_Message), complete (None) or refused (the reason).
    """

    __slots__ = ("incarnation", "messages", "newest", "numbers", "seed")

    def __init__(self, incarnation: int, first: int, seed: int) -> None:
        self.seed = seed
        self.reset(incarnation, first)

    def reset(self, incarnation: int, first: int) -> None:
        self.incarnation = incarnation
        self.newest = first
        self.numbers: list[int | None] = [None] * REQUEST_WINDOW
        self.messages: list[_Message | LsuStatus | None] = [None] * REQUEST_WINDOW


class TmaTarget:
    """The memory of one GPU as the target of RDMA.

    `counters` gains: `messages` (completed writes), `reads` (READs answered), `refused_<reason>` (NAKs of new
    messages), `duplicate_message` (frames of messages that are complete), `duplicate_block`, `too_old_message`,
    `mismatched_message` (a frame contradicts those before it), `block_too_far`, `notifications_full`,
    `stale_incarnation`, `source_restarted`.
    """

    def __init__(self, gpu_id: int, memory: Memory, notifications: Notifications, counters: Counter[str]) -> None:
        self._id = gpu_id
        self._memory = memory
        self._notifications = notifications
        self._counters = counters
        self._sources: dict[int, _Source] = {}
        self.touched = False
        """Set when a region that has watchers was written; whoever wakes them clears it."""

    def handle(self, frame: Tma) -> Answer:
        """Act on a request whose end-to-end CRC holds; return what is to be sent in answer."""
        source = self._sources.get(frame.src)
        number = frame.message
        if source is None:
            source = _Source(frame.incarnation, number, end_to_end_seed(self._id, frame.src))
            self._sources[frame.src] = source
        elif frame.incarnation != source.incarnation:
            if not incarnation_is_newer(frame.incarnation, source.incarnation):
                self._counters["stale_incarnation"] += 1
                return None
            self._counters["source_restarted"] += 1
            source.reset(frame.incarnation, number)
        if frame.opcode == _READ:
            return self._read(source, frame)
        if frame.opcode != _WRITE:
            return self._nak(source, frame, LsuStatus.BAD_OPCODE, count=True)
        age = source.newest - number & _MESSAGE_MASK
        slot = number & _SLOT_MASK
        if source.numbers[slot] == number:
            message = source.messages[slot]
            if not isinstance(message, _Message):
                self._counters["duplicate_message"] += 1
                return self._end(source, frame, message)
            form = frame.key, frame.address, frame.total, frame.block, frame.flags & _NOTIFY
            if message.form != form or _malformed(frame):
                self._counters["mismatched_message"] += 1
                return None
        else:
            if age < 0x80000000:
                if age >= REQUEST_WINDOW:
                    self._counters["too_old_message"] += 1
                    return None
            else:
                source.newest = number
            if _malformed(frame):
                return self._refuse(source, frame, LsuStatus.BAD_LENGTH)
            form = frame.key, frame.address, frame.total, frame.block, frame.flags & _NOTIFY
            message = _Message(form, block_count(frame.total, frame.block))
            source.numbers[slot] = number
            source.messages[slot] = message
        return self._place(source, frame, message)

    def _place(self, source: _Source, frame: Tma, message: _Message) -> Answer:
        """Write a block to memory, unless it is there already."""
        region = self._memory.get(frame.key)  # anew for every block: it may be gone
        if region is None:
            return self._refuse(source, frame, LsuStatus.BAD_KEY)
        if not (region.base <= frame.address and frame.address + frame.total <= region.end):
            return self._refuse(source, frame, LsuStatus.OUT_OF_RANGE)
        placed = message.placed
        index = frame.offset >> frame.block
        if frame.ecn == _CONGESTION:
            message.congested = True
        if index in placed:
            self._counters["duplicate_block"] += 1
        elif index - placed.lowest >= BLOCK_WINDOW:
            self._counters["block_too_far"] += 1
            return None
        else:
            message.left -= 1
            if not message.left and frame.flags & _NOTIFY:
                if self._notifications.full:  # it comes again, and so does the source's patience to an end
                    self._counters["notifications_full"] += 1
                    message.left = 1
                    return None
                self._notifications.add(Notification(frame.src, frame.key, frame.address, frame.total))
            if frame.length:
                start = frame.address - region.base + frame.offset
                region.view[start : start + frame.length] = frame.data
                if region.watchers:
                    self.touched = True
            placed.add(index)
            if not message.left:
                self._counters["messages"] += 1
                source.messages[frame.message & _SLOT_MASK] = None
                return self._acknowledge(source, frame, message, frame.total, b"")
        if frame.flags & _ACK_REQ or (message.owed and not placed.ahead):
            message.owed = bool(placed.ahead)
            return self._acknowledge(source, frame, message, placed.lowest << frame.block, placed.after_lowest())
        return None

    def _read(self, source: _Source, frame: Tma) -> Answer:
        """Return the blocks that a READ asks for: the one at its offset, and those after it in its bitmap."""
        total, block, offset = frame.total, frame.block, frame.offset
        size = 1 << block
        if (
            not TMA_MIN_BLOCK <= block <= TMA_MAX_BLOCK
            or offset >= total
            or offset & size - 1
            or frame.length != len(frame.data)
            or frame.length > BLOCK_WINDOW // 8
        ):
            return self._nak(source, frame, LsuStatus.BAD_LENGTH, count=True)
        wanted = bits_of(frame.data) << 1 | 1
        if wanted.bit_count() > READ_BLOCKS or offset + (wanted.bit_length() - 1 << block) >= total:
            return self._nak(source, frame, LsuStatus.BAD_LENGTH, count=True)
        region = self._memory.get(frame.key)
        if region is None:
            return self._nak(source, frame, LsuStatus.BAD_KEY, count=True)
        if not (region.base <= frame.address and frame.address + total <= region.end):
            return self._nak(source, frame, LsuStatus.OUT_OF_RANGE, count=True)
        self._counters["reads"] += 1
        start = frame.address - region.base
        header = self._header(frame)
        congested = _ECN_ECHO if frame.ecn == _CONGESTION else 0
        answers = []
        while wanted:
            if wanted & 1:
                end = min(offset + size, total)
                flags = congested | (_LAST if end == total else 0)
                data = region.view[start + offset : start + end]
                answers.append(
                    tma_packet(
                        header, source.seed, _READ_DATA, flags, block, frame.incarnation, frame.message, frame.key,
                        offset, total, frame.address, data,
                    )
                )  # fmt: skip
            wanted >>= 1
            offset += size
        return answers

    def _refuse(self, source: _Source, frame: Tma, reason: LsuStatus) -> bytes:
        """Refuse a message, now and whenever a frame of it comes."""
        slot = frame.message & _SLOT_MASK
        source.numbers[slot] = frame.message
        source.messages[slot] = reason
        return self._nak(source, frame, reason, count=True)

    def _end(self, source: _Source, frame: Tma, reason: LsuStatus | None) -> bytes:
        """Say again how a message ended."""
        if reason is None:
            return self._answer(source, frame, _ACK, 0, frame.total)
        return self._nak(source, frame, reason, count=False)

    def _acknowledge(self, source: _Source, frame: Tma, message: _Message, offset: int, bitmap: bytes) -> bytes:
        congested = message.congested
        message.congested = False
        return self._answer(source, frame, _ACK, _ECN_ECHO if congested else 0, offset, bitmap)

    def _nak(self, source: _Source, frame: Tma, reason: LsuStatus, *, count: bool) -> bytes:
        if count:
            self._counters[f"refused_{reason.name.lower()}"] += 1
        return self._answer(source, frame, _NAK, 0, frame.offset, bytes((reason,)))

    def _answer(self, source: _Source, f: Tma, opcode: int, flags: int, offset: int, data: bytes = b"") -> bytes:
        return tma_packet(
            self._header(f), source.seed, opcode, flags, f.block, f.incarnation, f.message, f.key, offset, f.total,
            f.address, data,
        )  # fmt: skip

    def _header(self, frame: Tma) -> bytes:
        return oefh(
            vc=_RESPONSE_VC, dst=frame.src, src=self._id, next=_TMA_NEXT, f=frame.f, entropy=frame.entropy,
        )  # fmt: skip


def _malformed(frame: Tma) -> bool:
    """Tell whether a WRITE's block is none of its message's."""
    size = 1 << frame.block
    return (
        not TMA_MIN_BLOCK <= frame.block <= TMA_MAX_BLOCK
        or frame.offset & size - 1 != 0
        or frame.length != len(frame.data)
        or frame.length != min(size, frame.total - frame.offset)
        or (not frame.length and frame.total > 0)
    )
