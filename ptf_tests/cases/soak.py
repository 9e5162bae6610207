"""Random traffic between managed ports, with random credits, keepalives and restarts, against a model of the peers."""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field

from codec.constants import Kind
from codec.scapy_layers import CreditUpdate, Link, LinkInit
from ptf_tests.frames import store
from ptf_tests.links import CYCLE, VCS, ManagedTest, Peer, Profile, in_session

PORTS = (1, 2, 3)
USED_VCS = (0, 1, 5)
PROFILE = Profile(credit_limit=12, update_threshold=3, silence=0)


@dataclass
class Station:
    """A peer that keeps to its credits, as sender and as receiver, and checks that the switch does."""

    peer: Peer
    consumed: list[int] = field(default_factory=lambda: [0] * VCS)
    freed: list[int] = field(default_factory=lambda: [0] * VCS)
    arrived: list[int] = field(default_factory=lambda: [0] * VCS)
    drained: list[int] = field(default_factory=lambda: [0] * VCS)
    came: deque[tuple[int, int, int, int]] = field(default_factory=deque)
    """(source, VC, F, number) of what arrived, in order."""
    next_epoch: int = 1000

    def room(self, vc: int) -> int:
        """Return how many frames may be sent on a VC."""
        return PROFILE.limits[vc] - (self.consumed[vc] - self.freed[vc]) % CYCLE

    def take(self, data: bytes, test: Soak) -> None:
        """Take a frame that the switch sent."""
        frame = Link(data)
        if frame.kind in (Kind.LLR_INIT, Kind.LLR_INIT_ECHO):
            return
        test.assertEqual(frame.session, self.peer.session)
        if frame.kind == Kind.CF_UPDATE:
            for vc, told in enumerate(frame[CreditUpdate].credits):
                test.assertLessEqual((told - self.freed[vc]) % CYCLE, (self.consumed[vc] - self.freed[vc]) % CYCLE)
                self.freed[vc] = told
        elif frame.kind == Kind.CC_UPDATE:
            test.assertEqual(list(frame[CreditUpdate].credits), self.arrived, "the link loses nothing")
        else:
            oefh = frame["OEFH"]
            self.arrived[oefh.vc] += 1
            test.assertLessEqual(self.arrived[oefh.vc] - self.drained[oefh.vc], PROFILE.limits[oefh.vc], "overflow")
            self.came.append((oefh.src, oefh.vc, oefh.f, int.from_bytes(frame["LSU"].data, "big")))


