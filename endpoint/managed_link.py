"""The link layer of a managed port: bring-up, sessions, credits, retry (docs/protocol.md sections 4 to 6).

As a sender it keeps what has no credit, per virtual channel and in order, and never drops for want of it. As a receiver
it frees the credits of a request when the response has left, so that what a GPU has promised to answer is bounded by
credits too; the responses have a virtual channel of their own, so nothing waits for itself.

With link-layer retry the frames of lossless virtual channels and CC_UPDATEs are numbered. A packet that comes while the
retry window is full or a replay goes on waits like one without credit, so that what is numbered was also sent, and
nothing new goes out before a replay has ended. A replay pauses while the port has a backlog: frames that are not
numbered pass it.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from codec.constants import MAX_FRAME, VC_COUNT, Capability, Kind, LinkFlag, Vc
from codec.control import (
    CreditUpdate,
    LinkInit,
    credit_update_body,
    link_init_body,
    parse_credit_update,
    parse_link_init,
)
from codec.frames import BAD_CRC, FrameError, LinkHeader, frame, parse_link
from codec.layouts import CREDIT_UPDATE, LINK, LLR_CONTROL, credits_of
from codec.profile import KEEPALIVE_MS, LinkProfile
from endpoint.bringup import Bringup, LinkState, random_epoch
from endpoint.congestion import requests_per_destination
from endpoint.credits import CreditReceiver, CreditSender, Freed
from endpoint.cyclic import MASK
from endpoint.link import POISONED, UNEXPECTED_CONTROL, WRONG_SESSION, FramePort
from endpoint.llr import Arrival, Due, LlrReceiver, LlrSender, ReceiveState, TransmitState

LINK_NOT_UP: Final = "link_not_up"
_WRONG_UPDATES: Final = 3
"""So many wrong CF_UPDATEs in a row, and the link is brought up anew."""
_HELD_MOST: Final = 8192
"""Packets kept for want of credit per virtual channel; senders stop long before, by their windows."""
_KEEPALIVE_S: Final = KEEPALIVE_MS / 1000
_ACK_DELAY_S: Final = 0.001
_ACKS_PER_TIMER: Final = 4
"""An acknowledgement that nothing carries leaves after `_ACK_DELAY_S`, or this part of the replay timer where that is
shorter: in time for the peer's."""
_LEAVING_INITS: Final = 5
"""So often a link that is left says so: nobody stays to say it again if it was lost."""
_LLR_BODY: Final = bytes(LLR_CONTROL.size)
# Plain numbers: what is done with the enumerations' own members costs half a microsecond each time, on every frame.
_DATA: Final = int(Kind.DATA)
_LLR_ACK: Final = int(Kind.LLR_ACK)
_LLR_NACK: Final = int(Kind.LLR_NACK)
_CF_UPDATE: Final = int(Kind.CF_UPDATE)
_CC_UPDATE: Final = int(Kind.CC_UPDATE)
_ANSWERS: Final = frozenset({_LLR_ACK, _LLR_NACK})
_BRING_UP: Final = frozenset({int(Kind.LLR_INIT), int(Kind.LLR_INIT_ECHO)})
_LLR: Final = int(LinkFlag.LLR)
_REPLAY: Final = int(LinkFlag.REPLAY)
_POISON: Final = int(LinkFlag.POISON)


class Retry(NamedTuple):
    """Both ends of link-layer retry in one session."""

    sender: LlrSender
    receiver: LlrReceiver


