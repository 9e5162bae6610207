"""The scenario `bad-link`: links lose frames, data and control alike; does anybody above them notice?

One run, two sides on the same cables: without link-layer retry, then with it. Each side is measured on clean links, and
then with each loss, on one link and on all, by load/store and by RDMA. Both ends of a bad link lose what they send: the
switch by its table `link_fault`, the GPU by its impairments. What is lost above the links is counted, not inferred:
where a link repairs its losses, nothing is sent again end to end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

from codec.fabric import Fabric
from codec.profile import LinkProfile
from topologies.comparison import flows_of, percentile, rate_of, run_phase
from topologies.errors import LaunchError
from topologies.faults import LinkFaults
from topologies.losses import Snapshot, counted, frames_carried, port_sum
from topologies.options import whole_numbers
from topologies.progress import Step
from topologies.ranks import Phase, RankResult
from topologies.session import FabricSession, LinkSetting
from topologies.summary import PhaseResult

LOSSES: Final[tuple[float, ...]] = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"""The greatest first: what a lossy link carries less is made up for by the next ones, so that the count is reached."""
SEMANTICS: Final = {"load_store": 256, "rdma": 4096}
"""How bytes go, and how many at a time: a request each, or a message of two blocks."""
COUNT: Final = 1_000_000
"""Frames that the links carry with retry, in all."""
LEAST_COUNT: Final = 1000
MOST_COUNT: Final = 1_000_000_000
WINDOW: Final = 16
"""Accesses that each GPU has under way: enough to keep the machine busy, and no more, as they wait for each other."""
CLEAN_S: Final = 3.0
LEAST_S: Final = 0.5
MOST_S: Final = 12.0
MOST_WITHOUT_S: Final = 2.0
WARM_UP_S: Final = 0.5
"""Seconds of a measurement; without retry they are fewer, as nothing but the comparison depends on them."""
LAST: Final = 500
LAST_WITHOUT: Final = 25
"""Accesses of the check of last frames."""
LAST_SIZES: Final = {"load_store": 256, "rdma": 2048}
"""Bytes of each: a request, or a message of one block, so that one frame goes and one comes back."""
LAST_LOSS: Final = 0.1
"""Of the DATA frames of that check, at every end of every link."""
SILENCE_MS: Final = 2000
"""A machine with more to do than it has time for is no dead link."""
WITH_RETRY: Final = LinkProfile(llr=True, ecn_threshold=0, replay_count_max=255, silence_ms=SILENCE_MS)
WITHOUT_RETRY: Final = LinkProfile(ecn_threshold=0, silence_ms=SILENCE_MS)
RTO_S: Final = 5.0
"""With retry an access is sent again after so long at the earliest: far more than a link takes to repair a loss."""
RTO_WITHOUT_S: Final = 0.25
TIMEOUT_S: Final = 60
LINGER_S: Final = 0.5
LINGER_WITHOUT_S: Final = 1.25
"""For so long a GPU that has done still answers: the last answer may be lost, several times over."""
GOODPUT_LOSS: Final = 1e-3
GOODPUT_S: Final = 2.0
ROUNDS: Final = 3
"""So often, in turn with clean links, `GOODPUT_LOSS` is measured with retry: one phase's goodput scatters by a tenth,
as what GPUs get of a machine's processors does."""
MIN_GOODPUT: Final = 0.92
"""Of the clean links' goodput, at `GOODPUT_LOSS`. R. Joshi et al., LinkGuardian, SIGCOMM 2023, lose 8% at 1e-3."""
CERTAIN: Final = 20.0
"""Where so many losses are expected, there is one: the odds against it are 2e-9."""
ALWAYS_LOST: Final = 1e-2
"""From this loss on, links without retry cannot but lose frames in any measurement."""
_MOVED: Final = ("moved_requests", "resent_requests", "resent_blocks", "timed_out_requests", "timed_out_messages")


@dataclass(frozen=True)
class Case:
    """What is measured: how many frames are lost, on one link or on all, by which semantics bytes go, and whether
    control frames are lost alike."""

    loss: float
    all_links: bool
    semantics: str
    control: bool = True

    def __str__(self) -> str:
        return f"{'all links' if self.all_links else 'one link'}, {self.semantics.replace('_', '/')}"


