"""What `p4switch trace` tells of a packet, held to the letter; and that nothing of it is in the normal build.

To accept a changed text after reading it: P4SWITCH_UPDATE_GOLDEN=1 pytest tests/p4switch/trace
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from finsy.proto import p4r

from p4switch.build import build, compile_container, load_container
from p4switch.cli import main
from p4switch.dataplane import DataPlane, SwitchOptions
from p4switch.server import ServerOptions, serve
from p4switch.toolchain import RUNTIME, compiler
from tests.p4switch.server.client import Client

HERE = Path(__file__).parent
PROGRAM, ENTRIES = HERE / "story.p4", HERE / "story.stf"

PACKETS = {
    "tables": ["00010A55EE", "00010B00", "00020A00", "011000FF", "01000007", "01000000"],
    "copies": ["02050000CC", "02090000", "0301AAAA", "0302AAAA", "04000000", "07000000", "08000000"],
    "externs": ["05020304", "0602001EAABB", "06020000", "06070000", "130000001234", "13000000ECFF"],
    "parser": ["050203", "10000000050304FF", "100000000103050700", "110000000301020304", "110000000A01020304",
               "120500000102030405060708090A0B0C0D0E0F1011FF", "1205", "14000000", "14070000"],
}  # fmt: skip


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def traced(cache_dir: Path, capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what `p4switch trace` prints."""
    assert main(["trace", "--cache-dir", str(cache_dir), *arguments]) == 0, capfd.readouterr().err
    output, errors = capfd.readouterr()
    assert errors == ""
    return output


