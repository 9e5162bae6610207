"""The link layer of a managed port: bring-up, sessions, credits (docs/protocol.md sections 4 and 5).

As a sender it keeps what has no credit, per virtual channel and in order, and never drops for want of it. As a receiver
it frees the credits of a request when the response has left, so that what a GPU has promised to answer is bounded by
credits too; the responses have a virtual channel of their own, so nothing waits for itself.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from codec.constants import MAX_FRAME, VC_COUNT, Capability, Kind, LinkFlag, Vc
from codec.control import (
    LinkInit,
    credit_update_body,
    link_init_body,
    parse_credit_update,
    parse_link_init,
)
from codec.frames import FrameError, frame, parse_link
from codec.layouts import LINK, credits_of
from codec.profile import KEEPALIVE_MS, LinkProfile
from endpoint.bringup import Bringup, LinkState, random_epoch
from endpoint.congestion import requests_per_destination
from endpoint.credits import CreditReceiver, CreditSender, Freed
from endpoint.link import POISONED, WRONG_SESSION, FramePort

LINK_NOT_UP: Final = "link_not_up"
_WRONG_UPDATES: Final = 3
"""So many wrong CF_UPDATEs in a row, and the link is brought up anew."""
_HELD_MOST: Final = 8192
"""Packets kept for want of credit per virtual channel; senders stop long before, by their windows."""
_KEEPALIVE_S: Final = KEEPALIVE_MS / 1000


class ManagedLink:
    """One end of a managed link. All methods are called under the engine's lock.

    `counters` gains: `drop_<reason>`, SAI's `cbfc_num_{cf,cc}_update_messages_{tx,rx}` and
    `llr_{tx,rx}_{init,init_echo}_ctl_os`, `link_ups` (sessions begun), `link_resets` (epochs drawn anew), `silences`,
    `stalls`, `wrong_cf_updates`, `frames_held` (packets that had to wait for credit), `credits_written_off`,
    `tx_dropped_link_not_up` (best effort on a link that is not up), `tx_dropped_held` (too many waited).
    """

    def __init__(
        self,
        port: FramePort,
        counters: Counter[str],
        profile: LinkProfile,
        *,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], int] = random_epoch,
    ) -> None:
        self._port = port
        self._counters = counters
        self._profile = profile
        self._silence_s = profile.silence_ms / 1000 or math.inf
        self._stall_s = profile.stall_ms / 1000 or math.inf
        self._clock = clock
        self.bringup = Bringup(draw)
        self._in_use = [0] * VC_COUNT
        self._lossless = profile.lossless_mask
        self._vc_map = profile.vc_map
        self.receivers = self._receivers([0] * VC_COUNT)
        self.senders = [CreditSender(0) for _ in range(VC_COUNT)]
        self._peer_size = 1 << profile.credit_size
        self._peer_overhead = profile.packet_overhead
        self._may_send = False
        """The first CF_UPDATE of the session has come."""
        self._wrong_updates = 0
        self._held: tuple[deque[tuple[bytes, int]], ...] = tuple(deque() for _ in range(VC_COUNT))
        self._arrived = 0
        self._arrived_vc = -1
        self._carrier = True
        self.resets = 0
        """How often both directions began anew: each time, what was under way may be lost."""
        self._last_heard = self._next_keepalive = clock()
        self._stuck_since = [self._last_heard] * VC_COUNT
        self._freed_then = [0] * VC_COUNT

    # ------------------------------------------------------------------------------------------------------- sending

    def send(self, packet: bytes) -> None:
        """Send a packet (OEFH and what follows), now or when there is credit for it."""
        self._send(packet, -1, 0)

    def respond(self, packet: bytes | None) -> None:
        """End the work on the packet that `receive` gave last: send the response, then free what the request took."""
        vc, credits = self._arrived_vc, self._arrived
        self._arrived_vc = -1
        if packet is None:
            self._free(vc, credits)
        else:
            self._send(packet, vc, credits)

    @property
    def held(self) -> int:
        """Packets that wait for credit."""
        return sum(len(queue) for queue in self._held)

    def withdraw(self) -> None:
        """Forget the requests that wait for credit: whoever made them sends them elsewhere. Responses stay: they are
        what keeps the credits of the requests that they answer."""
        queue = self._held[self._vc_map[Vc.REQUEST]]
        responses = [waiting for waiting in queue if waiting[1] >= 0]
        queue.clear()
        queue.extend(responses)

    def _send(self, packet: bytes, frees_vc: int, frees: int) -> None:
        vc = self._vc_map[packet[0] >> 3 & 7]
        if self._lossless >> vc & 1:
            queue = self._held[vc]
            if queue or not self._admit(vc, packet):
                self._counters["frames_held"] += 1
                if len(queue) >= _HELD_MOST:
                    self._counters["tx_dropped_held"] += 1
                else:
                    queue.append((packet, frees_vc << 20 | frees if frees_vc >= 0 else -1))
                    return
        elif self.bringup.state is LinkState.UP and self._may_send:
            self._port.send(frame(Kind.DATA, packet, session=self.bringup.session))
        else:
            self._counters["tx_dropped_link_not_up"] += 1
        self._free(frees_vc, frees)

    def _admit(self, vc: int, packet: bytes) -> bool:
        """Send a packet of a lossless VC if the session and the credits allow it."""
        if not self._may_send:
            return False
        sender = self.senders[vc]
        credits = credits_of(len(packet), self._peer_size, self._peer_overhead)
        if not sender.has_room(credits):
            return False
        sender.consume(credits)
        self._port.send(frame(Kind.DATA, packet, session=self.bringup.session))
        return True

    def _release(self) -> None:
        """Send what waited, as far as there is credit."""
        for vc, queue in enumerate(self._held):
            while queue and (not self._lossless >> vc & 1 or self._admit(vc, queue[0][0])):
                packet, frees = queue.popleft()
                if not self._lossless >> vc & 1:  # the peer gives it no credits any more
                    self._port.send(frame(Kind.DATA, packet, session=self.bringup.session))
                if frees >= 0:
                    self._free(frees >> 20, frees & 0xFFFFF)

    # ----------------------------------------------------------------------------------------------------- receiving

    def receive(self, data: memoryview) -> memoryview | None:
        """Return the packet that a frame carries, or None; never raises. A packet must be ended by `respond`."""
        try:
            header = parse_link(data)
            kind = header.kind
            if kind in (Kind.LLR_INIT, Kind.LLR_INIT_ECHO):
                if header.session:
                    return self._drop(WRONG_SESSION)
                self._take_init(parse_link_init(data[LINK.size :]), kind == Kind.LLR_INIT_ECHO)
                return None
            if self.bringup.state is not LinkState.UP:
                return self._drop(LINK_NOT_UP)
            if header.session != self.bringup.session:
                return self._drop(WRONG_SESSION)
            if header.flags & LinkFlag.POISON:
                return self._drop(POISONED)
            self._last_heard = self._clock()
            if kind == Kind.DATA:
                return self._take_data(data[LINK.size :])
            if kind in (Kind.CF_UPDATE, Kind.CC_UPDATE):
                mask, values = parse_credit_update(data[LINK.size :])
                (self._take_freed if kind == Kind.CF_UPDATE else self._take_consumed)(mask & self._lossless, values)
                return None
        except FrameError as error:
            return self._drop(error.reason)
        return self._drop("unexpected_control")  # LLR is not negotiated

    def _take_data(self, packet: memoryview) -> memoryview | None:
        vc = self._vc_map[packet[0] >> 3 & 7]
        self._arrived = 0
        self._arrived_vc = vc
        if self._lossless >> vc & 1:
            profile = self._profile
            credits = credits_of(len(packet), 1 << profile.credit_size, profile.packet_overhead)
            receiver = self.receivers[vc]
            if receiver.used + credits > receiver.limit:
                self._arrived_vc = -1
                return self._drop("over_limit")
            receiver.consume(credits)
            self._arrived = credits
        return packet

    def _free(self, vc: int, credits: int) -> None:
        if vc < 0 or not credits:
            return
        receiver = self.receivers[vc]
        receiver.free(credits)
        if receiver.update_due() and self.bringup.state is LinkState.UP:
            self._send_freed()

    def _take_freed(self, mask: int, values: tuple[int, ...]) -> None:
        self._counters["cbfc_num_cf_update_messages_rx"] += 1
        wrong = False
        for vc in range(VC_COUNT):
            if mask >> vc & 1:
                wrong |= self.senders[vc].update(values[vc]) is Freed.WRONG
        if wrong:
            self._counters["wrong_cf_updates"] += 1
            self._wrong_updates += 1
            if self._wrong_updates >= _WRONG_UPDATES:
                self._restart()
            return
        self._wrong_updates = 0
        self._may_send = True
        self._release()

    def _take_consumed(self, mask: int, values: tuple[int, ...]) -> None:
        self._counters["cbfc_num_cc_update_messages_rx"] += 1
        for vc in range(VC_COUNT):
            if mask >> vc & 1:
                lost = self.receivers[vc].reconcile(values[vc])
                self._counters["credits_written_off"] += lost
                if self.receivers[vc].update_due():
                    self._send_freed()

    def _drop(self, reason: str) -> memoryview | None:
        self._counters[f"drop_{reason}"] += 1
        return None

    # ------------------------------------------------------------------------------------------------------ bring-up

    def poll(self, now: float) -> float:
        """Do what the time asks for; return when to be called again at the latest."""
        if self.bringup.state is LinkState.UP and now - self._last_heard >= self._silence_s:
            self._counters["silences"] += 1
            self._restart()
        elif self._is_stalled(now):
            self._counters["stalls"] += 1
            self._restart()
        if now >= self._next_keepalive:
            self._next_keepalive = now + _KEEPALIVE_S
            if self.bringup.state is LinkState.UP:
                self._send_freed()
                if any(self._lossless >> vc & 1 and sender.used for vc, sender in enumerate(self.senders)):
                    self._send_update(Kind.CC_UPDATE, [sender.consumed for sender in self.senders])
            else:
                self._send_init(Kind.LLR_INIT)
        return self._next_keepalive

    def _is_stalled(self, now: float) -> bool:
        """Tell whether packets have waited on a VC for too long, without the peer freeing any of its credits."""
        for vc, queue in enumerate(self._held):
            freed = self.senders[vc].freed
            if not queue or not self._may_send or freed != self._freed_then[vc]:
                self._freed_then[vc] = freed
                self._stuck_since[vc] = now
        return now - min(self._stuck_since) >= self._stall_s

    @property
    def is_up(self) -> bool:
        """Whether DATA may be sent, as far as credits allow."""
        return self._may_send

    @property
    def requests_per_destination(self) -> int | None:
        """Requests that one destination may have in flight on the link; None where they are best effort."""
        if not self._lossless >> self._vc_map[Vc.REQUEST] & 1:
            return None
        return requests_per_destination(self.senders[self._vc_map[Vc.REQUEST]].limit, self._profile)

    def carrier(self, up: bool) -> None:
        """Take note of whether the cable leads somewhere: without, the link is down and forgets its peer."""
        if up == self._carrier:
            return
        self._carrier = up
        if not up:
            self._restart()
            self.bringup.forget_peer()
        self._next_keepalive = self._clock()

    def _restart(self) -> None:
        """Bring the link up anew, with another epoch."""
        self._counters["link_resets"] += 1
        self.bringup.restart()
        self._reset()
        self._next_keepalive = self._clock()

    def _reset(self) -> None:
        """Begin both directions anew; what the receive buffer holds stays in use."""
        self.resets += 1
        self._may_send = False
        self._wrong_updates = 0
        self._stuck_since = [self._clock()] * VC_COUNT
        self._in_use = [receiver.used for receiver in self.receivers]
        self.receivers = self._receivers(self._in_use)

    def _receivers(self, in_use: list[int]) -> list[CreditReceiver]:
        profile = self._profile
        return [CreditReceiver(*values) for values in zip(profile.limits(), profile.thresholds(), in_use, strict=True)]

    def _take_init(self, init: LinkInit, echo: bool) -> None:
        self._counters["llr_rx_init_echo_ctl_os" if echo else "llr_rx_init_ctl_os"] += 1
        restarts = self.bringup.restarts
        change = self.bringup.receive(init, echo)
        self._counters["link_resets"] += self.bringup.restarts - restarts
        if change.reset:
            self._reset()
        if change.up:
            self._come_up(init)
        if not echo:
            self._send_init(Kind.LLR_INIT_ECHO)
        if self.bringup.state is LinkState.UP:
            self._last_heard = self._clock()
            if change.up or not echo:  # a peer that still sends LLR_INIT comes up by the echo and waits for this
                self._send_freed()
        elif change.reset:
            self._send_init(Kind.LLR_INIT)

    def _come_up(self, init: LinkInit) -> None:
        self._counters["link_ups"] += 1
        both = init.lossless_vcs & self._profile.lossless_mask
        self._lossless = both if init.capabilities & Capability.CBFC else 0
        self._peer_size = 1 << init.credit_size
        self._peer_overhead = init.packet_overhead
        self.senders = [
            CreditSender(limit, used) for limit, used in zip(init.credit_limit, init.credits_in_use, strict=True)
        ]

    # ------------------------------------------------------------------------------------------------ control frames

    def _send_init(self, kind: Kind) -> None:
        profile = self._profile
        init = LinkInit(
            capabilities=int(Capability.CBFC),
            own_epoch=self.bringup.own_epoch,
            peer_epoch=self.bringup.peer_epoch,
            credit_size=profile.credit_size,
            packet_overhead=profile.packet_overhead,
            max_frame=MAX_FRAME,
            lossless_vcs=profile.lossless_mask,
            outstanding_frames_max=0,
            credit_limit=profile.limits(),
            credits_in_use=tuple(self._in_use),
        )
        name = "llr_tx_init_ctl_os" if kind == Kind.LLR_INIT else "llr_tx_init_echo_ctl_os"
        self._counters[name] += 1
        self._port.send(frame(kind, link_init_body(init)))

    def _send_freed(self) -> None:
        self._send_update(Kind.CF_UPDATE, [receiver.report() for receiver in self.receivers])

    def _send_update(self, kind: Kind, values: list[int]) -> None:
        name = "cbfc_num_cf_update_messages_tx" if kind == Kind.CF_UPDATE else "cbfc_num_cc_update_messages_tx"
        self._counters[name] += 1
        self._port.send(frame(kind, credit_update_body(values), session=self.bringup.session))