@dataclass
class Figures:
    """What was found in one case, or in several together.

    `frames` is what links carried, `exposed` what the bad ones did of it, `dropped` what they dropped of that and of
    control frames, `lost` the frames and messages that had to be sent again end to end, were moved to another plane, or
    were given up. `replays` counts those that links began, at either end; `latencies` accesses by microseconds.
    """

    frames: int = 0
    exposed: int = 0
    dropped: int = 0
    lost: int = 0
    replays: int = 0
    replay_timeouts: int = 0
    link_resets: int = 0
    goodput_ratio: float | None = None
    latencies: Counter[int] = field(default_factory=Counter)

    @property
    def effective_loss(self) -> float:
        """The share of the links' frames that was lost above them."""
        return self.lost / self.frames if self.frames else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the figures of summary.json."""
        return {
            "effective_loss": self.effective_loss,
            "goodput_ratio": None if self.goodput_ratio is None else round(self.goodput_ratio, 4),
            "latency_us_p50": percentile(self.latencies, 50),
            "latency_us_p99": percentile(self.latencies, 99),
            "latency_us_p99_9": percentile(self.latencies, 99.9),
            "latency_us_max": max(self.latencies, default=0),
            "replays": self.replays,
            "replays_per_loss": round(self.replays / self.dropped, 3) if self.dropped else None,
            "replay_timeouts": self.replay_timeouts,
            "frames": self.frames,
            "frames_on_bad_links": self.exposed,
            "frames_dropped_by_links": self.dropped,
            "frames_lost": self.lost,
            "link_resets": self.link_resets,
        }


def together(some: Iterable[Figures]) -> Figures:
    """Return the sum of what was found in several cases; of goodput ratios the mean."""
    several = list(some)
    names = ("frames", "exposed", "dropped", "lost", "replays", "replay_timeouts", "link_resets")
    whole = Figures(**{name: sum(getattr(one, name) for one in several) for name in names})
    ratios = [one.goodput_ratio for one in several if one.goodput_ratio is not None]
    whole.goodput_ratio = sum(ratios) / len(ratios) if ratios else None
    for one in several:
        whole.latencies.update(one.latencies)
    return whole


@dataclass
class Side:
    """One side, with retry or without: its cases, accesses per second on clean links by (semantics, all links), and
    the check of last frames by semantics."""

    cases: dict[Case, Figures] = field(default_factory=dict)
    clean: dict[tuple[str, bool], float] = field(default_factory=dict)
    last: dict[str, Figures] = field(default_factory=dict)

    def of(self, loss: float) -> dict[Case, Figures]:
        """Return the cases of one loss."""
        return {case: figures for case, figures in self.cases.items() if case.loss == loss}

    @property
    def frames(self) -> int:
        """Frames that the links carried in all cases."""
        return sum(figures.frames for figures in self.cases.values())

    def to_json(self) -> dict[str, Any]:
        """Return the figures of summary.json: by loss, the cases together and each."""
        return {
            f"{loss:g}": {
                **together(self.of(loss).values()).to_json(),
                "cases": {str(case): figures.to_json() for case, figures in self.of(loss).items()},
            }
            for loss in LOSSES
        }


@dataclass
class BadLinkResult:
    """Both sides, the phases that made them, and what they fall short of."""

    on: Side = field(default_factory=Side)
    off: Side = field(default_factory=Side)
    phases: list[PhaseResult] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the figures of summary.json."""
        sides = {"llr_on": self.on, "llr_off": self.off}
        return {
            **{name: side.to_json() for name, side in sides.items()},
            "llr_frames": self.on.frames,
            "last_frame": {
                name: {semantics: figures.to_json() for semantics, figures in side.last.items()}
                for name, side in sides.items()
            },
            "clean_accesses_per_s": {
                name: {semantics: round(side.clean[semantics, True], 1) for semantics in SEMANTICS}
                for name, side in sides.items()
            },
        }


def setting(retry: bool) -> LinkSetting:
    """Return how the links are to be for one side."""
    return LinkSetting(WITH_RETRY if retry else WITHOUT_RETRY)


def check(fabric: Fabric) -> None:
    """Raise LaunchError when the topology has nobody to exchange with."""
    if len(fabric.gpus) < 3 or len(fabric.tenants) > 1:
        raise LaunchError(
            f"SCENARIO=bad-link needs 3 GPUs or more, all in one tenant; here are {len(fabric.gpus)}.",
            "Choose TOPO=planes,8,2, for example.",
        )


def given(traffic: Sequence[str]) -> tuple[int, int]:
    """Return the frames and the seed that were asked for. Raises LaunchError for what is no such number."""
    count, seed = whole_numbers(traffic, {"--count": (COUNT, LEAST_COUNT, MOST_COUNT), "--seed": (1, 0, 2**32 - 1)})
    return count, seed


def run(session: FabricSession, count: int, seed: int) -> BadLinkResult:
    """Run both sides, without retry first, so that the fabric that stays up has it, and judge.

    The session must have been entered with `setting(retry=False)`.
    """
    result = BadLinkResult()
    for side, retry in ((result.off, False), (result.on, True)):
        if retry:
            with session.progress.step("links") as step:
                session.reconfigure(setting(retry=True))
                step.done("brought up anew, with link-layer retry")
        _Measurement(session, side, retry, count, seed, result.phases).run()
    result.failures = judge(result, count)
    return result


