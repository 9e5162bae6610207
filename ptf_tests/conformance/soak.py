"""Soak managed links: very many frames through a real switch, while control frames are lost, repeated and late, data is
lost, and peers and the switch restart. In the end every credit must be back, and every loss must have a name.

    python -m ptf_tests.conformance --soak 1000000

A whole fabric runs (`topologies.session`) with the tester's link ends in the places of its GPUs. GPU 1 drains slowly
and is sent to in order on one virtual channel only, so that most of its frames wait in the switch, each with a ticket
of 16 bits: the frames held for its port are the tickets drawn.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from rich.console import Console

from codec.constants import Kind
from codec.profile import KEEPALIVE_MS
from controller.credits import LinkState, PortCredits
from controller.probing import NoAnswers
from controller.reader import PortCounters, ReadError, SwitchReader
from ptf_tests.conformance.link_end import AT_ONCE
from ptf_tests.conformance.records import Record, at_least, at_most, exact
from ptf_tests.conformance.stations import CONTROL, FABRIC_PROFILE, LIMIT, SLOW, Stations
from ptf_tests.conformance.wire import Harm
from topologies.session import FabricSession, LinkSetting

CASE: Final = "SOAK"
GPUS: Final = 4
TOPO: Final = f"planes,{GPUS},1"
SETTING: Final = LinkSetting(FABRIC_PROFILE)
SWITCH: Final = "s1"
KEEPALIVES: Final = 3
"""Periods after which credits are right again."""
TICKETS: Final = 1 << 16
FRAMES_PER_SCENE: Final = 20_000
FEWEST_SCENES: Final = 9
_LEAST_FOR_TICKETS: Final = 900_000
"""Frames of a soak in which the tickets have to wrap."""
_KEEPALIVE_S: Final = KEEPALIVE_MS / 1000
_PATIENCE_S: Final = 20.0
_SCENE_S: Final = 200.0
_SETTLE_S: Final = 2.0
_READ_EVERY_S: Final = 0.002
_INTERNAL: Final = ("tickets_skipped", "holds_written_off", "buffers_written_off")
"""Counters of what the switch itself must never lose."""
_UNITS: Final = {"tester's buffered": "frames", "held_frames": "frames", "links not ready": "links"}
_NAMED: Final = ("wrong_session", "link_not_up", "dead_port")
"""Drop reasons of what was on its way, or held, when a session ended or a link died."""
_NAMED_OTHERWISE: Final = ("stale_session", "frames_turned_around")
"""What else became of such frames: counters of the egress, and of events."""


@dataclass(frozen=True)
class Scene:
    """What holds for some thousand frames: how fast each GPU drains, by its id, and what happens to frames."""

    drains: dict[int, float]
    harms: tuple[str, ...]

    @classmethod
    def one_after_another(cls, rng: random.Random) -> Iterator[Scene]:
        """Yield scenes for ever: paces at random, each harm in its turn, then all of them, then none."""
        for harms in cycle((*((name,) for name in HARMS), HARMS, ())):
            drains = {gpu: rng.choice((AT_ONCE, 5000.0)) for gpu in range(1, GPUS + 1)}
            drains[SLOW] = rng.choice((3000.0, 5000.0, 8000.0))
            yield cls(drains, harms)

    def apply(self, stations: Stations, rng: random.Random) -> None:
        """Let it begin."""
        stations.heal()
        for station in stations.all:
            station.living.drain(self.drains[station.gpu])
        for name in self.harms:
            stations.harm(name, *_HARM[name], rng=rng)

    def __str__(self) -> str:
        return ", ".join(self.harms) or "no faults"


_HARM: Final[dict[str, tuple[Harm, tuple[Kind, ...], float, float]]] = {
    "control frames lost": (Harm.DROP, CONTROL, 0.5, 0.0),
    "control frames repeated": (Harm.REPEAT, CONTROL, 0.5, 0.0),
    "control frames late": (Harm.DELAY, CONTROL, 0.3, 0.015),
    "data lost": (Harm.DROP, (Kind.DATA,), 0.005, 0.0),
}
"""What is done, to which frames, with which probability, and how late (s)."""
HARMS: Final = tuple(_HARM)


class Soak:
    """One soak of `frames` frames in a fabric that runs."""

    def __init__(self, session: FabricSession, stations: Stations, frames: int, rng: random.Random) -> None:
        self._session = session
        self._stations = stations
        self._frames = frames
        self._rng = rng
        self._by_registers = session.options.target == "p4switch"
        self._restarts: Counter[str] = Counter()
        self._switch: Counter[str] = Counter()
        """What the switch counted in its lives so far."""
        self._keepalives = 0.0
        """Most periods between a link's return, or the last frame after it, and a reading that was not right."""
        self._tickets = 0
        self._killed_with = 0
        """The most frames that were in a switch when it was killed."""
        self._gone = 0
        """Frames that had not come out of the switch when its last life ended."""
        self._unnamed = 0

    def run(self, console: Console) -> Record:
        """Run to the end and return the record. Raises Stuck when the links stop for good."""
        stations, started = self._stations, time.monotonic()
        stations.run_until(lambda: stations.ready, "all links are ready", _PATIENCE_S)
        scenes = max(FEWEST_SCENES, self._frames // FRAMES_PER_SCENE)
        kills = {scenes // 3, 2 * scenes // 3}
        events = cycle((self._kill_peer, self._reset_peer, lambda: "no restart"))
        for number, scene in zip(range(1, scenes + 1), Scene.one_after_another(self._rng), strict=False):
            scene.apply(stations, self._rng)
            target = self._frames * number // scenes
            self._send_until((target + stations.sent) // 2)
            event = self._kill_switch() if number in kills else next(events)()
            scene.apply(stations, self._rng)
            self._send_until(target)
            rate = stations.sent / (time.monotonic() - started)
            console.print(f"{stations.sent:>11,} frames, {rate:,.0f}/s   {scene}; {event}", soft_wrap=True)
        left = self._await_right()
        self._end_life()
        return self._record(left, time.monotonic() - started)

    def _send_until(self, sent: int) -> None:
        self._stations.offering = True
        self._stations.run_until(lambda: self._stations.sent >= sent, f"{sent:,} frames are sent", _SCENE_S)

    # ------------------------------------------------------------------------------------------------------- restarts

    def _kill_peer(self) -> str:
        """Kill a peer under load, and start it anew."""
        station = self._rng.choice(self._stations.all)
        self._stations.kill(station)
        self._stations.run_for(self._rng.uniform(0.0, 0.2))
        self._stations.revive(station)
        self._restarts["peers killed"] += 1
        return f"GPU {station.gpu} killed{self._right_again()}"

    def _reset_peer(self) -> str:
        """Let a peer draw another epoch while its buffer holds frames: they are in use in the next session."""
        station = self._rng.choice(self._stations.all)
        station.living.drain(0.0)
        self._stations.run_for(0.03)
        station.living.restart()
        self._restarts["links reset with frames in the buffer"] += 1
        return f"GPU {station.gpu} reset with {station.living.buffered} frames in its buffer{self._right_again()}"

    def _kill_switch(self) -> str:
        """Kill the switch under load and start it anew; the controller programs it again."""
        stations = self._stations
        process = self._session.switches[SWITCH].process
        assert process is not None
        self._read_life(self._session.counters()[SWITCH])
        process.kill()
        process.wait()
        stations.offering = False
        stations.run_for(0.05)  # what it has sent arrives
        self._killed_with = max(self._killed_with, stations.inside - self._gone)
        self._gone = stations.inside
        self._session.restart_switch(SWITCH)
        self._restarts["switch killed"] += 1
        return f"switch killed{self._right_again()}"

    def _right_again(self) -> str:
        before = self._keepalives
        self._keepalives = 0.0
        self._await_right()
        now, self._keepalives = self._keepalives, max(before, self._keepalives)
        return f", credits right after {now:.1f} keepalives" if self._by_registers else ", credits right again"

    # ------------------------------------------------------------------------------------------------- what must be so

    def _await_right(self) -> Counter[str]:
        """Let everything come back and drain, and wait until all credits are free; return what is in use after all.

        Every frame uses credits while it drains, so the periods count from the links' return or from the last frame
        after it, whichever is later; and to the last reading that was not right, as that much is certain.
        """
        stations = self._stations
        stations.offering = False
        stations.heal()
        for station in stations.all:
            station.living.drain(AT_ONCE)
        with SwitchReader(self._session.fabric.switch(SWITCH)) as reader:
            stations.run_until(lambda: stations.ready, "all links are ready again", _PATIENCE_S)
            returned = stations.now()
            deadline = returned + _SETTLE_S
            wrong_at = returned
            while True:
                stations.run_for(_READ_EVERY_S)
                asked = stations.now()
                left = self._in_use(reader)
                if not +left:
                    break
                wrong_at = asked
                if asked > deadline:
                    break
        periods = (wrong_at - max(returned, min(stations.last_data, wrong_at))) / _KEEPALIVE_S
        self._keepalives = max(self._keepalives, periods)
        return left

    def _in_use(self, reader: SwitchReader) -> Counter[str]:
        """Return all credits that are in use at both ends of all links, and all frames held."""
        try:
            ports = reader.credits() if self._by_registers else self._session.credits()[SWITCH]
        except (ReadError, NoAnswers):
            return Counter({"not read": 1})
        left = Counter({f"tester's {name}": value for name, value in self._stations.in_use().items()})
        left.update(_used(ports.values()))
        return left

    def _end_life(self) -> None:
        """Compare what the switch has lost since it started with what it names."""
        ports = self._session.counters()[SWITCH]
        self._read_life(ports)
        named = sum(port.drops.get(name, 0) for port in ports.values() for name in _NAMED)
        named += sum(port.link.get(name, 0) for port in ports.values() for name in _NAMED_OTHERWISE)
        self._unnamed = max(0, self._stations.inside - self._gone - named)

    def _read_life(self, ports: Mapping[int, PortCounters]) -> None:
        for port in ports.values():
            self._switch.update({name: port.link.get(name, 0) for name in _INTERNAL})
            self._switch["over_limit"] += port.drops.get("over_limit", 0)
        slow = next(p for p in self._session.fabric.switch(SWITCH).ports if p.peer == f"g{SLOW}")
        self._tickets = max(self._tickets, ports[slow.port].link.get("frames_held", 0))

    def _record(self, left: Counter[str], seconds: float) -> Record:
        stations, flows = self._stations, self._stations.flows
        figures = [
            at_least("frames_sent", self._frames, stations.sent, "frames"),
            exact("frames_wrong", 0, sum(flow.wrong for flow in flows), "frames"),
            exact("frames_repeated", 0, sum(flow.repeated for flow in flows), "frames"),
            exact("frames_disordered", 0, sum(flow.disordered for flow in flows if not flow.packets.f), "frames"),
            exact("lost in the switch without a name", 0, self._unnamed, "frames"),
            at_most("in the switch when it was killed", 2 * LIMIT * GPUS, self._killed_with, "frames"),
            exact("over_limit", 0, self._switch["over_limit"] + stations.counted()["over_limit"], "frames"),
            *(exact(name, 0, self._switch[name], "times") for name in _INTERNAL),
            *(exact(f"{name}, in the end", 0, value, _UNITS.get(name, "credits")) for name, value in left.items()),
            *(at_least(name, 1, stations.harmed[name], "frames") for name in HARMS),
            *(at_least(name, 2, count, "times") for name, count in self._restarts.items()),
        ]
        if self._by_registers:  # what the controller's probes tell is too old to measure by
            periods = round(self._keepalives, 2)
            figures.append(at_most("keepalive periods until credits are right", KEEPALIVES, periods, "periods"))
        if self._frames >= _LEAST_FOR_TICKETS:
            figures.append(at_least("tickets drawn in one queue", TICKETS + 1, self._tickets, "tickets"))
        received = sum(flow.received for flow in flows)
        notes = (
            f"{received:,} frames arrived; {self._tickets:,} tickets drawn in one queue; "
            f"{stations.counted()['wrong_cf_updates']} late CF_UPDATEs ignored by the tester"
        )
        about = {"gpus": GPUS, "credit_limit": LIMIT, "duration_s": round(seconds, 1)}
        return Record(CASE, None, about, tuple(figures), notes)


def _used(ports: Iterable[PortCredits]) -> dict[str, int]:
    """Return what is in use at a switch's ports in all, and the links that are not ready."""
    ports = list(ports)
    return {
        "sender_credits_used": sum(sum(port.sender_credits_used) for port in ports),
        "receiver_credits_used": sum(sum(port.receiver_credits_used) for port in ports),
        "held_frames": sum(sum(port.held_frames) for port in ports),
        "links not ready": sum(port.state is not LinkState.READY for port in ports),
    }
