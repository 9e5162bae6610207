"""Bad input and every way out: one clear message, a status that is not 0, and nothing left running."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fabric.conftest import REPOSITORY, Launcher, leftovers, wait_until
from topologies.errors import LaunchError
from topologies.nodes import P4SwitchNode


def wait_for_script(launcher: Launcher, marks: Path, count: int) -> None:
    wait_until(
        lambda: len(list(marks.glob("up-*"))) == count,
        "the script runs on every GPU",
        lambda: [p.communicate() for p in launcher.started if p.poll() is not None],
        timeout_s=60,
    )


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A script that marks its start and then runs for good."""
    path = tmp_path / "endless.py"
    path.write_text(
        "import os, pathlib, time\n"
        f"(pathlib.Path({str(tmp_path)!r}) / ('up-' + os.environ['ETHLINK_GPU'])).touch()\n"
        "time.sleep(3600)\n"
    )
    return path


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)]
)
def test_a_signal_ends_everything(launcher: Launcher, endless: Path, number: signal.Signals, status: int) -> None:
    """The fixture checks that no process, namespace or interface is left, after SIGKILL as well."""
    process = launcher.start("--topo", "planes,2,1", SCRIPT=str(endless))
    wait_for_script(launcher, endless.parent, 2)
    assert len(leftovers(launcher.mark)) >= 8, "launcher, shells, switch, controller, ranks"
    state = json.loads((launcher.run_dir / "launcher.json").read_text())
    assert Path(f"/proc/{state['namespace_pid']}").exists()
    process.send_signal(number)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == status
    if number != signal.SIGKILL:
        assert f"stopped by {number.name}" in output
    wait_until(lambda: not Path(f"/proc/{state['namespace_pid']}").exists(), "the namespaces are gone", lambda: state)


def test_ctrl_c_at_the_terminal_reaches_every_process_of_the_group(launcher: Launcher, endless: Path) -> None:
    """As the terminal does it: SIGINT to the whole process group at once."""
    process = subprocess.Popen(
        launcher.command("--topo", "planes,2,1"), cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "SCRIPT": str(endless), **launcher.marked},
    )  # fmt: skip
    launcher.started.append(process)
    wait_for_script(launcher, endless.parent, 2)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert errors == ""
    assert output.rstrip().endswith("stopped by SIGINT")


def test_a_second_fabric_in_the_same_place_is_refused(launcher: Launcher, endless: Path) -> None:
    first = launcher.start("--topo", "planes,2,1", SCRIPT=str(endless))
    wait_for_script(launcher, endless.parent, 2)
    status, output, errors = launcher.run("--topo", "planes,2,1")
    assert status == 1
    assert output == ""
    assert errors.startswith(f"error: A fabric is running already in {launcher.run_dir} (process {first.pid}).\n")
    assert first.poll() is None, "the first one goes on"


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"TOPO": "planes,0,2"}, "error: TOPO=planes,0,2: gpus is 0, but must be 1 to 503 (one switch port each).\n"),
        ({"TOPO": "mesh"}, "error: TOPO=mesh: no topology is called 'mesh'.\n"),
        ({"SCENARIO": "flood"}, "error: SCENARIO=flood: there is no such scenario.\n"),
        ({"SCRIPT": "/nowhere/x.py"}, "error: SCRIPT=/nowhere/x.py: no such file.\n"),
        ({"P4_TARGET": "asic"}, "error: P4_TARGET=asic: there is no such target.\n"),
    ],
)
def test_bad_input_is_answered_at_once(launcher: Launcher, environment: dict[str, str], message: str) -> None:
    status, output, errors = launcher.run(**environment)
    assert status == 1
    assert output == ""
    assert errors.startswith(message)
    assert "Traceback" not in errors


def test_a_program_with_errors_is_shown_with_its_place(launcher: Launcher, tmp_path: Path) -> None:
    broken = tmp_path / "broken.p4"
    broken.write_text("#include <core.p4>\n#include <v1model.p4>\nheader h_t { bit<8> a }\n")
    status, _, errors = launcher.run("--topo", "planes,2,1", "--program", str(broken))
    assert status == 1
    assert errors.startswith(f"error: The switch program {broken} does not compile:\n")
    assert f"{broken}:3:" in errors
    assert "Traceback" not in errors


