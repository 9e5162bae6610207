"""The traffic command: `python -m endpoint PATTERN`, started once per GPU with the environment that names its place."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from endpoint.environment import GPU_VARIABLE
from endpoint.errors import ConfigurationError, EndpointError, PortError
from endpoint.gpu import Gpu, Semantics
from endpoint.impairments import Impairment
from endpoint.options import EndpointOptions
from endpoint.traffic import endure, patterns, streams
from endpoint.traffic.patterns import Parameters, Pattern, Run
from endpoint.traffic.progress import Progress
from endpoint.traffic.report import Report
from endpoint.training.figures import figures_line, training_figures
from endpoint.training.phases import profile_pattern
from endpoint.training.profile import TrainingProfile, TrainingProfileError

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
END_S: Final = 600.0
"""How long a rank that has done waits for the others: in a ping, all but one have nothing else to do."""
PROFILE: Final = "profile"
"""The traffic of a training, as a file describes it (docs/collectives.md)."""
STREAM_PARAMETERS: Final = ("flows", "rate", "warm_up_s")
MAX_SIZE: Final = 1 << 20
RING_FRAME_BYTES: Final = 1300
"""What the kernel charges a receive buffer for a small frame, as measured; it gives twice what is asked for."""


@dataclass(frozen=True)
class Choice:
    """A pattern by its name on the command line, with what it does by default."""

    run: Pattern
    count: int
    size: int
    window: int


CHOICES: Final[dict[str, Choice]] = {
    "ping": Choice(patterns.ping, count=1000, size=8, window=1),
    "random": Choice(patterns.random, count=5000, size=256, window=32),
    "all-to-all": Choice(patterns.all_to_all, count=2000, size=1024, window=64),
    "incast": Choice(patterns.incast, count=2000, size=1024, window=64),
    "permutation": Choice(patterns.permutation, count=2000, size=1024, window=64),
    "endure": Choice(endure.endure, count=1, size=256, window=32),
    "stream": Choice(streams.stream, count=1, size=256, window=128),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a pattern as the command line and the environment say; return the exit status.

    0: everything was done and every byte was right; 1: not so; 2: the command line, the environment or an interface is
    wrong; 130: interrupted.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    profile = None
    if (given.pattern == PROFILE) != (given.file is not None):
        parser.error("profile takes a FILE, and nothing else does")
    if given.pattern == PROFILE:
        if any(value is not None for value in (given.count, given.size, given.window, given.duration)):
            parser.error("profile takes no --count, --size, --window or --duration: FILE says what is exchanged")
        try:
            profile = TrainingProfile.load(given.file)
        except TrainingProfileError as error:
            return _refuse(error)
        choice = Choice(profile_pattern(profile), profile.operations, max(phase.size for phase in profile.phases), 128)
    else:
        choice = CHOICES[given.pattern]
    parameters = Parameters(
        count=given.count or choice.count,
        size=given.size or choice.size,
        window=given.window or choice.window,
        seed=given.seed if profile is None else profile.seed,
        duration_s=given.duration,
        semantics=given.semantics,
        flows=given.flows,
        rate=given.rate,
        warm_up_s=given.warm_up,
    )
    json_path: Path | None = given.json
    try:
        gpu = Gpu.from_environment(options=_options(given, parameters))
    except (ConfigurationError, PortError) as error:
        return _refuse(error)
    with gpu:
        if not gpu.peers:
            print(f"endpoint: GPU {gpu.id} is alone in its tenant: nobody to exchange with", file=sys.stderr)
            return EXIT_USAGE
        if profile is not None:
            try:
                profile.check_gpus(len(gpu.ranks), "the tenant")
            except TrainingProfileError as error:
                return _refuse(error)
        report = Report(given.pattern, gpu.id, gpu.rank, len(gpu.ranks))
        if profile is not None:
            report.parameters = {"profile": str(given.file)}
        else:
            report.parameters = {
                name: value
                for name, value in dataclasses.asdict(parameters).items()
                if given.pattern in ("stream", "endure") or name not in STREAM_PARAMETERS
            }
        status = _run(choice.run, gpu, parameters, report)
    if json_path is not None:
        try:
            report.save(json_path)
        except OSError as error:
            print(f"endpoint: the results cannot be written to {json_path}: {error.strerror}", file=sys.stderr)
            status = status or EXIT_FAILED
    if json_path is None or not report.ok:
        lines = [str(report), *map(figures_line, training_figures([{"phases": report.phases}]))]
        print("\n".join(lines), file=sys.stdout if report.ok else sys.stderr)
    return status


def _refuse(error: EndpointError) -> int:
    """Say what is wrong with what was asked for; return the exit status."""
    for line in str(error).splitlines():
        print(f"endpoint: {line}", file=sys.stderr)
    return EXIT_USAGE


def _options(given: argparse.Namespace, parameters: Parameters) -> EndpointOptions:
    options = EndpointOptions(timeout_s=given.timeout, unreachable_s=given.timeout)
    if parameters.chosen is Semantics.LOAD_STORE:  # an access is a request there, and many blocks otherwise
        options = dataclasses.replace(options, window=parameters.window)
    if given.rto is not None:
        options = dataclasses.replace(
            options, first_rto_s=given.rto, min_rto_s=given.rto, lossless_rto_s=given.rto,
            max_rto_s=max(given.rto, options.max_rto_s),
        )  # fmt: skip
    if given.max_rto is not None:
        options = dataclasses.replace(options, max_rto_s=given.max_rto)
    options = dataclasses.replace(options, tries_per_path=given.tries, events=not given.no_events)
    if given.linger is not None:
        options = dataclasses.replace(options, linger_s=given.linger)
    if given.ring is not None:
        options = dataclasses.replace(options, receive_buffer=given.ring * RING_FRAME_BYTES // 2)
    if given.impair is not None:
        here = given.impaired_gpu in (None, os.environ.get(GPU_VARIABLE))
        options = dataclasses.replace(
            options, impairments=tuple(given.impair) if here else None, impairment_seed=given.seed
        )
    if given.slow_gpu is not None and os.environ.get(GPU_VARIABLE) == given.slow_gpu:
        options = dataclasses.replace(options, service_s=given.service_us / 1e6)
    return options


def _run(pattern: Pattern, gpu: Gpu, parameters: Parameters, report: Report) -> int:
    """Run a pattern and finish its report; return the exit status."""
    status = EXIT_FAILED
    with Progress(report.pattern, parameters.total, shown=gpu.rank == 0) as progress:
        run = Run(gpu, parameters, report, progress)
        try:
            pattern(run)
            duration_s = run.elapsed_s
            gpu.barrier(timeout_s=END_S + (parameters.duration_s or 0))  # nobody leaves while others still ask
            status = EXIT_OK
        except EndpointError as error:
            duration_s = run.elapsed_s
            report.error = str(error)
        except KeyboardInterrupt:
            duration_s = run.elapsed_s
            report.error = "interrupted"
            status = EXIT_INTERRUPTED
    report.finish(duration_s, run.counters(), gpu.port_counters())
    return status if report.ok or status else EXIT_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m endpoint",
        description="Run verified traffic on this GPU, together with all others of its tenant.",
        epilog="The environment names the place: ETHLINK_FABRIC (fabric description), ETHLINK_GPU (id or name). "
        "Exit status: 0 all verified, 1 not so, 2 wrong usage.",
    )
    parser.add_argument("pattern", choices=(*CHOICES, PROFILE), help="what to run")
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="profile: the training profile (YAML)")
    parser.add_argument("--count", type=_whole(1, 10**9), metavar="N", help="accesses per GPU")
    parser.add_argument("--size", type=_whole(1, MAX_SIZE), metavar="B", help="bytes per access (random: at most)")
    parser.add_argument("--window", type=_whole(1, 1023), metavar="W", help="accesses under way at a time")
    parser.add_argument("--seed", type=_whole(0, 2**32 - 1), default=1, metavar="S", help="of all random choices (1)")
    parser.add_argument("--duration", type=_seconds, metavar="S", help="run for so many seconds instead of a count")
    parser.add_argument(
        "--timeout", type=_seconds, default=10.0, metavar="S", help="seconds until an access fails (10)"
    )
    parser.add_argument(
        "--semantics",
        choices=patterns.SEMANTICS,
        default=str(Semantics.LOAD_STORE),
        help="how bytes go: auto is by their number (load_store)",
    )
    parser.add_argument(
        "--impair", type=_impairment, action="append", metavar="WHAT",
        help="let this go wrong on the wire: drop|corrupt|duplicate|delay=PROBABILITY or =next:N, then any of "
        ",kind=data|control ,direction=tx|rx|both ,us=DELAY ,plane=N; as --impair drop=0.01,kind=data; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--impaired-gpu", metavar="GPU", help=f"only this GPU's ports suffer; written as in its {GPU_VARIABLE} (all)"
    )
    stream = parser.add_argument_group("streams", "who sends to whom without a pause, and who is slow")
    stream.add_argument("--flows", choices=streams.FLOWS, default="incast", help="who sends to whom (incast)")
    stream.add_argument(
        "--rate", type=_seconds, default=100.0, metavar="R", help="accesses per second of a paced flow (100)"
    )
    stream.add_argument("--warm-up", type=_seconds, default=0.5, metavar="S", help="seconds that do not count (0.5)")
    stream.add_argument("--rto", type=_seconds, metavar="S", help="seconds until a request is sent again, at least")
    stream.add_argument("--max-rto", type=_seconds, metavar="S", help="seconds until a request is sent again, at most")
    stream.add_argument(
        "--tries", type=_whole(1, 100), default=1, metavar="N", help="tries of one path before another is taken (1)"
    )
    stream.add_argument("--no-events", action="store_true", help="ignore what switches tell of dead links")
    stream.add_argument("--slow-gpu", metavar="GPU", help=f"this GPU takes its time; written as in its {GPU_VARIABLE}")
    stream.add_argument(
        "--service-us", type=_whole(1, 10_000), default=500, metavar="N", help="so long over each request (500)"
    )
    stream.add_argument(
        "--linger", type=_seconds, metavar="S", help="at the end, answer until nobody has asked for so long (0.05)"
    )
    stream.add_argument("--ring", type=_whole(64, 1 << 16), metavar="N", help="small frames that a port keeps")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    return parser


def _whole(low: int, high: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return number


def _impairment(text: str) -> Impairment:
    try:
        return Impairment.parse(text)
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value
