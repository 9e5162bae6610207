"""Managed links in packet tests: the switch's side is configured here, the peer's side is played here.

Time in the switch is ticks on its event port, and these tests send them: so a keepalive comes when a test asks for it,
and silence costs no waiting.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from finsy.proto import p4r
from scapy.packet import Packet

from codec import layouts
from codec.constants import Kind, NoticeType
from codec.scapy_layers import CreditUpdate, Link, LinkInit, Notice
from ptf_tests.base import EVENT_PORT, MODE_MANAGED, REMOTE, SWITCH_ID, TENANT, TIMEOUT_S, EthlinkTest
from ptf_tests.frames import LINK_BYTES, forwarded, probe, store, with_crc
from ptf_tests.p4runtime import Names

VCS: Final = 8
CYCLE: Final = 1 << 20
"""Credit counters are cyclic."""
IDENTITY_MAP: Final = tuple(range(VCS))
SLOW_PORT: Final = 9
"""A port with a slow queue (`ptf_tests.run`), on which nothing is configured."""
HOLD_PORT: Final = 509
KEEPALIVE_GROUP: Final = 1
KEEPALIVE_TICKS: Final = 10
READ_CREDITS: Final = 2
CREDITS: Final = 3
"""Operations of a PROBE: the question, and its answer."""
SESSION_OFFSET: Final = 6

Lanes = tuple[int, ...]
NONE: Final[Lanes] = (0,) * VCS


def lanes(value: int | Sequence[int]) -> int:
    """Return 8 values, or one value for all, as a word of 8 lanes of 24 bits, VC 0 in the most significant ones."""
    values = (value,) * VCS if isinstance(value, int) else tuple(value)
    word = 0
    for one in values:
        word = word << 24 | one
    return word


def vc_map(vcs: Sequence[int]) -> int:
    """Return the map from a frame's VC to the VC whose credits it uses, 3 bits each, VC 0 in the most significant."""
    word = 0
    for vc in vcs:
        word = word << 3 | vc
    return word


def one_lane(vc: int, value: int) -> Lanes:
    """Return lanes of zeros but for one."""
    return tuple(value if index == vc else 0 for index in range(VCS))


def credits_of(frame: Packet | bytes, credit_size: int = 10, overhead: int = 0) -> int:
    """Return what a frame costs, by the formula of docs/protocol.md."""
    counted = len(bytes(frame)) - LINK_BYTES + overhead
    return (max(counted, 1) + (1 << credit_size) - 1) >> credit_size


def in_session(frame: Packet | bytes, session: int) -> bytes:
    """Return the frame with this session in its link header, and the CRC that it then needs."""
    data = bytes(frame)
    return with_crc(data[:SESSION_OFFSET] + session.to_bytes(2, "big") + data[SESSION_OFFSET + 2 :])


def session_of(epoch: int, other: int) -> int:
    """Return the session of two epochs."""
    both = epoch ^ other
    return (both >> 16 ^ both & 0xFFFF) or 1


@dataclass(frozen=True)
class Profile:
    """What one side of a link is as a receiver."""

    lossless_vcs: int = 0x7F
    vc_map: Sequence[int] = IDENTITY_MAP
    credit_size: int = 10
    packet_overhead: int = 0
    credit_limit: int | Sequence[int] = 40
    update_threshold: int | Sequence[int] = 10
    silence: int = 100
    stall: int = 0
    capabilities: int = 2
    max_frame: int = 4134
    outstanding_frames_max: int = 0
    ecn_threshold: int = 0
    generation: int = 0

    @property
    def limits(self) -> Lanes:
        """The credit limit of each VC."""
        limit = self.credit_limit
        return (limit,) * VCS if isinstance(limit, int) else tuple(limit)


def profile_entry(names: Names, port: int, own: Profile) -> Any:
    """Return the `link_profile` entry of a port."""
    return names.entry(
        "link_profile", {"port": port}, "set_profile",
        lossless_vcs=own.lossless_vcs, vc_map=vc_map(own.vc_map), credit_size=own.credit_size,
        packet_overhead=own.packet_overhead & 0xFF, credit_limit=lanes(own.credit_limit),
        update_threshold=lanes(own.update_threshold), silence=own.silence, stall=own.stall,
        generation=own.generation,
    )  # fmt: skip