class ManagedLink:
    """One end of a managed link. All methods are called under the engine's lock.

    `counters` gains: `drop_<reason>`, SAI's `cbfc_num_{cf,cc}_update_messages_{tx,rx}` and
    `llr_{tx,rx}_{init,init_echo}_ctl_os`, `link_ups` (sessions begun), `link_resets` (epochs drawn anew), `silences`,
    `stalls`, `wrong_cf_updates`, `frames_held` (packets that had to wait), `credits_written_off`,
    `link_losses_found` and `link_losses_told` (of lost or damaged frames, by this end and by the other),
    `tx_dropped_link_not_up` (best effort on a link that is not up), `tx_dropped_held` (too many waited). With retry
    also what `endpoint.llr` names, `llr_{tx,rx}_{ack,nack}_ctl_os`, and `llr_flushed` (packets that a link which has
    given up discards).
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
        self._losses_known = 0
        """What the peer last told of losses that it has found."""
        self._held: tuple[deque[tuple[bytes, int]], ...] = tuple(deque() for _ in range(VC_COUNT))
        self._next_held = 0
        """The virtual channel whose turn it is when something that waited may go."""
        self._retry: Retry | None = None
        """None: this session has no link-layer retry."""
        self._replay_timer_s = profile.replay_timer_us / 1e6
        self._timer_ran_out = False
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
        """Packets that wait for credit, or for link-layer retry."""
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
                if self._flushed("discard"):
                    self._counters["llr_flushed"] += 1
                elif len(queue) >= _HELD_MOST:
                    self._counters["tx_dropped_held"] += 1
                else:
                    self._counters["frames_held"] += 1
                    queue.append((packet, frees_vc << 20 | frees if frees_vc >= 0 else -1))
                    return
        elif self.bringup.state is LinkState.UP and self._may_send:
            self._put(_DATA, packet)
        else:
            self._counters["tx_dropped_link_not_up"] += 1
        self._free(frees_vc, frees)

    def _admit(self, vc: int, packet: bytes) -> bool:
        """Send a packet of a lossless VC if the session, link-layer retry and the credits allow it."""
        if not self._may_send:
            return False
        retry = self._retry
        if retry is not None and not retry.sender.has_room(len(packet)) and not self._flushed("best_effort"):
            return False
        sender = self.senders[vc]
        credits = credits_of(len(packet), self._peer_size, self._peer_overhead)
        if not sender.has_room(credits):
            return False
        sender.consume(credits)
        if retry is None:
            self._port.send(frame(_DATA, packet, session=self.bringup.session))
        else:
            self._put_numbered(_DATA, packet)
        return True

    def _release(self) -> None:
        """Send what waited, as far as it may go, one packet of each virtual channel in turn."""
        passed = 0 if self._may_send else VC_COUNT
        while passed < VC_COUNT:
            vc = self._next_held
            self._next_held = (vc + 1) % VC_COUNT
            queue = self._held[vc]
            passed += 1
            if not queue:
                continue
            if not self._lossless >> vc & 1:  # the peer gives it no credits any more
                self._put(_DATA, queue[0][0])
            elif not self._admit(vc, queue[0][0]):
                continue
            passed = 0
            self._freed_by(queue.popleft()[1])

    def _freed_by(self, frees: int) -> None:
        """Free what a packet that waited has kept."""
        if frees >= 0:
            self._free(frees >> 20, frees & 0xFFFFF)

    # ----------------------------------------------------------------------------------------------------- receiving

    def receive(self, data: memoryview) -> memoryview | None:
        """Return the packet that a frame carries, or None; never raises. A packet must be ended by `respond`."""
        try:
            header = parse_link(data)
            kind = header.kind
            if kind in _BRING_UP:
                if header.session:
                    return self._drop(WRONG_SESSION)
                self._take_init(parse_link_init(data[LINK.size :]), kind == Kind.LLR_INIT_ECHO)
                return None
            if self.bringup.state is not LinkState.UP:
                return self._drop(LINK_NOT_UP)
            if header.session != self.bringup.session:
                return self._drop(WRONG_SESSION)
            self._last_heard = self._clock()
            if self._retry is not None and not self._retried(self._retry, header):
                return None
            if header.flags & _POISON:
                return self._take_poisoned(kind, data[LINK.size :])
            if kind == _DATA:
                return self._take_data(data[LINK.size :])
            if kind in (_CF_UPDATE, _CC_UPDATE):
                update = parse_credit_update(data[LINK.size :])
                (self._take_freed if kind == _CF_UPDATE else self._take_consumed)(update)
                return None
        except FrameError as error:
            if error.reason == BAD_CRC and self.bringup.state is LinkState.UP:
                self._counters["link_losses_found"] += 1
                if self._retry is not None:
                    self._retry.receiver.take_bad()
                    self._answer(self._retry, self._clock())
            return self._drop(error.reason)
        return self._drop(UNEXPECTED_CONTROL)  # LLR is not negotiated

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

    def _take_poisoned(self, kind: int, packet: memoryview) -> memoryview | None:
        """Drop a frame whose sender knows that its content is bad; what it took is free again."""
        if kind == _DATA and self._take_data(packet) is not None:
            self.respond(None)
        return self._drop(POISONED)

    def _free(self, vc: int, credits: int) -> None:
        if vc < 0 or not credits:
            return
        receiver = self.receivers[vc]
        receiver.free(credits)
        if receiver.update_due() and self.bringup.state is LinkState.UP:
            self._send_freed()

    def _take_freed(self, update: CreditUpdate) -> None:
        self._counters["cbfc_num_cf_update_messages_rx"] += 1
        mask = update.vc_mask & self._lossless
        wrong = False
        for vc in range(VC_COUNT):
            if mask >> vc & 1:
                wrong |= self.senders[vc].update(update.credits[vc]) is Freed.WRONG
        if wrong:
            self._counters["wrong_cf_updates"] += 1
            self._wrong_updates += 1
            if self._wrong_updates >= _WRONG_UPDATES:
                self._restart()
            return
        self._wrong_updates = 0
        if update.losses != self._losses_known:
            self._losses_known = update.losses
            if self._may_send:  # else it is the session's first: the peer may have started anew
                self._counters["link_losses_told"] += 1
        self._may_send = True
        if any(self._held):
            self._release()

    def _take_consumed(self, update: CreditUpdate) -> None:
        self._counters["cbfc_num_cc_update_messages_rx"] += 1
        mask = update.vc_mask & self._lossless
        lost = 0
        due = False
        for vc in range(VC_COUNT):
            if mask >> vc & 1:
                lost += self.receivers[vc].reconcile(update.credits[vc])
                due |= self.receivers[vc].update_due()
        if lost:
            self._counters["credits_written_off"] += lost
            self._counters["link_losses_found"] += 1
        if due:
            self._send_freed()

    def _drop(self, reason: str) -> memoryview | None:
        self._counters[f"drop_{reason}"] += 1
        return None

    # -------------------------------------------------------------------------------------------------------- retry

    @property
    def transmit_state(self) -> TransmitState:
        """The state of link-layer retry in the sending direction."""
        if self._retry is not None:
            return self._retry.sender.state
        negotiating = self._profile.llr and self.bringup.state is not LinkState.UP
        return TransmitState.INIT if negotiating else TransmitState.OFF

    @property
    def receive_state(self) -> ReceiveState:
        """The state of link-layer retry in the receiving direction."""
        return ReceiveState.OFF if self._retry is None else self._retry.receiver.state

    def _retried(self, retry: Retry, header: LinkHeader) -> bool:
        """Take what a frame says of retry; tell whether the frame itself is still to be taken."""
        now = self._last_heard
        kind = header.kind
        explicit = kind in _ANSWERS
        heard = retry.sender.acknowledge(now, header.ack, explicit)
        if kind == _LLR_NACK:
            self._counters["llr_rx_nack_ctl_os"] += 1
            if heard >= 0:
                retry.sender.asked(now)
        elif kind == _LLR_ACK:
            self._counters["llr_rx_ack_ctl_os"] += 1
        if heard > 0 or kind == _LLR_NACK:
            self._go_on(retry, now)
        flags = header.flags
        if explicit or kind == _CF_UPDATE or not flags & _LLR:
            return not explicit
        arrival = retry.receiver.take(now, header.seq, bool(flags & _REPLAY), bool(flags & _POISON))
        self._answer(retry, now)
        return arrival is not Arrival.REFUSED

    def _go_on(self, retry: Retry, now: float) -> None:
        """Send what is to be replayed, then what waited, as far as the port and the window take it."""
        sender = retry.sender
        while not self._port.backlogged:
            again = sender.take_again(now)
            if again is None:
                break
            sequence, kind, body = again
            self._put(kind, body, _LLR | _REPLAY, sequence)
        if sender.state is TransmitState.FLUSH:
            self._give_up()
        elif any(self._held):
            self._release()

    def _answer(self, retry: Retry, now: float) -> None:
        """Send the ACK or NACK that is due, if one is."""
        receiver = retry.receiver
        due = receiver.due(now)
        if due is Due.ACK:
            self._counters["llr_tx_ack_ctl_os"] += 1
            self._put(_LLR_ACK, _LLR_BODY)
        elif due is Due.NACK:
            self._counters["llr_tx_nack_ctl_os"] += 1
            receiver.asked(now)
            self._put(_LLR_NACK, _LLR_BODY)

    def _flushed(self, action: str) -> bool:
        """Tell whether retry has given up in this session, and this is what becomes of frames since."""
        retry = self._retry
        return retry is not None and retry.sender.state is TransmitState.FLUSH and self._profile.flush_action == action

    def _give_up(self) -> None:
        """Act on replays that were of no use: bring the link up anew, or go on as the profile says."""
        if self._profile.re_init_on_flush:
            self._restart()
        elif self._flushed("best_effort"):
            self._release()
        elif self._flushed("discard"):
            for queue in self._held:
                self._counters["llr_flushed"] += len(queue)
                while queue:
                    self._freed_by(queue.popleft()[1])

    def _poll_retry(self, retry: Retry, now: float) -> float:
        """Do what the time asks for; return when to be called again at the latest."""
        if now >= retry.sender.deadline and not self._timer_ran_out:
            self._timer_ran_out = True  # first look at what has come: it may be the acknowledgement
            return now
        self._timer_ran_out = False
        retry.sender.expire(now)
        self._go_on(retry, now)
        if self._retry is None:  # given up: the link comes up anew
            return now
        self._answer(retry, now)
        # A frame that a caller sends meanwhile, without waking this thread, is due after one replay timer.
        return min(retry.sender.deadline, retry.receiver.deadline, now + self._replay_timer_s)

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
                    self._send_consumed()
            elif self._carrier:
                self._send_init(Kind.LLR_INIT)
        if self._retry is None:
            return self._next_keepalive
        return min(self._next_keepalive, self._poll_retry(self._retry, now))

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
        return self._may_send and self.transmit_state is not TransmitState.FLUSH

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

    def leave(self) -> None:
        """Let the session end before this end is gone.

        Otherwise the peer would learn of it by silence, and what it sends until then would be lost. A new epoch makes
        it keep what is for this end, until another process brings the link up or silence shows that there is none.
        """
        if self._carrier and self.bringup.state is LinkState.UP:
            self._restart()
            for _ in range(_LEAVING_INITS):
                self._send_init(Kind.LLR_INIT)

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
        if self._retry is not None:
            self._counters["llr_tx_discard"] += self._retry.sender.outstanding
            self._retry = None
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
        profile = self._profile
        both = init.lossless_vcs & profile.lossless_mask
        self._lossless = both if init.capabilities & Capability.CBFC else 0
        self._peer_size = 1 << init.credit_size
        self._peer_overhead = init.packet_overhead
        self.senders = [
            CreditSender(limit, used) for limit, used in zip(init.credit_limit, init.credits_in_use, strict=True)
        ]
        if profile.llr and init.capabilities & Capability.LLR:
            self._retry = self._new_retry(init.outstanding_frames_max)

    def _new_retry(self, peer_frames_max: int) -> Retry:
        profile, timer_s = self._profile, self._replay_timer_s
        return Retry(
            LlrSender(
                self._counters,
                frames_max=min(profile.outstanding_frames_max, peer_frames_max or MASK),
                bytes_max=profile.outstanding_bytes_max,
                replay_timer_s=timer_s,
                replay_count_max=profile.replay_count_max,
            ),
            LlrReceiver(
                self._counters, ack_delay_s=min(_ACK_DELAY_S, timer_s / _ACKS_PER_TIMER), nack_repeat_s=_KEEPALIVE_S
            ),
        )

    # ------------------------------------------------------------------------------------------------ control frames

    def _send_init(self, kind: Kind) -> None:
        profile = self._profile
        init = LinkInit(
            capabilities=Capability.CBFC | (Capability.LLR if profile.llr else 0),
            own_epoch=self.bringup.own_epoch,
            peer_epoch=self.bringup.peer_epoch,
            credit_size=profile.credit_size,
            packet_overhead=profile.packet_overhead,
            max_frame=MAX_FRAME,
            lossless_vcs=profile.lossless_mask,
            outstanding_frames_max=profile.outstanding_frames_max if profile.llr else 0,
            credit_limit=profile.limits(),
            credits_in_use=tuple(self._in_use),
        )
        name = "llr_tx_init_ctl_os" if kind == Kind.LLR_INIT else "llr_tx_init_echo_ctl_os"
        self._counters[name] += 1
        self._port.send(frame(kind, link_init_body(init)))

    def _send_freed(self) -> None:
        self._counters["cbfc_num_cf_update_messages_tx"] += 1
        self._put(_CF_UPDATE, self._update_body([receiver.report() for receiver in self.receivers]))

    def _send_consumed(self) -> None:
        """Say what was consumed, unless link-layer retry is busy: with it, nothing is lost that had to be told."""
        retry = self._retry
        if retry is None or retry.sender.has_room(CREDIT_UPDATE.size) or self._flushed("best_effort"):
            self._counters["cbfc_num_cc_update_messages_tx"] += 1
            self._put_numbered(_CC_UPDATE, self._update_body([sender.consumed for sender in self.senders]))

    def _update_body(self, credits: list[int]) -> bytes:
        return credit_update_body(credits, self._counters["link_losses_found"])

    def _put_numbered(self, kind: int, body: bytes) -> None:
        """Send a frame that link-layer retry protects, if the session has it; there must be room."""
        if self._retry is None or self._retry.sender.state is TransmitState.FLUSH:
            self._put(kind, body)
        else:
            self._put(kind, body, _LLR, self._retry.sender.push(self._clock(), kind, body))

    def _put(self, kind: int, body: bytes, flags: int = 0, seq: int = 0) -> None:
        """Send a frame of the session, with the newest acknowledgement."""
        ack = 0 if self._retry is None else self._retry.receiver.told()
        self._port.send(frame(kind, body, flags=flags, seq=seq, ack=ack, session=self.bringup.session))
