"""The tester's end of a link with link-layer retry: numbers what it sends, sends it again, acknowledges what comes.

The machines are those of a GPU's link layer (`endpoint.llr`); what they do a case can see in `heard`, and what the end
acknowledges a case can keep back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from codec.constants import Capability, Kind, LinkFlag, Vc
from codec.control import LinkInit
from codec.frames import BAD_CRC, LinkHeader, frame
from codec.layouts import LLR_CONTROL
from endpoint.cyclic import after
from endpoint.llr import Arrival, Due, LlrReceiver, LlrSender, TransmitState
from ptf_tests.conformance.link_end import LinkEnd
from ptf_tests.links import Profile

_ANSWERS: Final = (Kind.LLR_ACK, Kind.LLR_NACK)
_BODY: Final = bytes(LLR_CONTROL.size)


@dataclass(frozen=True)
class RetrySettings:
    """The tester's own settings. The timers are long: no replay comes of a busy machine."""

    replay_timer_s: float = 20.0
    nack_repeat_s: float = 20.0
    ack_delay_s: float = 0.001
    replay_count_max: int = 100


class Heard(NamedTuple):
    """What a frame from the switch said of link-layer retry."""

    kind: Kind
    numbered: bool
    replayed: bool
    seq: int
    ack: int
    at: float


class RetryEnd(LinkEnd):
    """One end of a managed link that retries where the switch does; `counters` also gains what `endpoint.llr` names.

    It sends no CC_UPDATE: with retry nothing is lost that one would have to tell, and each would take a number.
    """

    def __init__(
        self,
        profile: Profile,
        transmit: Callable[[bytes], None],
        on_packet: Callable[[bytes], None],
        now: float,
        settings: RetrySettings = RetrySettings(),
    ) -> None:
        self.settings = settings
        self.sender: LlrSender | None = None
        self.receiver: LlrReceiver | None = None
        self.heard: list[Heard] = []
        """Every frame of the session so far, in order."""
        self.frozen: int | None = None
        """What is acknowledged for good, whatever comes; None: what has come."""
        self.first = 0
        """First sequence of both directions, from the next bring-up on."""
        super().__init__(profile, transmit, on_packet, now)

    @property
    def again(self) -> list[int]:
        """Sequence numbers of the replayed frames that have come, in order."""
        return [one.seq for one in self.heard if one.replayed]

    @property
    def heard_data(self) -> list[Heard]:
        """The numbered frames among what has come."""
        return [one for one in self.heard if one.numbered]

    @property
    def retries(self) -> bool:
        """Whether link-layer retry is on."""
        return self.sender is not None

    def freeze(self) -> None:
        """Acknowledge from now on only what is acknowledged now."""
        assert self.receiver is not None, "the link does not retry"
        self.frozen = after(self.receiver.expected, -1)

    def ask(self, ack: int) -> None:
        """Send a NACK that acknowledges this, whatever has come."""
        self.forge(frame(Kind.LLR_NACK, _BODY, ack=ack, session=self.session))

    # ------------------------------------------------------------------------------------------------------- sending

    def try_send(self, packet: bytes, vc: int) -> bool:
        """Send a packet, if the link, its credits and the window of link-layer retry allow it now."""
        if self.sender is not None and self._is_numbered(packet) and not self.sender.has_room(len(packet)):
            return False
        return super().try_send(packet, vc)

    def _is_numbered(self, packet: bytes) -> bool:
        vc = packet[0] >> 3 & 7
        return vc != Vc.CONTROL and bool(self._lossless >> self.lane(vc) & 1)

    def _put(self, kind: Kind, body: bytes) -> None:
        if self.sender is not None and kind == Kind.DATA and self._is_numbered(body):
            self._stamp(kind, body, LinkFlag.LLR, self.sender.push(self._now, kind, body))
        else:
            self._stamp(kind, body)

    def _stamp(self, kind: int, body: bytes, flags: int = 0, seq: int = 0) -> None:
        ack = 0
        if self.receiver is not None:
            ack = self.receiver.told()
            ack = ack if self.frozen is None else self.frozen
        self.forge(frame(kind, body, flags=flags, seq=seq, ack=ack, session=self.session))

    def _send_consumed(self) -> None:
        if self.sender is None:
            super()._send_consumed()

    # ----------------------------------------------------------------------------------------------------- receiving

    def _accepts(self, header: LinkHeader) -> bool:
        sender, receiver, kind, flags = self.sender, self.receiver, Kind(header.kind), header.flags
        if sender is None or receiver is None:
            return True
        numbered = bool(flags & LinkFlag.LLR)
        self.heard.append(
            Heard(kind, numbered, bool(flags & LinkFlag.REPLAY), header.seq, header.ack, self._now)
        )  # fmt: skip
        taken = sender.acknowledge(self._now, header.ack, kind in _ANSWERS)
        if kind in _ANSWERS:
            self.counters["llr_rx_ack_ctl_os" if kind == Kind.LLR_ACK else "llr_rx_nack_ctl_os"] += 1
            if kind == Kind.LLR_NACK and taken >= 0:
                sender.asked(self._now)
                self._go_on()
            return False
        if not numbered:
            return True
        arrival = receiver.take(self._now, header.seq, bool(flags & LinkFlag.REPLAY), bool(flags & LinkFlag.POISON))
        self._answer()
        return arrival is Arrival.NEXT

    def _drop(self, reason: str) -> None:
        super()._drop(reason)
        if reason == BAD_CRC and self.receiver is not None:
            self.receiver.take_bad()
            self._answer()

    def _go_on(self) -> None:
        while self.sender is not None and self.sender.state is TransmitState.REPLAY:
            again = self.sender.take_again(self._now)
            assert again is not None, "a replay has a next frame until it ends"
            seq, kind, body = again
            self._stamp(kind, body, LinkFlag.LLR | LinkFlag.REPLAY, seq)

    def _answer(self) -> None:
        assert self.receiver is not None, "called where the link retries"
        due = self.receiver.due(self._now)
        if due is Due.ACK:
            self.counters["llr_tx_ack_ctl_os"] += 1
            self._stamp(Kind.LLR_ACK, _BODY)
        elif due is Due.NACK:
            self.counters["llr_tx_nack_ctl_os"] += 1
            self.receiver.asked(self._now)
            self._stamp(Kind.LLR_NACK, _BODY)

    # ------------------------------------------------------------------------------------------------------ bring-up

    def poll(self, now: float) -> float:
        """Do what the time asks for; return when to be called again at the latest."""
        wake = super().poll(now)
        if self.sender is None or self.receiver is None:
            return wake
        self.sender.expire(now)
        self._go_on()
        self._answer()
        return min(wake, self.sender.deadline, self.receiver.deadline)

    def _begin(self) -> None:
        super()._begin()
        self.sender = self.receiver = self.frozen = None
        self.heard.clear()

    def _come_up(self, init: LinkInit) -> None:
        super()._come_up(init)
        if init.capabilities & self.profile.capabilities & Capability.LLR:
            windows = [one for one in (self.profile.outstanding_frames_max, init.outstanding_frames_max) if one]
            settings = self.settings
            self.sender = LlrSender(
                self.counters,
                frames_max=min(windows),
                bytes_max=1 << 32,
                replay_timer_s=settings.replay_timer_s,
                replay_count_max=settings.replay_count_max,
                first=self.first,
            )
            self.receiver = LlrReceiver(
                self.counters,
                ack_delay_s=settings.ack_delay_s,
                nack_repeat_s=settings.nack_repeat_s,
                first=self.first,
            )