FOREIGN = """\
#include <core.p4>
#include <v1model.p4>
struct headers_t {}
struct metadata_t {}
parser P(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply {} }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { mark_to_drop(s); } }
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in headers_t h) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


def test_a_program_without_the_fabrics_tables_is_refused(launcher: Launcher, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.p4"
    foreign.write_text(FOREIGN)
    status, _, errors = launcher.run("--topo", "planes,2,1", "--program", str(foreign))
    assert status == 1
    assert errors.startswith(
        "error: The controller cannot program switch s1: the program foreign.p4bin is not one for this controller: "
    )
    assert "station" in errors


def test_without_root_the_message_says_how(tmp_path: Path) -> None:
    # Another user cannot read this environment everywhere, so the check is reached by a dropped user id alone.
    program = "import os, sys; os.setuid(65534); from topologies.launch import main; sys.exit(main([]))"
    done = subprocess.run(
        [sys.executable, "-c", f"import topologies.launch, rich.console, rich.markup; {program}"],
        capture_output=True, text=True, check=False, cwd=REPOSITORY, env={**os.environ, "RUN_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == ("error: A fabric needs root, for network namespaces and raw sockets.\nTry: sudo make run\n")


@pytest.mark.parametrize("size", ["4m", "33m"])
def test_a_full_disk_is_one_message(launcher: Launcher, size: str) -> None:
    """On a small file system: too small from the start, and filled while the fabric comes up."""
    launcher.run_dir.mkdir(parents=True)
    fill = "" if size == "4m" else (
        f"(while [ ! -e {launcher.run_dir}/fabric.json ]; do sleep 0.01; done;"
        f" head -c 40m /dev/zero > {launcher.run_dir}/filler 2>/dev/null) & "
    )  # fmt: skip
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c",
         f"mount -t tmpfs -o size={size} tmpfs {launcher.run_dir} && {{ {fill} "
         f"{sys.executable} -m topologies --run-dir {launcher.run_dir} --topo planes,2,1 --count 50; }}"],
        capture_output=True, text=True, timeout=60, check=False, cwd=REPOSITORY,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "The disk is full" in done.stderr or "No space left on device" in done.stderr, done.stdout + done.stderr
    assert done.stderr.count("error:") == 1


class BrokenSwitch(P4SwitchNode):
    """A switch that says why it cannot run, and ends."""

    def command(self) -> list[str]:
        return ["sh", "-c", "echo cannot open s1-eth1: no such device; exit 3"]


class SilentSwitch(P4SwitchNode):
    """A switch that never serves."""

    def command(self) -> list[str]:
        return ["sleep", "3600"]


def test_a_switch_that_does_not_come_up_shows_the_end_of_its_log(tmp_path: Path) -> None:
    node = BrokenSwitch("s1", device_id=15001, run_dir=tmp_path)
    try:
        node.start()
        with pytest.raises(LaunchError) as caught:
            node.wait_ready(5)
    finally:
        node.stop_process()
        node.terminate()
    assert str(caught.value) == (
        "switch s1 stopped with exit status 3. The last lines of its log:\n"
        "    cannot open s1-eth1: no such device\n"
        f"The whole log: {tmp_path}/logs/s1.log"
    )


def test_a_switch_that_stays_silent_is_given_up(tmp_path: Path) -> None:
    node = SilentSwitch("s1", device_id=15001, run_dir=tmp_path)
    started = time.monotonic()
    try:
        node.start()
        with pytest.raises(LaunchError, match=r"switch s1 does not serve P4Runtime on 127.0.0.1:65051 after 0.3 s"):
            node.wait_ready(0.3)
    finally:
        node.stop_process()
        node.terminate()
    assert time.monotonic() - started < 5


def test_a_port_in_use_is_named_with_the_way_to_its_owner(tmp_path: Path) -> None:
    node = P4SwitchNode("s1", device_id=15002, run_dir=tmp_path)
    with socket.create_server(("127.0.0.1", 65052)):
        try:
            with pytest.raises(LaunchError) as caught:
                node.start()
        finally:
            node.terminate()
    assert str(caught.value) == (
        "switch s1: port 65052 on 127.0.0.1 is in use (Address already in use).\n"
        "Find its owner with `ss -ltnp sport = :65052` and stop it."
    )


def test_the_repl_without_a_fabric_says_what_to_do(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "controller.repl", "--run-dir", str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=REPOSITORY,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "No fabric is running. Start one in another terminal with: make run\n"
