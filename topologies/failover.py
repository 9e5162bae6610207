"""The scenario `failover`: cables are cut and restored at random under load; how long until all sources have moved?

For each cut the times are those of four witnesses: the system call that takes the carrier away (`cables`), the kernel's
stamp of each EVENT frame that reaches a GPU (`witness`), each GPU's own log of what it moved and when, and how long its
accesses took. Beside it the same fabric with GPUs that ignore events and only know time-outs, as RoCE NICs have them.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from codec.constants import EventType
from codec.fabric import Fabric
from codec.profile import LinkProfile
from controller.credits import LinkState
from controller.probing import NoAnswers
from controller.reader import ReadError
from topologies.cables import Cable, all_cables
from topologies.comparison import await_silence, percentile
from topologies.errors import LaunchError
from topologies.nodes import last_lines
from topologies.processors import ProcessorWatch
from topologies.ranks import Phase, RankResult
from topologies.session import FabricSession, LinkSetting
from topologies.summary import PhaseResult
from topologies.witness import Seen, Witness

CUTS: Final = 200
CUTS_FILE: Final = "cuts.json"
"""In the run's directory: every cut with its times."""
CUTS_MOST: Final = 100_000
DOWN_S: Final = (0.10, 0.25)
UP_S: Final = (0.15, 0.30)
"""How long a cable stays cut, and whole, at random between these."""
BLIND_CUTS: Final = 20
BLIND_DOWN_S: Final = (0.9, 1.1)
"""Without notification: longer than all tries of one path take."""
TIMEOUT_S: Final = 0.067
"""RoCE NICs' usual time-out (4.096 us * 2^14), and how often they try the same path."""
TRIES: Final = 7
LOAD: Final = 0.7
"""How busy the machine's processors are to be while cables are cut."""
LOAD_TOLERANCE: Final = 0.04
CALIBRATION_S: Final = 3.0
CALIBRATIONS: Final = 5
"""Rates tried at most, after the greatest one; a single one where there are too few cuts to judge their times."""
IDLE_S: Final = 1.0
LEAST_RATE: Final = 0.02
"""Share of the greatest rate at which traffic flows on a machine that is too busy without it."""
SILENCE_MS: Final = 1000
"""A machine with more to do than it has time for is no dead link; a cut cable shows by its carrier."""
RTO_S: Final = 0.5
"""With notification: what is lost otherwise is sent again after so long at the earliest."""
SETTING: Final = LinkSetting(LinkProfile(silence_ms=SILENCE_MS))
_UNPACED: Final = 100_000
_LEAD_S: Final = 1.0
"""From when all ranks are under way to the first cut."""
_WHOLE_S: Final = 5.0
_LOOK_S: Final = 0.02
_SPARE: Final = 1.5
"""The traffic goes on for so many times as long as the cuts take at least: a busy machine takes longer."""
_REQUEST_TIMEOUT_S: Final = 10
EVENT_US_P50: Final = 1000
MOVED_US_P99: Final = 5000
SLOW_US: Final = 1000
"""Accesses that took less are not kept (`endpoint.traffic.endure`)."""
LEAST_CUTS_FOR_TIMES: Final = 50
_DOWN: Final = (EventType.LINK_DOWN.name, "own link down")


@dataclass(frozen=True)
class Cut:
    """One cut, in nanoseconds of CLOCK_REALTIME: the carrier was lost between the first two, the cable whole again from
    `restored_ns` on."""

    gpu: int
    plane: int
    before_ns: int
    after_ns: int
    restored_ns: int


@dataclass
class Times:
    """What became of one cut, in microseconds from the loss of the carrier.

    `event_us`: the first EVENT frame reached a GPU; `notified_us`: the last GPU has got one; `moved_us`: the last GPU
    has sent anew what was under way on that path; None where that was not seen. `unfinished`: requests and blocks
    that were moved. `stall_us`: the longest that an access to or from the cut-off GPU took; 0: below `SLOW_US`.
    """

    event_us: float | None = None
    notified_us: float | None = None
    moved_us: float | None = None
    unfinished: int = 0
    stall_us: float = 0.0


