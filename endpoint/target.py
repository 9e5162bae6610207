"""The target side of load/store: executes each request exactly once and remembers the results.

A target does no input or output: `handle` takes a request and returns the response packet, or None.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import Final

from codec.constants import ATOMIC_BYTES, LSU_STATUS_ECN_ECHO, REQUEST_WINDOW, Ecn, LsuOpcode, LsuStatus, Vc
from codec.frames import Lsu, end_to_end_seed, lsu_packet, oefh, with_entropy
from endpoint.memory import Memory, Region

_WORD: Final = struct.Struct("<Q")  # little-endian in memory as on the wire
_TWO_WORDS: Final = struct.Struct("<QQ")
_WORD_MASK: Final = (1 << 64) - 1
_REQUEST_MASK: Final = (1 << 32) - 1
_SLOT_MASK: Final = REQUEST_WINDOW - 1

_LOAD: Final = int(LsuOpcode.LOAD)
_STORE: Final = int(LsuOpcode.STORE)
_ADD: Final = int(LsuOpcode.ATOMIC_ADD)
_SWAP: Final = int(LsuOpcode.ATOMIC_SWAP)
_CAS: Final = int(LsuOpcode.ATOMIC_CAS)
_LOAD_DATA: Final = int(LsuOpcode.LOAD_DATA)
_ACK: Final = int(LsuOpcode.ACK)
_ATOMIC_DATA: Final = int(LsuOpcode.ATOMIC_DATA)
_NAK: Final = int(LsuOpcode.NAK)
_RESPONSE_VC: Final = int(Vc.RESPONSE)
_CONGESTION: Final = int(Ecn.CONGESTION_EXPERIENCED)


class _Source:
    """What a target knows of one source: its incarnation and its last 1,024 results, each at its number mod 1,024."""

    __slots__ = ("incarnation", "newest", "numbers", "results", "seed")

    def __init__(self, incarnation: int, first: int, seed: int) -> None:
        self.seed = seed
        self.reset(incarnation, first)

    def reset(self, incarnation: int, first: int) -> None:
        self.incarnation = incarnation
        self.newest = first
        self.numbers: list[int | None] = [None] * REQUEST_WINDOW
        self.results: list[bytes] = [b""] * REQUEST_WINDOW


def incarnation_is_newer(candidate: int, known: int) -> bool:
    """Tell whether a 16-bit incarnation comes after another one, compared modularly."""
    return 0 < (candidate - known & 0xFFFF) < 0x8000


class Target:
    """The memory of one GPU as the target of load/store requests.

    `counters` gains one count per request under `requests`, and under the name of what else happened to it:
    `duplicate_request`, `too_old_request`, `stale_incarnation`, `source_restarted`, `refused_<reason>`.
    """

    def __init__(self, gpu_id: int, memory: Memory, counters: Counter[str]) -> None:
        self._id = gpu_id
        self._memory = memory
        self._counters = counters
        self._sources: dict[int, _Source] = {}
        self.touched = False
        """Set when a region that has watchers was written; whoever wakes them clears it."""

    def handle(self, request: Lsu) -> bytes | None:
        """Execute a request whose end-to-end CRC holds, unless it was executed before; return the response packet.

        None: the request must not be answered, as it is of a dead incarnation or older than what is remembered.
        """
        source = self._sources.get(request.src)
        number = request.request
        if source is None:
            source = _Source(request.incarnation, number, end_to_end_seed(self._id, request.src))
            self._sources[request.src] = source
        elif request.incarnation != source.incarnation:
            if not incarnation_is_newer(request.incarnation, source.incarnation):
                self._counters["stale_incarnation"] += 1
                return None
            self._counters["source_restarted"] += 1
            source.reset(request.incarnation, number)
        age = source.newest - number & _REQUEST_MASK
        slot = number & _SLOT_MASK
        if age < 0x80000000:
            if age >= REQUEST_WINDOW:
                self._counters["too_old_request"] += 1
                return None
            if source.numbers[slot] == number:
                self._counters["duplicate_request"] += 1
                return with_entropy(source.results[slot], request.entropy)
        else:
            source.newest = number
        self._counters["requests"] += 1
        response = self._execute(request, source.seed)
        source.numbers[slot] = number
        source.results[slot] = response
        return response

    def _execute(self, r: Lsu, seed: int) -> bytes:
        opcode = r.opcode
        refusal = LsuStatus.OK
        region: Region | None = None
        if opcode == _LOAD:
            expected = 0
        elif opcode == _STORE:
            expected = r.length
        elif opcode in (_ADD, _SWAP, _CAS):
            expected = 2 * ATOMIC_BYTES if opcode == _CAS else ATOMIC_BYTES
            if r.length != ATOMIC_BYTES:
                refusal = LsuStatus.BAD_LENGTH
        else:
            expected = len(r.data)
            refusal = LsuStatus.BAD_OPCODE
        if not refusal:
            region = self._memory.get(r.key)
            if len(r.data) != expected:
                refusal = LsuStatus.BAD_LENGTH
            elif region is None:
                refusal = LsuStatus.BAD_KEY
            elif opcode >= _ADD and r.address % ATOMIC_BYTES:
                refusal = LsuStatus.MISALIGNED
            elif not (region.base <= r.address and r.address + r.length <= region.end):
                refusal = LsuStatus.OUT_OF_RANGE
        if refusal or region is None:
            self._counters[f"refused_{refusal.name.lower()}"] += 1
            return self._response(r, seed, _NAK, b"", int(refusal))
        offset = r.address - region.base
        view = region.view
        if opcode == _LOAD:
            return self._response(r, seed, _LOAD_DATA, view[offset : offset + r.length])
        if region.watchers:
            self.touched = True
        if opcode == _STORE:
            view[offset : offset + r.length] = r.data
            return self._response(r, seed, _ACK)
        (old,) = _WORD.unpack_from(view, offset)
        if opcode == _ADD:
            (value,) = _WORD.unpack(r.data)
            _WORD.pack_into(view, offset, old + value & _WORD_MASK)
        elif opcode == _SWAP:
            view[offset : offset + ATOMIC_BYTES] = r.data
        else:
            compare, swap = _TWO_WORDS.unpack(r.data)
            if old == compare:
                _WORD.pack_into(view, offset, swap)
        return self._response(r, seed, _ATOMIC_DATA, _WORD.pack(old))

    def _response(self, r: Lsu, seed: int, opcode: int, data: bytes | memoryview = b"", status: int = 0) -> bytes:
        if r.ecn == _CONGESTION:
            status |= LSU_STATUS_ECN_ECHO
        header = oefh(vc=_RESPONSE_VC, dst=r.src, src=self._id, f=r.f, entropy=r.entropy)
        return lsu_packet(header, seed, opcode, r.length, r.incarnation, r.request, r.key, r.address, data, status)
