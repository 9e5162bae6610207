"""Links with link-layer retry in packet tests: the switch's side is configured here, the peer's side is played here.

The replay timer runs in real time, acknowledgements by ticks that the test sends. So most tests set the timer to hours,
and nothing but what they do makes the switch send.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, Final

from scapy.packet import Packet

from codec import layouts
from codec.constants import Kind
from codec.scapy_layers import Link, LlrControl
from ptf_tests.base import REMOTE, SWITCH_ID, TIMEOUT_S
from ptf_tests.frames import LINK_BYTES, forwarded, probe, with_crc
from ptf_tests.links import ManagedTest, Peer, Profile

SEQS: Final = 1 << 20
"""Sequence numbers are cyclic."""
LLR: Final = 2
REPLAY: Final = 4
POISON: Final = 8
"""Flags of the link header."""
LINE_PORT: Final = 508
FAST_LINE_PORT: Final = 504
DELAY_PORT: Final = 505
COPY_SESSIONS: Final = 512
PORT_REPLICA: Final = 2
RETRY_GROUP: Final = 2
READ_RETRY: Final = 6
RETRY: Final = 7
"""Operations of a PROBE: the question, and its answer."""
NEVER_US: Final = 0x7FFFFFFF
DISCARD, BLOCK, BEST_EFFORT = range(3)
TX_OFF, TX_INIT, TX_ADVANCE, TX_REPLAY, TX_FLUSH = range(5)
RX_OFF, RX_SEND_ACKS, RX_SEND_NACK, RX_NACK_SENT = range(4)
ALWAYS: Final = 0xFFFFFFFF
_RUNS: Final = itertools.count(1)
"""The switch remembers the last run of each port: another one begins to count anew."""

RETRIED: Final = Profile(capabilities=3, outstanding_frames_max=32, update_threshold=40)


@dataclass(frozen=True)
class Retry:
    """The switch's settings of link-layer retry on a port."""

    outstanding_frames_max: int = 32
    outstanding_bytes_max: int = 1 << 20
    replay_timer: int = NEVER_US
    replay_count_max: int = 16
    flush_action: int = BLOCK
    re_init_on_flush: int = 0
    degraded_replays: int = 0


def stamped(frame: Packet | bytes, session: int, ack: int, seq: int = 0, flags: int = 0) -> bytes:
    """Return the frame with this link header in front, and the CRC that it then needs."""
    data = bytes(frame)
    word = (data[0] & 0xF0 | flags) << 40 | seq % SEQS << 20 | ack % SEQS
    return with_crc(word.to_bytes(6, "big") + session.to_bytes(2, "big") + data[8:])


@dataclass
class RetryPeer(Peer):
    """The other side of a port with link-layer retry."""

    test: RetryTest
    next_seq: int = 0
    """Of the next frame that this side sends."""
    expected: int = 0
    """What this side expects; it acknowledges the one before in every frame."""
    told: int = SEQS - 1
    """What the switch last acknowledged."""

    def stamp(self, frame: Packet | bytes, seq: int | None = None, flags: int = LLR) -> bytes:
        """Return a numbered frame of the link's session as this side would send it."""
        seq = self.next_seq if seq is None else seq
        return stamped(frame, self.session, self.expected - 1, seq, flags)

    def send_numbered(self, *frames: Packet | bytes) -> None:
        """Send frames with the next numbers."""
        for frame in frames:
            self.send(self.stamp(frame))
            self.next_seq = (self.next_seq + 1) % SEQS

    def send_unnumbered(self, frame: Packet | bytes) -> None:
        """Send a frame without a number."""
        self.send(stamped(frame, self.session, self.expected - 1))

    def control(self, kind: Kind, ack: int | None = None) -> bytes:
        """Return an LLR_ACK or LLR_NACK."""
        ack = self.expected - 1 if ack is None else ack
        return stamped(Link(kind=kind) / LlrControl(), self.session, ack)

    def acknowledge(self, ack: int | None = None) -> None:
        """Send an LLR_ACK, and wait until the switch has counted it."""
        self._counted(self.control(Kind.LLR_ACK, ack), "llr_rx_ack_ctl_os")

    def refuse(self, ack: int | None = None) -> None:
        """Send an LLR_NACK, and wait until the switch has counted it."""
        self._counted(self.control(Kind.LLR_NACK, ack), "llr_rx_nack_ctl_os")

    def update(self, kind: Kind, credits: Any, vc_mask: int = 0xFF) -> bytes:
        data = super().update(kind, credits, vc_mask)
        return stamped(data, self.session, self.expected - 1)

    def _counted(self, frame: bytes, counter: str) -> None:
        before = self.test.count(counter, self.port)
        self.send(frame)
        self.test.expect_count(counter, self.port, before + 1)

    # ----------------------------------------------------------------------------------------------------- receiving

    def check_stamp(self, frame: Link) -> None:
        self.test.assertEqual((frame.flags, frame.seq), (0, 0))
        self.told = frame.ack

    def expect_numbered(self, frame: Packet | bytes, seq: int, replay: bool = False) -> None:
        """Check that the next frame is this one after one hop, with this number."""
        got = self.next()
        self.told = got.ack
        flags = LLR | REPLAY if replay else LLR
        self.test.assertEqual(bytes(got), stamped(forwarded(frame), self.session, got.ack, seq, flags), repr(got))

    def expect_control(self, kind: Kind, ack: int) -> None:
        """Check that the next frame is an LLR_ACK or LLR_NACK that says this."""
        got = self.next()
        self.test.assertEqual(bytes(got), stamped(Link(kind=kind) / LlrControl(), self.session, ack), repr(got))
        self.told = got.ack

    def bring_up(self, freed: Any = (0,) * 8) -> None:
        self.next_seq = self.expected = 0
        self.told = SEQS - 1
        super().bring_up(freed)


