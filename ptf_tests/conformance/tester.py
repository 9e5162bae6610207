"""What every conformance case stands on: link ends on the switch's ports, traffic, time, counters, records.

The tester runs in one thread: `run_for` and `run_until` serve all link ends and flows meanwhile. It also gives the
switch its clock, a tick per millisecond on the event port, so that a tester that is held up does not look like a dead
peer.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

import grpc
from finsy.proto import p4r

from codec.constants import HOPS, Next, NoticeType, Vc
from codec.frames import open_frame
from codec.layouts import LINK, PROBE, PROBE_CREDITS
from codec.layouts import OEFH as OEFH_LAYOUT
from codec.scapy_layers import OEFH, Link, Notice, Probe
from ptf_tests.base import DROP_REASONS, EVENT_PORT, PORTS, REMOTE, SWITCH_ID
from ptf_tests.conformance.flows import Flow, Packets, flow_of
from ptf_tests.conformance.link_end import LinkEnd
from ptf_tests.conformance.processor_waits import waits
from ptf_tests.conformance.records import Figure, Journal, Record, exact
from ptf_tests.conformance.settings import JOURNAL, PATIENT_TICKS, QUICK, SWITCH_PID, THRIFT_PORT
from ptf_tests.links import CYCLE, VCS, ManagedTest, Profile, credits_of, vc_map

TICK_S: Final = 0.001
_STALL_S: Final = 0.01
"""Between two turns of the tester's loop; what is more is time that did not pass for it, its links and its switch."""
_WINDOWS: Final = 3
_DISTURBED: Final = 0.1
"""Of a window, spent by the switch or the tester waiting for a processor: the machine was too busy to measure."""
_NAP_S: Final = 0.002
_NOTICES_S: Final = 0.01
"""What a tick causes, keepalives, comes back to the switch's ingress a moment later."""
_PATIENCE_S: Final = 10.0
_REACTION_S: Final = 2.0
_SO_RCVBUFFORCE: Final = 33
_RECEIVE_BUFFER: Final = 8 << 20
_PROBE_OP_READ_CREDITS: Final = 2
_PROBE_OP_CREDITS: Final = 3
_PROBER: Final = REMOTE[0]
COUNTERS: Final = (
    "sender_credits_consumed", "sender_credits_freed", "sender_credit_limit", "sender_credits_used_watermark",
    "receiver_credits_consumed", "receiver_credits_freed", "held_frames",
)  # fmt: skip
"""What a probe and the registers of the same names tell of a port, per VC."""

DIAGNOSTIC: Final = (
    "frames_held", "frames_released", "frames_returned", "tickets_skipped", "holds_written_off", "buffers_written_off",
    "losses_written_off", "wrong_cf_updates", "wrong_cc_updates", "stale_session", "link_ups", "link_resets",
    "silences", "llr_tx_replay", "llr_replay_timeouts", "llr_flushes", "llr_copies_lost", "llr_rx_missing_seq",
    "llr_rx_expected_seq_bad", "llr_tx_nack_ctl_os", "llr_rx_nack_ctl_os",
)  # fmt: skip
"""Counters that tell why a case failed."""

Lanes = tuple[int, ...]
_T = TypeVar("_T")


@dataclass(frozen=True)
class Credits:
    """The credit counters of a port of the switch, per VC."""

    sender_credits_consumed: Lanes
    sender_credits_freed: Lanes
    sender_credit_limit: Lanes
    sender_credits_used_watermark: Lanes
    receiver_credits_consumed: Lanes
    receiver_credits_freed: Lanes
    held_frames: Lanes

    @property
    def sender_credits_used(self) -> Lanes:
        """Consumed and, as far as the switch knows, not freed."""
        return _differences(self.sender_credits_consumed, self.sender_credits_freed)

    @property
    def receiver_credits_used(self) -> Lanes:
        """Of frames in the switch's buffer."""
        return _differences(self.receiver_credits_consumed, self.receiver_credits_freed)


class Growth(NamedTuple):
    """By how much the cyclic counters of a VC have grown, in credits."""

    sender_credits_consumed: int
    sender_credits_freed: int
    receiver_credits_consumed: int
    receiver_credits_freed: int


