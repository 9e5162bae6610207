"""Launch a fabric in namespaces of its own, run a scenario on it, and report.

The process that the user starts stays outside: it checks what can be checked, holds the lock, passes signals on, and
tells other tools how to enter the fabric. All the rest happens in `_inside`.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Final

import mininet.log
from rich.console import Console
from rich.markup import escape

from codec.fabric import FabricError
from codec.files import write_whole
from controller.runstate import STATE_FILE, RunState
from topologies import bad_link, comparison, failover
from topologies.describe import describe
from topologies.errors import LaunchError
from topologies.namespace import run_isolated
from topologies.nodes import last_lines
from topologies.options import DEFAULT_SCENARIO, Options, check, parse
from topologies.plot import BAD_LINK_PLOT_FILE, PLOT_FILE, plot_bad_link, plot_credits
from topologies.progress import Progress
from topologies.prompt import FabricPrompt
from topologies.ranks import Phase, script_phase, traffic_phase, training_phase
from topologies.session import FabricSession, LinkSetting
from topologies.summary import PhaseResult, Summary, print_summary, summarise
from topologies.topos import parse_topo
from topologies.training import check_profile

FULL_BYTES: Final = 1 << 16
"""A disk with less room than this counts as full when something has gone wrong."""
FULL_HINT: Final = "Free some space (make clean removes earlier builds), or set RUN_DIR to another place."


def main(argv: list[str] | None = None) -> int:
    """Run a fabric as the command line asks and return the exit status: the scenario's, or 1 with one message."""
    options = parse(argv)
    console = Console(highlight=False, emoji=False)
    try:
        check(options)
        topo = parse_topo(options.topo)  # a malformed one is refused before anything is started
        if options.profile is not None:
            check_profile(options.profile, options.topo, describe(topo, options.topo))
        with _Lock(options) as lock:
            return run_isolated(lambda: _inside(options, console), lock.publish)
    except (LaunchError, FabricError) as error:
        _print_fault(error)
    except OSError as error:
        _print_fault(_explain(error, options.run_dir))
    return 1


def _inside(options: Options, console: Console) -> int:
    """Bring the fabric up, run the scenario, give the prompt, take it down. Runs in the namespaces."""
    progress = Progress(console)
    try:
        _raise_on_signals()
        progress.say(f"[bold]EthLink fabric[/bold]  {escape(options.topo)}  on {options.target}")
        with FabricSession(options, progress, _setting(options)) as session:
            summary = _run_scenario(session, options, console)
            if options.prompt:
                _prompt(session, options, console)
                progress.say("stopping ...")
        return 0 if summary.ok else 1
    except Interrupted as interrupt:
        console.print(f"\nstopped by {signal.Signals(interrupt.number).name}")
        return 128 + interrupt.number
    except (LaunchError, FabricError) as error:
        _print_fault(_full_disk(error, options.run_dir) or error)
    except OSError as error:
        _print_fault(_explain(error, options.run_dir))
    return 1


class Interrupted(BaseException):
    """A signal asked the launcher to stop; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _raise_on_signals() -> None:
    """Let SIGINT, SIGTERM and SIGHUP raise `Interrupted`, once: the way out is not interrupted again."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(number: int, _frame: object) -> None:
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)
        raise Interrupted(number)

    for number in numbers:
        signal.signal(number, interrupt)


def phases_of(options: Options) -> list[Phase]:
    """Return what a run consists of: by default a ping of every GPU, then random loads and stores."""
    if options.script is not None:
        return [script_phase(options.script)]
    if options.profile is not None:
        return [training_phase(options.profile)]
    if options.scenario == DEFAULT_SCENARIO:
        return [traffic_phase("ping", options.traffic), traffic_phase("random", options.traffic)]
    return [traffic_phase(options.scenario, options.traffic)]


def _setting(options: Options) -> LinkSetting:
    """Return how the links are to be at first."""
    if options.cuts_cables:
        fabric = describe(parse_topo(options.topo), options.topo)
        failover.check(fabric)
        failover.given(options.traffic)  # a bad number is refused before anything is started
        return failover.SETTING
    if options.loses_frames:
        bad_link.check(describe(parse_topo(options.topo), options.topo))
        bad_link.given(options.traffic)
        return bad_link.setting(retry=False)
    if not options.compares:
        return LinkSetting()
    fabric = describe(parse_topo(options.topo), options.topo)
    comparison.check(options.scenario, fabric)
    return comparison.setting_of(options.scenario, fabric, credits=False)