class _Measurement:
    """One side under way."""

    def __init__(
        self, session: FabricSession, side: Side, retry: bool, count: int, seed: int, phases: list[PhaseResult]
    ) -> None:
        self._session = session
        self._side = side
        self._retry = retry
        self._left = count
        self._frames_per_s: dict[str, float] = {}
        self._seed = seed
        self._phases = phases
        self._faults = LinkFaults(session.fabric.switches)
        self._word = "on" if retry else "off"
        self._bad_gpu = min(session.fabric.gpus, key=lambda gpu: gpu.id)
        """Whose first link is the one that is bad."""

    def run(self) -> None:
        clean = [self._clean("before")]
        self._frames_per_s = {semantics: figures.frames / CLEAN_S for semantics, (figures, _) in clean[0].items()}
        found: dict[Case, list[tuple[Figures, list[RankResult]]]] = {}
        plan = [loss for loss in LOSSES for _ in range(ROUNDS if self._retry and loss == GOODPUT_LOSS else 1)]
        for done, loss in enumerate(plan):
            if loss == GOODPUT_LOSS:
                clean.append(self._clean(f"between-{done}"))
            with self._step() as step:
                several = self._lossy(loss, done, len(plan) - done)
                for case, one in several.items():
                    found.setdefault(case, []).append(one)
                figures = together(figures for figures, _ in several.values())
                step.done(f"a loss of {loss:g}: {figures.frames:,} frames, {figures.lost:,} lost above the links")
        clean.append(self._clean("after"))
        for semantics in SEMANTICS:
            for every in (False, True):
                rates = [self._rate(one[semantics][1], every) for one in clean]
                self._side.clean[semantics, every] = sum(rates) / len(rates)
        for case, rounds in found.items():
            self._side.cases[case] = together(figures for figures, _ in rounds)
            rate = sum(self._rate(ranks, case.all_links) for _, ranks in rounds) / len(rounds)
            clean_rate = self._side.clean[case.semantics, case.all_links]
            self._side.cases[case].goodput_ratio = rate / clean_rate if clean_rate else 0.0
        with self._step() as step:
            self._side.last = {semantics: self._last(semantics) for semantics in SEMANTICS}
            figures = together(self._side.last.values())
            step.done(f"last frames: {figures.dropped:,} dropped, {figures.lost:,} lost above the links")

    def _lossy(self, loss: float, done: int, left: int) -> dict[Case, tuple[Figures, list[RankResult]]]:
        """Measure the cases of one loss, for as long as their share of the frames that are asked for takes."""
        found = {}
        cases = [Case(loss, every, semantics) for every in (False, True) for semantics in SEMANTICS]
        least = GOODPUT_S if loss == GOODPUT_LOSS else LEAST_S
        most = MOST_S if self._retry else MOST_WITHOUT_S
        for number, case in enumerate(cases):
            share = self._left / (left * len(cases) - number)
            seconds = max(least, min(most, share / self._frames_per_s[case.semantics]))
            found[case] = self._measure(f"bad-link-{self._word}-{done * len(cases) + number + 1}", case, seconds)
            self._left = max(0, self._left - found[case][0].frames)
        return found

    def _step(self) -> AbstractContextManager[Step]:
        return self._session.progress.step(f"retry {self._word}")

    def _clean(self, when: str) -> dict[str, tuple[Figures, list[RankResult]]]:
        """Measure clean links, by semantics."""
        found = {}
        with self._step() as step:
            for semantics in SEMANTICS:
                name = f"bad-link-{self._word}-clean-{when}-{semantics}"
                found[semantics] = self._measure(name, Case(0.0, True, semantics), CLEAN_S)
            step.done(f"clean links: {sum(figures.frames for figures, _ in found.values()):,} frames")
        return found

    def _measure(self, name: str, case: Case, seconds: float) -> tuple[Figures, list[RankResult]]:
        words = ["stream", "--flows", "ring", "--duration", f"{seconds:.2f}", "--warm-up", str(WARM_UP_S)]
        words += ["--window", str(WINDOW), "--size", str(SEMANTICS[case.semantics])]
        return self._run(name, case, words)

    def _last(self, semantics: str) -> Figures:
        """Let one GPU get from the others, one access at a time and one frame each way, over links that all lose DATA
        frames and nothing else: each frame lost is its message's last one, and no other DATA frame follows it."""
        words = ["ping", "--count", str(LAST if self._retry else LAST_WITHOUT), "--size", str(LAST_SIZES[semantics])]
        case = Case(LAST_LOSS, True, semantics, control=False)
        return self._run(f"bad-link-{self._word}-last-{semantics}", case, words)[0]

    def _run(self, name: str, case: Case, words: Sequence[str]) -> tuple[Figures, list[RankResult]]:
        rto, linger = (RTO_S, LINGER_S) if self._retry else (RTO_WITHOUT_S, LINGER_WITHOUT_S)
        words = [
            *("-m", "endpoint", *words, "--semantics", case.semantics),
            *("--rto", str(rto), "--max-rto", str(rto), "--linger", str(linger), "--timeout", str(TIMEOUT_S)),
            *("--seed", str(self._seed), *self._impairments(case)),
        ]
        bad = self._bad_ports(case)
        self._faults.lose(bad, case.loss, case.control)
        before = Snapshot.take(self._session)
        ranks = run_phase(self._session, Phase(name, tuple(words)), self._phases)
        self._faults.lose({}, 0.0)
        after = Snapshot.take(self._session)
        figures = Figures(
            frames=frames_carried(self._session.fabric, before, after),
            exposed=frames_carried(self._session.fabric, before, after, bad),
            dropped=counted(before, after, "link_fault_drops") + _counted(ranks, "impaired_tx_drop"),
            lost=sum(int(rank.report.get("counters", {}).get(name, 0)) for rank in ranks for name in _MOVED),
            replays=counted(before, after, "llr_tx_replay") + _counted(ranks, "llr_tx_replay"),
            replay_timeouts=counted(before, after, "llr_replay_timeouts") + _counted(ranks, "llr_replay_timeouts"),
            link_resets=_counted(ranks, "link_resets"),
        )
        for rank in ranks:
            for counts in rank.report.get("latency_counts", {}).values():
                figures.latencies.update({int(us): number for us, number in counts.items()})
        return figures, ranks

    def _impairments(self, case: Case) -> list[str]:
        if not case.loss:
            return []
        what = f"drop={case.loss:g}" if case.control else f"drop={case.loss:g},kind=data"
        if case.all_links:
            return ["--impair", what]
        plane = self._bad_gpu.ports[0].plane
        return ["--impair", f"{what},plane={plane}", "--impaired-gpu", str(self._bad_gpu.id)]

    def _bad_ports(self, case: Case) -> dict[str, list[int]]:
        """Return the switches' ends of the bad links."""
        link = self._bad_gpu.ports[0]
        return {
            node.name: [
                port.port
                for port in node.ports
                if case.all_links or (port.peer == self._bad_gpu.name and node.plane == link.plane)
            ]
            for node in self._session.fabric.switches
        }

    def _rate(self, ranks: Sequence[RankResult], all_links: bool) -> float:
        """Return the accesses per second of the flows that cross bad links."""
        bad = self._bad_gpu
        flows = [flow for flow in flows_of(ranks) if all_links or flow["src"] == bad.name or flow["dst"] == str(bad.id)]
        return rate_of(flows, paced=False)