class RetryTest(ManagedTest):
    """A packet test with ports that may retry."""

    def setUp(self) -> None:
        super().setUp()
        self.retries: dict[int, Retry] = {}
        for port in (LINE_PORT, FAST_LINE_PORT, DELAY_PORT):
            self._replicate(port)
        self._clone_session(DELAY_PORT + COPY_SESSIONS, (LINE_PORT, 1), (DELAY_PORT, 1))

    def retry_links(self, *ports: int, profile: Profile = RETRIED, up: bool = True, **settings: Any) -> list[RetryPeer]:
        """Make ports managed, with link-layer retry, and bring their links up."""
        self.manage(*ports, profile=profile)
        for port in ports:
            self.retries[port] = Retry(**settings)
            self.install([self._llr_profile(port)])
            self._clone_session(port + COPY_SESSIONS, (LINE_PORT, 1), (port, PORT_REPLICA))
        self._set_group(RETRY_GROUP, self.retries)
        peers = [RetryPeer(self, port, profile) for port in ports]
        for peer in peers if up else ():
            peer.bring_up()
        return peers

    def change_retry(self, port: int, **settings: Any) -> None:
        """Change the switch's settings of a port; they hold from the next bring-up on."""
        self.retries[port] = replace(self.retries[port], **settings)
        self.modify(self._llr_profile(port))

    def _llr_profile(self, port: int) -> Any:
        fields = vars(self.retries[port])
        return self.switch.names.entry("llr_profile", {"port": port}, "set_retry", **fields)

    def change_fault(self, port: int, action: str, control: int = 0, **params: int) -> None:
        """Change a fault while it stands."""
        given = {"probability": ALWAYS, "frames": 0, "run": next(_RUNS), **params}
        match = {"egress_port": port, "control": control}
        self.modify(self.switch.names.entry("link_fault", match, action, **given))

    def impair(self, port: int, action: str, control: int = 0, **params: int) -> None:
        """Put a fault on the link of a port."""
        given = {"probability": ALWAYS, "frames": 0, "run": next(_RUNS), **params}
        self.insert("link_fault", {"egress_port": port, "control": control}, action, **given)

    def retry_state(self, port: int) -> dict[str, Any]:
        """Ask the switch for a port's link-layer retry by a probe; return the answer's fields."""
        question = probe(REMOTE[0], SWITCH_ID, op=READ_RETRY)
        question["Probe"].port = port
        self.switch.packet_out(bytes(question), egress_port=0)
        got = self.switch.packet_in(TIMEOUT_S)
        assert got is not None, f"no answer to a probe of port {port}"
        body = got.payload[LINK_BYTES + layouts.OEFH.size :]
        head = layouts.PROBE.unpack(body)
        self.assertEqual((head["op"], head["port"], got.reason), (RETRY, port, 127))
        self.assertEqual(len(body), layouts.PROBE.size + layouts.PROBE_RETRY.size)
        return layouts.PROBE_RETRY.unpack(body[layouts.PROBE.size :])

    def expect_retry(self, port: int, **expected: Any) -> None:
        """Wait until fields of a port's link-layer retry have these values; fail with what they have instead."""
        self.wait_until(lambda: {name: self.retry_state(port)[name] for name in expected} == expected)
        got = self.retry_state(port)
        self.assertEqual({name: got[name] for name in expected}, expected)
