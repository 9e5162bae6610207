"""Files that the controller and the launcher leave for others; cookies; command lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codec.fabric import Fabric
from controller.__main__ import main
from controller.pipeline import Pipeline, PipelineError
from controller.repl import election_id, shell_command
from controller.runstate import RunState
from controller.status import ControllerStatus, State, SwitchStatus
from topologies.describe import describe
from topologies.topos import parse_topo

REPOSITORY = Path(__file__).resolve().parents[2]
P4INFO = 'pkg_info { arch: "v1model" }\n'


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "a.p4info.txtpb").write_text(P4INFO)
    (tmp_path / "a.p4bin").write_bytes(b"program")
    return Pipeline(tmp_path / "a.p4info.txtpb", tmp_path / "a.p4bin")


@pytest.fixture
def fabric_path(tmp_path: Path) -> Path:
    path = tmp_path / "fabric.json"
    describe(parse_topo("planes,2,2"), "planes").save(path)
    return path


def test_cookies_name_the_program_and_the_push(pipeline: Pipeline, tmp_path: Path) -> None:
    first, second = pipeline.new_cookie(), pipeline.new_cookie()
    assert first != second
    assert pipeline.made(first)
    assert pipeline.made(second)
    assert 0 < first < 1 << 64
    (tmp_path / "b.p4bin").write_bytes(b"another program")
    assert not Pipeline(tmp_path / "a.p4info.txtpb", tmp_path / "b.p4bin").made(first)


def test_a_program_that_is_not_there_or_no_program_is_refused(tmp_path: Path, pipeline: Pipeline) -> None:
    with pytest.raises(PipelineError, match=r"missing\.p4bin: No such file or directory; compile"):
        Pipeline(pipeline.p4info_path, tmp_path / "missing.p4bin")
    (tmp_path / "bad.txtpb").write_text("tables { oops")
    with pytest.raises(PipelineError, match=r"bad\.txtpb: not a P4Info text file"):
        Pipeline(tmp_path / "bad.txtpb", pipeline.config_path)


def test_a_status_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "controller.json"
    status = ControllerStatus(
        7, {"s1": SwitchStatus(State.PROGRAMMED, True, 2, 49, 0xFFFFFFFFFFFFFFFF, ["missing: x"]), "s2": SwitchStatus()}
    )
    status.save(path)
    assert ControllerStatus.load(path) == status
    assert not status.ready
    status.switches["s2"].state = State.PROGRAMMED
    assert status.ready


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": 1, "switches": {"s1": {"state": "flying"}}}', "\0"])
def test_a_status_file_that_is_none_counts_as_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "controller.json"
    path.write_text(text)
    assert ControllerStatus.load(path) is None


def test_a_run_state_counts_while_its_launcher_lives(tmp_path: Path) -> None:
    assert RunState.load(tmp_path) is None
    RunState(os.getpid(), 4711, "planes,2,1", "p4switch").save(tmp_path)
    state = RunState.load(tmp_path)
    assert state is not None
    assert state.enter(["true"]) == ["nsenter", "--net=/proc/4711/ns/net", "--", "env", "ETHLINK_INSIDE=1", "true"]
    RunState(2**22 + 1, 4711, "planes,2,1", "p4switch").save(tmp_path)  # above any process id
    assert RunState.load(tmp_path) is None
    (tmp_path / "launcher.json").write_text('{"pid": 1}')
    assert RunState.load(tmp_path) is None


def test_every_shell_gets_a_higher_election_id_than_the_stock_default() -> None:
    ids = [tuple(map(int, election_id().split(","))) for _ in range(3)]
    assert sorted(set(ids)) == ids, "ids rise"
    assert ids[0] > (1, 0)
    assert max(max(pair) for pair in ids) < 1 << 64


def test_the_shell_is_told_the_switch(fabric_path: Path, tmp_path: Path) -> None:
    command = shell_command(Fabric.load(fabric_path).switch("s2"), tmp_path)
    assert command[command.index("-m") + 1 :][:2] == ["controller.shell", str(tmp_path)]
    assert command[command.index("--grpc-addr") + 1] == "127.0.0.1:50052"
    assert command[command.index("--device-id") + 1] == "2"


def test_routes_are_printed_without_a_switch(fabric_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["routes", "--fabric", str(fabric_path), "s2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "s2: forward(dst=2, tenant=1) -> to_port(port=2)" in lines
    assert not [line for line in lines if line.startswith("s1:")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["routes", "s9"], "controller: no switch 's9' in the fabric; there are s1, s2\n"),
        (["counters"], "controller: switch s1 (127.0.0.1:50051): "),
        (["status"], "no controller has written here. Is the fabric up?"),
    ],
)
def test_faults_are_one_message(
    fabric_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main([*arguments, "--fabric", str(fabric_path)]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_without_a_description_the_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["routes", "--fabric", str(tmp_path / "no.json")]) == 1
    assert capsys.readouterr().err == f"controller: {tmp_path}/no.json: cannot be read: No such file or directory\n"


@pytest.mark.parametrize("command", ["watch", "credits", "counters", "drift"])
def test_without_a_fabric_the_commands_say_what_to_do(command: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "controller", command], capture_output=True, text=True, check=False, cwd=REPOSITORY,
        env={**{n: v for n, v in os.environ.items() if n != "ETHLINK_FABRIC"}, "RUN_DIR": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "controller: No fabric is running. Start one in another terminal with: make run\n"
