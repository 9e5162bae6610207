"""The tester's link ends in the places of a running fabric's GPUs, in real time: what a soak stands on.

One thread serves them all. Every frame of a flow is numbered, and DATA frames are counted where they enter a cable and
where they leave it, so that each loss has a place: before the cable, in the switch, or behind it.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from codec.constants import Kind, Next
from codec.layouts import LINK
from codec.profile import LinkProfile
from ptf_tests.conformance.flows import Flow, Packets, flow_of
from ptf_tests.conformance.link_end import LinkEnd
from ptf_tests.conformance.wire import Harm, Rule
from ptf_tests.links import Profile
from topologies.namespace import network_of
from topologies.session import FabricSession

LIMIT: Final = 128
FABRIC_PROFILE: Final = LinkProfile(lossless_vcs=(0, 1), credit_limit=LIMIT, silence_ms=2000)
"""Of the switch's ports. A tester that waits for a processor is no dead peer."""
PROFILE: Final = Profile(lossless_vcs=0b11, credit_limit=LIMIT, update_threshold=LIMIT // 4)
"""Of the tester's ends."""
SLOW: Final = 1
"""The GPU that is sent to in order and on VC 0 only."""
SIZES: Final = (60, 60, 600, 1500, 4134)
"""Bytes after the link header of the other flows: one credit to five."""
CONTROL: Final = (Kind.CF_UPDATE, Kind.CC_UPDATE, Kind.LLR_INIT, Kind.LLR_INIT_ECHO)
_DATA: Final = int(Kind.DATA)
_TMA: Final = int(Next.TMA)
_NEXT: Final = LINK.size + 4
"""The byte of a frame whose upper half says what follows the OEFH."""
_BURST: Final = 4
_AHEAD: Final = 64
"""Frames that other flows may be ahead of those to the slow GPU, which are half of all."""
_STALL_S: Final = 0.01
_IDLE_MS: Final = 0.5
_RECEIVED_AT_ONCE: Final = 64
_RECEIVE_BUFFER: Final = 16 << 20
_SO_RCVBUFFORCE: Final = 33
_SOL_PACKET: Final = 263
_PACKET_IGNORE_OUTGOING: Final = 23
_ETH_P_ALL: Final = 3


class Stuck(Exception):
    """What was waited for did not come."""


@dataclass
class Station:
    """A GPU's place: its cable, the link end that lives there, if one does, and what passed on the cable."""

    gpu: int
    cable: socket.socket
    end: LinkEnd | None = None
    to_slow: list[Flow] = field(default_factory=list)
    """What it sends to the slow GPU."""
    to_others: list[Flow] = field(default_factory=list)
    put: int = 0
    """DATA frames that went out on the cable."""
    came: int = 0
    """DATA frames that came in on it, believed or not."""

    @property
    def living(self) -> LinkEnd:
        """The end, which must be alive."""
        assert self.end is not None
        return self.end


class Stations:
    """All GPUs' places of a fabric, and flows from each to each other. Use it as a context manager."""

    def __init__(self, session: FabricSession, rng: random.Random) -> None:
        self._stalled = 0.0
        self._served = time.monotonic()
        self._harms: list[tuple[str, Rule]] = []
        self._by_number: dict[int, Flow] = {}
        self.offering = False
        self.last_data = 0.0
        """When a DATA frame came last."""
        self.harmed: Counter[str] = Counter()
        """Frames by what the tester did to them."""
        self.counters: Counter[str] = Counter()
        """Of the ends that are gone."""
        self.all = [Station(gpu.id, _cable(session, gpu.name, gpu.ports[0].iface)) for gpu in session.fabric.gpus]
        self._poller = select.poll()
        self._by_fd = {station.cable.fileno(): station for station in self.all}
        for station in self.all:
            self._poller.register(station.cable, select.POLLIN)
            self.revive(station)
        self._make_flows(rng)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        for station in self.all:
            station.cable.close()

    def _make_flows(self, rng: random.Random) -> None:
        pairs = [(src, dst) for src in self.all for dst in self.all if src is not dst]
        for number, (src, dst) in enumerate(pairs, 1):
            vc, f, size = (
                (0, 0, SIZES[0]) if dst.gpu == SLOW else (rng.randrange(2), rng.randrange(2), rng.choice(SIZES))
            )
            flow = Flow(Packets(number, src.gpu, dst.gpu, vc, size, f), 0.0, 0.0)
            self._by_number[number] = flow
            (src.to_slow if dst.gpu == SLOW else src.to_others).append(flow)
        self._others = max(1, sum(len(station.to_others) for station in self.all))

    # ------------------------------------------------------------------------------------------------- life and death

    def kill(self, station: Station) -> None:
        """Let an end vanish with all that it knows and holds, as a process does by SIGKILL."""
        if station.end is not None:
            self.counters.update(station.end.counters)
            station.end = None

    def revive(self, station: Station) -> None:
        """Let a new end live in a place: a peer that has just started."""

        def transmit(data: bytes) -> None:
            station.put += data[0] >> 4 == _DATA  # flows' frames only: it sends no others
            with contextlib.suppress(BlockingIOError):  # then it shows as lost in the switch
                station.cable.send(data)

        end = LinkEnd(PROFILE, transmit, self._arrived, self.now())
        end.update_at = LIMIT // 4
        station.end = end

    def _arrived(self, packet: bytes) -> None:
        if packet[_NEXT - LINK.size] >> 4 != _TMA:  # an EVENT: another peer's link is down
            return
        number, index = flow_of(packet)
        self._by_number[number].arrived(index, packet)

    # ----------------------------------------------------------------------------------------------------------- harm

    def harm(
        self, name: str, harm: Harm, kinds: tuple[Kind, ...], chance: float, delay_s: float, rng: random.Random
    ) -> None:
        """Do something to frames of some kinds on every cable, in both directions, with a probability."""
        for station in self.all:
            for wire in (station.living.out, station.living.into):
                self._harms.append((name, wire.harm_some(harm, kinds, chance, rng, delay_s)))

    def heal(self) -> None:
        """Do no harm any more; what is late still comes late."""
        for name, rule in self._harms:
            self.harmed[name] += rule.done
        self._harms.clear()
        for station in self.all:
            if station.end is not None:
                station.end.out.heal()
                station.end.into.heal()

    # ----------------------------------------------------------------------------------------------------------- time

    def now(self) -> float:
        """Return the tester's time in seconds: monotonic, without the times in which the tester was held up."""
        return time.monotonic() - self._stalled

    def run_for(self, seconds: float) -> None:
        """Serve all ends for so long."""
        deadline = self.now() + seconds
        while self.now() < deadline:
            self.serve()

    def run_until(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Serve all ends until a condition holds. Raises Stuck with `what` when it does not in time."""
        deadline = self.now() + timeout_s
        while not condition():
            if self.now() > deadline:
                raise Stuck(f"not so after {timeout_s:g} s: {what}")
            self.serve()

    def serve(self) -> None:
        """Do what is due, send what may be sent, take what has come; return after a moment at the latest."""
        real = time.monotonic()
        self._stalled += max(0.0, real - self._served - _STALL_S)
        self._served = real
        now = self.now()
        busy = False
        even = sum(flow.sent for station in self.all for flow in station.to_slow) // self._others + _AHEAD
        for station in self.all:
            end = station.end
            if end is None:
                continue
            end.poll(now)
            if self.offering:
                for flow in station.to_slow:
                    busy |= _send_some(end, flow)
                for flow in station.to_others:
                    if flow.sent < even:
                        busy |= _send_some(end, flow)
        for fd, _ in self._poller.poll(0 if busy else _IDLE_MS):
            self._take(self._by_fd[fd])

    def _take(self, station: Station) -> None:
        receive, now, end = station.cable.recv, self.now(), station.end
        for _ in range(_RECEIVED_AT_ONCE):
            try:
                data = receive(9000)
            except BlockingIOError:
                return
            if data[0] >> 4 == _DATA and data[_NEXT] >> 4 == _TMA:
                station.came += 1
                self.last_data = now
            if end is not None:
                end.arrived(data, now)

    # --------------------------------------------------------------------------------------------------------- counts

    @property
    def flows(self) -> list[Flow]:
        """All flows."""
        return list(self._by_number.values())

    @property
    def sent(self) -> int:
        """Frames that the flows have sent."""
        return sum(flow.sent for flow in self.flows)

    @property
    def inside(self) -> int:
        """DATA frames that went into the switch's cables and have not come out of them: on their way, held, or lost."""
        return sum(station.put - station.came for station in self.all)

    @property
    def ready(self) -> bool:
        """Whether every end lives and may send."""
        return all(station.end is not None and station.end.is_ready for station in self.all)

    def in_use(self) -> dict[str, int]:
        """Return the credits and frames that the ends have in use, in all."""
        ends = [station.living for station in self.all]
        return {
            "sender_credits_used": sum(sender.used for end in ends for sender in end.senders),
            "receiver_credits_used": sum(receiver.used for end in ends for receiver in end.receivers),
            "buffered": sum(end.buffered for end in ends),
        }

    def counted(self) -> Counter[str]:
        """Return the counters of all ends, those that are gone included."""
        total = Counter(self.counters)
        for station in self.all:
            if station.end is not None:
                total.update(station.end.counters)
        return total


def _send_some(end: LinkEnd, flow: Flow) -> bool:
    """Send some frames of a flow as far as there is credit; return whether one went."""
    packets = flow.packets
    for sent in range(_BURST):
        if not end.try_send(packets.make(flow.sent), packets.vc):
            return sent > 0
        flow.sent += 1
    return True


def _cable(session: FabricSession, host: str, iface: str) -> socket.socket:
    """Open a GPU's end of its cable."""
    assert session.ranks is not None
    with network_of(session.ranks.hosts[host].pid):
        cable = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        cable.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
        cable.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        cable.bind((iface, _ETH_P_ALL))
    cable.setblocking(False)
    return cable
