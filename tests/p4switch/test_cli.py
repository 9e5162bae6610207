"""The command line: what it writes, its exit status, and one clear message for each mistake."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf import text_format

from p4switch.build import build, load_container
from p4switch.cli import main

PROGRAMS = Path(__file__).parent / "language" / "programs"
PROGRAM = PROGRAMS / "tables.p4"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs network namespaces")


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def test_compile_writes_what_a_controller_pushes(tmp_path: Path, cache_dir: Path) -> None:
    from finsy.proto import p4i

    binary = tmp_path / "info.bin"
    arguments = ["compile", str(PROGRAM), "-o", str(tmp_path / "out"), "--p4info", str(binary)]
    assert main([*arguments, "--cache-dir", str(cache_dir)]) == 0
    text = (tmp_path / "out" / "tables.p4info.txtpb").read_text()
    p4info = text_format.Parse(text, p4i.P4Info())
    assert p4info == p4i.P4Info.FromString(binary.read_bytes())
    assert "exact_t" in {t.preamble.alias for t in p4info.tables}
    container = (tmp_path / "out" / "tables.p4bin").read_bytes()
    assert load_container(container, cache_dir).library == build(PROGRAM, cache_dir=cache_dir).library


@pytest.mark.parametrize(
    ("stage", "part"),
    [("tokens", "exact_t"), ("ast", "exact_t"), ("ir", "exact_t"), ("c", "static void ingress(struct p4_packet *pkt)")],
)
def test_every_stage_can_be_printed(stage: str, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(PROGRAM), "--dump", stage]) == 0
    assert part in capsys.readouterr().out


MISTAKES = {
    "no such file": (["compile", "nothing.p4"], 1, "nothing.p4"),
    "p4info suffix": (["compile", str(PROGRAM), "--p4info", "x.json"], 2, "use .txtpb, .txt or .bin"),
    "no such script": (["stf", str(PROGRAM), "nothing.stf"], 1, "nothing.stf: No such file or directory"),
    "no program": (["run"], 2, "give FILE.p4, or --no-p4"),
    "both": (["run", str(PROGRAM), "--no-p4"], 2, "not both"),
    "interface": (["run", "--no-p4", "-i", "1"], 2, "write PORT@IFACE"),
    "port twice": (["run", "--no-p4", "-i", "1@lo", "-i", "1@eth1"], 2, "port 1 is given twice, it is bound to lo"),
    "iface twice": (["run", "--no-p4", "-i", "1@lo", "-i", "2@lo"], 2, "interface lo is given twice"),
    "port number": (["run", "--no-p4", "-i", "511@lo"], 2, "ports are 0 to 510"),
    "rate": (["run", "--no-p4", "--port-rate", "1=fast"], 2, "write PORT=FRAMES_PER_SECOND or"),
    "depth": (["run", "--no-p4", "--port-depth", "1"], 2, "write PORT=FRAMES"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, cache_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, status, message = MISTAKES[name]
    assert main([*arguments, "--cache-dir", str(cache_dir)]) == status
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_errors_of_the_program_show_line_and_caret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "bad.p4"
    program.write_text(PROGRAM.read_text().replace("set_d(value", "set_dd(value").replace("{ set_d;", "{ set_e;"))
    assert main(["compile", str(program), "-I", str(PROGRAMS)]) == 1
    error = capsys.readouterr().err
    assert re.search(r"bad\.p4:\d+:\d+: error: ", error)
    assert "^" in error
    assert "hint: " in error


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("compile", "run", "stf", "trace"):
        with pytest.raises(SystemExit) as stopped:
            main([command, "--help"])
        assert stopped.value.code == 0
        assert f"p4switch {command}" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------------------------ run


@pytest.fixture
def namespace() -> Iterator[str]:
    """A network namespace with a veth pair, empty of anything else."""
    name = f"emcli{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    for words in ("link set lo up", "link add em0 type veth peer name em1", "link set em0 up", "link set em1 up"):
        subprocess.run(["ip", "-n", name, *words.split()], check=True)
    yield name
    subprocess.run(["ip", "netns", "del", name], check=True)


class Switch:
    """A `p4switch run` in a namespace."""

    def __init__(self, namespace: str, *arguments: str) -> None:
        command = ["ip", "netns", "exec", namespace, sys.executable, "-m", "p4switch", "run", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ready(self) -> str:
        """Wait for its first line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> tuple[int, str]:
        """Wait for its end; give the exit status and what stands on stderr."""
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


@needs_root
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_run_serves_and_stops(stop: signal.Signals, namespace: str, cache_dir: Path) -> None:
    build(PROGRAM, cache_dir=cache_dir)
    options = ["--device-id", "7", "--grpc-addr", "127.0.0.1:0", "--cache-dir", str(cache_dir)]
    switch = Switch(namespace, str(PROGRAM), "-i", "1@em0", "--port-rate", "1=1000000bit", *options)
    assert re.fullmatch(r"p4switch: device 7 ready, grpc 127\.0\.0\.1:\d+", switch.ready())
    time.sleep(0.1)
    switch.process.send_signal(stop)
    assert switch.end() == (0, "")


@needs_root
def test_run_takes_a_container(namespace: str, cache_dir: Path, tmp_path: Path) -> None:
    assert main(["compile", str(PROGRAM), "-o", str(tmp_path), "--cache-dir", str(cache_dir)]) == 0
    switch = Switch(
        namespace, str(tmp_path / "tables.p4bin"), "--grpc-addr", "127.0.0.1:0", "--cache-dir", str(cache_dir)
    )
    assert "ready" in switch.ready()
    switch.process.terminate()
    assert switch.end() == (0, "")


@needs_root
def test_run_says_what_is_in_the_way(namespace: str, cache_dir: Path) -> None:
    def failure(*arguments: str) -> str:
        status, errors = Switch(namespace, "--no-p4", *arguments, "--cache-dir", str(cache_dir)).end()
        assert status == 1
        assert len(errors.strip().splitlines()) == 1, errors
        return errors

    assert "there is no interface nope" in failure("-i", "1@nope")
    first = Switch(namespace, "--no-p4", "--grpc-addr", "127.0.0.1:0", "--cache-dir", str(cache_dir))
    address = first.ready().rpartition(" ")[2]
    assert f"cannot listen on {address}" in failure("--grpc-addr", address)
    first.process.terminate()
    assert first.end() == (0, "")
    assert "cannot listen on nowhere" in failure("--grpc-addr", "nowhere")
    (cache_dir / "no.p4bin").write_text("rubbish")
    command = ["run", str(cache_dir / "no.p4bin")]
    assert main([*command, "--cache-dir", str(cache_dir)]) == 1


@needs_root
def test_run_without_root(cache_dir: Path) -> None:
    command = [sys.executable, "-m", "p4switch", "run", "--no-p4", "-i", "1@lo", "--cache-dir", str(cache_dir)]
    done = subprocess.run(
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *command],
        capture_output=True, text=True, timeout=60, check=False, env=os.environ | {"HOME": "/tmp"},
    )  # fmt: skip
    if "Permission denied" in done.stderr or "No module" in done.stderr:
        pytest.skip("the interpreter or the checkout is not readable for others")
    assert done.returncode == 1
    assert done.stderr.strip() == "p4switch: network interfaces need root (CAP_NET_RAW): run it with sudo"
