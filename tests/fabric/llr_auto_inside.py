"""A check of links that retry when they have to, inside a fabric's namespaces: found by the controller, or by hand.

It is part of `tests.fabric.inside`, which runs it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from codec.profile import LinkProfile
from controller.event_history import FILE, RETRY_OFF, RETRY_ON, load
from controller.retries import TransmitState
from controller.retry_files import RetryFiles
from tests.fabric.managed_inside import SERVER, Program, ready
from tests.fabric.retry_inside import PATIENT, _all, _until
from topologies.faults import LinkFaults
from topologies.nodes import REPOSITORY
from topologies.options import Options
from topologies.progress import Progress
from topologies.session import FabricSession, LinkSetting

LOSS = 0.05
CLEAN_S = 2
PROFILE = LinkProfile(
    llr="auto", llr_clean_s=CLEAN_S, llr_window_s=5, llr_clean_frames=500, outstanding_frames_max=16,
    replay_count_max=255, silence_ms=1000,
)  # fmt: skip


def llr_auto(run_dir: Path, target: str) -> None:
    """No link retries; one that loses frames towards its GPU is found and does, also after the controller has started
    anew; once it has been good for long it does not any more. By hand it goes too. No access fails, no port dies."""
    options = Options(topo="planes,3,1", target=target, links="managed", run_dir=run_dir, timeout_s=40)
    with FabricSession(options, Progress(Console(highlight=False)), LinkSetting(profile=PROFILE)) as session:
        faults = LinkFaults(session.fabric.switches)
        files = RetryFiles(run_dir)

        def retrying() -> list[int]:
            """Return the ports that retry, as the switch itself says."""
            return [port.port for port in session.credits()["s1"].values() if port.retry and port.retry.tx_state in ON]

        def is_settled(on: list[int]) -> Callable[[], bool]:
            return lambda: retrying() == on and _all(session, ready)

        server = Program(session, "g1", SERVER)
        writers = [Program(session, gpu, PATIENT) for gpu in ("g2", "g3")]
        _until("all links are ready", lambda: _all(session, ready))
        before = session.counters()["s1"]
        time.sleep(1)
        assert retrying() == []
        assert [row[2] for row in files.rows()] == ["off", "off", "off"]

        faults.lose({"s1": [2]}, LOSS)  # towards GPU 2, where the switch itself sees nothing of it
        _until("the bad link retries", is_settled([2]), timeout_s=30)
        session.stop_controller()
        session.start_controller()
        session.wait_programmed(20)
        time.sleep(CLEAN_S + 0.5)
        assert retrying() == [2], "it loses frames all the time"
        lost = session.counters()["s1"][2].link["link_fault_drops"]
        faults.lose({}, 0)
        assert lost > before[2].link["link_fault_drops"] + 10
        _until("the link that is good again does not retry", is_settled([]), timeout_s=30)

        for words, on, decided in (
            (["on", "s1:3"], [3], ["auto", "auto", "by hand"]),
            (["off", "s1"], [], ["by hand"] * 3),
            (["auto"], [], ["auto"] * 3),
        ):
            done = _llr(session, words)
            assert done.returncode == 0, done.stderr
            assert [row[3] for row in files.rows()] == decided
            _until(f"llr {' '.join(words)}", is_settled(on), timeout_s=30)
        wrong = _llr(session, ["on", "s1:9"])
        assert wrong.returncode == 1
        assert wrong.stderr == "controller: no managed port 's1:9'; there are s1:1, s1:2, s1:3\n"

        events = [event for event in load(run_dir / FILE) if event.what in (RETRY_ON, RETRY_OFF)]
        assert [(event.port, event.what) for event in events][:2] == [(2, RETRY_ON), (2, RETRY_OFF)], events
        assert "to the peer" in events[0].why and events[1].why == f"clean for {CLEAN_S} s", events
        after = session.counters()["s1"]
        for number in (1, 2, 3):
            assert after[number].link["links_lost"] == before[number].link["links_lost"], number
        for writer in writers:
            writer.tell()
        reports = [json.loads(writer.line()) for writer in writers]
        assert all(report["failed"] == 0 and report["done"] > 300 for report in reports), reports
        for writer in writers:  # the second load
            writer.tell()
        time.sleep(0.2)
        for writer in writers:
            writer.tell()
        assert [json.loads(writer.line())["failed"] for writer in writers] == [0, 0]
        for program in (server, *writers):
            program.tell()
            assert program.line() == "0", "credits that a GPU has in use as a sender"
            program.end()


ON = (TransmitState.ADVANCE, TransmitState.REPLAY)


def _llr(session: FabricSession, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the controller's command line."""
    command = [sys.executable, "-m", "controller", "llr", *words, "--fabric", str(session.run_dir / "fabric.json")]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=30)
