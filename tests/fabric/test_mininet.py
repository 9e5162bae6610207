"""The fabric's parts under Mininet's own command, with the controller started by hand beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.fabric.conftest import REPOSITORY


def test_mn_builds_a_fabric_that_the_controller_programs(tmp_path: Path) -> None:
    python = sys.executable
    run = (
        f"{python} -m controller run --fabric {tmp_path}/fabric.json --p4info {tmp_path}/ethlink.p4info.txtpb "
        f"--config {tmp_path}/ethlink.p4bin > {tmp_path}/controller.log 2>&1 & echo $! > {tmp_path}/pid"
    )
    wait = f"for n in $(seq 150); do grep -q 'is programmed' {tmp_path}/controller.log && break; sleep 0.1; done"
    typed = "\n".join(
        [
            "nodes",
            f"sh {python} -m topologies.describe planes,3,2 -o {tmp_path}/fabric.json",
            f"sh {python} -m p4switch compile p4src/ethlink.p4 -o {tmp_path}",
            f"sh {run}",
            f"sh {wait}",
            f"sh {python} -m controller drift --fabric {tmp_path}/fabric.json",
            "g1 cat /sys/class/net/g1-eth1/mtu",
            f"sh kill $(cat {tmp_path}/pid)",
            "exit",
        ]
    )
    parts = "--host gpu --link ethlink --switch p4switch --controller none"
    mn = f"{shutil.which('mn')} --custom topologies/custom.py --topo planes,3,2 {parts}"
    done = subprocess.run(
        # In namespaces of its own: Mininet's switches sit in the root namespace, and the kernel ends what `mn` leaves.
        ["unshare", "-n", "-m", "-p", "-f", "--mount-proc", "sh", "-c", f"ip link set lo up; {mn}"],
        input=typed, capture_output=True, text=True, timeout=90, check=False, cwd=REPOSITORY,
        env={**os.environ, "RUN_DIR": str(tmp_path / "run")},
    )  # fmt: skip
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    assert "g1 g2 g3 s1 s2" in text
    assert "The switches hold what the controller installed." in text, text
    assert "4132" in text
    assert (tmp_path / "run" / "logs" / "s2.log").exists()
