"""Moves a GPU's packets: one thread that waits for all ports, answers requests and completes transfers.

Everything that the thread and the callers share (initiator, target, links) is touched under `lock`. Callers send in
their own thread, which saves a wake-up per request. A lock is free for whoever comes first, and a thread that gives
it back and takes it again at once is always first: under a flood of frames the receive thread would keep callers out
for hundreds of milliseconds. So a caller holds `callers` while it waits for `lock` and has it, and the receive thread
passes through `callers` before it takes `lock` again. Both are plain locks, taken by `with` only: a caller that is
interrupted (Ctrl-C) leaves neither held.
"""

from __future__ import annotations

import math
import os
import select
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from codec.constants import MAX_GPU_ID, LsuOpcode, Next, Vc
from codec.frames import Buffer, FrameError, Lsu, Tma, parse_lsu, parse_tma
from endpoint.carrier import Carriers
from endpoint.errors import ClosedError
from endpoint.failover import Failover
from endpoint.impairments import ImpairedPort
from endpoint.initiator import Initiator
from endpoint.link import LinkLayer
from endpoint.memory import Region
from endpoint.port import Port
from endpoint.target import Target
from endpoint.tma.target import Answer
from endpoint.tma.unit import TMA_RESPONSES, TmaUnit
from endpoint.transfer import Transfer
from endpoint.waiters import Waiters

_BATCH: Final = 32
"""Requests sent by one caller before the others get their turn."""
_TAKEN: Final = 8
"""Frames taken from one port before the other ports, and the states of the links, get their turn: some 0.5 ms."""
_SWITCH_INTERVAL_S: Final = 0.0005
"""So long at most the receive thread waits for a program that computes in Python, in the whole process; Python's own
5 ms would be most of the time that it takes to act on an event."""
_OVERSLEPT_S: Final = 0.005
"""Time overslept that a GPU with a service time makes up for."""
_TICK_S: Final = 0.02
"""Longest sleep: how late a time-out may be noticed."""
_LOOK_S: Final = 0.01
"""So often the carriers are looked at, though the kernel tells of no change: it may tell late."""
_LSU: Final = int(Next.LSU)
_EVENT: Final = int(Next.EVENT)
_TMA: Final = int(Next.TMA)
_CONTROL_VC: Final = int(Vc.CONTROL)
_KNOWN_NEXT: Final = frozenset(int(value) for value in Next)
_FIRST_RESPONSE: Final = int(LsuOpcode.LOAD_DATA) & 8
_RESPONSES: Final = frozenset({LsuOpcode.LOAD_DATA, LsuOpcode.ACK, LsuOpcode.ATOMIC_DATA, LsuOpcode.NAK})

Operation = tuple[int, int, int, int, Buffer]
"""Opcode, key, address, length in bytes, data."""