@dataclass
class FailoverResult:
    """What a failover run found; `phases` are what ran, `cuts` each cut of either side with its times."""

    figures: dict[str, Any] = field(default_factory=dict)
    cuts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    phases: list[PhaseResult] = field(default_factory=list)


# ---------------------------------------------------------------------------------------------------------- the cutting


class Cutter:
    """Cuts and restores one cable after another in a thread, as soon as all links are up; `cuts` is what it has done.

    One at a time: with the last plane of a GPU gone nothing could be moved.
    """

    def __init__(
        self,
        session: FabricSession,
        cables: Sequence[Cable],
        count: int,
        down_s: tuple[float, float],
        rng: random.Random,
    ) -> None:
        self.cuts: list[Cut] = []
        self._session = session
        self._stop = threading.Event()
        self._plan = [(rng.choice(cables), rng.uniform(*down_s), rng.uniform(*UP_S)) for _ in range(count)]
        self._thread = threading.Thread(target=self._run, name="cutter", daemon=True)

    @property
    def seconds(self) -> float:
        """How long all cuts take, without delays."""
        return sum(down + up for _, down, up in self._plan)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(PermissionError):  # the one who holds the watch must not wait for a processor
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        while not self._all_ready():
            if self._stop.wait(0.1):
                return
        if self._stop.wait(_LEAD_S):
            return
        for cable, down, up in self._plan:
            cut = cable.cut()
            self._stop.wait(down)
            restored = cable.restore()
            self.cuts.append(Cut(cable.gpu, cable.plane, cut.before_ns, cut.after_ns, restored.before_ns))
            deadline = time.monotonic() + _WHOLE_S
            while not self._all_ready() and time.monotonic() < deadline and not self._stop.is_set():
                time.sleep(_LOOK_S)
            if self._stop.wait(up):
                return

    def _all_ready(self) -> bool:
        """Tell whether all links are up again; a cut in a fabric that is not whole would cut nothing."""
        if self._session.options.link_mode != "managed":
            return self._session.ranks is not None
        try:
            ports = [port for ports in self._session.credits().values() for port in ports.values()]
        except (ReadError, NoAnswers):  # a switch is not to be read yet
            return False
        return bool(ports) and all(port.state is LinkState.READY for port in ports)


# ------------------------------------------------------------------------------------------------------------- the run


def check(fabric: Fabric) -> None:
    """Raise LaunchError when the topology leaves nothing to move to."""
    gpus, planes = len(fabric.gpus), min(len({port.plane for port in gpu.ports}) for gpu in fabric.gpus)
    if planes < 2 or gpus < 3 or len(fabric.tenants) > 1:
        raise LaunchError(
            f"SCENARIO=failover needs 3 GPUs or more of one tenant, on 2 planes or more; here are {gpus} on {planes}.",
            "Choose TOPO=planes,8,2, for example.",
        )


def given(traffic: Sequence[str]) -> tuple[int, int]:
    """Return the number of cuts and the seed that were asked for. Raises LaunchError for what is no such number."""
    values = {"--count": CUTS, "--seed": 1}
    for name, text in zip(traffic[::2], traffic[1::2], strict=True):
        if name in values and not (text.isdecimal() and 0 < int(text) <= CUTS_MOST):
            raise LaunchError(f"{name} {text}: not a whole number from 1 to {CUTS_MOST:,}.")
        values[name] = int(text)
    return values["--count"], values["--seed"]


