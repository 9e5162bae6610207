"""Dead links, dead switches and dead GPUs, on real cables: what is unfinished moves, once, and nothing else stops."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from codec.constants import EventType
from endpoint import EndpointOptions, Gpu, LsuTimeout, Unreachable
from endpoint.traffic import patterns
from endpoint.traffic.patterns import Parameters, Run
from endpoint.traffic.progress import Progress
from endpoint.traffic.report import Report
from tests.endpoint.conftest import add_cable, ip, settle
from tests.endpoint.soft_switch import PROFILE, SoftSwitch, cables

ROOT = Path(__file__).resolve().parents[2]
PLANES = (0, 1)
IDS = (1, 2, 3)
SLOW_RTO = EndpointOptions(
    timeout_s=30, first_rto_s=15, min_rto_s=15, max_rto_s=15, lossless_rto_s=15, unreachable_s=20, linger_s=0
)
"""Whoever waits for a time-out is seen to wait."""
VERIFYING = EndpointOptions(timeout_s=30, unreachable_s=30, linger_s=0)

Maker = Callable[..., Gpu]
Switches = dict[int, SoftSwitch]


class Fabric:
    """Three GPUs on two planes, each a switch; interfaces as `tests.endpoint.soft_switch.cables` names them."""

    def __init__(self, gpus: Maker) -> None:
        self._gpus = gpus
        self.switches: Switches = {}
        for ends in cables(PLANES, IDS):
            add_cable(*ends)

    def start_switch(self, plane: int, **choices: bool) -> SoftSwitch:
        self.switches[plane] = SoftSwitch(0xF01 + plane, plane, {gpu: f"s{plane}g{gpu}" for gpu in IDS}, **choices)
        return self.switches[plane]

    def kill_switch(self, plane: int) -> None:
        self.switches.pop(plane).kill()

    def start_gpu(self, gpu: int, options: EndpointOptions, *, managed: bool = True, incarnation: int = 1) -> Gpu:
        return self._gpus(
            gpu, self.ports(gpu), peers=IDS, options=options, incarnation=incarnation,
            managed=dict.fromkeys(PLANES, PROFILE) if managed else {},
        )  # fmt: skip

    @staticmethod
    def ports(gpu: int) -> dict[int, str]:
        return {plane: f"g{gpu}p{plane}" for plane in PLANES}


@pytest.fixture
def fabric(namespace: str, gpus: Maker) -> Iterator[Fabric]:
    made = Fabric(gpus)
    yield made
    for plane in list(made.switches):
        made.kill_switch(plane)


def whole(fabric: Fabric, options: EndpointOptions, managed: bool = True, **choices: bool) -> list[Gpu]:
    """Start everything and wait until all planes are up."""
    for plane in PLANES:
        fabric.start_switch(plane, managed=managed, **choices)
    gpus = [fabric.start_gpu(gpu, options, managed=managed) for gpu in IDS]
    assert settle(lambda: all(link.is_up for gpu in gpus for link in gpu._links.values()), 5)
    assert settle(lambda: all(planes_to(gpu, dst) == PLANES for gpu in gpus for dst in IDS if dst != gpu.id), 5)
    return gpus


def planes_to(gpu: Gpu, dst: int) -> tuple[int, ...]:
    with gpu._engine.callers, gpu._engine.lock:
        return gpu._failover._reachability.planes_to(dst)


def whats(gpu: Gpu) -> list[tuple[str, int, int | None]]:
    return [(record.what, record.plane, record.subject) for record in gpu.event_log()]


class Adds(threading.Thread):
    """Adds to a word of others without a pause, many at a time; each value before must come once."""

    def __init__(self, gpu: Gpu, dsts: tuple[int, ...], window: int = 32) -> None:
        super().__init__(daemon=True)
        self.gpu, self.dsts, self.window = gpu, dsts, window
        self.stopped = threading.Event()
        self.before: dict[int, list[int]] = {dst: [] for dst in dsts}
        self.longest_s = 0.0
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while not self.stopped.is_set():
                for dst in self.dsts:
                    transfers = [self.gpu.atomic_add_async(dst, 8 * self.gpu.id, 1) for _ in range(self.window)]
                    self.before[dst] += [transfer.result() for transfer in transfers]
                    self.longest_s = max(self.longest_s, *(transfer.duration_s for transfer in transfers))
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self.stopped.set()
        self.join(40)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error

    def check(self, region_of: dict[int, np.ndarray]) -> None:
        for dst, before in self.before.items():
            assert sorted(before) == list(range(len(before))), "each add took effect once"
            assert region_of[dst].view(np.uint64)[self.gpu.id] == len(before)


class Bulk(threading.Thread):
    """Writes and reads back long messages without a pause, each compared."""

    def __init__(self, gpu: Gpu, dst: int, size: int = 1 << 16) -> None:
        super().__init__(daemon=True)
        self.gpu, self.dst, self.size = gpu, dst, size
        self.stopped = threading.Event()
        self.done = 0
        self.longest_s = 0.0
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        chooser = np.random.default_rng(self.gpu.id)
        try:
            while not self.stopped.is_set():
                data = chooser.integers(0, 256, self.size, np.uint8).tobytes()
                start = time.monotonic()
                self.gpu.write(self.dst, 0, data)
                assert self.gpu.read(self.dst, 0, self.size) == data
                self.longest_s = max(self.longest_s, time.monotonic() - start)
                self.done += 1
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self.stopped.set()
        self.join(40)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error


# --------------------------------------------------------------------------------------------------- a peer's cable


def test_a_peers_cut_cable_moves_what_is_unfinished_at_once(fabric: Fabric) -> None:
    """The time-outs are 15 s: nothing but the event brings the answers of what was on the cut cable."""
    a, b, c = whole(fabric, SLOW_RTO)
    regions = {gpu.id: gpu.register(64).array for gpu in (b, c)}
    started, before = len(a.event_log()), a.counters()  # switches tell of GPUs that have not started yet
    adds = Adds(a, (2, 3))
    time.sleep(0.1)
    for _ in range(5):
        ip("link set s1g2 down")
        assert settle(lambda: planes_to(a, 2) == (0,) and planes_to(c, 2) == (0,), 5)
        assert planes_to(a, 3) == PLANES, "the plane stays in use for everyone else"
        ip("link set s1g2 up")
        assert settle(lambda: planes_to(a, 2) == PLANES, 5)
    adds.end()
    adds.check(regions)
    assert adds.longest_s < 5
    assert "resent_requests" not in a.counters()
    log = a.event_log()[started:]
    downs = [record for record in log if record.what == "LINK_DOWN"]
    assert {(record.plane, record.subject, record.switch) for record in downs} == {(1, 2, 0xF02)}
    assert len(downs) == 5
    assert all(record.arrived_ns <= record.moved_ns < record.arrived_ns + 5e9 for record in downs)
    assert all(abs(record.arrived_real_ns - time.time_ns()) < 60e9 for record in downs)
    counters = {name: value - before.get(name, 0) for name, value in a.counters().items()}
    assert counters["paths_closed"] == 5
    assert counters["paths_opened"] + counters.get("paths_lapsed", 0) == 5
    assert counters["moved_requests"] == sum(record.moved for record in log)


def test_own_cut_cable_moves_everything_at_once(fabric: Fabric) -> None:
    a, b, c = whole(fabric, SLOW_RTO)
    regions = {gpu.id: gpu.register(64).array for gpu in (b, c)}
    adds = Adds(a, (2, 3))
    time.sleep(0.1)
    for _ in range(5):
        ip("link set s0g1 down")
        assert settle(lambda: planes_to(a, 2) == planes_to(a, 3) == (1,), 5)
        ip("link set s0g1 up")
        assert settle(lambda: planes_to(a, 2) == PLANES, 5)
    adds.end()
    adds.check(regions)
    assert adds.longest_s < 5
    assert "resent_requests" not in a.counters()
    assert whats(a).count(("own link down", 0, None)) >= 5


@pytest.mark.parametrize("end", ["s1g2", "s1g1"], ids=["the target's cable", "the source's cable"])
def test_blocks_move_too(fabric: Fabric, end: str) -> None:
    """Messages of RDMA: what was on the cut cable is sent, or asked for, on the other plane without a time-out."""
    a, b, _ = whole(fabric, SLOW_RTO)
    b.register(1 << 16)
    bulk = Bulk(a, 2)
    assert settle(lambda: bulk.done > 2, 10)
    before = a.counters().get("moved_requests", 0)
    for _ in range(8):
        done = bulk.done
        ip(f"link set {end} down")
        assert settle(lambda: planes_to(a, 2) == (0,), 5)
        assert settle(lambda done=done: bulk.done > done + 1, 10)  # type: ignore[misc]
        ip(f"link set {end} up")
        assert settle(lambda: planes_to(a, 2) == PLANES, 5)
    bulk.end()
    assert bulk.longest_s < 5
    assert a.counters()["moved_requests"] > before
    assert "timed_out_messages" not in a.counters()


def test_messages_wait_for_a_plane_and_fail_in_bounded_time(fabric: Fabric) -> None:
    a, b, c = whole(fabric, replace(SLOW_RTO, unreachable_s=1.0))
    for gpu in (b, c):
        gpu.register(1 << 16)
    bulk, other = Bulk(a, 2), Bulk(a, 3)
    assert settle(lambda: bulk.done > 2, 10)
    for plane in PLANES:
        ip(f"link set s{plane}g2 down")
    assert settle(lambda: planes_to(a, 2) == (), 5)
    ip("link set s0g2 up")
    done = bulk.done
    assert settle(lambda: bulk.done > done + 1, 10), "what waited went on"
    assert bulk.error is None
    ip("link set s0g2 down")
    bulk.join(10)
    assert isinstance(bulk.error, Unreachable), bulk.error
    assert "plane 0: closed by switch 0xf01 for 1." in str(bulk.error)
    start = time.monotonic()
    for _ in range(20):
        with pytest.raises(Unreachable):
            a.write(2, 0, bytes(1 << 16))
    assert time.monotonic() - start < 5, "what comes later fails at once"
    other.end()
    assert other.longest_s < 5
    assert a.counters()["unreachable_messages"] == 21
    ip("link set s1g2 up")
    assert settle(lambda: planes_to(a, 2) == (1,), 5)
    a.write(2, 0, bytes(1 << 16))


def test_silence_of_the_own_link(fabric: Fabric) -> None:
    """A cable that swallows everything, with its carrier there."""
    a, b, c = whole(fabric, SLOW_RTO)
    regions = {gpu.id: gpu.register(64).array for gpu in (b, c)}
    adds = Adds(a, (2, 3))
    time.sleep(0.1)
    fabric.switches[1].mute(1)
    assert settle(lambda: planes_to(a, 2) == (0,), 5)
    time.sleep(0.1)
    fabric.switches[1].mute(1, mute=False)
    assert settle(lambda: planes_to(a, 2) == PLANES, 5)
    adds.end()
    adds.check(regions)
    assert adds.longest_s < 5
    assert a.counters()["silences"] >= 1
    assert "resent_requests" not in a.counters()


@pytest.mark.parametrize(
    ("semantics", "size", "window"), [("load_store", 64, 24), ("auto", 40_000, 8)], ids=["requests", "both semantics"]
)
def test_every_cable_at_random(fabric: Fabric, semantics: str, size: int, window: int) -> None:
    """Accesses of all on all, while cables are cut and mended: every byte is right, each atomic once."""
    gpus = whole(fabric, VERIFYING)
    chooser = Random(7)
    parameters = Parameters(count=0, size=size, window=window, seed=5, duration_s=6.0, semantics=semantics)
    reports = [Report("random", gpu.id, gpu.rank, len(gpus)) for gpu in gpus]
    errors: list[BaseException] = []

    def rank(gpu: Gpu, report: Report) -> None:
        try:
            patterns.random(Run(gpu, parameters, report, Progress("", 1, shown=False)))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=rank, args=pair) for pair in zip(gpus, reports, strict=True)]
    for thread in threads:
        thread.start()
    cuts = 0
    while any(thread.is_alive() for thread in threads) and not errors:
        plane = chooser.choice(PLANES)
        ends = [f"s{plane}g{gpu}" for gpu in chooser.sample(IDS, chooser.choice((1, 1, 2, 3)))]
        for end in ends:
            ip(f"link set {end} down")
        cuts += len(ends)
        time.sleep(chooser.choice((0.005, 0.05, 0.2)))
        for end in ends:
            ip(f"link set {end} up")
        time.sleep(chooser.choice((0.01, 0.1, 0.2)))
    for thread in threads:
        thread.join(40)
        assert not thread.is_alive()
    assert not errors, errors
    assert cuts > 10
    for gpu, report in zip(gpus, reports, strict=True):
        assert (report.wrong, report.bytes_wrong) == ([], 0)
        assert report.transactions > (500 if semantics == "load_store" else 50)
        assert not {"timed_out_requests", "timed_out_messages"} & gpu.counters().keys()
        others = sum(other.counters()["responses"] for other in gpus if other is not gpu)
        assert others > 0
    assert sum(gpu.counters()["moved_requests"] for gpu in gpus) > 0
    executed = sum(gpu.counters()["requests"] for gpu in gpus)
    finished = sum(gpu.counters()["responses"] for gpu in gpus)
    assert executed == finished, "every request was executed once"


def test_open_ports_know_of_their_carrier(fabric: Fabric) -> None:
    """Without bring-up too: events and the own carrier, but no silence."""
    a, b, _ = whole(fabric, SLOW_RTO, managed=False)
    regions = {2: b.register(64).array}
    adds = Adds(a, (2,))
    time.sleep(0.05)
    for end in ("s0g1", "s1g2", "g1p1", "s0g2"):
        ip(f"link set {end} down")
        assert settle(lambda: len(planes_to(a, 2)) == 1, 5)
        time.sleep(0.05)
        ip(f"link set {end} up")
        assert settle(lambda: planes_to(a, 2) == PLANES, 5)
    # Without credits nothing was held back: what was in a cable that was cut after the event had come is lost.
    adds.stopped.set()
    adds.join(40)
    assert adds.error is None
    adds.check(regions)


# ----------------------------------------------------------------------------------------------- a distant dead port


def test_a_distant_dead_port_is_tried_again_with_growing_intervals(fabric: Fabric) -> None:
    """Only what is sent there comes back as an event; nobody says when the port is up again.

    What was on the cable when it was cut is found by a time-out, unless something follows it.
    """
    a, b, _ = whole(fabric, replace(SLOW_RTO, lossless_rto_s=0.2), turns_around=True)
    regions = {2: b.register(64).array}
    adds = Adds(a, (2,))
    time.sleep(0.1)
    ip("link set s1g2 down")
    assert settle(lambda: planes_to(a, 2) == (0,), 5)
    time.sleep(1.0)
    ip("link set s1g2 up")
    assert settle(lambda: fabric.switches[1]._places[2].up, 5)
    assert settle(lambda: planes_to(a, 2) == PLANES, 5)
    time.sleep(0.1)
    assert planes_to(a, 2) == PLANES
    adds.stopped.set()
    adds.join(40)
    assert adds.error is None
    adds.check(regions)
    changes = [record for record in a.event_log() if record.plane == 1 and record.subject == 2]
    assert [record.what for record in changes] == ["LINK_DOWN", "lapsed"] * (len(changes) // 2)
    waited = [(up.arrived_ns - down.arrived_ns) / 1e9 for down, up in zip(changes[::2], changes[1::2], strict=True)]
    assert len(waited) >= 2
    assert all(time > 0.05 * 2**n - 0.005 for n, time in enumerate(waited)), waited


# --------------------------------------------------------------------------------------------------- no plane is left


def test_without_a_plane_the_error_says_why_in_bounded_time(fabric: Fabric) -> None:
    options = replace(SLOW_RTO, unreachable_s=0.5)
    a, b, c = whole(fabric, options)
    for gpu in (b, c):
        gpu.register(64)
    for plane in PLANES:
        ip(f"link set s{plane}g2 down")
    assert settle(lambda: planes_to(a, 2) == (), 5)
    start = time.monotonic()
    with pytest.raises(Unreachable) as caught:
        a.store(2, 0, b"x")
    assert time.monotonic() - start < 5
    assert (caught.value.dst, caught.value.address, caught.value.length) == (2, 0, 1)
    assert "plane 0: closed by switch 0xf01 for 0." in str(caught.value)
    assert "plane 1: closed by switch 0xf02 for 0." in str(caught.value)
    start = time.monotonic()
    failures = 0
    for _ in range(100):
        with pytest.raises(Unreachable):
            a.load(2, 0, 8)
        failures += 1
        assert a.load(3, 0, 8) == bytes(8), "nothing that is for others stops"
    assert time.monotonic() - start < 10, "what comes later fails at once"
    assert a.counters()["unreachable_requests"] == failures + 1
    ip("link set s1g2 up")
    assert settle(lambda: planes_to(a, 2) == (1,), 5)
    a.store(2, 0, b"y")
    assert not isinstance(caught.value, LsuTimeout)


def test_a_plane_that_comes_back_in_time_saves_what_waits(fabric: Fabric) -> None:
    a, b, _ = whole(fabric, SLOW_RTO)
    regions = {2: b.register(64).array}
    adds = Adds(a, (2,))
    time.sleep(0.1)
    for plane in PLANES:
        ip(f"link set s{plane}g2 down")
    assert settle(lambda: planes_to(a, 2) == (), 5)
    time.sleep(0.3)
    ip("link set s0g2 up")
    assert settle(lambda: planes_to(a, 2) == (0,), 5)
    time.sleep(0.1)
    adds.end()
    adds.check(regions)
    assert 0.2 < adds.longest_s < 10
    assert "unreachable_requests" not in a.counters()


# ------------------------------------------------------------------------------------------ switches and GPUs that die


def test_a_killed_switch_is_done_without_and_used_again(fabric: Fabric) -> None:
    a, b, c = whole(fabric, SLOW_RTO)
    regions = {gpu.id: gpu.register(64).array for gpu in (a, b, c)}
    adds = [Adds(a, (2, 3)), Adds(b, (1, 3)), Adds(c, (1, 2))]
    time.sleep(0.1)
    for plane in (1, 0):
        fabric.kill_switch(plane)
        assert settle(lambda plane=plane: planes_to(a, 2) == (1 - plane,), 5)  # type: ignore[misc]
        done = [len(add.before[add.dsts[0]]) for add in adds]
        assert settle(lambda done=done: all(len(x.before[x.dsts[0]]) > n for x, n in zip(adds, done, strict=True)), 5)  # type: ignore[misc]
        fabric.start_switch(plane)
        assert settle(lambda: all(planes_to(gpu, dst) == PLANES for gpu in (a, b) for dst in (3,)), 5)
        frames = a.port_counters()[plane]["rx_bytes"]
        assert settle(lambda plane=plane, frames=frames: a.port_counters()[plane]["rx_bytes"] > frames + 20000, 5)  # type: ignore[misc]
    for add in adds:
        add.end()
        add.check(regions)
        assert add.longest_s < 5
    for gpu in (a, b, c):
        assert "timed_out_requests" not in gpu.counters()
        assert "unreachable_requests" not in gpu.counters()


SERVER = """
import sys
from endpoint import Gpu
from tests.endpoint.soft_switch import PROFILE
with Gpu(2, {0: "g2p0", 1: "g2p1"}, managed=dict.fromkeys((0, 1), PROFILE), incarnation=int(sys.argv[1])) as gpu:
    gpu.register(64)
    print("up", flush=True)
    sys.stdin.readline()
