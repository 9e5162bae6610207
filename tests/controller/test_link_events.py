"""What the controller learns of links from counters, and the history that it keeps of them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from codec.fabric import SwitchNode, SwitchPort
from controller.__main__ import main
from controller.event_history import FILE, Events, LinkEvent, append, load
from controller.link_watch import LinkWatch
from controller.repl import SHELL_PYTHON
from topologies.describe import describe
from topologies.topos import parse_topo

REPOSITORY = Path(__file__).resolve().parents[2]
NODE = SwitchNode(
    0xF00, "s1", 0, 1, "127.0.0.1:50051", "s1.log",
    (
        SwitchPort(1, "s1-eth1", "endpoint", "g1", mode="managed"),
        SwitchPort(2, "s1-eth2", "endpoint", "g2"),
        SwitchPort(3, "s1-eth3", "fabric", "s2", mode="managed"),
    ),
)  # fmt: skip


def counts(**ports: tuple[int, int, int]) -> Mapping[int, Mapping[str, int]]:
    """Return counters by port: p1=(links_lost, links_restored, links_degraded)."""
    names = ("links_lost", "links_restored", "links_degraded")
    return {number: dict(zip(names, ports.get(f"p{number}", (0, 0, 0)), strict=True)) for number in (1, 2, 3)}


def what(events: list[LinkEvent]) -> list[tuple[int, str, str, int]]:
    return [(event.port, event.peer, event.what, event.times) for event in events]


def test_a_link_that_dies_and_comes_back() -> None:
    watch = LinkWatch(NODE)
    assert watch.update(counts(p1=(1, 1, 0)), 1.0) == []
    assert watch.update(counts(p1=(2, 1, 0)), 2.0) == [LinkEvent(2.0, "s1", 1, "g1", "LINK_DOWN")]
    assert watch.dead == {1}
    assert watch.update(counts(p1=(2, 1, 0)), 3.0) == []
    assert what(watch.update(counts(p1=(2, 2, 0)), 4.0)) == [(1, "g1", "LINK_UP", 1)]
    assert watch.dead == frozenset()


def test_what_happened_between_two_looks_comes_in_its_order() -> None:
    watch = LinkWatch(NODE)
    watch.update(counts(), 1.0)
    assert what(watch.update(counts(p2=(2, 2, 0)), 2.0)) == [(2, "g2", "LINK_DOWN", 2), (2, "g2", "LINK_UP", 2)]
    assert watch.dead == frozenset()
    assert what(watch.update(counts(p2=(3, 2, 0)), 3.0)) == [(2, "g2", "LINK_DOWN", 1)]
    assert what(watch.update(counts(p2=(4, 3, 0)), 4.0)) == [(2, "g2", "LINK_UP", 1), (2, "g2", "LINK_DOWN", 1)]
    assert watch.dead == {2}


def test_a_degraded_link_is_told_of_and_not_dead() -> None:
    watch = LinkWatch(NODE)
    watch.update(counts(), 1.0)
    assert what(watch.update(counts(p3=(0, 0, 2)), 2.0)) == [(3, "s2", "LINK_DEGRADED", 2)]
    assert watch.dead == frozenset()


def test_at_first_only_what_is_dead_now_is_told_of() -> None:
    watch = LinkWatch(NODE)
    events = watch.update(counts(p1=(1, 0, 0), p2=(1, 0, 0), p3=(5, 4, 3)), 1.0)
    assert what(events) == [(2, "g2", "LINK_DOWN", 1), (3, "s2", "LINK_DOWN", 1)]  # port 1 has not come up yet
    assert watch.dead == {1, 2, 3}
    assert what(watch.update(counts(p1=(1, 1, 0), p2=(1, 0, 0), p3=(5, 4, 3)), 2.0)) == [(1, "g1", "LINK_UP", 1)]


def test_a_switch_that_has_started_anew_counts_from_0() -> None:
    watch = LinkWatch(NODE)
    watch.update(counts(p1=(7, 7, 0), p2=(3, 2, 0)), 1.0)
    assert watch.dead == {2}
    assert watch.update(counts(p1=(1, 0, 0)), 2.0) == []
    assert watch.dead == {1}
    assert what(watch.update(counts(p1=(1, 1, 0), p2=(1, 0, 0)), 3.0)) == [
        (1, "g1", "LINK_UP", 1), (2, "g2", "LINK_DOWN", 1),
    ]  # fmt: skip


def test_the_history_is_kept_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    describe(parse_topo("planes,2,2"), "planes").save(tmp_path / "fabric.json")
    history = tmp_path / FILE
    assert load(history) == []
    assert main(["events", "--fabric", str(tmp_path / "fabric.json")]) == 0
    assert capsys.readouterr().out == "No link has changed its state.\n"
    first = LinkEvent(0.25, "s1", 2, "g2", "LINK_DOWN", 3)
    append(history, [first, LinkEvent(1.5, "s2", 0, "", "ROUTES_CHANGED", 4)])
    with history.open("a") as file:
        file.write('{"at_s": 1')  # as a reader may find it while the controller writes
    assert load(history)[0] == first
    assert main(["events", "--fabric", str(tmp_path / "fabric.json"), "s1"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("00.250  s1     port 2    g2     LINK_DOWN  3 times")
    assert main(["events", "--fabric", str(tmp_path / "fabric.json"), "s2"]) == 0
    assert capsys.readouterr().out.endswith("01.500  s2     ROUTES_CHANGED: 4\n")


def test_the_shell_shows_the_newest_events(tmp_path: Path) -> None:
    history = tmp_path / FILE
    append(history, [LinkEvent(float(n), f"s{n % 2 + 1}", n, f"g{n}", "LINK_UP") for n in range(1, 31)])
    events = Events(history)
    assert repr(events).count("\n") == 19
    assert [event.port for event in events(3)] == [28, 29, 30]
    assert [event.port for event in events("s2", 2)] == [27, 29]
    assert events(0) == []


@pytest.mark.skipif(not SHELL_PYTHON.exists(), reason="`make repl` has not installed p4runtime-shell")
def test_the_shells_own_python_reads_the_history(tmp_path: Path) -> None:
    """Nothing that it needs may come from the project's environment."""
    append(tmp_path / FILE, [LinkEvent(1.0, "s1", 4, "g4", "LINK_DOWN")])
    program = "import sys, pathlib, controller.shell as shell; print(shell.Events(pathlib.Path(sys.argv[1])))"
    done = subprocess.run(
        ["env", f"PYTHONPATH={REPOSITORY}", str(SHELL_PYTHON), "-c", program, str(tmp_path / FILE)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.endswith("s1     port 4    g4     LINK_DOWN\n"), done.stderr
