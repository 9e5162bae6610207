"""Captures of real fabrics, as `make run PCAP=1` leaves them, and installing the dissector."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from codec.constants import Kind
from codec.scapy_layers import Link, LlrControl
from tests.fabric.conftest import REPOSITORY, Launcher
from tests.wireshark.conftest import Shown, Tshark

PAGE = (REPOSITORY / "docs" / "wireshark.md").read_text()
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a fabric needs root")


def captured(launcher: Launcher, links: str) -> Path:
    """Run a small fabric and return the folder with the captures of its switch."""
    arguments = ("--topo", "planes,2,1", "--count", "20")
    status, output, errors = launcher.run(*arguments, SCENARIO="ping", LINKS=links, PCAP="1")
    assert status == 0, output + errors
    return launcher.run_dir / "pcap" / "s1"


@needs_root
def test_a_managed_fabric_is_readable(launcher: Launcher, tshark: Tshark) -> None:
    folder = captured(launcher, "managed")
    merged = tshark.folder / "both.pcapng"
    subprocess.run(
        ["mergecap", "-w", str(merged), str(folder / "port1_in.pcap"), str(folder / "port1_out.pcap")], check=True
    )
    pages = tshark.shown(merged)
    assert {page.protocol for page in pages} == {"EthLink"}
    assert {page["ethlink.link.crc.status"] for page in pages} == {"1"}
    assert {status for page in pages for status in page.fields.get("ethlink.end_to_end_crc.status", [])} == {"1"}
    found = {finding for page in pages for finding in page.findings()}
    # Of a GPU that asked before its peer was there; and what the switch tells of one whose link comes up later.
    assert found <= {"repeats", "event"}
    began = Counter(page.info.split()[0] for page in pages)
    assert {"LLR_INIT", "LLR_INIT_ECHO", "CF_UPDATE"} <= began.keys()
    assert linked(pages) >= 20
    sessions = {page["ethlink.link.session"] for page in pages if page.info.startswith("CF_UPDATE")}
    announced = {session for page in pages for session in page.fields.get("ethlink.link_init.session", [])}
    assert sessions
    assert sessions <= announced
    limits = [page for page in pages if page.info.startswith("LLR_INIT ")]
    assert all(page.number("ethlink.link_init.credit_limit.vc0") > 0 for page in limits)


def linked(pages: list[Shown]) -> int:
    """Check that each response is that of its request, and return how many there are."""
    count = 0
    for number, page in enumerate(pages, 1):
        if "ethlink.response_to" in page.fields and "ethlink.lsu.request" in page.fields:
            request = pages[page.number("ethlink.response_to") - 1]
            assert request["ethlink.response_in"] == str(number)
            assert (request.source, request.destination) == (page.destination, page.source)
            assert request["ethlink.lsu.request"] == page["ethlink.lsu.request"]
            assert 0 <= float(page["ethlink.time"]) < 10
            count += 1
    return count


RDMA = """
from endpoint import Gpu
from endpoint.errors import BadKey
with Gpu.from_environment() as gpu:
    gpu.register(1 << 16)
    gpu.barrier()
    if gpu.id == 1:
        gpu.write(2, 0x100, bytes(10_000))
        assert gpu.read(2, 0x100, 10_000) == bytes(10_000)
        try:
            gpu.read(2, 0, 8, key=7)
        except BadKey:
            pass
    gpu.barrier()
"""


@needs_root
def test_rdma_is_readable(launcher: Launcher, tshark: Tshark, tmp_path: Path) -> None:
    script = tmp_path / "rdma.py"
    script.write_text(RDMA)
    status, output, errors = launcher.run("--topo", "planes,2,1", SCRIPT=str(script), LINKS="managed", PCAP="1")
    assert status == 0, output + errors
    folder, merged = launcher.run_dir / "pcap" / "s1", tshark.folder / "both.pcapng"
    subprocess.run(
        ["mergecap", "-w", str(merged), str(folder / "port1_in.pcap"), str(folder / "port1_out.pcap")], check=True
    )
    pages = [page for page in tshark.shown(merged) if "ethlink.tma.message" in page.fields]
    of = {
        what: [page for page in pages if page.info.startswith(f"{what} ")]
        for what in ("WRITE", "ACK", "READ", "READ_DATA", "NAK")
    }
    assert len(of["WRITE"]) >= 5
    assert {page["ethlink.complete_in"] for page in of["WRITE"]} == {of["ACK"][-1]["frame.number"]}
    assert len(of["READ_DATA"]) >= 5
    numbers = {page["frame.number"] for page in of["READ"]}
    assert all(page["ethlink.response_to"] in numbers for page in of["READ_DATA"])
    assert "NAK BAD_KEY g2 -> g1 msg" in of["NAK"][0].info
    assert of["NAK"][0]["ethlink.response_to"] in numbers
    assert {page["ethlink.end_to_end_crc.status"] for page in pages} == {"1"}


@needs_root
def test_the_commands_of_the_page(launcher: Launcher, tshark: Tshark) -> None:
    """Each tshark command of docs/wireshark.md works on the captures that the page makes, and prints something."""
    folder = captured(launcher, "managed")
    commands = [line for line in re.findall(r"^tshark .*$", PAGE, re.M) if "build/run/pcap/s1" in line]
    assert len(commands) >= 5
    for command in commands:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command.replace("build/run/pcap/s1", str(folder))],
            env={**os.environ, "HOME": str(tshark.folder)}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, command + done.stderr
        assert done.stdout.strip(), command
        assert "Lua" not in done.stderr, done.stderr


def test_every_filter_of_the_page_is_one(tshark: Tshark) -> None:
    """Wireshark refuses a display filter with a field that does not exist."""
    filters = re.findall(r"^\| `(ethlink[^`]*)` \|", PAGE, re.M)
    assert len(filters) >= 8
    empty = tshark.capture([])
    for display in filters:
        tshark.run(empty, "-Y", display)
    with pytest.raises(AssertionError, match="requset"):
        tshark.run(empty, "-Y", "ethlink.lsu.requset == 1")


def test_installed_it_opens_captures(tmp_path: Path) -> None:
    """As `make wireshark` does, into the folder that this machine's Wireshark names."""
    environment = {**os.environ, "HOME": str(tmp_path)}
    folders = subprocess.run(
        ["tshark", "-G", "folders"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    match = re.search(r"Personal Lua Plugins:\s*(\S+)", folders)
    assert match is not None
    folder = Path(match.group(1))
    assert folder.is_relative_to(tmp_path)
    command = [sys.executable, "-m", "wireshark", "--folder", str(folder)]
    for _ in range(2):
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"EthLink's dissector is in {folder}/ethlink.lua.\n")
    capture = Tshark(tmp_path).capture([bytes(Link(kind=Kind.LLR_ACK) / LlrControl())])
    assert Tshark(tmp_path).run(capture, "-Y", "ethlink", "-T", "fields", "-e", "frame.number").split() == ["1"]


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "wireshark", "--folder", str(tmp_path / "file" / "below")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == f"wireshark: cannot write {tmp_path}/file/below/ethlink.lua: Not a directory\n"
