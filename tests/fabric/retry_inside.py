"""Checks of link-layer retry inside a fabric's namespaces: GPUs on bad links notice nothing, and credits stay right.

They are part of `tests.fabric.inside`, which runs them.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from rich.console import Console

from codec.profile import LinkProfile
from controller.reader import SwitchReader
from tests.fabric.managed_inside import SERVER, WRITER, Program, Watch, nothing_in_use, ready
from topologies.options import Options
from topologies.progress import Progress
from topologies.session import FabricSession, LinkSetting

LOSS = 0.01
PROFILE = LinkProfile(llr=True, outstanding_frames_max=16)
DROP = """
for port in ({ports}):
    for control in (0, 1):
        te = TableEntry("link_fault")(action="{action}")
        te.match["egress_port"], te.match["control"] = str(port), str(control)
        te.action["probability"], te.action["frames"], te.action["run"] = "{probability}", "0", "1"
        te.{edit}()
"""


def bad_links(run_dir: Path, target: str) -> None:
    """Let every link lose one frame in a hundred towards the GPUs, data and control: no access fails, none is lost."""
    from tests.fabric.inside import shell

    options = Options(topo="planes,3,1", target=target, links="managed", run_dir=run_dir, timeout_s=40)
    with FabricSession(options, Progress(Console(highlight=False)), LinkSetting(profile=PROFILE)) as session:
        s1 = session.fabric.switch("s1")
        server = Program(session, "g1", SERVER)
        writers = [Program(session, gpu, WRITER) for gpu in ("g2", "g3")]
        watch = Watch(session)
        watch.until("all links are ready", watch.now_all(ready))
        edit = {"ports": "1, 2, 3", "action": "drop_frames", "probability": int(LOSS * (1 << 32))}
        shell(s1, DROP.format(**edit, edit="insert"))
        time.sleep(4)
        for writer in writers:
            writer.tell()
        reports = [json.loads(writer.line()) for writer in writers]
        shell(s1, DROP.format(**edit, edit="delete"))
        for report in reports:
            assert report["failed"] == 0 and report["done"] > 500, reports
        watch.until("all credits are free", watch.now_all(nothing_in_use, time.monotonic()))
        with SwitchReader(s1) as reader:
            ports = reader.counters()
        for number in (1, 2, 3):
            link = ports[number].link
            assert link["link_fault_drops"] > 10, link
            assert link["llr_tx_replay"] > 5, link
            assert link["link_ups"] == 1 and link["llr_flushes"] == link["llr_copies_lost"] == 0, link
        for writer in writers:  # a second load, on good links
            writer.tell()
        time.sleep(1)
        for writer in writers:
            writer.tell()
        again = [json.loads(writer.line()) for writer in writers]
        assert all(report["failed"] == 0 for report in again), again
        for program in (server, *writers):
            program.tell()
            assert program.line() == "0", "credits that a GPU has in use as a sender"
            program.end()
