"""Messages between the GPUs of a tenant, through slots that are never overwritten before they were read.

Every GPU has a scratch region under a reserved key. In it each other GPU has a mailbox of `SLOTS` slots, which it fills
in turn by RDMA writes with notification; a message is one chunk or several, a slot each. The reader says what it has
read by writes of no bytes, half a mailbox at a time: while it reads one half, the other one is filled (double
buffering). Whoever is ahead waits for such a word; so a slow GPU holds up those that send to it and nobody else's data.

Chunks of a source may be completed in any order, as they travel over several planes. Their slots say which they are: a
slot holds one unread chunk at most.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from endpoint.errors import AccessError, CollectiveError, CollectiveMismatch, CollectiveTimeout, NotificationTimeout
from endpoint.memory import SCRATCH_KEY, Region
from endpoint.transfer import Transfer

Bytes = npt.NDArray[np.uint8]

SLOTS: Final = 4
CHUNK_BYTES: Final = 1 << 16
"""Payload of a chunk; a multiple of the size of every number, so that none is cut in two."""
MAX_GROUPS: Final = 64
"""Different groups that one GPU may be in."""

_HEADER: Final = struct.Struct("<IIQ")
"""In front of each chunk: which call it belongs to (its fingerprint, its number in the group), bytes of the message."""
_SLOT_BYTES: Final = _HEADER.size + CHUNK_BYTES
_BOARD: Final = np.dtype([("group", "<u8"), ("begun", "<u8")])
_BOARD_BYTES: Final = MAX_GROUPS * _BOARD.itemsize
_TOLD_AT_ONCE: Final = SLOTS // 2
_NOTHING: Final = b""
_LOOK_S: Final = 0.25
"""So often a GPU that waits looks whether one of its own writes has failed."""
_QUESTION_S: Final = 1.0
"""So long others have to say how far they are, when a collective has failed."""


def scratch_bytes(gpus: int) -> int:
    """Return the size of the scratch region of a GPU in a tenant of so many. What is never used takes no memory."""
    return _BOARD_BYTES + gpus * SLOTS * _SLOT_BYTES


class Transport(Protocol):
    """What mailboxes need of a GPU; see `endpoint.Gpu`."""

    def write_async(
        self, dst: int, address: int, data: bytes | bytearray, key: int, *, notify: bool, timeout_s: float
    ) -> Transfer[None]: ...

    def wait_notification(self, src: int | None, key: int | None, timeout_s: float) -> Any: ...

    def load_async(self, dst: int, address: int, length: int, key: int) -> Transfer[bytes]: ...


class Sink(Protocol):
    """Where the bytes of a message go."""

    def begin(self, length: int) -> str | None:
        """Take note of the message's length; return what is wrong with it, if anything is."""

    def take(self, offset: int, data: Bytes) -> None:
        """Take some of its bytes; `data` is only valid during the call."""


class Label(Protocol):
    """The call that messages belong to."""

    name: str
    number: int
    fingerprint: int
    timeout_s: float

    def timed_out(self, waiting_for: set[int]) -> CollectiveTimeout: ...


class _Mailbox:
    """What one GPU knows of the mailboxes between itself and another one."""

    __slots__ = ("filled", "read", "sent", "told", "untold")

    def __init__(self) -> None:
        self.sent = 0
        """Chunks written to the other one."""
        self.told = 0
        """Of these, those that it has said to have read."""
        self.read = 0
        """Chunks of the other one that were read here."""
        self.untold = 0
        """Of these, those that it has not been told of."""
        self.filled: dict[int, int] = {}
        """Slots with unread chunks, each with their bytes."""


class _Outgoing:
    """A message to be sent."""

    __slots__ = ("begun", "data", "offset")

    def __init__(self, data: Bytes) -> None:
        self.data = data
        self.offset = 0
        self.begun = False


class _Incoming:
    """A message to be received."""

    __slots__ = ("length", "offset", "sink")

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.offset = 0
        self.length: int | None = None