def _differences(left: Lanes, right: Lanes) -> Lanes:
    return tuple((one - other) % CYCLE for one, other in zip(left, right, strict=True))


def sizes(all_of_them: Sequence[int]) -> Sequence[int]:
    """Return the frame sizes to run: all, or with QUICK a few that tell most."""
    return [all_of_them[0], 1024, 1025, all_of_them[-1]] if os.environ.get(QUICK) else all_of_them


class ConformanceTest(ManagedTest):
    """A conformance case. `case` names it; a subclass writes at least one record."""

    case = ""
    patience = 1.0
    """Scales how long is waited for what should happen: less where it is known that it will not."""
    windows_most = 12
    """Of a rate that is not what it should be, on a machine that is too busy to measure."""

    def setUp(self) -> None:
        super().setUp()
        self.ends: dict[int, LinkEnd] = {}
        self.flows: dict[int, Flow] = {}
        self._sources: list[tuple[LinkEnd, Flow]] = []
        self._tick = bytes(Link(kind=0, crc=0) / Notice(type=NoticeType.TICK))
        self._stalled = 0.0
        self._latest = 0.0
        self._served = time.monotonic()
        self._ticked = self.now()
        self._clock_stopped = False
        self._failed: list[str] = []
        self.windows = 1
        """How many windows the last rates took."""
        self._flow_numbers = iter(range(1, 256))
        self._event_frames = self.count("port_rx", EVENT_PORT)
        self._counted_first = self._counted()
        self.addCleanup(self._let_ticks_pass)
        for port in self.dataplane.ports.values():
            port.socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)

    @property
    def quick(self) -> bool:
        """Whether only a short run is wanted."""
        return bool(os.environ.get(QUICK))

    # --------------------------------------------------------------------------------------------------------- links

    def link_ends(self, *ports: int, profile: Profile, tester: Profile | None = None) -> list[LinkEnd]:
        """Make ports managed, the switch with one profile and the tester's ends with another (default: the same one),
        and bring the links up."""
        self.manage(*(port for port in ports if port not in self.profiles), profile=profile)
        for port in ports:
            self._set_profile(port, profile)
        now = self.now()
        for port in ports:
            self.ends[port] = self.new_end(port, tester or profile, now)
        ends = [self.ends[port] for port in ports]
        if not self.run_until(lambda: all(end.is_ready for end in ends)):
            self.fail(f"{self.case}: links of ports {ports} did not come up within {_PATIENCE_S:g} s")
        self.settle()
        return ends

    def new_end(self, port: int, profile: Profile, now: float) -> LinkEnd:
        """Return the tester's end of the link on a port."""
        return LinkEnd(profile, self._transmitter(port), self._arrived, now)

    def _set_profile(self, port: int, profile: Profile) -> None:
        """Give a managed port another profile; it holds from the next session on."""
        self.change_profile(port, **{one.name: getattr(profile, one.name) for one in fields(profile)})
        entry = self.switch.names.entry
        link = {"vc_map": vc_map(profile.vc_map), "ecn_threshold": profile.ecn_threshold}
        self.modify(entry("egress_config", {"egress_port": port}, "set_managed_link", **link))

    def _transmitter(self, port: int) -> Callable[[bytes], None]:
        cable = self.dataplane.ports[(0, port)]
        return lambda frame: cast(None, cable.send(frame))

    def flow(self, src: int, dst: int, size: int, vc: int, *, f: int = 0) -> Flow:
        """Return numbered traffic that is not sent by itself yet."""
        number = next(self._flow_numbers)
        flow = Flow(Packets(number, src, dst, vc, size, f), 0.0, self.now())
        self.flows[number] = flow
        return flow

    def burst(self, end: LinkEnd, flow: Flow, count: int) -> None:
        """Send frames of a flow at once; there has to be credit for them."""
        for _ in range(count):
            if not end.try_send(flow.packets.make(flow.sent), flow.packets.vc):
                self.fail(f"{self.case}: no credit for {count} frames of {flow.packets.size} bytes at the tester")
            flow.sent += 1

    def send_openly(self, port: int, flow: Flow, count: int) -> None:
        """Send frames of a flow on an open port."""
        for _ in range(count):
            self.send(port, open_frame(flow.packets.make(flow.sent)))
            flow.sent += 1

    def offer(self, end: LinkEnd, flow: Flow, rate: float) -> None:
        """Let a link end send frames of a flow at this pace from now on, as far as there is credit."""
        self._sources = [(one, other) for one, other in self._sources if other is not flow]
        flow.rate = rate
        flow.restart(self.now())
        if rate:
            self._sources.append((end, flow))

    def stop(self) -> None:
        """Offer no more traffic."""
        self._sources.clear()

    # ---------------------------------------------------------------------------------------------------------- time

    def now(self) -> float:
        """Return the tester's time, in seconds: monotonic, without the times in which the tester itself was held up."""
        self._latest = max(self._latest, time.monotonic() - self._stalled)
        return self._latest

    def run_for(self, seconds: float) -> None:
        """Serve everything for so long."""
        deadline = self.now() + seconds
        while (now := self.now()) < deadline:
            self._serve(now, deadline)

    def run_until(self, condition: Callable[[], bool], timeout_s: float = _PATIENCE_S) -> bool:
        """Serve everything until a condition is true; return whether it came true in time."""
        deadline = self.now() + timeout_s * self.patience
        while not condition():
            now = self.now()
            if now > deadline:
                return False
            self._serve(now, deadline)
        return True

    def settle(self) -> None:
        """Let the switch finish what it has: two keepalives."""
        self.run_for(0.03)

    def _serve(self, now: float, deadline: float) -> None:
        """Do what is due, then take what has come; return after a short while at the latest."""
        real = time.monotonic()
        stalled = max(0.0, real - self._served - _STALL_S)
        self._stalled += stalled
        self._served = real
        now = self.now()
        self._give_ticks(now)
        wake = min(deadline, now + _NAP_S)
        for end in self.ends.values():
            wake = min(wake, end.poll(now))
        for end, flow in self._sources:
            while flow.due(now):
                if end.try_send(flow.packets.make(flow.sent), flow.packets.vc):
                    flow.took(now)
                else:
                    flow.waits(now)
            wake = min(wake, flow.next_due)
        for port, frame in self._taken(max(0.0, wake - self.now())):
            if port in self.ends:
                self.ends[port].arrived(frame, self.now())

    @contextmanager
    def clock_stopped(self) -> Iterator[None]:
        """Let no time pass in the switch: nothing leaves it, and nothing is done, because of a keepalive."""
        self._clock_stopped = True
        self._let_ticks_pass()  # a switch that is busy may not have taken the last ones yet
        time.sleep(_NOTICES_S)
        try:
            yield
        finally:
            self._clock_stopped = False
            self._ticked = self.now()

    def _give_ticks(self, now: float) -> None:
        if self._clock_stopped:
            return
        while self._ticked + TICK_S <= now:
            self._ticked += TICK_S
            self._event_frames += 1
            self.dataplane.ports[(0, EVENT_PORT)].send(self._tick)

    def _let_ticks_pass(self) -> None:
        """Wait until the switch has taken all ticks: the next to use the event port counts its frames."""
        self.wait_until(lambda: self.count("port_rx", EVENT_PORT) >= self._event_frames)

    def _taken(self, wait_s: float) -> list[tuple[int, bytes]]:
        """Return all frames that ptf has received, by port; wait for one for a while."""
        plane = self.dataplane
        frames: list[tuple[int, bytes]] = []
        with plane.cvar:
            if not any(plane.packet_queues.values()) and wait_s:
                plane.cvar.wait(wait_s)
            for (_, port), queue in plane.packet_queues.items():
                if queue:
                    frames += [(port, bytes(packet)) for packet, _ in queue]
                    queue.clear()
        return frames

    def _arrived(self, packet: bytes) -> None:
        number, index = flow_of(packet)
        if number in self.flows:
            self.flows[number].arrived(index, packet)

    # ------------------------------------------------------------------------------------------------------ counters

    def credits_at(self, port: int) -> Credits:
        """Read a port's credit counters by a probe, the portable way, and compare with registers where there are."""
        body = Probe(op=_PROBE_OP_READ_CREDITS, port=port)
        packet = Link() / OEFH(src=_PROBER, dst=SWITCH_ID, hops=HOPS, vc=Vc.CONTROL, next=Next.PROBE) / body
        self.switch.packet_out(bytes(packet), egress_port=0)
        answers: list[bytes] = []

        def answered() -> bool:
            got = self.switch.packet_in(0)
            if got is not None:
                answers.append(got.payload)
            return bool(answers)

        if not self.run_until(answered, 5.0):
            self.fail(f"{self.case}: the switch does not answer probes")
        probe = answers[0][LINK.size + OEFH_LAYOUT.size :]
        self.assertEqual(PROBE.unpack(probe)["op"], _PROBE_OP_CREDITS, "op of the answer to a probe")
        values = PROBE_CREDITS.unpack(probe[PROBE.size :])
        return Credits(**{name: cast("Lanes", values[name]) for name in COUNTERS})

    def check_registers(self, port: int, credits: Credits) -> str:
        """Compare a port's registers with what a probe said of it; return a note on it. Nothing may be in motion."""
        read = {name: self._register(name, port) for name in COUNTERS}
        if any(lanes is None for lanes in read.values()):
            return "by probe; the target reads no registers over P4Runtime"
        self.assertEqual(read, asdict(credits), f"{self.case}: registers of port {port} against its probe")
        return "by probe and by register reads, which agree"

    def _register(self, name: str, index: int) -> Lanes | None:
        ids = {item.preamble.alias: item.preamble.id for item in self.switch.names.p4info.registers}
        entity = p4r.Entity()
        entity.register_entry.register_id = ids[name]
        entity.register_entry.index.index = index
        try:
            (answer,) = self.switch.read([entity])
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNKNOWN):
                return None
            raise
        word = int.from_bytes(answer.register_entry.data.bitstring, "big")
        return tuple(word >> 24 * (VCS - 1 - vc) & 0xFFFFFF for vc in range(VCS))

    def set_register(self, name: str, index: int, value: int) -> None:
        """Write a cell of a register of plain numbers, of a link on which nothing moves; over Thrift where the target's
        P4Runtime server cannot."""
        if self.switch.write_register(name, index, value):
            return
        done = subprocess.run(
            ["simple_switch_CLI", "--thrift-port", os.environ[THRIFT_PORT]],
            input=f"register_write {name} {index} {value}\n",
            capture_output=True, text=True, check=False, timeout=_PATIENCE_S,
        )  # fmt: skip
        if done.returncode or "Error" in done.stdout or "Invalid" in done.stdout:
            self.fail(f"{self.case}: register {name}[{index}] cannot be written: {done.stdout}{done.stderr}")

    def used(self, port: int, role: str, vc: int, credits: int) -> Credits:
        """Wait a while until so many credits of the 'sender' or 'receiver' are used; return the last reading anyhow."""
        deadline = self.now() + _REACTION_S * self.patience
        while True:
            now = self.credits_at(port)
            if getattr(now, f"{role}_credits_used")[vc] == credits or self.now() > deadline:
                return now
            self.run_for(0.005)

    def freed(self, end: LinkEnd, vc: int) -> bool:
        """Wait a while until the switch has told a link end that all it sent on a VC has left the buffer."""
        return self.run_until(lambda: end.senders[vc].used == 0, _REACTION_S)

    def delivered(self, flow: Flow) -> bool:
        """Wait a while until all that was sent of a flow has arrived."""
        return self.run_until(lambda: flow.outstanding == 0, _REACTION_S)

    def rates(
        self, counts: Callable[[], Sequence[int]], seconds: float, settled: Callable[[list[float]], bool] | None = None
    ) -> list[float]:
        """Run for a window and return how fast some counts grew in it, per second; `settled` as for `measured`."""

        def grown() -> list[float]:
            before, started = counts(), self.now()
            self.run_for(seconds)
            after, elapsed = counts(), self.now() - started
            return [(now - then) / elapsed for then, now in zip(before, after, strict=True)]

        return self.measured(grown, settled)

    def measured(self, measure: Callable[[], _T], settled: Callable[[_T], bool] | None = None) -> _T:
        """Measure something in a window of time, and return it.

        Where `settled` says that it is not what it should be, it is measured in the next window: up to three, not
        counting those in which the switch or the tester had to wait for a processor. A fault shows in each window.
        """
        calm = 0
        most = self.windows_most
        for self.windows in range(1, most + 1):
            started, waited = self.now(), _waited_s()
            result = measure()
            calm += _waited_s() - waited < _DISTURBED * (self.now() - started)
            if settled is None or settled(result) or calm == _WINDOWS:
                break
        return result

    # ------------------------------------------------------------------------------------------------------- records

    def record(
        self, size: int | None, configuration: dict[str, Any], figures: Sequence[Figure], notes: str = ""
    ) -> bool:
        """Write a record; return whether it passed. One that does not makes the test fail at its end."""
        if self.windows > 1:
            notes = f"{notes}; measured in window {self.windows}, on a busy machine".removeprefix("; ")
            self.windows = 1
        figures = tuple(figures)
        if not all(figure.passed for figure in figures):
            notes = f"{notes}; {self._diagnosis()}".removeprefix("; ")
        record = Record(self.case, size, configuration, figures, notes)
        Journal(Path(os.environ[JOURNAL])).add(record)
        if not record.passed:
            self._failed.append(f"{self.case} {size} {configuration}: {record.failures()}")
        return record.passed

    def _counted(self) -> dict[tuple[str, int], int]:
        cells = [(name, port) for name in (*DROP_REASONS, *DIAGNOSTIC) for port in PORTS]
        return {cell: count.packets for cell, count in self.switch.counts(cells).items()}

    def _diagnosis(self) -> str:
        """Return what the switch has dropped and done in this test, for a record that fails."""
        now = self._counted()
        changed = {cell: now[cell] - before for cell, before in self._counted_first.items() if now[cell] != before}
        switch = ", ".join(f"{count} {name} at port {port}" for (name, port), count in changed.items())
        own = ", ".join(
            f"{count} {name} at port {port}" for port, end in self.ends.items() for name, count in end.counters.items()
        )
        return f"the switch counted {switch or 'nothing'}; the tester {own or 'nothing'}"

    def conclude(self) -> None:
        """End the case: fail if a record did not pass."""
        if self._failed:
            self.fail("\n".join(self._failed))

    def no_loss(self, *flows: Flow) -> list[Figure]:
        """Return the figures of flows that have to arrive whole, once everything has been drained."""
        self.run_until(lambda: all(flow.outstanding == 0 for flow in flows), 5.0)
        self.settle()
        return [
            exact("frames_lost", 0, sum(flow.outstanding for flow in flows), "frames"),
            exact("frames_wrong", 0, sum(flow.wrong for flow in flows), "frames"),
            exact("frames_repeated", 0, sum(flow.repeated for flow in flows), "frames"),
            exact("frames_disordered", 0, sum(flow.disordered for flow in flows if not flow.packets.f), "frames"),
            exact("over_limit", 0, sum(end.counters["over_limit"] for end in self.ends.values()), "frames"),
        ]


def patient(**settings: Any) -> Profile:
    """Return a profile that a busy machine does not bring down by silence."""
    return Profile(**{"silence": PATIENT_TICKS, **settings})


def _waited_s() -> float:
    """Return for how long the threads of the switch and of the tester have waited for a processor."""
    return sum(sum(waits(pid).values()) for pid in (os.environ[SWITCH_PID], "self"))


def growth(before: Credits, after: Credits, vc: int) -> Growth:
    """Return by how much the cyclic counters of a VC have grown."""
    return Growth(**{name: (getattr(after, name)[vc] - getattr(before, name)[vc]) % CYCLE for name in Growth._fields})


def describe(profile: Profile, **more: Any) -> dict[str, Any]:
    """Return a configuration for a record."""
    about: dict[str, Any] = {
        "credit_size": 1 << profile.credit_size,
        "packet_overhead": profile.packet_overhead,
        "credit_limit": profile.credit_limit if isinstance(profile.credit_limit, int) else list(profile.credit_limit),
    }
    return {**about, **more}


def cost(size: int, profile: Profile) -> int:
    """Return the credits of a frame with so many bytes after the link header."""
    return credits_of(bytes(LINK.size + size), profile.credit_size, profile.packet_overhead)