def _counted(ranks: Sequence[RankResult], name: str) -> int:
    return sum(port_sum(rank.report, (name,)) for rank in ranks)


def judge(result: BadLinkResult, count: int) -> list[str]:
    """Return what the two sides fall short of, a line each."""
    on, off = result.on, result.off
    short = [
        f"with retry {figures.lost:,} of {figures.frames:,} frames were lost above the links "
        f"at {case.loss:g} ({case}); it must be none"
        for case, figures in on.cases.items()
        if figures.lost
    ]
    short += [
        f"with retry links dropped nothing of {figures.exposed:,} frames at {case.loss:g} ({case}): "
        "the case proves nothing"
        for case, figures in on.cases.items()
        if not figures.dropped and case.loss * figures.exposed >= CERTAIN
    ]
    if on.frames < count:
        short.append(f"with retry the links carried {on.frames:,} frames, fewer than {count:,}")
    for every, links in ((False, "one link"), (True, "all links")):
        cases = on.of(GOODPUT_LOSS).items()
        ratio = together(figures for case, figures in cases if case.all_links == every).goodput_ratio
        if ratio is None or ratio < MIN_GOODPUT:
            short.append(
                f"with retry goodput at {GOODPUT_LOSS:g} ({links}) is {ratio or 0:.1%} of the clean links', below 92%"
            )
    for semantics, figures in on.last.items():
        if figures.lost:
            short.append(f"with retry {figures.lost:,} last frames were sent again end to end ({semantics})")
        if not figures.dropped:
            short.append(f"no last frame was lost, so that nothing is shown of them ({semantics})")
        longest = max(figures.latencies, default=0)
        if not 0 < longest < 1e6 * RTO_S:
            short.append(
                f"with retry an access whose last frames were lost took {longest / 1e6:.2f} s ({semantics}); it must "
                f"be less than the {RTO_S:g} s after which it would be sent again end to end"
            )
    for loss in LOSSES:
        if loss >= ALWAYS_LOST and not together(off.of(loss).values()).lost:
            short.append(f"without retry nothing was lost at {loss:g}: the comparison proves nothing")
    return short