"""


def server(incarnation: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(incarnation)], cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def test_a_killed_gpu_is_told_of_by_its_switches_and_stops_nobody(fabric: Fabric) -> None:
    for plane in PLANES:
        fabric.start_switch(plane)
    a = fabric.start_gpu(1, replace(SLOW_RTO, unreachable_s=0.5))
    c = fabric.start_gpu(3, SLOW_RTO)
    regions = {3: c.register(64).array}
    b = server(1)
    try:
        assert settle(lambda: planes_to(a, 2) == planes_to(a, 3) == PLANES, 10)
        adds, doomed = Adds(a, (3,)), Adds(a, (2,))
        time.sleep(0.2)
        b.kill()
        b.wait()
        doomed.join(10)
        assert isinstance(doomed.error, Unreachable), doomed.error
        done = len(adds.before[3])
        assert settle(lambda: len(adds.before[3]) > done + 100, 5)
        assert planes_to(a, 3) == PLANES
        b = server(2)
        assert settle(lambda: planes_to(a, 2) == PLANES, 10)
        assert a.load(2, 0, 8) == bytes(8)
        adds.end()
        adds.check(regions)
        assert adds.longest_s < 5
    finally:
        b.kill()
        b.wait()


# --------------------------------------------------------------------------------- events lost, late, repeated, forged


def test_a_lost_event_heals_by_the_next_one(fabric: Fabric) -> None:
    a, b, _ = whole(fabric, SLOW_RTO, tells=False)
    b.register(64)
    switch = fabric.switches[1]
    switch.say(1, subject=2, sequence=8)  # 7, LINK_DOWN, was lost: this is a repetition of what came after
    assert settle(lambda: planes_to(a, 2) == (0,))
    assert settle(lambda: planes_to(a, 2) == PLANES), "nothing repeats it"
    assert a.counters()["paths_lapsed"] == 1
    assert whats(a)[-2:] == [("LINK_DOWN", 1, 2), ("lapsed", 1, 2)]


def test_late_and_repeated_events_change_nothing(fabric: Fabric) -> None:
    a, *_ = whole(fabric, SLOW_RTO, tells=False)
    switch = fabric.switches[1]
    switch.say(1, 2, 8)
    switch.say(1, 2, 9, EventType.LINK_UP)
    assert settle(lambda: a.counters().get("paths_opened", 0) == 1)
    switch.say(1, 2, 8)
    switch.say(1, 2, 9, EventType.LINK_UP)
    switch.say(1, 2, 9)
    assert settle(lambda: a.counters().get("events_contradicted", 0) == 1)
    assert planes_to(a, 2) == PLANES
    counters = a.counters()
    assert (counters["events_old"], counters["events_repeated"], counters["paths_closed"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"src": 3}, "drop_forged_event"),
        ({"src": 0xFFF}, "drop_forged_event"),
        ({"plane": 0}, "drop_wrong_plane"),
        ({"subject": 0xF01}, "drop_unknown_subject"),
        ({"subject": 1}, "drop_unknown_subject"),
        ({"kind": 9}, "drop_unknown_event"),
    ],
)
def test_what_cannot_be_believed_closes_nothing(fabric: Fabric, fields: dict[str, int], reason: str) -> None:
    a, *_ = whole(fabric, SLOW_RTO, tells=False)
    fabric.switches[1].say(1, **{"subject": 2, "sequence": 5, **fields})
    assert settle(lambda: a.counters().get(reason, 0) == 1)
    assert all(planes_to(a, dst) == PLANES for dst in (2, 3))
    assert not [record for record in a.event_log() if record.switch is not None]


def test_who_knows_nothing_of_events_waits_for_all_tries_of_a_path(fabric: Fabric) -> None:
    """As NICs without notification: 100 ms a try, four tries, and only then the other plane."""
    roce = replace(
        VERIFYING, first_rto_s=0.1, min_rto_s=0.1, max_rto_s=0.1, lossless_rto_s=0.1, tries_per_path=4, events=False
    )
    a, b, _ = whole(fabric, roce)
    b.register(64)
    ip("link set s1g2 down")
    time.sleep(0.1)
    assert planes_to(a, 2) == PLANES
    transfers = [a.atomic_add_async(2, 16, 1) for _ in range(8)]
    assert sorted(transfer.result() for transfer in transfers) == list(range(8))
    durations = sorted(transfer.duration_s for transfer in transfers)
    assert durations[0] < 0.4 <= durations[-1], "those on the dead plane waited for four tries"
    assert a.counters()["events_ignored"] > 0
    assert not [record for record in a.event_log() if record.switch is not None]


def test_a_forged_event_of_the_right_switch_closes_one_path_for_a_moment(fabric: Fabric) -> None:
    """All that who can send as the plane's own switch can do: 50 ms of one path; the other planes are not its."""
    a, b, _ = whole(fabric, SLOW_RTO)
    regions = {2: b.register(64).array}
    adds = Adds(a, (2,))
    for sequence in range(100, 110):
        fabric.switches[1].say(1, 2, sequence)
        assert settle(lambda: planes_to(a, 2) == (0,))
        assert planes_to(a, 3) == PLANES
        assert settle(lambda: planes_to(a, 2) == PLANES)
    adds.end()
    adds.check(regions)
    assert adds.longest_s < 5


def test_a_degraded_path_gets_no_new_work(fabric: Fabric) -> None:
    a, b, _ = whole(fabric, SLOW_RTO, tells=False)
    b.register(64)
    fabric.switches[1].say(1, 2, 5, EventType.LINK_DEGRADED)
    assert settle(lambda: planes_to(a, 2) == (0,))
    assert a.counters()["paths_degraded"] == a.counters()["events_link_degraded"] == 1
    before = a.port_counters()[0]["tx_frames"]
    a.load_many(2, [(0, 8)] * 200)
    assert a.port_counters()[0]["tx_frames"] >= before + 200
    fabric.switches[1].say(1, 2, 6, EventType.LINK_UP)
    assert settle(lambda: planes_to(a, 2) == PLANES)