class Engine:
    """The receive thread of one GPU, and the way in for its callers.

    `counters` gains `drop_<reason>` for every packet that is not for this GPU or cannot be believed: truncated,
    unknown_version, unknown_next, unsupported_next, bad_end_to_end_crc, wrong_destination, reserved_source,
    reserved_vc, unknown_opcode.
    """

    def __init__(
        self,
        gpu_id: int,
        ports: Mapping[int, Port],
        links: Mapping[int, LinkLayer],
        target: Target,
        failover: Failover,
        carriers: Carriers,
        counters: Counter[str],
        service_s: float = 0.0,
    ) -> None:
        self._id = gpu_id
        self._ports = dict(ports)
        self._links = dict(links)
        self._target = target
        self._failover = failover
        self._carriers = carriers
        self._next_look = 0.0
        self._counters = counters
        self._service_s = service_s
        self._free_at = 0.0
        self._batch = 1 if service_s else _TAKEN
        self.callers = threading.Lock()
        self.lock = threading.Lock()
        self._room = Waiters()
        self._written = Waiters()
        self._initiator: Initiator
        self._tma: TmaUnit
        self._stopping = False
        self._failure: BaseException | None = None
        self._last_request = 0.0
        self._polled: dict[int, tuple[int, Port, LinkLayer]] = {}
        """Plane, port and link of each descriptor."""
        self._urgent = {carriers.fileno()}
        """Those that tell of dead links: they come before data."""
        self._impaired: dict[int, ImpairedPort] = {}
        self._wake: int
        self._epoll: select.epoll
        self._thread = threading.Thread(target=self._run, name=f"gpu-{gpu_id}", daemon=True)

    def start(self, initiator: Initiator, tma: TmaUnit) -> None:
        """Begin to receive."""
        self._initiator = initiator
        self._tma = tma
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_INTERVAL_S))
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll = select.epoll()
        self._epoll.register(self._wake, select.EPOLLIN)
        self._epoll.register(self._carriers.fileno(), select.EPOLLIN)
        for plane, port in self._ports.items():
            self._urgent.add(port.filenos()[-1])
            for descriptor in port.filenos():
                self._epoll.register(descriptor, select.EPOLLIN)
                self._polled[descriptor] = plane, port, self._links[plane]
            if isinstance(port, ImpairedPort):
                self._impaired[port.fileno()] = port
        self._thread.start()

    def transmit(self, plane: int, packet: bytes) -> None:
        """Send a packet on a plane. Called under the lock."""
        self._links[plane].send(packet)
        self._watch(self._ports[plane])

    def _watch(self, port: Port) -> None:
        """Learn when the interface takes frames again, if some wait for it."""
        if port.backlogged:
            self._epoll.modify(port.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def issue(
        self,
        dst: int,
        count: int,
        operations: Iterable[Operation],
        finish: Callable[[list[Any]], Any],
        timeout_s: float,
        patient: bool = False,
    ) -> Transfer:
        """Send `count` requests, each as soon as the window has room for it, and return the transfer that they make.

        Each may take `timeout_s` seconds; `patient` ones wait as long for a plane too. Once one has failed, no more are
        sent. Raises ClosedError when the engine has stopped.
        """
        transfer: Transfer = Transfer(count, finish)
        initiator = self._initiator
        left = enumerate(operations)
        following = next(left, None)
        while following is not None:
            wait = None
            with self.callers, self.lock:
                self._check_running()
                now = time.monotonic()
                for _ in range(_BATCH):
                    index, (opcode, key, address, length, data) = following
                    if transfer.failed:  # say so now, rather than after as many time-outs as there are windows left
                        transfer.drop_parts(count - index)
                        return transfer
                    if not initiator.has_room(dst):
                        initiator.want_room(dst)
                        wait = self._room.add()
                        break
                    initiator.submit(
                        now, now + timeout_s, dst, opcode, key, address, length, data, transfer, index, patient
                    )
                    following = next(left, None)
                    if following is None:
                        break
            if wait is not None:
                wait.acquire()
        return transfer

    def locked(self, action: Callable[[float], Any]) -> Any:
        """Return what an action that never waits does under the lock, given the time. Raises ClosedError."""
        with self.callers, self.lock:
            self._check_running()
            return action(time.monotonic())

    def wait_written(self, region: Region, predicate: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `predicate()` holds, asking anew after remote writes to the region; tell whether it does."""
        deadline = time.monotonic() + timeout_s
        with self.callers, self.lock:
            region.watchers += 1
        try:
            while True:
                with self.callers, self.lock:
                    self._check_running()
                    if predicate():
                        return True
                    if time.monotonic() >= deadline:
                        return False
                    wait = self._written.add()
                if not wait.acquire(timeout=max(0.0, deadline - time.monotonic())):
                    self._written.discard(wait)
        finally:
            with self.callers, self.lock:
                region.watchers -= 1

    def stop(self, linger_s: float) -> None:
        """Answer requests until none came for `linger_s`, then end the thread, fail what is unfinished and leave the
        links."""
        limit = time.monotonic() + 10 * linger_s
        while (now := time.monotonic()) < min(self._last_request + linger_s, limit) and not self._failure:
            time.sleep(min(self._last_request + linger_s - now, linger_s))
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        with self.callers, self.lock:
            self._fail(ClosedError("the GPU was closed"))
            for plane, link in self._links.items():
                link.leave()
                self._ports[plane].flush()
        self._epoll.close()
        os.close(self._wake)

    def _check_running(self) -> None:
        if self._failure is not None:
            raise ClosedError(f"GPU {self._id} is closed: {self._failure}") from self._failure

    def _fail(self, error: BaseException) -> None:
        """End everything that waits. Called under the lock."""
        if self._failure is None:
            self._failure = error
        closed = ClosedError(f"GPU {self._id} is closed: {error}")
        self._initiator.fail_all(closed)
        self._tma.fail_all(closed)
        self._room.wake()
        self._written.wake()

    def _run(self) -> None:
        try:
            timeout = _TICK_S
            while not self._stopping:
                events = self._epoll.poll(timeout)
                events.sort(key=lambda event: event[0] not in self._urgent)
                if self._impaired:
                    events += [(fd, select.EPOLLIN) for fd, port in self._impaired.items() if port.has_arrivals]
                again = False
                for descriptor, event in events:
                    if descriptor == self._carriers.fileno():
                        self._carriers.drain()
                        self._next_look = 0.0
                        with self.lock:
                            self._poll_links(time.monotonic())
                    elif descriptor != self._wake:
                        self._let_callers_in()
                        with self.lock:
                            again |= self._serve(descriptor, event)
                            self._wake_waiting()
                self._let_callers_in()
                with self.lock:
                    now = time.monotonic()
                    due = min(
                        now + _TICK_S,
                        self._poll_links(now),
                        self._failover.poll(now),
                        self._initiator.expire(now) or math.inf,
                        self._tma.source.expire(now) or math.inf,
                    )
                    self._wake_waiting()
                timeout = 0 if again else max(0.0, due - now)
        except BaseException as error:  # whatever it is, callers must learn of it instead of waiting for ever
            with self.lock:
                self._fail(error)
            raise

    def _serve(self, descriptor: int, event: int) -> bool:
        """Take frames from a port; tell whether there may be more."""
        plane, port, link = self._polled[descriptor]
        if descriptor in self._urgent:
            port.event_waits = True
        if event & select.EPOLLOUT:
            port.flush()
            if not port.backlogged:
                self._epoll.modify(descriptor, select.EPOLLIN)
        more = True
        for _ in range(self._batch):
            frame = port.receive()
            if frame is None:
                more = False
                break
            packet = link.receive(frame)
            if packet is not None:
                answer = self._deliver(plane, packet)
                if isinstance(answer, list):  # READ_DATA: the last one frees what the request took
                    for part in answer[:-1]:
                        link.send(part)
                    link.respond(answer[-1])
                else:
                    link.respond(answer)
        self._watch(port)
        return more

    def _poll_links(self, now: float) -> float:
        """Let every link do what the time asks for, and act on what became of them; return when one will be due."""
        due = math.inf
        look = now >= self._next_look
        if look:
            self._next_look = now + _LOOK_S
        for plane, port in self._ports.items():
            link = self._links[plane]
            if look:
                link.carrier(self._carriers.is_up(port.iface))
            due = min(due, link.poll(now) or math.inf)
            self._watch(port)
        for port in self._impaired.values():
            due = min(due, port.poll(now))
            self._watch(port)
        shares = [link.requests_per_destination for link in self._links.values() if link.is_up]
        limited = [share for share in shares if share is not None]
        if shares:  # while no link is up, what held of the last ones does
            self._initiator.limit_per_destination(sum(limited) if len(limited) == len(shares) else None)
        self._failover.watch_links(now)
        return due

    def _deliver(self, plane: int, packet: memoryview) -> Answer:
        """Act on a packet that a plane's link layer accepted; return what is to be sent in answer."""
        following = packet[4] >> 4
        if following == _LSU:
            parse: Callable[[memoryview], Lsu | Tma] = parse_lsu
        elif following == _TMA:
            parse = parse_tma
        elif following == _EVENT:
            self._failover.take(time.monotonic(), plane, packet)
            return None
        else:
            return self._drop("unsupported_next" if following in _KNOWN_NEXT else "unknown_next")
        try:
            parsed = parse(packet)
        except FrameError as error:
            return self._drop(error.reason)
        if parsed.dst != self._id:
            return self._drop("wrong_destination")
        if parsed.src > MAX_GPU_ID or parsed.src == self._id:
            return self._drop("reserved_source")
        if parsed.vc == _CONTROL_VC:
            return self._drop("reserved_vc")
        now = time.monotonic()
        opcode = parsed.opcode
        if isinstance(parsed, Tma):
            if opcode in TMA_RESPONSES:
                self._tma.source.handle(now, parsed)
                return None
            if opcode < _FIRST_RESPONSE:
                self._begin_request(now)
                return self._tma.target.handle(parsed)
        elif opcode < _FIRST_RESPONSE:
            self._begin_request(now)
            return self._target.handle(parsed)
        elif opcode in _RESPONSES:
            self._initiator.handle(now, parsed)
            return None
        return self._drop("unknown_opcode")

    def _begin_request(self, now: float) -> None:
        """Note that a request came, and take the time that it takes; time overslept is made up for, so that the rate
        is right on average."""
        self._last_request = now
        if self._service_s:
            self._free_at = max(self._free_at, now - _OVERSLEPT_S) + self._service_s
            if self._free_at > now:
                time.sleep(self._free_at - now)

    def _drop(self, reason: str) -> bytes | None:
        self._counters[f"drop_{reason}"] += 1
        return None

    def _let_callers_in(self) -> None:
        with self.callers:
            pass

    def _wake_waiting(self) -> None:
        """Wake who waits for room or for a remote write. Called under the lock."""
        if self._initiator.room_made:
            self._initiator.room_made = False
            self._room.wake()
        if self._target.touched or self._tma.target.touched:
            self._target.touched = self._tma.target.touched = False
            self._written.wake()
        self._tma.wake_waiting()
