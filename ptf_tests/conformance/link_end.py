"""The tester's end of a managed link: comes up by itself, keeps the credits of both directions, obeys its case.

It is made of the same machines as a GPU's link layer (`endpoint.bringup`, `endpoint.credits`), but its buffer is
drained at any pace, per virtual channel, and everything that it sends or receives goes over a `Wire` that can do harm.
Nothing here does input or output or reads a clock.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from codec.constants import Capability, Kind, Vc
from codec.control import (
    CreditUpdate,
    LinkInit,
    credit_update_body,
    link_init_body,
    parse_credit_update,
    parse_link_init,
)
from codec.frames import FrameError, LinkHeader, frame, parse_link
from codec.layouts import LINK
from endpoint.bringup import Bringup, LinkState
from endpoint.credits import CreditReceiver, CreditSender, Freed
from ptf_tests.conformance.wire import Wire
from ptf_tests.links import VCS, Profile, credits_of

KEEPALIVE_S: Final = 0.01
AT_ONCE: Final = math.inf
"""Drain rate of a buffer from which everything goes at once."""
_CATCH_UP_S: Final = 0.02


class Drain:
    """The pace at which a buffer is emptied; 0: never, AT_ONCE: each frame as it comes."""

    def __init__(self, rate: float = AT_ONCE) -> None:
        self.rate = rate
        self._next = 0.0

    def due(self, now: float) -> bool:
        """Tell whether the next frame may leave the buffer now, and count it as gone if so."""
        if self.rate == AT_ONCE:
            return True
        if not self.rate or now < self._next:
            return False
        self._next = max(self._next, now - _CATCH_UP_S) + 1 / self.rate
        return True

    @property
    def next_due(self) -> float:
        """When the next frame may leave."""
        return self._next if self.rate else math.inf


class LinkEnd:
    """One end of a managed link.

    Frames leave by `out` and arrive through `into`. `on_packet` is called with each packet (OEFH and what follows) as
    it arrives, before it is drained. `counters` gains `drop_<reason>` and SAI's message counters.
    """

    def __init__(
        self,
        profile: Profile,
        transmit: Callable[[bytes], None],
        on_packet: Callable[[bytes], None],
        now: float,
    ) -> None:
        self.profile = profile
        self.out = Wire(transmit)
        self.into = Wire(self._receive)
        self.counters: Counter[str] = Counter()
        self.bringup = Bringup()
        self.update_at = 1
        """Credits freed after which a CF_UPDATE goes out at once."""
        self._on_packet = on_packet
        self._now = now
        self._next_keepalive = now
        self._lossless = 0
        self._may_send = False
        self._peer_size = profile.credit_size
        self._peer_overhead = profile.packet_overhead
        self.senders = [CreditSender(0) for _ in range(VCS)]
        self.receivers: list[CreditReceiver] = []
        self._in_use = [0] * VCS
        self._begin_receivers()
        self._buffer: tuple[deque[int], ...] = tuple(deque() for _ in range(VCS))
        self.drains = [Drain() for _ in range(VCS)]

    # ------------------------------------------------------------------------------------------------------- control

    @property
    def is_ready(self) -> bool:
        """Whether the link is up and the first CF_UPDATE of the session has come."""
        return self._may_send

    @property
    def session(self) -> int:
        """The session of the link."""
        return self.bringup.session

    def lane(self, vc: int) -> int:
        """Return the VC whose credits a VC uses."""
        return self.profile.vc_map[vc] if vc != Vc.CONTROL else vc

    def drain(self, rate: float, *vcs: int) -> None:
        """Empty the buffer at this pace from now on, in frames per second, for some VCs or for all.

        VCs that are given together share the pace: they stand for one thing that empties them.
        """
        shared = Drain(rate)
        for vc in vcs or range(VCS):
            self.drains[vc] = shared

    @property
    def buffered(self) -> int:
        """Frames in the receive buffer."""
        return sum(map(len, self._buffer))

    # ------------------------------------------------------------------------------------------------------- sending

    def try_send(self, packet: bytes, vc: int) -> bool:
        """Send a packet, if the link and its credits allow it now."""
        if not self._may_send:
            return False
        lane = self.lane(vc)
        if self._lossless >> lane & 1 and vc != Vc.CONTROL:
            cost = credits_of(bytes(LINK.size) + packet, self._peer_size, self._peer_overhead)
            if not self.senders[lane].has_room(cost):
                return False
            self.senders[lane].consume(cost)
        self._put(Kind.DATA, packet)
        return True

    def report(self) -> None:
        """Send a CF_UPDATE now."""
        self._send_freed()

    def forge(self, data: bytes) -> None:
        """Send any frame, whatever it says; nothing is counted for it."""
        self.out.put(data, self._now)

    # ----------------------------------------------------------------------------------------------------- receiving

    def arrived(self, data: bytes, now: float) -> None:
        """Take a frame from the cable."""
        self._now = now
        self.into.put(data, now)

    def _receive(self, data: bytes) -> None:
        body = memoryview(data)[LINK.size :]
        try:
            header = parse_link(memoryview(data))
            kind = header.kind
            if kind in (Kind.LLR_INIT, Kind.LLR_INIT_ECHO):
                self._take_init(parse_link_init(body), kind == Kind.LLR_INIT_ECHO)
            elif self.bringup.state is not LinkState.UP:
                self.counters["drop_link_not_up"] += 1
            elif header.session != self.session:
                self.counters["drop_wrong_session"] += 1
            elif not self._accepts(header):
                pass
            elif kind == Kind.DATA:
                self._take_data(bytes(body))
            elif kind == Kind.CF_UPDATE:
                self._take_freed(parse_credit_update(body))
            elif kind == Kind.CC_UPDATE:
                self._take_consumed(parse_credit_update(body))
            else:
                self.counters["drop_unexpected_control"] += 1
        except FrameError as error:
            self._drop(error.reason)

    def _accepts(self, header: LinkHeader) -> bool:
        """Tell whether a frame of the session is taken, by its link header."""
        return True

    def _drop(self, reason: str) -> None:
        self.counters[f"drop_{reason}"] += 1

    def _take_data(self, packet: bytes) -> None:
        vc = packet[0] >> 3 & 7
        lane = self.lane(vc)
        if self._lossless >> lane & 1 and vc != Vc.CONTROL:
            cost = credits_of(bytes(LINK.size) + packet, self.profile.credit_size, self.profile.packet_overhead)
            receiver = self.receivers[lane]
            if receiver.used + cost > receiver.limit:
                self.counters["over_limit"] += 1  # the peer does not keep to its credits
            receiver.consume(cost)
            self._buffer[vc].append(cost)
            self._empty(vc)
        self._on_packet(packet)

    def _empty(self, vc: int) -> None:
        buffer, drain, receiver = self._buffer[vc], self.drains[vc], self.receivers[self.lane(vc)]
        while buffer and drain.due(self._now):
            receiver.free(buffer.popleft())
            self.counters["drained"] += 1
        if receiver.unreported >= self.update_at and self.bringup.state is LinkState.UP:
            self._send_freed()

    def _take_freed(self, update: CreditUpdate) -> None:
        self.counters["cbfc_num_cf_update_messages_rx"] += 1
        self._may_send = True
        for vc in range(VCS):
            if update.vc_mask & self._lossless & 1 << vc and self.senders[vc].update(update.credits[vc]) is Freed.WRONG:
                self.counters["wrong_cf_updates"] += 1

    def _take_consumed(self, update: CreditUpdate) -> None:
        self.counters["cbfc_num_cc_update_messages_rx"] += 1
        for vc in range(VCS):
            if update.vc_mask & self._lossless & 1 << vc:
                self.counters["credits_written_off"] += self.receivers[vc].reconcile(update.credits[vc])

    # ------------------------------------------------------------------------------------------------------ bring-up

    def poll(self, now: float) -> float:
        """Do what the time asks for; return when to be called again at the latest."""
        self._now = now
        late = [self.out.poll(now), self.into.poll(now)]
        for vc, buffer in enumerate(self._buffer):
            if buffer:
                self._empty(vc)
                if buffer:
                    late.append(self.drains[vc].next_due)
        if now >= self._next_keepalive:
            self._next_keepalive = now + KEEPALIVE_S
            if self.bringup.state is LinkState.UP:
                self._send_freed()
                self._send_consumed()
            else:
                self._send_init(Kind.LLR_INIT)
        return min([self._next_keepalive, *(due for due in late if due is not None)])

    def restart(self) -> None:
        """Bring the link up anew, with another epoch."""
        self.bringup.restart()
        self._begin()
        self._next_keepalive = self._now

    def _begin(self) -> None:
        self._may_send = False
        self._in_use = [receiver.used for receiver in self.receivers]
        self._begin_receivers()

    def _begin_receivers(self) -> None:
        self.receivers = [
            CreditReceiver(limit, 0, used) for limit, used in zip(self.profile.limits, self._in_use, strict=True)
        ]

    def _take_init(self, init: LinkInit, echo: bool) -> None:
        self.counters["llr_rx_init_echo_ctl_os" if echo else "llr_rx_init_ctl_os"] += 1
        change = self.bringup.receive(init, echo)
        if change.reset:
            self._begin()
        if change.up:
            self._come_up(init)
        if not echo:
            self._send_init(Kind.LLR_INIT_ECHO)
        if self.bringup.state is LinkState.UP and (change.up or not echo):
            self._send_freed()

    def _come_up(self, init: LinkInit) -> None:
        both = init.lossless_vcs & self.profile.lossless_vcs
        self._lossless = both if init.capabilities & Capability.CBFC else 0
        self._peer_size = init.credit_size
        self._peer_overhead = init.packet_overhead
        self.senders = [
            CreditSender(limit, used) for limit, used in zip(init.credit_limit, init.credits_in_use, strict=True)
        ]

    # ------------------------------------------------------------------------------------------------ control frames

    def _send_init(self, kind: Kind) -> None:
        profile = self.profile
        init = LinkInit(
            capabilities=profile.capabilities,
            own_epoch=self.bringup.own_epoch,
            peer_epoch=self.bringup.peer_epoch,
            credit_size=profile.credit_size,
            packet_overhead=profile.packet_overhead,
            max_frame=profile.max_frame,
            lossless_vcs=profile.lossless_vcs,
            outstanding_frames_max=profile.outstanding_frames_max,
            credit_limit=profile.limits,
            credits_in_use=tuple(self._in_use),
        )
        self.forge(frame(kind, link_init_body(init)))

    def _send_consumed(self) -> None:
        """Say what was consumed, while credits are in use."""
        if any(self._lossless >> vc & 1 and sender.used for vc, sender in enumerate(self.senders)):
            self._send_update(Kind.CC_UPDATE, [sender.consumed for sender in self.senders])

    def _send_freed(self) -> None:
        self._send_update(Kind.CF_UPDATE, [receiver.report() for receiver in self.receivers])

    def _send_update(self, kind: Kind, values: list[int]) -> None:
        name = "cbfc_num_cf_update_messages_tx" if kind == Kind.CF_UPDATE else "cbfc_num_cc_update_messages_tx"
        self.counters[name] += 1
        self._put(kind, credit_update_body(values))

    def _put(self, kind: Kind, body: bytes) -> None:
        """Send a frame of the session."""
        self.forge(frame(kind, body, session=self.session))
