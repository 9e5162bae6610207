"""Install the dissector where Wireshark and tshark look for a user's plug-ins, and see that they take it."""

from __future__ import annotations

import argparse
import os
import pwd
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from codec.files import write_whole
from wireshark.bundle import bundle

FILE: Final = "ethlink.lua"
_USUAL: Final = Path(".local/lib/wireshark/plugins")
_EMPTY_CAPTURE: Final = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


class InstallError(Exception):
    """The dissector cannot be installed, or Wireshark does not take it; the message says why."""


def user() -> pwd.struct_passwd:
    """Return whose Wireshark it is: who calls, also through sudo."""
    name = os.environ.get("SUDO_USER") if os.geteuid() == 0 else None
    try:
        return pwd.getpwnam(name) if name else pwd.getpwuid(os.geteuid())
    except KeyError as error:
        raise InstallError(f"no account for {name or os.geteuid()}: give the folder with --folder") from error


def _tshark(arguments: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = shutil.which("tshark")
    if command is None:
        raise InstallError("tshark is not installed: apt-get install tshark, then try again")
    return subprocess.run(
        [command, *arguments], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def plugin_folder(home: str) -> Path:
    """Return the folder where this machine's Wireshark looks for the Lua plug-ins of the user with that home."""
    told = _tshark(["-G", "folders"], {"HOME": home}).stdout
    found = re.search(r"^Personal Lua Plugins:\s*(\S.*)$", told, re.M)
    return Path(found.group(1)) if found else Path(home) / _USUAL


def install(folder: Path, owner: tuple[int, int] | None = None) -> Path:
    """Write the dissector into a folder of plug-ins, which is made if need be, and return the file.

    `owner` (user and group id) is given what is made. Raises InstallError when the folder cannot be written.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    file = folder / FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(file, bundle())
        if owner is not None:
            for path in (file, *missing):
                os.chown(path, *owner)
    except OSError as error:
        raise InstallError(f"cannot write {file}: {error.strerror}") from error
    return file


def check(file: Path) -> None:
    """Raise InstallError with tshark's own words when it does not take the dissector."""
    with tempfile.TemporaryDirectory() as home:  # where nothing is installed: a plug-in cannot be loaded twice
        empty = Path(home) / "empty.pcap"
        empty.write_bytes(_EMPTY_CAPTURE)
        done = _tshark(["-X", f"lua_script:{file}", "-r", str(empty), "-Y", "ethlink.link.kind"], {"HOME": home})
    if done.returncode != 0:
        raise InstallError(f"tshark does not take {file}:\n{done.stderr.strip()}")


def main(argv: Sequence[str] | None = None) -> int:
    """Install the dissector for the user who calls, or into --folder; return the exit status."""
    parser = argparse.ArgumentParser(prog="wireshark", description="Install the EthLink dissector for Wireshark.")
    parser.add_argument("--folder", type=Path, help="folder of Lua plug-ins (default: the calling user's)")
    given = parser.parse_args(argv)
    try:
        owner = user()
        folder = given.folder or plugin_folder(owner.pw_dir)
        file = install(folder, (owner.pw_uid, owner.pw_gid) if os.geteuid() == 0 else None)
        check(file)
    except InstallError as error:
        print(f"wireshark: {error}")
        return 1
    print(f"EthLink's dissector is in {file}.")
    print("Wireshark and tshark open captures of EthLink with it; a Wireshark that runs takes it with Ctrl+Shift+L.")
    return 0