def run(session: FabricSession, cuts: int, seed: int) -> FailoverResult:
    """Run both sides, with notification first, and judge."""
    result = FailoverResult()
    rng = random.Random(seed)
    with session.progress.step("load") as step:
        rate, share = _calibrate(session, result, CALIBRATIONS if cuts >= LEAST_CUTS_FOR_TIMES else 1)
        step.done(f"{rate:,.0f} accesses/s per GPU keep the processors {share:.0%} busy")
    with session.progress.step("cuts") as step:
        options: tuple[str, ...] = ("--rto", str(RTO_S))
        notified = _side(session, "failover", cuts, DOWN_S, rng, rate, options, result)
        step.done(f"{len(notified.cuts)} with notification: all moved after {_shown(notified, 'moved_us')}")
    with session.progress.step("cuts") as step:
        options = ("--no-events", "--rto", str(TIMEOUT_S), "--max-rto", str(TIMEOUT_S), "--tries", str(TRIES))
        blind = _side(session, "time-outs", min(cuts, BLIND_CUTS), BLIND_DOWN_S, rng, rate, options, result)
        step.done(f"{len(blind.cuts)} with time-outs alone: stalled for {_shown(blind, 'stall_us')}")
    result.figures = figures_of(notified, blind)
    result.failures = judge(result.figures, cuts)
    result.cuts = {"with notification": to_json(notified), "time-outs alone": to_json(blind)}
    return result


@dataclass
class Side:
    """The cuts of one side, their times, what became of bytes, and how busy the machine was."""

    cuts: list[Cut]
    times: list[Times]
    bytes_lost: int
    bytes_doubled: int
    processor_share: float

    def of(self, name: str) -> list[float]:
        """Return one of the times of each cut that has it, ascending."""
        return sorted(value for one in self.times if (value := getattr(one, name)) is not None)


def _calibrate(session: FabricSession, result: FailoverResult, tries: int) -> tuple[float, float]:
    """Return how many accesses per second of each GPU make the machine as busy as `LOAD` says, and how busy that is.

    How busy it is grows with the rate, but not in proportion: a busy switch or GPU takes more frames at a time.
    """
    started = time.time_ns()
    with ProcessorWatch() as watch:
        time.sleep(IDLE_S)
    idle = watch.busy_share(started, time.time_ns())
    most, share = _try_rate(session, _UNPACED, result)
    low, high = (0.0, idle), (most, share)
    rate = best = most
    for _ in range(tries):
        if abs(share - LOAD) <= LOAD_TOLERANCE:
            break
        slope = (high[0] - low[0]) / max(high[1] - low[1], 0.01)
        rate = low[0] + slope * (LOAD - low[1])
        rate = min(max(rate, low[0] + 0.1 * (high[0] - low[0]), LEAST_RATE * most), high[0])
        if rate == best:
            break
        best = rate
        _, share = _try_rate(session, rate, result)
        low, high = ((rate, share), high) if share < LOAD else (low, (rate, share))
    return rate, share


def _try_rate(session: FabricSession, rate: float, result: FailoverResult) -> tuple[float, float]:
    """Return what of a rate (accesses per second and GPU) gets done, and how busy the machine is with it."""
    with ProcessorWatch() as watch:
        ranks = _run_phase(session, _phase("failover-load", CALIBRATION_S, rate, ()), result)
    failed = next((rank for rank in ranks if rank.status or not rank.report.get("transactions")), None)
    if failed is not None:
        raise LaunchError(
            f"no traffic flowed, and no cable is cut yet: {failed.gpu} ended with status {failed.status}. It says:",
            f"The whole log: {failed.log}",
            last_lines(failed.log),
        )
    done = sum(float(rank.report["transactions"]) for rank in ranks) / len(ranks) / CALIBRATION_S
    work = [rank.report["failover"] for rank in ranks]
    began, ended = max(one["began_real_ns"] for one in work), min(one["ended_real_ns"] for one in work)
    return done, watch.busy_share(began, ended)


