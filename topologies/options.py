"""Read what a run is to be, and refuse what cannot work before anything is started."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from topologies.errors import LaunchError
from topologies.nodes import DEFAULT_RUN_DIR, REPOSITORY
from topologies.training import DEFAULT_PROFILE, find_profile
from topologies.training import SCENARIO as TRAINING

PATTERNS: Final = ("ping", "random", "all-to-all", "incast", "permutation")
"""Patterns of the traffic command: one phase on links of one kind."""
COMPARISONS: Final = ("incast", "all-to-all", "hotspot", "slow-drain")
"""Scenarios that run with credits and without, side by side; two of them are patterns too."""
FAILOVER: Final = "failover"
"""Cables are cut and restored under load; beside it the same without notification."""
BAD_LINK: Final = "bad-link"
"""Links lose frames, with link-layer retry and without, side by side."""
SCENARIOS: Final = (*PATTERNS, *(name for name in COMPARISONS if name not in PATTERNS), FAILOVER, BAD_LINK, TRAINING)
DEFAULT_SCENARIO: Final = "default"
TRAFFIC: Final = ("count", "size", "semantics", "window", "seed", "duration")
"""Options of the traffic command that a run passes on."""
TARGETS: Final = ("p4switch", "bmv2")
LINKS: Final = ("open", "managed")
TOOLS: Final = {
    "p4switch": ("ip", "ethtool", "mnexec", "nsenter", "sysctl", "cc"),
    "bmv2": ("ip", "ethtool", "mnexec", "nsenter", "sysctl", "p4c-bm2-ss", "simple_switch_grpc", "simple_switch_CLI"),
}
MIN_FREE_BYTES: Final = 32 << 20
"""Room for logs and results; a run without captures writes a few hundred kilobytes."""


@dataclass(frozen=True)
class Options:
    """What to run.

    `topo` is written as for `mn --topo`. `scenario` is a traffic pattern, a comparison, "training" (with its
    `profile`) or "default"; with a `script`, that runs on every GPU instead. `links` is "open" or "managed"; left
    empty, the scenario decides (see `compares`). `traffic` is passed to the traffic command. `prompt` asks for the
    Mininet prompt after the scenario. `started` is when the user asked for it (Unix time, s).
    """

    topo: str = "planes,8,2"
    scenario: str = DEFAULT_SCENARIO
    script: Path | None = None
    profile: Path | None = None
    target: str = "p4switch"
    links: str = ""
    program: Path = REPOSITORY / "p4src" / "ethlink.p4"
    run_dir: Path = DEFAULT_RUN_DIR
    pcap: bool = False
    prompt: bool = False
    traffic: tuple[str, ...] = ()
    timeout_s: float = 300.0
    started: float = 0.0

    @property
    def compares(self) -> bool:
        """Whether the scenario runs with credits and without, as it does unless it is a pattern and LINKS is given."""
        if self.script is not None or self.scenario not in COMPARISONS:
            return False
        return not self.links or self.scenario not in PATTERNS

    @property
    def cuts_cables(self) -> bool:
        """Whether the scenario is the one in which cables are cut."""
        return self.script is None and self.scenario == FAILOVER

    @property
    def loses_frames(self) -> bool:
        """Whether the scenario is the one in which links lose frames."""
        return self.script is None and self.scenario == BAD_LINK

    @property
    def link_mode(self) -> str:
        """What the links are: open or managed."""
        return self.links or ("managed" if self.compares or self.cuts_cables or self.loses_frames else "open")

    @property
    def title(self) -> str:
        """What the summary calls the run's scenario."""
        return self.script.name if self.script is not None else self.scenario


def parse(argv: list[str] | None = None) -> Options:
    """Return the options of a command line; what it leaves out comes from the environment that make exports."""
    env = os.environ.get
    parser = argparse.ArgumentParser(
        prog="python -m topologies", description="Bring up a fabric, run a scenario on it, and print what happened."
    )
    parser.add_argument("--topo", default=env("TOPO") or Options.topo, help="e.g. planes,8,2 or leafspine,16,4,2")
    parser.add_argument("--scenario", default=env("SCENARIO") or DEFAULT_SCENARIO, help=", ".join(SCENARIOS))
    parser.add_argument(
        "--script", default=env("SCRIPT") or None, help="a program of yours to run on every GPU instead"
    )
    parser.add_argument(
        "--profile", default=env("PROFILE") or None,
        help=f"of the scenario {TRAINING}: a YAML file, or a name in topologies/profiles ({DEFAULT_PROFILE})",
    )  # fmt: skip
    parser.add_argument("--target", default=env("P4_TARGET") or Options.target, help=" or ".join(TARGETS))
    parser.add_argument(
        "--links", default=env("LINKS") or Options.links,
        help="open, or managed: brought up, with credits (default: open, or what the scenario compares)",
    )  # fmt: skip
    parser.add_argument("--program", type=Path, default=Options.program, help="the switch program (p4src/ethlink.p4)")
    parser.add_argument("--run-dir", type=Path, default=env("RUN_DIR") or DEFAULT_RUN_DIR, help="logs and results")
    parser.add_argument(
        "--pcap", action="store_true", default=env("PCAP", "") not in ("", "0"), help="capture all ports"
    )
    parser.add_argument("--no-prompt", action="store_true", help="end after the scenario, also on a terminal")
    parser.add_argument("--timeout", type=float, default=Options.timeout_s, help="limit of one traffic phase, seconds")
    for name in TRAFFIC:
        help_ = "passed to the traffic command"
        if name == "count":
            help_ += "; in a failover the number of cuts, with bad links that of frames with retry"
        parser.add_argument(f"--{name}", help=help_)
    given = parser.parse_args(argv)
    scenario = TRAINING if given.profile and given.scenario == DEFAULT_SCENARIO else given.scenario
    traffic = [word for name in TRAFFIC if (value := getattr(given, name)) is not None for word in (f"--{name}", value)]
    try:
        started = float(env("ETHLINK_STARTED", ""))
    except ValueError:
        started = time.time()
    return Options(
        topo=given.topo,
        scenario=scenario,
        profile=find_profile(given.profile or DEFAULT_PROFILE) if scenario == TRAINING or given.profile else None,
        script=Path(given.script).absolute() if given.script else None,
        target=given.target,
        links=given.links,
        program=given.program.absolute(),
        run_dir=given.run_dir.absolute(),
        pcap=given.pcap,
        prompt=not given.no_prompt and os.isatty(0) and os.isatty(1),
        traffic=tuple(traffic),
        timeout_s=given.timeout,
        started=started,
    )


