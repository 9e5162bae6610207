"""Run a scenario with credits and without, on the same fabric, and judge both sides by the same measures.

Without credits means managed links whose profile has no lossless VC: the same bring-up, queues and slow link, but what
finds no room is dropped. Every figure comes from counters: what entered the fabric's cables, what the switches
counted in and out, what the endpoints counted; nothing is inferred from rates.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from codec.constants import CRC_BYTES
from codec.fabric import Fabric
from codec.layouts import CREDIT_UPDATE, LINK, LSU, OEFH
from codec.profile import KEEPALIVE_MS, LinkProfile
from topologies.errors import LaunchError
from topologies.losses import Losses, Snapshot, link_resets, losses
from topologies.monitor import Monitor, Sample, peak_share
from topologies.nodes import PortQueue
from topologies.ranks import Phase, RankResult
from topologies.session import FabricSession, LinkSetting
from topologies.summary import PhaseResult

SIZE: Final = 256
"""Bytes per store: one request each."""
FRAME_BYTES: Final = LINK.size + OEFH.size + LSU.size + SIZE + CRC_BYTES
"""What such a store takes on a link."""
RESPONSE_BYTES: Final = FRAME_BYTES - SIZE
CONTROL_BYTES: Final = LINK.size + CREDIT_UPDATE.size
"""A CF_UPDATE or CC_UPDATE on a link."""
WARM_UP_S: Final = 2.0
DURATION_S: Final = 4.0
BASELINE_S: Final = 2.0
SILENCE_MS: Final = 1000
"""A machine with more to do than it has time for is no dead link."""
LOSSLESS: Final = LinkProfile(ecn_threshold=0, silence_ms=SILENCE_MS)
"""Without marks: the comparison shows what credits do by themselves."""
BEST_EFFORT: Final = LinkProfile(lossless_vcs=(), silence_ms=SILENCE_MS)
QUEUE_DEPTH: Final = 1024
"""Frames: what all credits of a port may bring, and the control frames that come while a slow link sends those; the
same without credits."""
RTO_S: Final = 4.0
RTO_WITH_LOSS_S: Final = 0.25
"""Seconds until a request is sent again at the earliest: where nothing is lost, one that takes long is only waiting."""
RECEIVE_RING: Final = 256
"""Frames that an endpoint's port keeps while it has no time: more than its credits, less than what comes without."""
_SILENCE_PATIENCE_S: Final = 20.0
MIN_GOODPUT: Final = 0.95
MIN_FAIRNESS: Final = 0.99
MIN_NEIGHBOURS: Final = 0.90


@dataclass(frozen=True)
class Comparison:
    """A scenario: who sends to whom, and what is slow.

    `slow` is "receiver" (the links of the GPU with the lowest id), "all" (every GPU's links) or "gpu" (that GPU itself,
    which takes its time over each request). `requests_per_s` is what a slow GPU can take in all. `neighbours_per_s` is
    what each other GPU offers the next one besides. `fair` asks for equal shares. `window` is what a source has in
    flight to each destination at most: together more than a queue or a receive ring takes, as without credits nothing
    else bounds them.
    """

    flows: str
    slow: str
    requests_per_s: int
    neighbours_per_s: int = 0
    fair: bool = False
    window: int = 128


COMPARED: Final[dict[str, Comparison]] = {
    "incast": Comparison("incast", "receiver", 1000, fair=True),
    "all-to-all": Comparison("all-to-all", "all", 250, window=40),
    "hotspot": Comparison("hotspot", "receiver", 1000, neighbours_per_s=150),
    "slow-drain": Comparison("incast", "gpu", 1000),
}
"""What each of `topologies.options.COMPARISONS` is."""