def _side(
    session: FabricSession, name: str, cuts: int, down_s: tuple[float, float], rng: random.Random, rate: float,
    options: Sequence[str], result: FailoverResult,
) -> Side:  # fmt: skip
    assert session.ranks is not None
    if session.options.link_mode == "managed":
        await_silence(session)  # or links of the ranks before would count as up
    hosts = session.ranks.hosts
    places = [
        (gpu.id, port.plane, hosts[gpu.name].pid, port.iface) for gpu in session.fabric.gpus for port in gpu.ports
    ]
    with (
        all_cables(iter(places)) as cables,
        Witness((gpu, pid, iface) for gpu, _, pid, iface in places) as witness,
        Cutter(session, cables, cuts, down_s, rng) as cutter,
        ProcessorWatch() as watch,
    ):
        phase = _phase(name, _LEAD_S + 1 + _SPARE * cutter.seconds, rate, options)
        ranks = _run_phase(session, phase, result)
    done = cutter.cuts
    share = watch.busy_share(done[0].before_ns, done[-1].restored_ns) if done else 0.0
    reports = {session.fabric.gpu(rank.gpu).id: rank.report.get("failover", {}) for rank in ranks}
    times = [times_of(cut, witness.seen, reports) for cut in cutter.cuts]
    return Side(
        cutter.cuts, times, sum(int(report.get("bytes_lost", 0)) for report in reports.values()),
        sum(int(report.get("bytes_doubled", 0)) for report in reports.values()), share,
    )  # fmt: skip


def _phase(name: str, duration_s: float, rate: float, options: Sequence[str]) -> Phase:
    words = ("-m", "endpoint", "endure", "--duration", f"{duration_s:.1f}", "--rate", f"{rate:.1f}")
    return Phase(name, (*words, "--timeout", str(_REQUEST_TIMEOUT_S), *options))


def _run_phase(session: FabricSession, phase: Phase, result: FailoverResult) -> list[RankResult]:
    started = time.monotonic()
    ranks = session.run(phase)
    result.phases.append(PhaseResult(phase, time.monotonic() - started, ranks))
    return ranks


# ----------------------------------------------------------------------------------------------------------- the times


def times_of(cut: Cut, seen: Iterable[Seen], reports: Mapping[int, Mapping[str, Any]]) -> Times:
    """Return what became of a cut.

    `seen` are EVENT frames, `reports` what each GPU reports: under `events` its log, under `slow` its slow accesses.
    """
    times = Times()
    first: dict[int, int] = {}
    for one in seen:
        told = one.type is EventType.LINK_DOWN and (one.subject, one.plane) == (cut.gpu, cut.plane)
        if told and cut.before_ns <= one.at_ns < cut.restored_ns:
            first[one.gpu] = min(one.at_ns, first.get(one.gpu, one.at_ns))
    others = set(reports) - {cut.gpu}
    if first:
        times.event_us = (min(first.values()) - cut.before_ns) / 1000
    if others and others <= first.keys():
        times.notified_us = (max(first[gpu] for gpu in others) - cut.before_ns) / 1000
    moved: dict[int, int] = {}
    for gpu, report in reports.items():
        if _closed_before(cut, gpu, report.get("events", ())):
            moved[gpu] = cut.before_ns
        for record in _closed(cut, gpu, report.get("events", ())):
            at = int(record["arrived_real_ns"]) + int(record["moved_ns"]) - int(record["arrived_ns"])
            moved[gpu] = at
            times.unfinished += int(record["moved"])
        for dst, began, ended in report.get("slow", ()):
            if cut.gpu in (gpu, dst) and began < cut.restored_ns and ended > cut.before_ns:
                times.stall_us = max(times.stall_us, (ended - began) / 1000)
    if reports and set(reports) <= moved.keys():
        times.moved_us = (max(moved.values()) - cut.before_ns) / 1000
    return times


def _about(cut: Cut, gpu: int, record: Mapping[str, Any]) -> bool:
    """Tell whether a record of a GPU's log is about the path of a cut: at its own end, or as a switch says."""
    if record["plane"] != cut.plane:
        return False
    return record["what"].startswith("own link") if gpu == cut.gpu else record["subject"] == cut.gpu