def check(options: Options) -> None:
    """Raise LaunchError for the first thing that stands in the way: no root, a bad option, a missing tool, no room."""
    if os.geteuid() != 0:
        raise LaunchError("A fabric needs root, for network namespaces and raw sockets.", "Try: sudo make run")
    if options.target not in TARGETS:
        raise LaunchError(f"P4_TARGET={options.target}: there is no such target.", f"Choose {' or '.join(TARGETS)}.")
    if options.links not in ("", *LINKS):
        raise LaunchError(f"LINKS={options.links}: there are no such links.", f"Choose {' or '.join(LINKS)}.")
    if options.script is not None and not options.script.is_file():
        raise LaunchError(f"SCRIPT={options.script}: no such file.")
    if options.scenario not in (*SCENARIOS, DEFAULT_SCENARIO):
        raise LaunchError(
            f"SCENARIO={options.scenario}: there is no such scenario.", f"Choose one of {', '.join(SCENARIOS)}."
        )
    if options.profile is not None and options.scenario != TRAINING:
        raise LaunchError(
            f"SCENARIO={options.scenario} takes no PROFILE.", f"Leave one of them out, or choose SCENARIO={TRAINING}."
        )
    if options.scenario == TRAINING and options.traffic:
        raise LaunchError(
            f"SCENARIO={TRAINING} takes no {options.traffic[0]}: its profile says what is exchanged.",
            f"Change a copy of {options.profile}, and give it as PROFILE=.",
        )
    if options.links == "open" and options.compares:
        raise LaunchError(
            f"SCENARIO={options.scenario} compares links with credits and without; LINKS={options.links} has no place.",
            "Leave LINKS unset.",
        )
    if options.compares and {"--count", "--size", "--semantics"} & set(options.traffic):
        raise LaunchError(
            f"SCENARIO={options.scenario} compares for a time, and one size: no --count, no --size, no --semantics.",
            "Give --duration, --window or --seed; or choose LINKS=open or LINKS=managed for the plain pattern."
            if options.scenario in PATTERNS
            else "Give --duration, --window or --seed.",
        )
    if options.cuts_cables and {"--size", "--window", "--duration"} & set(options.traffic):
        raise LaunchError(
            "SCENARIO=failover lasts as long as its cuts, and finds its own pace: no --size, --window, --duration.",
            "Give --count for the number of cuts, or --seed.",
        )
    if options.loses_frames and options.links == "open":
        raise LaunchError(
            f"SCENARIO={BAD_LINK} compares managed links with retry and without; LINKS=open has no place.",
            "Leave LINKS unset.",
        )
    if options.loses_frames and {"--size", "--semantics", "--window", "--duration"} & set(options.traffic):
        raise LaunchError(
            f"SCENARIO={BAD_LINK} goes through its own sizes and semantics: no --size, --semantics, --window, "
            "--duration.",
            "Give --count for the number of frames that links carry with retry, or --seed.",
        )
    if not options.program.is_file():
        raise LaunchError(f"{options.program}: no such switch program.")
    missing = [tool for tool in TOOLS[options.target] if shutil.which(tool) is None]
    if missing:
        raise LaunchError(f"Missing on this machine: {', '.join(missing)}.", _where_from(options.target))
    _check_room(options.run_dir)


def whole_numbers(traffic: Sequence[str], known: Mapping[str, tuple[int, int, int]]) -> list[int]:
    """Return the values of options among those of the traffic command; `known` has default, least and most of each.

    Raises LaunchError for a value that is no whole number in its range.
    """
    words = dict(zip(traffic[::2], traffic[1::2], strict=True))
    values = []
    for name, (default, least, most) in known.items():
        text = words.get(name, str(default))
        if not (text.isdecimal() and least <= int(text) <= most):
            raise LaunchError(f"{name} {text}: not a whole number from {least:,} to {most:,}.")
        values.append(int(text))
    return values


def _where_from(target: str) -> str:
    if target == "bmv2":
        return "P4_TARGET=bmv2 needs p4c and BMv2, which you install yourself; without it the embedded target runs."
    return "Run `make run`, which installs what it needs on Debian and Ubuntu, or install them yourself."


def _check_room(run_dir: Path) -> None:
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(run_dir).free
    except OSError as error:
        raise LaunchError(f"cannot use {run_dir} for logs and results: {error.strerror}.") from None
    if free < MIN_FREE_BYTES:
        raise LaunchError(
            f"The disk is full: {free >> 20} MB are free at {run_dir}, and a run needs {MIN_FREE_BYTES >> 20} MB.",
            "Free some space (make clean removes earlier builds), or set RUN_DIR to another place.",
        )