def _run_scenario(session: FabricSession, options: Options, console: Console) -> Summary:
    compared = failed_over = retried = None
    if options.cuts_cables:
        failed_over = failover.run(session, *failover.given(options.traffic))
        results = failed_over.phases
    elif options.loses_frames:
        retried = bad_link.run(session, *bad_link.given(options.traffic))
        results = retried.phases
    elif options.compares:
        compared = comparison.run(session, options.scenario, options.traffic)
        results = compared.phases
    else:
        results = [_run_phase(session, phase) for phase in phases_of(options)]
    summary = summarise(
        scenario=options.title,
        topology=options.topo,
        target=options.target,
        started=options.started,
        phases=results,
        counters=session.counters(),
    )
    if compared is not None:
        summary.compare(compared)
        plot_credits(options.run_dir / PLOT_FILE, options.title, compared)
    if failed_over is not None:
        summary.fail_over(failed_over)
        write_whole(options.run_dir / failover.CUTS_FILE, json.dumps(failed_over.cuts, indent=1) + "\n")
    if retried is not None:
        summary.retry(retried)
        plot_bad_link(options.run_dir / BAD_LINK_PLOT_FILE, retried)
    summary.save(options.run_dir / "summary.json")
    print_summary(console, summary, session.fabric)
    for result in results:
        _print_failures(console, result)
    if compared is not None or retried is not None:
        plot = PLOT_FILE if compared is not None else BAD_LINK_PLOT_FILE
        console.print(f"[dim]plot: {options.run_dir / plot}[/dim]", soft_wrap=True)
    console.print(f"[dim]summary.json and logs: {options.run_dir}[/dim]", soft_wrap=True)
    return summary


def _run_phase(session: FabricSession, phase: Phase) -> PhaseResult:
    started = time.monotonic()
    ranks = session.run(phase)
    return PhaseResult(phase, time.monotonic() - started, ranks)


def _print_failures(console: Console, result: PhaseResult) -> None:
    """Quote the end of the first failed rank's log, and name the others."""
    failed = [rank for rank in result.ranks if rank.status]
    if not failed:
        return
    first, *others = failed
    lines = [
        f"{result.phase.name} on {first.gpu} ended with status {first.status}. The last lines of {first.log}:",
        *(f"    {line}" for line in last_lines(first.log)),
    ]
    if others:
        lines.append(f"Likewise: {', '.join(rank.gpu for rank in others)}")
    console.print(escape("\n".join(lines)), soft_wrap=True)


def _prompt(session: FabricSession, options: Options, console: Console) -> None:
    commands = ("scenario all-to-all", "counters", "restart s1", "g1 python my.py", "help")
    tools = "[bold]make repl[/bold]"
    if options.link_mode == "managed":
        tools += " or [bold]make watch[/bold]"
    console.print(
        f"\nThe fabric stays up. Try: {', '.join(f'[bold]{command}[/bold]' for command in commands)}; "
        f"in a second terminal: {tools}. [bold]exit[/bold] ends it."
    )

    def run_scenario(name: str, extra: list[str]) -> None:
        result = _run_phase(session, traffic_phase(name, extra))
        summary = summarise(
            scenario=name, topology=options.topo, target=options.target, started=options.started, phases=[result],
            counters=session.counters(),
        )  # fmt: skip
        print_summary(console, summary, session.fabric)

    # At the prompt Ctrl-C is Mininet's: it ends the line, or the command that a node runs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    mininet.log.setLogLevel("info")
    assert session.ranks is not None
    session.ranks.prepare_shells()
    FabricPrompt(session, run_scenario)


class _Lock:
    """Keep two launchers out of one run directory, and tell other tools how to enter the fabric."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._file = (options.run_dir / ".lock").open("w")

    def __enter__(self) -> _Lock:
        run_dir = self._options.run_dir
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = RunState.load(run_dir)
            who = f" (process {owner.pid})" if owner is not None else ""
            raise LaunchError(
                f"A fabric is running already in {run_dir}{who}.",
                "Leave its Mininet prompt, or set RUN_DIR to another directory for a second fabric.",
            ) from None
        return self

    def __exit__(self, *_exception: object) -> None:
        (self._options.run_dir / STATE_FILE).unlink(missing_ok=True)
        self._file.close()

    def publish(self, namespace_pid: int) -> None:
        """Write the state file."""
        RunState(os.getpid(), namespace_pid, self._options.topo, self._options.target).save(self._options.run_dir)


def _full_disk(error: Exception, run_dir: Path) -> LaunchError | None:
    """Return a message that says so where a fault came about on a full disk: what cannot write fails oddly."""
    if shutil.disk_usage(run_dir).free >= FULL_BYTES:
        return None
    return LaunchError(f"The disk is full ({run_dir}). What came of it:", FULL_HINT, str(error).splitlines())


def _explain(error: OSError, run_dir: Path) -> LaunchError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return LaunchError(f"The disk is full ({error.filename or run_dir}).", FULL_HINT)
    where = f" ({error.filename})" if error.filename else ""
    return LaunchError(f"{error.strerror or error}{where}.")


def _print_fault(error: Exception) -> None:
    sys.stdout.flush()
    Console(stderr=True, highlight=False, emoji=False, soft_wrap=True).print(
        f"[bold red]error:[/bold red] {escape(str(error))}"
    )