@dataclass
class Side:
    """One side of a comparison. Ratios are of 1; latencies in microseconds; `samples` are over time, for the plot.

    `capacity_per_s` is what the slowest can carry of requests: what it carries in all, less `control_share`, what
    control frames took of it, and less what responses need.
    """

    frames_lost: int = 0
    goodput_ratio: float = 0.0
    jain: float = 0.0
    latency_us_p50: float = 0.0
    latency_us_p99: float = 0.0
    buffer_peak_ratio: float = 0.0
    neighbours_ratio: float | None = None
    requests_per_s: float = 0.0
    capacity_per_s: float = 0.0
    control_share: float = 0.0
    frames_retransmitted: int = 0
    link_resets: int = 0
    losses: Losses = field(default_factory=Losses)
    samples: list[Sample] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain JSON values, without the samples."""
        values = {name: value for name, value in asdict(self).items() if name not in ("samples", "losses")}
        rounded = {name: round(v, 4) if isinstance(v, float) else v for name, v in values.items()}
        return {**rounded, "losses": asdict(self.losses)}


@dataclass
class Compared:
    """Both sides, the phases that made them, and what they fall short of."""

    on: Side
    off: Side
    phases: list[PhaseResult]
    failures: list[str]


def setting_of(name: str, fabric: Fabric, credits: bool) -> LinkSetting:
    """Return how the links are to be for one side of the comparison `name`."""
    comparison = COMPARED[name]
    profile = LOSSLESS if credits else BEST_EFFORT
    if comparison.slow == "gpu":
        return LinkSetting(profile)
    gpus = sorted(fabric.gpus, key=lambda gpu: gpu.id)
    slow = gpus if comparison.slow == "all" else gpus[:1]
    per_port = comparison.requests_per_s // max(1, len(gpus[0].ports))
    return LinkSetting(profile, frozenset(gpu.name for gpu in slow), PortQueue(per_port, FRAME_BYTES, QUEUE_DEPTH))


def check(name: str, fabric: Fabric) -> None:
    """Raise LaunchError when the topology is too small for the comparison."""
    ranks = len(fabric.tenant_gpus(fabric.gpus[0].tenant))
    least = 4 if COMPARED[name].neighbours_per_s else 3
    if ranks < least or len(fabric.tenants) > 1:
        raise LaunchError(
            f"SCENARIO={name} needs {least} GPUs or more, all in one tenant; here a tenant has {ranks}.",
            "Choose TOPO=planes,8,2, for example.",
        )


def run(session: FabricSession, name: str, extra: Sequence[str] = ()) -> Compared:
    """Run both sides: without credits first, so that the fabric that stays up has them.

    The session must have been entered with `setting_of(name, ..., credits=False)`. `extra` are options for the traffic
    command.
    """
    phases: list[PhaseResult] = []
    sides = []
    for credits in (False, True):
        if credits:
            with session.progress.step("links") as step:
                session.reconfigure(setting_of(name, session.fabric, credits=True))
                step.done("brought up anew, with credits")
        with session.progress.step("traffic") as step:
            side = _run_side(session, name, credits, extra, phases)
            step.done(f"{name} {'with' if credits else 'without'} credits: {side.frames_lost:,} frames lost")
        sides.append(side)
    off, on = sides
    return Compared(on, off, phases, judge(name, on, off))


def judge(name: str, on: Side, off: Side) -> list[str]:
    """Return what the two sides fall short of, a line each."""
    comparison = COMPARED[name]
    short = []
    if on.frames_lost:
        short.append(f"with credits {on.frames_lost:,} frames were lost; it must be none")
    if on.goodput_ratio < MIN_GOODPUT:
        short.append(f"with credits goodput is {on.goodput_ratio:.1%} of what the slowest can carry, below 95%")
    if comparison.fair and on.jain < MIN_FAIRNESS:
        short.append(f"with credits Jain's index is {on.jain:.4f}, below 0.99")
    if on.neighbours_ratio is not None and on.neighbours_ratio < MIN_NEIGHBOURS:
        short.append(f"with credits the neighbours keep {on.neighbours_ratio:.1%} of their rate, less than 90%")
    if not off.frames_lost:
        short.append("without credits nothing was lost: the comparison proves nothing")
    return short


def _run_side(
    session: FabricSession, name: str, credits: bool, extra: Sequence[str], phases: list[PhaseResult]
) -> Side:
    comparison = COMPARED[name]
    word = "on" if credits else "off"
    neighbours_alone = 0.0
    if comparison.neighbours_per_s:
        baseline = _phase(f"neighbours-{word}", comparison, session, "neighbours", BASELINE_S, extra)
        ranks = run_phase(session, baseline, phases)
        neighbours_alone = rate_of(flows_of(ranks), paced=True)
        await_silence(session)
    phase = _phase(f"{name}-{word}", comparison, session, comparison.flows, DURATION_S, extra)
    before = Snapshot.take(session)
    with Monitor(session) as monitor:
        ranks = run_phase(session, phase, phases)
        time.sleep(0.3)  # what is under way arrives, and the monitor sees it
    after = Snapshot.take(session)
    side = Side(samples=monitor.samples)
    side.losses = losses(session.fabric, before, after, ranks)
    side.frames_lost = side.losses.total
    side.frames_retransmitted = sum(int(rank.report.get("frames_retransmitted", 0)) for rank in ranks)
    side.link_resets = link_resets(before, after)
    flows = flows_of(ranks)
    side.requests_per_s = rate_of(flows, paced=False)
    side.control_share = _control_share(session, monitor.samples, flows)
    side.capacity_per_s = _capacity(session, comparison) * (1 - side.control_share)
    side.goodput_ratio = side.requests_per_s / side.capacity_per_s
    side.jain = jain([rate_of([flow for flow in flows if flow["src"] == src], paced=False) for src in _sources(flows)])
    counts: Counter[int] = Counter()
    for flow in flows:
        if not flow["paced"]:
            counts.update(flow["latencies"])
    side.latency_us_p50, side.latency_us_p99 = percentile(counts, 50), percentile(counts, 99)
    if not credits and side.losses.for_want_of_room:
        side.buffer_peak_ratio = 1.0  # what overflowed was full
    else:
        side.buffer_peak_ratio = peak_share(monitor.samples, session.setting.profile.limits())
    if comparison.neighbours_per_s:
        side.neighbours_ratio = rate_of(flows, paced=True) / neighbours_alone if neighbours_alone else 0.0
    return side


def await_silence(session: FabricSession) -> None:
    """Wait until the switches have noticed that the ranks of a phase are gone, so that this is not counted in the next:
    their links end before those of the next begin."""
    deadline = time.monotonic() + _SILENCE_PATIENCE_S
    while any(port.session for ports in session.credits().values() for port in ports.values()):
        if time.monotonic() > deadline:
            raise LaunchError(f"links are still up {_SILENCE_PATIENCE_S:g} s after the ranks on them have ended.")
        time.sleep(0.1)


def _phase(
    title: str, comparison: Comparison, session: FabricSession, flows: str, duration_s: float, extra: Sequence[str]
) -> Phase:
    words = ["-m", "endpoint", "stream", "--flows", flows, "--size", str(SIZE), "--window", str(comparison.window)]
    words += ["--warm-up", str(WARM_UP_S), "--duration", str(duration_s), "--ring", str(RECEIVE_RING)]
    words += ["--rto", str(RTO_S if session.setting.profile.lossless_vcs else RTO_WITH_LOSS_S)]
    if comparison.neighbours_per_s:
        words += ["--rate", str(comparison.neighbours_per_s)]
    if comparison.slow == "gpu":
        hot = min(gpu.id for gpu in session.fabric.gpus)
        words += ["--slow-gpu", str(hot), "--service-us", str(1_000_000 // comparison.requests_per_s)]
    return Phase(title, (*words, *extra))


def run_phase(session: FabricSession, phase: Phase, phases: list[PhaseResult]) -> list[RankResult]:
    started = time.monotonic()
    ranks = session.run(phase)
    phases.append(PhaseResult(phase, time.monotonic() - started, ranks))
    return ranks


def flows_of(ranks: Iterable[RankResult]) -> list[dict[str, Any]]:
    """Return all flows that the ranks report, each with its source and its latencies."""
    return [
        {
            **flow, "src": rank.gpu, "dst": dst,
            "latencies": {int(us): n for us, n in rank.report["latency_counts"].get(dst, {}).items()},
        }
        for rank in ranks
        for dst, flow in rank.report.get("flows", {}).items()
    ]  # fmt: skip


def _sources(flows: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({flow["src"] for flow in flows if not flow["paced"]})


def rate_of(flows: Iterable[Mapping[str, Any]], *, paced: bool) -> float:
    """Return the accesses per second of all flows of a kind together."""
    return float(sum(flow["completed"] / flow["seconds"] for flow in flows if flow["paced"] == paced))


def _capacity(session: FabricSession, comparison: Comparison) -> float:
    """Return the requests per second that what is slow can carry in all, if it carried no control frames.

    Where every link is slow, each carries a response with each request, too: those to its GPU's own requests.
    """
    if comparison.slow != "all":
        return float(comparison.requests_per_s)
    share = 1 / 2 if session.options.target == "bmv2" else FRAME_BYTES / (FRAME_BYTES + RESPONSE_BYTES)
    return comparison.requests_per_s * len(session.fabric.gpus) * share


def _control_share(session: FabricSession, samples: Sequence[Sample], flows: Sequence[Mapping[str, Any]]) -> float:
    """Return the share of the slow links' capacity that control frames took while rates were measured.

    As the switches count them: p4switch limits bits, so that one takes what its bytes take. BMv2 limits frames, and the
    keepalive's own replica, which never leaves the switch, passes the port's queue as well.
    """
    queue = session.setting.queue
    if queue is None or not flows:
        return 0.0
    first, last = (flows[0][end] for end in ("first_s", "last_s"))
    ports = [(node.name, port) for node in session.fabric.switches for port in session.setting.queues_of(node)]
    per_port_s = control_rate(samples, ports, first, last) / len(ports)
    if session.options.target == "bmv2":
        return (per_port_s + 1000 / KEEPALIVE_MS) / queue.frames_per_s
    return per_port_s * CONTROL_BYTES / queue.frame_bytes / queue.frames_per_s


def control_rate(samples: Sequence[Sample], ports: Iterable[tuple[str, int]], first: float, last: float) -> float:
    """Return the control frames per second that switches' ports have sent between two times of the monotonic clock.

    As far as samples tell: from the last one before, or the first there is, to the first one after, or the last.
    """
    if len(samples) < 2:
        return 0.0
    begin = max((sample for sample in samples if sample.counted_at <= first), key=_counted_at, default=samples[0])
    end = min((sample for sample in samples if sample.counted_at >= last), key=_counted_at, default=samples[-1])
    seconds = end.counted_at - begin.counted_at
    sent = sum(end.control[switch][port] - begin.control[switch][port] for switch, port in ports)
    return sent / seconds if seconds > 0 else 0.0


def _counted_at(sample: Sample) -> float:
    return sample.counted_at


def jain(shares: Sequence[float]) -> float:
    """Return Jain's fairness index of some shares: 1 when all are equal, 1/n when one has everything.

    R. Jain, D. Chiu, W. Hawe, DEC TR-301, 1984.
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


def percentile(counts: Mapping[int, int], percent: float) -> float:
    """Return the nearest-rank percentile of values that occurred so many times each; 0 when there are none."""
    left = sum(counts.values()) * percent / 100
    for value, number in sorted(counts.items()):
        left -= number
        if left <= 0:
            return float(value)
    return 0.0
