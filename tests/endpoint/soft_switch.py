"""A switch in Python for tests of endpoints: forwards, and tells of dead ports as docs/protocol.md section 7 says.

Its ends of the links are `ManagedLink`s, or open ports. It can be killed and started anew, can go silent on a port, and
can be told to keep an event to itself, or to make one up.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from codec.constants import EventType, Next, Vc
from codec.frames import Oefh, oefh, parse_oefh
from codec.layouts import EVENT
from codec.profile import KEEPALIVE_MS, LinkProfile
from endpoint.carrier import Carriers
from endpoint.link import LinkLayer, OpenLink
from endpoint.managed_link import ManagedLink
from endpoint.port import Port

PROFILE: Final = LinkProfile(silence_ms=300)
"""A switch in Python, on a machine that does other things too, is slow to speak."""
_TICK_S: Final = 0.001


def event_packet(
    dst: int, src: int, plane: int, subject: int, sequence: int, kind: int = EventType.LINK_DOWN, detail: int = 0
) -> bytes:
    """Return an EVENT packet."""
    body = EVENT.pack(
        type=kind, plane=plane, subject=subject, sequence=sequence, detail=detail,
        timestamp=time.monotonic_ns() // 1000,
    )  # fmt: skip
    return oefh(vc=int(Vc.CONTROL), dst=dst, src=src, next=int(Next.EVENT)) + body


class _Place:
    """One port: its interface, its link, and what was last told of it."""

    def __init__(self, iface: str, managed: bool) -> None:
        self.counters: Counter[str] = Counter()
        self.port = Port(iface, 8 << 20, self.counters)
        self.link: LinkLayer = (
            ManagedLink(self.port, self.counters, PROFILE) if managed else OpenLink(self.port, self.counters)
        )
        self.up = True
        self.sequence = 0
        self.mute = False
        """Nothing passes in either direction, though the carrier is there."""


class SoftSwitch(threading.Thread):
    """Forwards by destination between GPUs, each on the interface given.

    Without `tells` it makes no events by itself. With `turns_around` a packet for a dead port comes back to its source
    as an EVENT, at most one per source per millisecond, and dead ports are told of in no other way, as by a switch that
    the sources are not on.
    """

    def __init__(
        self,
        switch_id: int,
        plane: int,
        ifaces: Mapping[int, str],
        *,
        managed: bool = True,
        tells: bool = True,
        turns_around: bool = False,
    ) -> None:
        super().__init__(daemon=True)
        self.id = switch_id
        self.plane = plane
        self.lock = threading.Lock()
        self.told: Counter[str] = Counter()
        self._tells = tells
        self._turns_around = turns_around
        self._turned: dict[int, float] = {}
        self._sequence = 0
        self._carriers = Carriers()
        self._places = {gpu: _Place(iface, managed) for gpu, iface in ifaces.items()}
        self._ending = os.eventfd(0)
        self._next_repetition = 0.0
        self.start()

    def kill(self) -> None:
        """End without a word; interfaces keep their carrier."""
        os.eventfd_write(self._ending, 1)
        self.join()
        for place in self._places.values():
            place.port.close()
        self._carriers.close()
        os.close(self._ending)

    def mute(self, gpu: int, mute: bool = True) -> None:
        """Let nothing pass on a GPU's port, or everything again."""
        with self.lock:
            self._places[gpu].mute = mute

    def say(self, to: int, subject: int, sequence: int, kind: int = EventType.LINK_DOWN, **fields: int) -> None:
        """Send an EVENT that nothing gave rise to; `fields` are `src` and `plane` where they are not the switch's."""
        with self.lock:
            packet = event_packet(
                to, fields.get("src", self.id), fields.get("plane", self.plane), subject, sequence, kind
            )
            self._places[to].link.send(packet)

    def run(self) -> None:
        epoll = select.epoll()
        epoll.register(self._ending, select.EPOLLIN)
        epoll.register(self._carriers.fileno(), select.EPOLLIN)
        by_descriptor = {place.port.fileno(): place for place in self._places.values()}
        for descriptor in by_descriptor:
            epoll.register(descriptor, select.EPOLLIN)
        while True:
            ready = [descriptor for descriptor, _ in epoll.poll(_TICK_S)]
            if self._ending in ready:
                break
            with self.lock:
                if self._carriers.fileno() in ready:
                    self._carriers.drain()
                self._look()
                for descriptor in ready:
                    if descriptor in by_descriptor:
                        self._serve(by_descriptor[descriptor])
        epoll.close()

    def _serve(self, place: _Place) -> None:
        for _ in range(64):
            frame = place.port.receive()
            if frame is None:
                return
            if place.mute:
                continue
            packet = place.link.receive(frame)
            if packet is not None:
                self._forward(bytes(packet))
                place.link.respond(None)
            place.port.flush()

    def _forward(self, packet: bytes) -> None:
        header = parse_oefh(memoryview(packet))
        to = self._places.get(header.dst)
        if to is None:
            return
        if to.up and not to.mute:
            to.link.send(packet)
            to.port.flush()
        elif self._turns_around and header.next != Next.EVENT:
            self._turn_around(header, to)

    def _turn_around(self, header: Oefh, dead: _Place) -> None:
        now = time.monotonic()
        if now >= self._turned.get(header.src, 0.0) + 0.001:
            self._turned[header.src] = now
            self.told["turned_around"] += 1
            packet = event_packet(header.src, self.id, self.plane, header.dst, dead.sequence)
            self._places[header.src].link.send(packet)

    def _look(self) -> None:
        now = time.monotonic()
        repeat = now >= self._next_repetition
        if repeat:
            self._next_repetition = now + KEEPALIVE_MS / 1000
        for gpu, place in self._places.items():
            if not place.mute:
                place.link.carrier(self._carriers.is_up(place.port.iface))
                place.link.poll(now)
            up = place.link.is_up and not place.mute
            if up != place.up:
                place.up = up
                self._sequence = self._sequence + 1 & 0xFFFF
                place.sequence = self._sequence
                self._tell(gpu, EventType.LINK_UP if up else EventType.LINK_DOWN, place.sequence)
            elif repeat and not up:
                self._tell(gpu, EventType.LINK_DOWN, place.sequence)

    def _tell(self, subject: int, kind: EventType, sequence: int) -> None:
        if not self._tells or self._turns_around:
            return
        for gpu, place in self._places.items():
            if gpu != subject and place.up:
                self.told[kind.name] += 1
                place.link.send(event_packet(gpu, self.id, self.plane, subject, sequence, kind))


def cables(planes: Iterable[int], gpus: Iterable[int]) -> list[tuple[str, str]]:
    """Return the interfaces of each cable: `g<gpu>p<plane>` at the GPU, `s<plane>g<gpu>` at the switch."""
    return [(f"g{gpu}p{plane}", f"s{plane}g{gpu}") for plane in planes for gpu in gpus]