@pytest.mark.parametrize("name", PACKETS)
def test_golden(name: str, cache_dir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    packets = [word for text in PACKETS[name] for word in ("--packet", text)]
    told = traced(cache_dir, capfd, str(PROGRAM), "--port", "1", "--entries", str(ENTRIES), *packets)
    golden = HERE / f"{name}.txt"
    if os.environ.get("P4SWITCH_UPDATE_GOLDEN"):
        golden.write_text(told)
    assert told == golden.read_text()


def test_entries_as_a_p4runtime_write_request(
    tmp_path: Path, cache_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    p4info = build(PROGRAM, cache_dir=cache_dir).p4info
    ids = {o.preamble.alias: o.preamble.id for o in (*p4info.tables, *p4info.actions)}
    request = tmp_path / "entries.txtpb"
    request.write_text(f"""
        updates {{ type: INSERT entity {{ table_entry {{
            table_id: {ids["classes"]} priority: 3
            match {{ field_id: 2 range {{ low: "\\001" high: "\\003" }} }}
            action {{ action {{ action_id: {ids["set_port"]} params {{ param_id: 1 value: "\\005" }} }} }}
        }} }} }}
        updates {{ type: INSERT entity {{ packet_replication_engine_entry {{ clone_session_entry {{
            session_id: 9 replicas {{ egress_port: 8 instance: 2 }}
        }} }} }} }}
    """)
    told = traced(
        cache_dir, capfd, str(PROGRAM), "--port", "1", "--entries", str(request), "--packet", "0102 0000",
        "--packet", "0209 0000",
    )  # fmt: skip
    assert "        hit: the entry of priority 3\n            hdr.request.what: anything\n" in told
    assert "            hdr.request.a: 0x01..0x03\n" in told
    assert "            port = 0x005 (9 bits)\n" in told
    assert "packet 3: to port 8, instance 2\n" in told


MISTAKES = {
    "odd digits": (["--packet", "012"], 2, "--packet 012: write the frame's bytes in hexadecimal"),
    "no frame": (["--packet", ""], 1, "a frame of 0 bytes"),
    "port": (["--packet", "00", "--port", "512"], 1, "port 512: ports are 0 to 511"),
    "format": (["--packet", "00", "--entries", "x.json"], 1, "--entries x.json: the suffix says the format; use .stf"),
    "no such file": (["--packet", "00", "--entries", "none.stf"], 1, "none.stf: No such file"),
    "no proto": (["--packet", "00", "--entries", "bad.txtpb"], 1, "a P4Runtime WriteRequest in text is wanted"),
    "wrong entry": (["--packet", "00", "--entries", "wrong.txtpb"], 1, "wrong.txtpb: update 1: "),
    "wrong table": (["--packet", "00", "--entries", "bad.stf"], 1, "no table 'nowhere' in the program"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(
    name: str, tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.txtpb").write_text("updates { nothing: 1 }")
    Path("wrong.txtpb").write_text("updates { type: INSERT entity { table_entry { table_id: 1 } } }")
    Path("bad.stf").write_text("add nowhere 1 x()\n")
    arguments, status, message = MISTAKES[name]
    assert main(["trace", str(PROGRAM), "--cache-dir", str(cache_dir), "--port", "1", *arguments]) == status
    errors = capfd.readouterr().err
    assert message in errors
    assert "Traceback" not in errors


def test_a_packet_that_goes_round_for_ever_is_given_up(
    tmp_path: Path, cache_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    endless = tmp_path / "endless.p4"
    endless.write_text(PROGRAM.read_text().replace("meta.kept = 1;\n", ""))
    arguments = ["trace", str(endless), "--cache-dir", str(cache_dir), "--port", "1", "--packet", "07000000"]
    assert main(arguments) == 1
    output, errors = capfd.readouterr()
    assert errors == "p4switch trace: the packet still goes round after 200 passes; it was given up\n"
    assert output.count("recirculated") == 101


def test_a_p4bin_can_be_traced(tmp_path: Path, cache_dir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(PROGRAM), "-o", str(tmp_path), "--cache-dir", str(cache_dir)]) == 0
    told = traced(cache_dir, capfd, str(tmp_path / "story.p4bin"), "--port", "1", "--packet", "00010A55")
    assert "        action In.send\n            port = 0x002 (9 bits)\n" in told


def test_the_normal_build_has_nothing_of_it(cache_dir: Path) -> None:
    normal, told = build(PROGRAM, cache_dir=cache_dir), build(PROGRAM, cache_dir=cache_dir, traced=True)
    assert normal.library != told.library
    assert normal.container == told.container
    assert load_container(normal.container, cache_dir).library == normal.library
    assert load_container(normal.container, cache_dir, traced=True).library == told.library
    symbols = [subprocess.check_output(["nm", "-D", b.library], text=True) for b in (normal, told)]
    assert ["p4_trace_lookup" in text for text in symbols] == [False, True]
    assert b"hdr.labels" not in normal.library.read_bytes()
    assert b"hdr.labels" in told.library.read_bytes()
    assert "P4_TRACE(p4_trace_lookup(" in compile_container(PROGRAM).c_source


def test_what_is_lost_before_it_is_a_packet_is_told_too(cache_dir: Path, tmp_path: Path) -> None:
    program = build(PROGRAM, cache_dir=cache_dir, traced=True)
    with (tmp_path / "told").open("w+") as told:
        dataplane = DataPlane(SwitchOptions(trace=True, trace_fd=told.fileno(), packets=128), program.runtime)
        dataplane.load(program.library)
        dataplane.set_queue(6, rate_pps=1)  # so that copies wait, all at once
        dataplane.set_multicast_group(1, [(6, instance) for instance in range(200)])
        assert len(dataplane.inject(1, bytes.fromhex("03010000"))) == 128
        told.seek(0)
        assert told.read().count("port 6: 1 frame dropped: too many packets are inside\n") == 72
        assert sum(status.drops["no_packet"] for status in dataplane.ports()) == 72


def test_a_traced_build_is_silent_where_nobody_listens(cache_dir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = build(PROGRAM, cache_dir=cache_dir, traced=True)
    dataplane = DataPlane(SwitchOptions())
    dataplane.load(program.library)
    assert dataplane.inject(1, bytes.fromhex("00010A55")) == [(2, bytes.fromhex("00010A55"))]
    assert capfd.readouterr() == ("", "")


def test_a_program_that_a_controller_pushes_is_told_of(tmp_path: Path, cache_dir: Path) -> None:
    """As `p4switch run --no-p4 --trace` does it."""
    program = build(PROGRAM, cache_dir=cache_dir)
    with (tmp_path / "told").open("w+b") as told:
        dataplane = DataPlane(SwitchOptions(trace=True, trace_fd=told.fileno()))
        with serve(dataplane, ServerOptions(grpc_addr="127.0.0.1:0")) as server:
            client = Client(server.port, p4info=program.p4info).become_primary()
            action = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
            client.push(action, program.p4info, program.container)
            assert dataplane.inject(1, bytes.fromhex("00010A55"))[0][0] == 2
            client.close()
        told.seek(0)
        assert b"packet 1: ingress\n" in (text := told.read())
        assert b"        action In.send\n            port = 0x002 (9 bits)\n" in text


def test_stf_tells_on_stderr(cache_dir: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "one.stf"
    script.write_text("packet 1 00010A55\nexpect 2 00010A55 $\n")
    assert main(["stf", str(PROGRAM), str(script), "--trace", "--cache-dir", str(cache_dir)]) == 0
    output, errors = capfd.readouterr()
    assert output == ""
    assert "packet 1: parser\n    state start\n" in errors


def test_random_frames_under_sanitizers(tmp_path: Path) -> None:
    """The traced build reads no more of a packet than the normal one, and its lines have room."""
    flags = ["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{RUNTIME}"]
    source, program, driver = tmp_path / "story.c", tmp_path / "story.so", tmp_path / "sanitize"
    source.write_text(compile_container(PROGRAM).c_source)
    for command in (
        [compiler(), *flags, "-DP4_TRACED", "-shared", "-fPIC", source, "-o", program],
        [compiler(), *flags, "-rdynamic", HERE / "sanitize.c", *RUNTIME.glob("*.c"), "-pthread", "-ldl", "-o", driver],
    ):
        built = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if "cannot find -lasan" in built.stderr or "libasan" in built.stderr:
            pytest.skip("the compiler has no sanitizers installed")
        assert built.returncode == 0, built.stderr
    done = subprocess.run([driver, program], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr[-4000:]


@pytest.fixture
def veths() -> Iterator[str]:
    """A network namespace with two veth pairs: em1-em1p, em2-em2p."""
    name = f"emtrace{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    for pair in ("em1", "em2"):
        words = ["ip", "-n", name, "link", "add", pair, "type", "veth", "peer", "name", f"{pair}p"]
        subprocess.run(words, check=True)
        for end in (pair, f"{pair}p"):
            subprocess.run(
                ["ip", "netns", "exec", name, "sysctl", "-qw", f"net.ipv6.conf.{end}.disable_ipv6=1"], check=True
            )
            subprocess.run(["ip", "-n", name, "link", "set", end, "up"], check=True)
    yield name
    subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs network namespaces")
def test_run_tells_on_stderr(veths: str, cache_dir: Path) -> None:
    inside = ["ip", "netns", "exec", veths, sys.executable]
    command = [*inside, "-m", "p4switch", "run", str(PROGRAM), "--trace", "-i", "1@em1", "-i", "2@em2"]
    command += ["--grpc-addr", "127.0.0.1:0", "--cache-dir", str(cache_dir)]
    switch = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert switch.stdout is not None
    try:
        assert "ready" in switch.stdout.readline()
        send = (
            "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('em1p', 0));"
            " s.send(bytes.fromhex('00010A55' + '00' * 16))"
        )
        subprocess.run([*inside, "-c", send], check=True)
        assert switch.stderr is not None
        told = list(iter(switch.stderr.readline, "packet 1: out by port 2, 20 bytes\n"))
        told.append(switch.stderr.readline())
    finally:
        switch.terminate()
        switch.communicate(timeout=20)
    errors = "".join(told)
    assert "packet 1: in by port 1, 20 bytes\npacket 1: parser\n    state start\n" in errors
    assert "        action In.send\n" in errors
    assert told[-1] == "    00010a55" + "00" * 16 + "\n"