class Mailboxes:
    """The mailboxes of one GPU. `ids` are all GPUs of the tenant, in the same order everywhere.

    One call at a time; a call that fails leaves messages on their way that nobody will read, so that all later ones are
    refused.
    """

    def __init__(self, transport: Transport, region: Region, gpu_id: int, ids: Sequence[int]) -> None:
        self._transport = transport
        self._region = region
        self._id = gpu_id
        self._index = {other: index for index, other in enumerate(ids)}
        self._mailboxes = {other: _Mailbox() for other in ids if other != gpu_id}
        self._unfinished: list[tuple[int, Transfer[None]]] = []
        self._board = region.array[:_BOARD_BYTES].view(_BOARD)
        self._places: dict[int, int] = {}
        self._busy = threading.Lock()
        self._broken: BaseException | None = None

    # ------------------------------------------------------------------------------------------------------- calls

    def enter(self, name: str) -> None:
        """Begin a call. Raises CollectiveError when another one is under way, or an earlier one has failed."""
        if not self._busy.acquire(blocking=False):
            raise CollectiveError(f"{name}: another thread of GPU {self._id} is in a collective; use one thread")
        if self._broken is not None:
            self._busy.release()
            raise CollectiveError(
                f"{name}: an earlier collective of GPU {self._id} failed, so that the GPUs are out of step; end the "
                f"program. It was: {self._broken}"
            ) from self._broken

    def leave(self, error: BaseException | None) -> None:
        """End a call; an error ends all."""
        if error is not None:
            self._broken = error
        self._busy.release()

    def announce(self, group: int, begun: int) -> None:
        """Let others see how many collectives of a group this GPU has begun."""
        place = self._places.setdefault(group, len(self._places))
        self._board[place] = group, begun

    def has_room_for(self, group: int) -> bool:
        """Tell whether a group can be announced: MAX_GROUPS different ones can."""
        return group in self._places or len(self._places) < MAX_GROUPS

    def begun_by(self, group: int, others: Sequence[int]) -> dict[int, int | None]:
        """Ask other GPUs how many collectives of a group they have begun (None: no answer within a second)."""
        asked = {other: self._transport.load_async(other, 0, _BOARD_BYTES, SCRATCH_KEY) for other in others}
        deadline = time.monotonic() + _QUESTION_S
        begun: dict[int, int | None] = {}
        for other, transfer in asked.items():
            answered = transfer.wait(max(0.0, deadline - time.monotonic())) and not transfer.failed
            begun[other] = None
            if answered:
                board = np.frombuffer(transfer.result(), _BOARD)
                begun[other] = int(board["begun"][board["group"] == group].sum())
        return begun

    # ---------------------------------------------------------------------------------------------------- messages

    def exchange(self, call: Label, sends: Mapping[int, Bytes], receives: Mapping[int, Sink]) -> None:
        """Send one message to each of some GPUs and receive one from each of some; return when all of it is done.

        What was sent may be changed afterwards: it was copied. Raises CollectiveTimeout when nothing moves for as long
        as the call allows, CollectiveMismatch when somebody sends what belongs to another call.
        """
        outgoing = {dst: _Outgoing(data) for dst, data in sends.items()}
        incoming = {src: _Incoming(sink) for src, sink in receives.items()}
        deadline = time.monotonic() + call.timeout_s
        while True:
            moved = self._send(call, outgoing)
            moved |= self._take(call, incoming)
            if not outgoing and not incoming:
                return
            if moved:
                deadline = time.monotonic() + call.timeout_s
            self._forget_finished(call)
            self._listen(call, deadline, {*outgoing, *incoming})

    def settle(self, call: Label) -> None:
        """Wait until all that was sent has arrived. Raises CollectiveTimeout."""
        while self._unfinished:
            self._unfinished[0][1].wait(call.timeout_s)
            self._forget_finished(call)

    def _send(self, call: Label, outgoing: dict[int, _Outgoing]) -> bool:
        """Fill the slots that are free; tell whether there were any."""
        moved = False
        for dst, message in list(outgoing.items()):
            mailbox = self._mailboxes[dst]
            while mailbox.sent - mailbox.told < SLOTS:
                end = min(message.offset + CHUNK_BYTES, len(message.data))
                chunk = bytearray(_HEADER.size + end - message.offset)
                _HEADER.pack_into(chunk, 0, call.fingerprint, call.number, len(message.data))
                chunk[_HEADER.size :] = message.data[message.offset : end].data
                address = self._address(self._id, mailbox.sent)
                transfer = self._transport.write_async(
                    dst, address, chunk, SCRATCH_KEY, notify=True, timeout_s=call.timeout_s
                )
                self._unfinished.append((dst, transfer))
                mailbox.sent += 1
                message.offset = end
                moved = True
                if end == len(message.data):
                    del outgoing[dst]
                    break
        return moved

    def _take(self, call: Label, incoming: dict[int, _Incoming]) -> bool:
        """Read the chunks that have come; tell whether there were any."""
        moved = False
        for src, message in list(incoming.items()):
            mailbox = self._mailboxes[src]
            while (size := mailbox.filled.pop(mailbox.read % SLOTS, None)) is not None:
                moved = True
                self._read(call, src, mailbox, message, size)
                if message.offset == message.length:
                    del incoming[src]
                    break
        return moved

    def _read(self, call: Label, src: int, mailbox: _Mailbox, message: _Incoming, size: int) -> None:
        """Read the next chunk of a message, and say so when half a mailbox was read."""
        start = self._address(src, mailbox.read)
        chunk = self._region.array[start : start + size]
        fingerprint, number, length = _HEADER.unpack_from(self._region.view, start)
        if (fingerprint, number) != (call.fingerprint, call.number):
            raise CollectiveMismatch(
                f"{call.name}: GPU {src} is in another call. All GPUs of a group call the same operations in the same "
                f"order, with the same type, shape, operator and algorithm"
            )
        if message.length is None:
            message.length = length
            wrong = message.sink.begin(length)
            if wrong is not None:
                raise CollectiveMismatch(f"{call.name}: GPU {src} {wrong}")
        if size > _HEADER.size:
            message.sink.take(message.offset, chunk[_HEADER.size :])
        message.offset += size - _HEADER.size
        mailbox.read += 1
        mailbox.untold += 1
        if mailbox.untold == _TOLD_AT_ONCE:
            mailbox.untold = 0
            # Nobody waits for it here: who does not get it sends nothing more and is missed for that.
            self._transport.write_async(src, 0, _NOTHING, SCRATCH_KEY, notify=True, timeout_s=call.timeout_s)

    def _listen(self, call: Label, deadline: float, waiting_for: set[int]) -> None:
        """Wait until something comes, or for a moment, and take note of all that has come."""
        patience = min(_LOOK_S, deadline - time.monotonic())
        if patience <= 0:
            raise call.timed_out(waiting_for)
        try:
            notification = self._transport.wait_notification(None, SCRATCH_KEY, patience)
        except NotificationTimeout:
            return
        src, _, address, length = notification
        mailbox = self._mailboxes.get(src)
        if mailbox is None:
            return  # of no GPU of this tenant: the switches let none such through
        if not length:
            mailbox.told += _TOLD_AT_ONCE
        else:
            slot, odd = divmod(address - self._address(src, 0), _SLOT_BYTES)
            if odd or not 0 <= slot < SLOTS or not _HEADER.size <= length <= _SLOT_BYTES:
                raise CollectiveMismatch(
                    f"{call.name}: GPU {src} wrote {length} bytes at {address:#x}, which is no slot"
                )
            mailbox.filled[slot] = length

    def _forget_finished(self, call: Label) -> None:
        """Let go of the writes that are done. Raises CollectiveTimeout when one has failed."""
        unfinished = []
        for dst, transfer in self._unfinished:
            if transfer.failed:
                error = transfer.exception(0) if transfer.done() else None
                if error is not None and not isinstance(error, AccessError):
                    raise error
                raise call.timed_out({dst}) from error
            if not transfer.done():
                unfinished.append((dst, transfer))
        self._unfinished = unfinished

    def _address(self, src: int, chunk: int) -> int:
        """Return where a source's chunk lies, in the scratch region of whoever gets it."""
        return _BOARD_BYTES + (self._index[src] * SLOTS + chunk % SLOTS) * _SLOT_BYTES