def announcement_entry(names: Names, port: int, own: Profile) -> Any:
    """Return the `link_announcement` entry of a port."""
    return names.entry(
        "link_announcement", {"egress_port": port}, "announce",
        capabilities=own.capabilities, credit_size=own.credit_size, packet_overhead=own.packet_overhead & 0xFF,
        max_frame=own.max_frame, lossless_vcs=own.lossless_vcs,
        outstanding_frames_max=own.outstanding_frames_max, credit_limit=lanes(own.credit_limit),
    )  # fmt: skip


@dataclass
class Peer:
    """The other side of a managed port."""

    test: ManagedTest
    port: int
    profile: Profile = Profile()
    """What this side announces; the switch's own profile is the test's."""
    epoch: int = field(default_factory=lambda: random.randint(1, 0xFFFFFFFF))
    switch_epoch: int = 0
    in_use: Lanes = NONE
    """Announced as credits in use: of frames of an earlier session still in this side's buffer."""
    switch_in_use: Lanes = NONE
    """What the switch announced so."""
    losses: int = 0
    """That this side has found on the link, as its updates tell it."""
    switch_losses: int = 0
    """What the switch last told of those that it has found."""

    @property
    def session(self) -> int:
        """The link's session."""
        return session_of(self.epoch, self.switch_epoch)

    def init(self, kind: Kind = Kind.LLR_INIT, peer_epoch: int | None = None, **fields: Any) -> bytes:
        """Return an LLR_INIT or its echo, by default with the switch's epoch as this side knows it."""
        profile = self.profile
        body = {
            "capabilities": profile.capabilities,
            "own_epoch": self.epoch,
            "peer_epoch": self.switch_epoch if peer_epoch is None else peer_epoch,
            "credit_size": profile.credit_size,
            "packet_overhead": profile.packet_overhead,
            "max_frame": profile.max_frame,
            "lossless_vcs": profile.lossless_vcs,
            "outstanding_frames_max": profile.outstanding_frames_max,
            "credit_limit": list(profile.limits),
            "credits_in_use": list(self.in_use),
            **fields,
        }
        return bytes(Link(kind=kind) / LinkInit(**body))

    def update(self, kind: Kind, credits: Sequence[int], vc_mask: int = 0xFF) -> bytes:
        """Return a CF_UPDATE or CC_UPDATE of the link's session."""
        body = CreditUpdate(vc_mask=vc_mask, credits=[one % CYCLE for one in credits], losses=self.losses)
        return in_session(Link(kind=kind) / body, self.session)

    # ------------------------------------------------------------------------------------------------------- sending

    def send(self, frame: Packet | bytes) -> None:
        """Send a frame as it is."""
        self.test.send(self.port, frame)

    def send_data(self, frame: Packet | bytes) -> None:
        """Send a frame in the link's session."""
        self.send(in_session(frame, self.session))

    def free(self, credits: Sequence[int], vc_mask: int = 0xFF) -> None:
        """Send a CF_UPDATE and wait until the switch has counted it."""
        self._send_counted(Kind.CF_UPDATE, "cbfc_num_cf_update_messages_rx", credits, vc_mask)

    def consume(self, credits: Sequence[int], vc_mask: int = 0xFF) -> None:
        """Send a CC_UPDATE and wait until the switch has counted it."""
        self._send_counted(Kind.CC_UPDATE, "cbfc_num_cc_update_messages_rx", credits, vc_mask)

    def _send_counted(self, kind: Kind, counter: str, credits: Sequence[int], vc_mask: int) -> None:
        before = self.test.count(counter, self.port)
        self.send(self.update(kind, credits, vc_mask))
        self.test.expect_count(counter, self.port, before + 1)

    # ----------------------------------------------------------------------------------------------------- receiving

    def expect(self, frame: Packet | bytes) -> None:
        """Check that the next frame is exactly this one."""
        self.test.expect(self.port, frame)

    def expect_data(self, frame: Packet | bytes) -> None:
        """Check that the next frame is this one after one hop, in the link's session."""
        self.expect(in_session(forwarded(frame), self.session))

    def next(self) -> Link:
        """Return the next frame; fail if none comes."""
        data = self.test.receive(self.port)
        assert data is not None, f"nothing came to port {self.port} within {TIMEOUT_S:g} s"
        self.test.assertEqual(data, with_crc(data), "the link CRC")
        return Link(data)

    def expect_init(self, kind: Kind = Kind.LLR_INIT, peer_epoch: int | None = None) -> LinkInit:
        """Check that the next frame is an LLR_INIT (or echo) with the switch's profile; learn the switch's epoch."""
        frame = self.next()
        own = self.test.profiles[self.port]
        self.test.assertEqual((frame.kind, frame.session, frame.flags, frame.seq, frame.ack), (kind, 0, 0, 0, 0))
        body = frame[LinkInit]
        self.test.assertEqual(len(body), len(LinkInit()), "nothing may follow the body")
        said = (body.version, body.capabilities, body.credit_size, body.packet_overhead, body.max_frame)
        expected = (1, own.capabilities, own.credit_size, own.packet_overhead, own.max_frame)
        self.test.assertEqual(said, expected)
        self.test.assertEqual((body.lossless_vcs, tuple(body.credit_limit)), (own.lossless_vcs, own.limits))
        if peer_epoch is not None:
            self.test.assertEqual(body.peer_epoch, peer_epoch)
        self.test.assertNotEqual(body.own_epoch, 0)
        self.switch_epoch = body.own_epoch
        self.switch_in_use = tuple(body.credits_in_use)
        return body

    def expect_update(self, kind: Kind, credits: Sequence[int] | None = None) -> Lanes:
        """Check that the next frame is a CF_UPDATE (or CC_UPDATE) of the session, and what it says."""
        frame = self.next()
        self.test.assertEqual((Kind(frame.kind), frame.session), (kind, self.session))
        self.check_stamp(frame)
        body = frame[CreditUpdate]
        self.test.assertEqual(len(body), len(CreditUpdate()), "nothing may follow the body")
        self.test.assertEqual((body.zero, body.vc_mask), (0, 0xFF))
        self.switch_losses = body.losses
        if credits is not None:
            self.test.assertEqual(tuple(body.credits), tuple(one % CYCLE for one in credits))
        return tuple(body.credits)

    def check_stamp(self, frame: Link) -> None:
        """Check what the link header of an update says of sequences: nothing, without link-layer retry."""
        self.test.assertEqual((frame.flags, frame.seq, frame.ack), (0, 0, 0))

    def expect_freed(self, credits: Sequence[int] | None = None) -> Lanes:
        """Check that the next frame is a CF_UPDATE."""
        return self.expect_update(Kind.CF_UPDATE, credits)

    def expect_freed_up_to(self, credits: Sequence[int]) -> None:
        """Check that the next frames are CF_UPDATEs, none less than the one before, up to this.

        An update says what is free when it leaves, so of two in a row the first may say already what the second does.
        """
        last = NONE
        while last != tuple(credits):
            told = self.expect_freed()
            self.test.assertTrue(all(a <= b for a, b in zip(last, told, strict=True)), f"{told} after {last}")
            self.test.assertTrue(all(a <= b for a, b in zip(told, credits, strict=True)), f"{told} > {credits}")
            last = told

    # ---------------------------------------------------------------------------------------------------- bring-up

    def bring_up(self, freed: Sequence[int] = NONE) -> None:
        """Bring the link up from this side, as a peer that has just started; the switch may send data after it."""
        self.come_up()
        self.free(freed)

    def come_up(self) -> None:
        """Bring the link up, but for the first CF_UPDATE: until then the switch sends no data, what it gets waits."""
        self.switch_epoch = 0
        self.send(self.init())
        self.expect_init(Kind.LLR_INIT_ECHO, peer_epoch=self.epoch)
        self.send(self.init())
        self.expect_init(Kind.LLR_INIT_ECHO, peer_epoch=self.epoch)
        self.expect_freed(NONE)


