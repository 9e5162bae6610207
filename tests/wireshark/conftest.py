"""Run tshark with the dissector as it is here, on captures made here."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fabric.conftest import launcher
from wireshark.bundle import bundle

__all__ = ["launcher"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if shutil.which("tshark") is None:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="tshark is not installed (scripts/bootstrap.sh test does it)"))


@dataclass
class Shown:
    """What Wireshark shows of one frame: every field by its filter name, in order, and its line in the list."""

    fields: dict[str, list[str]]
    protocol: str
    source: str
    destination: str
    info: str

    def __getitem__(self, name: str) -> str:
        """Return the only value of a field."""
        (value,) = self.fields[name]
        return value

    def number(self, name: str) -> int:
        """Return the only value of a field, as the integer it is."""
        return int(self[name], 0)

    def findings(self) -> list[str]:
        """Return the names of the expert infos, in order."""
        return [name.removeprefix("ethlink.expert.") for name in self.fields if name.startswith("ethlink.expert.")]

    def texts(self) -> list[str]:
        """Return the messages of the expert infos, in order."""
        return self.fields.get("_ws.expert.message", [])


@dataclass
class Tshark:
    """tshark with the dissector of this tree, and nothing of the user's."""

    folder: Path

    def run(self, capture: Path, *options: str) -> str:
        """Return what tshark prints of a capture, looking twice as Wireshark does."""
        done = subprocess.run(
            ["tshark", "-2", "-n", "-r", str(capture), *options],
            env={**os.environ, "HOME": str(self.folder)}, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert not (errors := re.findall(".*Lua(?: Error|:).*", done.stdout + done.stderr)), errors[:3]
        return done.stdout

    def capture(self, frames: Sequence[bytes], seconds: float = 0.001, cut: int = 0x40000) -> Path:
        """Write a capture as the switch does, a frame each `seconds`, at most `cut` bytes of each; return its file."""
        path = self.folder / "made.pcap"
        with path.open("wb") as file:
            file.write(struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 0x40000, 1))
            for n, frame in enumerate(frames):
                nanoseconds = round(n * seconds * 1e9)
                kept = frame[:cut]
                file.write(struct.pack("<IIII", *divmod(nanoseconds, 10**9), len(kept), len(frame)) + kept)
        return path

    def shown(self, capture: Path, *options: str) -> list[Shown]:
        """Return what is shown of each frame of a capture."""
        columns = [word for name in ("Protocol", "Source", "Destination", "Info") for word in ("-e", f"_ws.col.{name}")]
        listed = self.run(capture, "-T", "fields", *columns, *options).splitlines()
        packets = ET.fromstring(self.run(capture, "-T", "pdml", *options)).findall("packet")
        assert len(packets) == len(listed)
        result = []
        for packet, line in zip(packets, listed, strict=True):
            fields: dict[str, list[str]] = {}
            for field in packet.iter("field"):
                fields.setdefault(field.get("name", ""), []).append(field.get("show", ""))
            protocol, source, destination, info = line.split("\t")
            result.append(Shown(fields, protocol, source, destination, info))
        return result

    def dissect(self, *frames: bytes, options: Sequence[str] = ()) -> list[Shown]:
        """Return what is shown of frames that are captured one after the other."""
        return self.shown(self.capture(frames), *options)


@pytest.fixture
def tshark(tmp_path: Path) -> Tshark:
    folder = tmp_path / ".local/lib/wireshark/plugins"
    folder.mkdir(parents=True)
    (folder / "ethlink.lua").write_text(bundle())
    return Tshark(tmp_path)
