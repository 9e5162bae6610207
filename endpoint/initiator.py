"""The source side of load/store: numbers requests, sends them again until answered, gives up in bounded time.

An initiator does no input or output and never waits: it sends through a function that it is given, and is told what
came (`handle`), what time it is (`expire`), and which ways have ended or opened (`moved`, `opened`). All its methods
are called under one lock.

A request whose way has ended goes out at once on another plane, under the same number: the target's memory of results
makes it take effect once. Where no plane is left it waits for one, for a bounded time.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from typing import Final

from codec.constants import LSU_STATUS_ECN_ECHO, REQUEST_WINDOW, Ecn, LsuOpcode, Vc
from codec.frames import Buffer, Lsu, end_to_end_seed, lsu_packet, oefh, with_entropy
from endpoint.congestion import CongestionWindow
from endpoint.errors import REFUSALS, AccessRefused, LsuTimeout, Unreachable
from endpoint.options import EndpointOptions
from endpoint.paths import Paths
from endpoint.round_trip import RoundTrip
from endpoint.transfer import Transfer

Transmit = Callable[[int, bytes], None]
"""Sends a packet on a plane."""

_REQUEST_MASK: Final = (1 << 32) - 1
_NAK: Final = int(LsuOpcode.NAK)
_LOAD_DATA: Final = int(LsuOpcode.LOAD_DATA)
_ATOMIC_DATA: Final = int(LsuOpcode.ATOMIC_DATA)
_REQUEST_VC: Final = int(Vc.REQUEST)

_NOWHERE: Final = -1
"""In place of a plane, of a request that waits for one."""
_BURST: Final = 16
_BURST_S: Final = 0.002
"""At most so many requests per destination are sent again in so many seconds: what was lost together for want of room
would be lost together again."""

_RESPONSE_OF: Final[dict[int, int]] = {
    LsuOpcode.LOAD: _LOAD_DATA,
    LsuOpcode.STORE: int(LsuOpcode.ACK),
    LsuOpcode.ATOMIC_ADD: _ATOMIC_DATA,
    LsuOpcode.ATOMIC_SWAP: _ATOMIC_DATA,
    LsuOpcode.ATOMIC_CAS: _ATOMIC_DATA,
}


class _Request:
    """An unfinished request."""

    __slots__ = (
        "address", "attempts", "deadline", "due", "first_sent", "index", "key",
        "length", "number", "opcode", "packet", "patient", "plane", "transfer",
    )  # fmt: skip

    def __init__(
        self, number: int, opcode: int, key: int, address: int, length: int, transfer: Transfer, index: int,
        patient: bool,
    ) -> None:  # fmt: skip
        self.number = number
        self.opcode = opcode
        self.key = key
        self.address = address
        self.length = length
        self.transfer = transfer
        self.index = index
        self.patient = patient
        """Waits for a plane until its deadline."""
        self.packet = b""
        self.plane = _NOWHERE
        """On which it was sent last."""
        self.attempts = 0
        self.first_sent = 0.0
        self.deadline = 0.0
        self.due = 0.0
        """When something is to be done about it; timers for other times are of the past."""


class _Destination:
    """The requests to one GPU, and how long its answers take."""

    __slots__ = (
        "burst",
        "burst_end",
        "congestion",
        "dst",
        "next",
        "oldest",
        "round_trip",
        "seed",
        "unfinished",
        "wanted",
    )

    def __init__(self, dst: int, first: int, seed: int, rto: float, most: int) -> None:
        self.congestion = CongestionWindow(most)
        self.dst = dst
        self.seed = seed
        self.next = first
        self.oldest = first
        self.unfinished: dict[int, _Request] = {}
        self.round_trip = RoundTrip(rto)
        self.burst_end = float("-inf")
        self.burst = 0
        self.wanted = False
        """Somebody waits for room in the window."""


class Initiator:
    """The requests of one GPU.

    `counters` gains: `responses`, `resent_requests`, `timed_out_requests`, `late_response` (its request is finished),
    `mismatched_response` (it says something else than the request), `stale_response` (of another incarnation),
    `ecn_echo`, `unreachable_requests` (no plane led there).
    """

    def __init__(
        self,
        gpu_id: int,
        incarnation: int,
        paths: Paths,
        transmit: Transmit,
        counters: Counter[str],
        options: EndpointOptions,
        first_request: int = 1,
        ecn: int = int(Ecn.NOT_CAPABLE),
        lossless_rto_s: float | None = None,
    ) -> None:
        self._id = gpu_id
        self._incarnation = incarnation
        self._paths = paths
        self._reachability = paths.reachability
        self._transmit = transmit
        self._counters = counters
        self._options = options
        self._first = first_request
        self._ecn = ecn
        self._most = options.window
        self._lossless_rto_s = options.min_rto_s if lossless_rto_s is None else lossless_rto_s
        self.least_rto = options.min_rto_s
        """The least seconds after which a request is sent again, as the links are now."""
        self._destinations: dict[int, _Destination] = {}
        self._timers: list[tuple[float, int, _Destination, _Request]] = []
        self._timer_serial = 0
        self.room_made = False
        """Set when a window that somebody waits for has room again; whoever wakes them clears it."""

    def has_room(self, dst: int) -> bool:
        """Tell whether a request to `dst` may be submitted now."""
        d = self._destinations.get(dst)
        return d is None or (d.congestion.has_room and d.next - d.oldest & _REQUEST_MASK < REQUEST_WINDOW)

    def congestion(self, dst: int) -> CongestionWindow:
        """Return the window of a destination, which its RDMA messages share."""
        return self._destination(dst).congestion

    def unfinished_transfers(self, dst: int | None = None) -> set[Transfer]:
        """Return the transfers that have unfinished requests, to one destination or to all."""
        return {
            request.transfer
            for d in self._destinations.values()
            if dst in (None, d.dst)
            for request in d.unfinished.values()
        }

    def limit_per_destination(self, credited: int | None) -> None:
        """Keep at most so many requests in flight to each destination, as the links have credits for them; None: some
        have none, so that the window alone bounds them, and what is lost must be sent again soon.
        """
        most = self._options.window if credited is None else min(self._options.window, credited)
        least = self._options.min_rto_s if credited is None else self._lossless_rto_s
        if least != self.least_rto:
            self.least_rto = least
            for d in self._destinations.values():
                d.round_trip.at_least(least)
        if most != self._most:
            self._most = most
            for d in self._destinations.values():
                d.congestion.limit = most

    def want_room(self, dst: int) -> None:
        """Ask for `room_made` to be set once what `dst` may have in flight is three quarters used at most."""
        self._destinations[dst].wanted = True

    def submit(
        self,
        now: float,
        deadline: float,
        dst: int,
        opcode: int,
        key: int,
        address: int,
        length: int,
        data: Buffer,
        transfer: Transfer,
        index: int,
        patient: bool = False,
    ) -> None:
        """Send a request and complete part `index` of a transfer with its outcome, at `deadline` at the latest.

        There must be room (`has_room`). A `patient` request waits until then for a plane that leads to `dst`, others as
        long as the options say. Times are in seconds of one monotonic clock.
        """
        reachable = bool(self._reachability.planes_to(dst))
        if not (reachable or patient) and now >= self._given_up(dst):
            transfer.part_failed(self._unreachable(now, opcode, dst, address, length, key))
            return
        d = self._destination(dst)
        number = d.next
        request = _Request(number, opcode, key, address, length, transfer, index, patient)
        plane, f, entropy = self._paths.way(dst, number, 0)
        header = oefh(vc=_REQUEST_VC, dst=dst, src=self._id, ecn=self._ecn, f=f, entropy=entropy)
        request.packet = lsu_packet(header, d.seed, opcode, length, self._incarnation, number, key, address, data)
        request.first_sent = now
        request.deadline = deadline
        d.unfinished[number] = request
        d.congestion.requests += 1
        d.next = number + 1 & _REQUEST_MASK
        if not reachable:
            self._wait_for_plane(d, request)
            return
        request.plane = plane
        self._arm(now + _patience(d.round_trip.rto, deadline - now), d, request)
        self._transmit(plane, request.packet)

    def handle(self, now: float, response: Lsu) -> None:
        """Finish the request that a response answers; ignore and count a response that answers none."""
        d = self._destinations.get(response.src)
        request = None if d is None else d.unfinished.get(response.request)
        if response.incarnation != self._incarnation:
            self._counters["stale_response"] += 1
            return
        if d is None or request is None:
            self._counters["late_response"] += 1
            return
        opcode = response.opcode
        data = response.data
        if opcode == _RESPONSE_OF[request.opcode]:
            carries = 0 if opcode not in (_LOAD_DATA, _ATOMIC_DATA) else request.length
        else:
            carries = 0 if opcode == _NAK else -1
        if (
            len(data) != carries
            or response.address != request.address
            or response.key != request.key
            or response.length != request.length
        ):
            self._counters["mismatched_response"] += 1
            return
        self._counters["responses"] += 1
        echo = response.status & LSU_STATUS_ECN_ECHO != 0
        if echo:
            self._counters["ecn_echo"] += 1
        if request.attempts == 0:
            d.round_trip.measured(now - request.first_sent, self.least_rto, self._options.max_rto_s)
        d.congestion.answered(now, echo, max(d.round_trip.rtt, 0.0))
        self._finish(d, request)
        if opcode == _NAK:
            self._counters["refused_requests"] += 1
            error = REFUSALS.get(response.status & 7, AccessRefused)
            request.transfer.part_failed(error(request.opcode, d.dst, request.address, request.length, request.key))
        elif opcode == _LOAD_DATA:
            request.transfer.part_done(request.index, bytes(data))
        elif opcode == _ATOMIC_DATA:
            request.transfer.part_done(request.index, int.from_bytes(data, "little"))
        else:
            request.transfer.part_done(request.index, None)

    def expire(self, now: float) -> float | None:
        """Send again, or give up, what is due; return when something will be due next, or None.

        The time to the next resend doubles while a destination does not answer, until an answer is measured again.
        """
        timers = self._timers
        while timers and (timers[0][0] <= now or timers[0][3].number not in timers[0][2].unfinished):
            due, _, d, request = heapq.heappop(timers)
            if d.unfinished.get(request.number) is not request or due != request.due:
                continue
            if request.plane == _NOWHERE:
                if self._reachability.planes_to(d.dst):
                    self._send_again(now, d, request)
                    continue
                self._finish(d, request)
                request.transfer.part_failed(
                    self._unreachable(now, request.opcode, d.dst, request.address, request.length, request.key)
                )
                continue
            if now >= request.deadline:
                self._counters["timed_out_requests"] += 1
                self._finish(d, request)
                waited = now - request.first_sent
                detail = f"no answer in {waited:.1f} s after {request.attempts + 1} tries; is GPU {d.dst} running?"
                request.transfer.part_failed(
                    LsuTimeout(request.opcode, d.dst, request.address, request.length, request.key, detail)
                )
                continue
            if now >= d.burst_end:
                d.burst_end = now + _BURST_S
                d.burst = 0
            d.burst += 1
            if d.burst > _BURST:
                self._arm(d.burst_end, d, request)
                continue
            d.round_trip.expired(now, self.least_rto, self._options.max_rto_s)
            self._counters["resent_requests"] += 1
            self._send_again(now, d, request)
        return timers[0][0] if timers else None

    def moved(self, now: float, dst: int | None, plane: int) -> int:
        """Send anew what was last sent on `plane` to `dst` (None: to anybody), as nothing comes of it any more.

        Return how many requests were sent; what has no plane left waits for `opened`.
        """
        count = 0
        for d in self._concerned(dst):
            reachable = bool(self._reachability.planes_to(d.dst))
            for request in list(d.unfinished.values()):
                if request.plane != plane:
                    continue
                if reachable:
                    count += 1
                    self._send_again(now, d, request)
                else:
                    self._wait_for_plane(d, request)
        return count

    def opened(self, now: float, dst: int | None) -> int:
        """Send what waited for a plane to `dst` (None: to anybody), if there is one now; return how many requests."""
        count = 0
        for d in self._concerned(dst):
            if self._reachability.planes_to(d.dst):
                for request in list(d.unfinished.values()):
                    if request.plane == _NOWHERE:
                        count += 1
                        self._send_again(now, d, request)
        return count

    def fail_all(self, error: BaseException) -> None:
        """End every unfinished request with an error."""
        for d in self._destinations.values():
            for request in list(d.unfinished.values()):
                self._finish(d, request)
                request.transfer.part_failed(error)

    @property
    def unfinished(self) -> int:
        """How many requests are unfinished, over all destinations."""
        return sum(len(d.unfinished) for d in self._destinations.values())

    def _destination(self, dst: int) -> _Destination:
        d = self._destinations.get(dst)
        if d is None:
            rto = max(self._options.first_rto_s, self.least_rto)
            d = _Destination(dst, self._first, end_to_end_seed(self._id, dst), rto, self._most)
            self._destinations[dst] = d
        return d

    def _concerned(self, dst: int | None) -> list[_Destination]:
        if dst is None:
            return list(self._destinations.values())
        return [self._destinations[dst]] if dst in self._destinations else []

    def _send_again(self, now: float, d: _Destination, request: _Request) -> None:
        """Send a request once more, by the next way."""
        request.attempts += 1
        request.plane, _, entropy = self._paths.way(d.dst, request.number, request.attempts)
        self._arm(now + _patience(d.round_trip.rto, request.deadline - now), d, request)
        self._transmit(request.plane, with_entropy(request.packet, entropy))

    def _wait_for_plane(self, d: _Destination, request: _Request) -> None:
        """Keep a request until a plane leads to its destination, for a bounded time."""
        request.plane = _NOWHERE
        self._arm(request.deadline if request.patient else self._given_up(d.dst), d, request)

    def _given_up(self, dst: int) -> float:
        """Return when to wait no longer for a plane to a destination to which none leads."""
        return self._reachability.unreachable_since(dst) + self._options.unreachable_s

    def _unreachable(self, now: float, opcode: int, dst: int, address: int, length: int, key: int) -> Unreachable:
        self._counters["unreachable_requests"] += 1
        detail = f"no plane leads there ({self._reachability.explain(dst, now)})"
        return Unreachable(opcode, dst, address, length, key, detail)

    def _arm(self, when: float, d: _Destination, request: _Request) -> None:
        self._timer_serial += 1  # breaks ties, so that requests are never compared
        request.due = min(when, request.deadline)
        heapq.heappush(self._timers, (request.due, self._timer_serial, d, request))

    def _finish(self, d: _Destination, request: _Request) -> None:
        unfinished = d.unfinished
        del unfinished[request.number]
        d.congestion.requests -= 1
        if request.number == d.oldest:
            oldest = request.number
            while oldest != d.next and oldest not in unfinished:
                oldest = oldest + 1 & _REQUEST_MASK
            d.oldest = oldest
        if d.wanted and d.congestion.mostly_free and self.has_room(d.dst):
            d.wanted = False
            self.room_made = True


def _patience(rto: float, left: float) -> float:
    """Return how long to wait for an answer before asking again: less than the RTO where little time is left to try."""
    return min(rto, max(left / 3, 0.01))