class ManagedTest(EthlinkTest):
    """A packet test with managed ports; takes their links down after it."""

    def setUp(self) -> None:
        super().setUp()
        self.profiles: dict[int, Profile] = {}
        self._ticks = 0
        self._replication: dict[str, Any] = {}
        self._replicate(HOLD_PORT)
        self.addCleanup(self._take_down)

    def manage(self, *ports: int, profile: Profile = Profile()) -> list[Peer]:
        """Make ports managed, with one profile for the switch and the peers, and return the peers."""
        entry = self.switch.names.entry
        for port in ports:
            if f"session {port}" not in self._replication:
                self._replicate(port)
            self.profiles[port] = profile
            self.install([self._announcement(port), self._profile(port)])
            link = {"vc_map": vc_map(profile.vc_map), "ecn_threshold": profile.ecn_threshold}
            self.modify(entry("egress_config", {"egress_port": port}, "set_managed_link", **link))
            self.modify(self.port_entry(port, mode=MODE_MANAGED))
        self._set_group(KEEPALIVE_GROUP, self.keepalive_ports())
        return [Peer(self, port, profile) for port in ports]

    def change_profile(self, port: int, **fields: Any) -> None:
        """Change the switch's profile of a port."""
        self.profiles[port] = replace(self.profiles[port], **fields)
        self.modify(self._announcement(port))
        self.modify(self._profile(port))

    def links(self, *ports: int, profile: Profile = Profile()) -> list[Peer]:
        """Make ports managed and bring their links up."""
        peers = self.manage(*ports, profile=profile)
        for peer in peers:
            peer.bring_up()
        return peers

    def _profile(self, port: int) -> Any:
        return profile_entry(self.switch.names, port, self.profiles[port])

    def _announcement(self, port: int) -> Any:
        return announcement_entry(self.switch.names, port, self.profiles[port])

    def _replicate(self, port: int) -> None:
        self._clone_session(port, (port, 1))

    def _clone_session(self, number: int, *replicas: tuple[int, int]) -> None:
        """Make a clone session of (port, instance) pairs."""
        entity = p4r.Entity()
        session = entity.packet_replication_engine_entry.clone_session_entry
        session.session_id = number
        for port, instance in replicas:
            session.replicas.add(egress_port=port, instance=instance)
        self.switch.write("INSERT", [entity])
        self._replication[f"session {number}"] = entity

    def forget_clone_session(self, port: int) -> None:
        """Delete a clone session: what is cloned to it is lost."""
        self.switch.write("DELETE", [self._replication.pop(f"session {port}")])

    def remember_clone_session(self, port: int) -> None:
        """Bring a deleted clone session back."""
        self._replicate(port)

    def _set_group(self, number: int, ports: Iterable[int]) -> None:
        name = f"group {number}"
        entity = p4r.Entity()
        group = entity.packet_replication_engine_entry.multicast_group_entry
        group.multicast_group_id = number
        for port in ports:
            group.replicas.add(egress_port=port, instance=port)
        self.switch.write("MODIFY" if name in self._replication else "INSERT", [entity])
        self._replication[name] = entity

    def keepalive_ports(self) -> Iterable[int]:
        """Return the ports that keepalives reach."""
        return self.profiles

    def _take_down(self) -> None:
        for port in self.profiles:
            self.switch.write("MODIFY", [self.port_entry(port)])
            if self.is_installed("link_profile", {"port": port}):
                self.delete("link_profile", {"port": port})  # an open port is as dead as its carrier says
            self.carrier(port, up=False)
            self.carrier(port, up=True)
        if self._replication:
            self.switch.write("DELETE", reversed(self._replication.values()))
        self.tick(-self._ticks % KEEPALIVE_TICKS)

    # ---------------------------------------------------------------------------------------------------------- time

    def tick(self, count: int = 1) -> None:
        """Let time pass in the switch, and wait until it has. The first keepalive of a test is at its tenth tick."""
        self._ticks += count
        self._sense(Notice(type=NoticeType.TICK), count)

    def keepalive(self) -> None:
        """Let the time of one keepalive pass."""
        self.tick(KEEPALIVE_TICKS)

    def carrier(self, port: int, up: bool) -> None:
        """Tell the switch that a port has lost its carrier, or has it again."""
        self._sense(Notice(type=NoticeType.PORT_STATUS, state=int(up), port=port), 1)

    def _sense(self, notice: Packet, count: int) -> None:
        before = self.count("port_rx", EVENT_PORT)
        frame = bytes(Link(kind=0, crc=0) / notice)
        for sent in range(1, count + 1):
            self.send(EVENT_PORT, frame)
            if sent % 100 == 0:
                self.expect_count("port_rx", EVENT_PORT, before + sent)
        self.expect_count("port_rx", EVENT_PORT, before + count)

    # ------------------------------------------------------------------------------------------------------ counters

    def count(self, counter: str, port: int) -> int:
        """Read the packets of a counter's cell."""
        return self.switch.counts([(counter, port)])[counter, port].packets

    def expect_count(self, counter: str, port: int, expected: int) -> None:
        """Wait until a counter's cell has this value; fail with what it has instead."""
        self.wait_until(lambda: self.count(counter, port) >= expected)
        self.assertEqual(self.count(counter, port), expected, f"{counter} of port {port}")

    def credits(self, port: int) -> dict[str, Any]:
        """Ask the switch for a port's credits by a probe; return the answer's fields, its state among them."""
        question = probe(REMOTE[0], SWITCH_ID, op=READ_CREDITS)
        question["Probe"].port = port
        self.switch.packet_out(bytes(question), egress_port=0)
        got = self.switch.packet_in(TIMEOUT_S)
        assert got is not None, f"no answer to a probe of port {port}"
        body = got.payload[LINK_BYTES + layouts.OEFH.size :]
        head = layouts.PROBE.unpack(body)
        self.assertEqual((head["op"], head["port"], got.reason), (CREDITS, port, 127))
        self.assertEqual(len(body), layouts.PROBE.size + layouts.PROBE_CREDITS.size)
        return {**layouts.PROBE_CREDITS.unpack(body[layouts.PROBE.size :]), "state": head["state"]}

    def expect_credits(self, port: int, **expected: Any) -> None:
        """Wait until fields of a port's credits have these values; fail with what they have instead."""
        self.wait_until(lambda: {name: self.credits(port)[name] for name in expected} == expected)
        got = self.credits(port)
        self.assertEqual({name: got[name] for name in expected}, expected)

    def expect_silence_on(self, ports: Iterable[int], timeout_s: float = 0.05) -> None:
        """Check that nothing comes to ports for a while."""
        for port in ports:
            got = self.receive(port, timeout_s)
            if got is not None:
                self.fail(f"port {port} got {len(got)} bytes: {got.hex()}\n{Link(got)!r}")

    def expect_dropped_here(self, port: int, frame: Packet | bytes, reason: str) -> None:
        """Check that a frame counts once under a reason at its port, and that nothing leaves that port."""
        before = self.drops([port])
        self.send(port, frame)
        self.wait_for_drops(before, {(reason, port): 1})
        self.expect_silence_on([port], 0.01)

    def expect_forwarded_to(self, port: int, frame: Packet | bytes) -> None:
        """Check that the next frame on an open port is this one after one hop."""
        self.expect(port, forwarded(frame))

    def stores(self, src: int, dst: int, count: int, **oefh: Any) -> list[bytes]:
        """Return small frames that can be told apart."""
        return [bytes(store(src, dst, index.to_bytes(8, "big"), **oefh)) for index in range(count)]

    def route_to(self, dst: int, port: int) -> None:
        """Give an id of the common tenant a route."""
        self.insert("forward", {"tenant": TENANT, "dst": dst}, "to_port", port=port)