def _closed(cut: Cut, gpu: int, records: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the first record of a GPU's log by which it learnt of a cut."""
    for record in records:
        learnt = record["what"] in _DOWN and _about(cut, gpu, record)
        if learnt and cut.before_ns <= record["arrived_real_ns"] < cut.restored_ns:
            yield record
            return


def _closed_before(cut: Cut, gpu: int, records: Iterable[Mapping[str, Any]]) -> bool:
    """Tell whether a GPU had not opened the path again since an earlier cut: it has nothing to move."""
    last = ""
    for record in records:
        if record["arrived_real_ns"] < cut.before_ns and _about(cut, gpu, record):
            last = record["what"]
    return last in _DOWN


def figures_of(notified: Side, blind: Side) -> dict[str, Any]:
    """Return the figures of summary.json."""
    figures: dict[str, Any] = {"cuts": len(notified.cuts), "cuts_without_events": len(blind.cuts)}
    for name in ("event_us", "notified_us", "moved_us", "stall_us"):
        values = notified.of(name)
        figures |= {f"{name}_{key}": value for key, value in _percentiles(values).items()}
    figures["cuts_unnoticed"] = sum(one.event_us is None for one in notified.times)
    figures["cuts_not_moved"] = sum(one.moved_us is None for one in notified.times)
    figures["carrier_us_p50"] = _percentiles([(c.after_ns - c.before_ns) / 1000 for c in notified.cuts])["p50"]
    figures["moved"] = sum(one.unfinished for one in notified.times)
    figures["processor_share"] = round(notified.processor_share, 3)
    figures["bytes_lost"] = notified.bytes_lost + blind.bytes_lost
    figures["bytes_doubled"] = notified.bytes_doubled + blind.bytes_doubled
    figures |= {f"timeouts_stall_us_{key}": value for key, value in _percentiles(blind.of("stall_us")).items()}
    ours, theirs = figures["stall_us_p50"], figures["timeouts_stall_us_p50"]
    figures["speedup_over_timeouts"] = round(theirs / max(ours, SLOW_US), 1) if theirs else None
    return figures


def _percentiles(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {"p50": None, "p99": None, "max": None}
    counts = {round(value): 0 for value in values}
    for value in values:
        counts[round(value)] += 1
    return {"p50": percentile(counts, 50), "p99": percentile(counts, 99), "max": round(max(values), 1)}


def judge(figures: Mapping[str, Any], cuts: int) -> list[str]:
    """Return what a run falls short of, a line each."""
    short = []
    if figures["cuts"] < cuts:
        short.append(f"only {figures['cuts']} of {cuts} cuts came about before the traffic ended")
    for name in ("bytes_lost", "bytes_doubled"):
        if figures[name]:
            short.append(f"{name} is {figures[name]:,}; it must be 0")
    if figures["cuts_unnoticed"]:
        short.append(f"no EVENT frame was seen after {figures['cuts_unnoticed']} cuts")
    if figures["cuts_not_moved"]:
        short.append(f"not every GPU had moved before the cable was whole again after {figures['cuts_not_moved']} cuts")
    if figures["cuts"] >= LEAST_CUTS_FOR_TIMES:
        if figures["event_us_p50"] is not None and figures["event_us_p50"] > EVENT_US_P50:
            short.append(
                f"the EVENT frame comes {figures['event_us_p50']:,.0f} us after the cut at the median, above 1,000"
            )
        if figures["moved_us_p99"] is not None and figures["moved_us_p99"] > MOVED_US_P99:
            short.append(f"p99 until all sources have moved is {figures['moved_us_p99']:,.0f} us, above 5,000")
    return short


def _shown(side: Side, name: str) -> str:
    value = _percentiles(side.of(name))["p50"]
    return "? us" if value is None else f"{value:,.0f} us at the median"


def to_json(side: Side) -> list[dict[str, Any]]:
    """Return the cuts of a side with their times."""
    return [{**asdict(cut), **asdict(times)} for cut, times in zip(side.cuts, side.times, strict=True)]