class Soak(ManagedTest):
    """What the tests below share."""

    def start(self, seed: int) -> None:
        """Bring the links up."""
        self.rng = random.Random(seed)
        self.stations = {peer.port: Station(peer) for peer in self.links(*PORTS, profile=PROFILE)}
        self.sent: Counter[tuple[int, int, int, int, int]] = Counter()
        self.number = 0

    def step(self) -> None:
        """Do one thing at random, then take what has come."""
        src = self.rng.choice(PORTS)
        station = self.stations[src]
        choice = self.rng.random()
        if choice < 0.6:
            self.send_some(src)
        elif choice < 0.95:
            self.drain(station, self.rng.randint(1, 8))
        else:
            self.keepalive()
        self.take_all()

    def send_some(self, src: int) -> None:
        """Send a few frames of one VC to one destination, within credit."""
        station, vc, f = self.stations[src], self.rng.choice(USED_VCS), self.rng.choice((0, 0, 1))
        dst = self.rng.choice(PORTS)
        for _ in range(min(self.rng.randint(1, 6), station.room(vc))):
            self.number += 1
            frame = store(src, dst, self.number.to_bytes(8, "big"), vc=vc, f=f, entropy=self.number & 0xFF)
            station.consumed[vc] = (station.consumed[vc] + 1) % CYCLE
            self.sent[src, dst, vc, f, self.number] += 1
            self.send(src, in_session(frame, station.peer.session))

    def drain(self, station: Station, count: int) -> None:
        """Free some of what has arrived, and tell the switch."""
        for vc in USED_VCS:
            station.drained[vc] = min(station.drained[vc] + count, station.arrived[vc])
        station.peer.send(station.peer.update(Kind.CF_UPDATE, station.drained))

    def take_all(self, timeout_s: float = 0.0) -> bool:
        """Take what has come; return whether anything has."""
        taken = False
        for port, station in self.stations.items():
            while (data := self.receive(port, timeout_s)) is not None:
                station.take(data, self)
                taken = True
        return taken

    def all_drained(self) -> bool:
        """Drain what there is, and return whether the switch has nothing left to send."""
        self.take_all(0.05)
        for station in self.stations.values():
            self.drain(station, 100)
        self.take_all(0.05)
        drained = all(station.arrived == station.drained for station in self.stations.values())
        return drained and not any(sum(self.credits(port)["held_frames"]) for port in PORTS)

    def finish(self) -> Counter[tuple[int, int, int, int, int]]:
        """Let everything drain; return what has arrived, as it was sent; check that no credit is missing."""
        self.wait_until(self.all_drained)
        self.keepalive()
        self.take_all(0.2)
        got: Counter[tuple[int, int, int, int, int]] = Counter()
        for port, station in self.stations.items():
            last: dict[tuple[int, int], int] = {}
            for src, vc, f, number in station.came:
                got[src, port, vc, f, number] += 1
                if f == 0:
                    self.assertGreater(number, last.get((src, vc), 0), f"order from {src} to {port} on VC {vc}")
                    last[src, vc] = number
            here = self.credits(port)
            self.assertEqual(list(here["sender_credits_consumed"]), station.arrived)
            self.assertEqual(list(here["sender_credits_freed"]), station.arrived)
            self.assertEqual(list(here["receiver_credits_consumed"]), station.consumed)
            self.assertEqual(list(here["receiver_credits_freed"]), station.consumed)
            self.assertEqual(station.freed, station.consumed)
            self.assertEqual(sum(here["held_frames"]), 0)
        return got


class NothingLost(Soak):
    """Every frame arrives exactly once; F = 0 in order; no buffer is ever exceeded; all credits come back."""

    def runTest(self) -> None:
        self.start(seed=11)
        before = self.drops(PORTS)
        held = sum(self.count("frames_held", port) for port in PORTS)
        for _ in range(500):
            self.step()
        self.assertEqual(self.finish(), self.sent)
        self.assertEqual(self.new_drops(before), {})
        self.assertGreater(sum(self.count("frames_held", port) for port in PORTS), held, "nothing had to wait")


class Restarts(Soak):
    """Peers restart under load, with frames held for them and from them: no frame comes twice or out of order, none
    that the switch had accepted is lost but for what was on a restarted peer's wire, and all credits come back."""

    def runTest(self) -> None:
        self.start(seed=12)
        lost_at_most = 0
        for _ in range(12):
            for _ in range(25):
                self.step()
            lost_at_most += self.restart(self.rng.choice(PORTS))
        got = self.finish()
        self.assertLessEqual(got.keys(), self.sent.keys())
        self.assertEqual(set(got.values()), {1})
        self.assertLessEqual(len(self.sent) - len(got), lost_at_most)

    def restart(self, port: int) -> int:
        """Restart a peer; return how many frames may have been lost by it."""
        station, received = self.stations[port], self.count("port_rx", port)
        self.keepalive()
        self.take_all(0.02)
        peer = station.peer
        peer.epoch += 1 + self.rng.randint(0, 1 << 20)
        peer.send(peer.init(peer_epoch=0))
        on_the_wire = 0
        while (frame := peer.next()).kind != Kind.LLR_INIT_ECHO:
            on_the_wire += frame.kind == Kind.DATA
        peer.switch_epoch = frame[LinkInit].own_epoch
        peer.switch_in_use = tuple(frame[LinkInit].credits_in_use)
        station.consumed, station.freed = list(peer.switch_in_use), [0] * VCS
        station.arrived, station.drained = [0] * VCS, [0] * VCS
        peer.send(peer.init())
        while (frame := peer.next()).kind != Kind.CF_UPDATE:
            self.assertEqual(frame.kind, Kind.LLR_INIT_ECHO)
        station.take(bytes(frame), self)
        peer.send(peer.update(Kind.CF_UPDATE, station.drained))
        self.assertGreater(self.count("port_rx", port), received)
        return on_the_wire + self.count("stale_session", port)
