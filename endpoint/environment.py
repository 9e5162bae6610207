"""Find out which GPU a process is: every rank of a program gets its place from its environment, as under MPI.

`ETHLINK_FABRIC` is the path of the fabric description, `ETHLINK_GPU` the id or name of the GPU. The incarnation
counts the starts of a GPU, so that nothing that an earlier process sent is taken for the new one's: it is the number
in the fabric description plus the starts counted in `incarnations/<name>` beside it, unless `ETHLINK_INCARNATION`
gives it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from codec.fabric import MAX_INCARNATION, Fabric, FabricError, GpuNode
from codec.profile import LinkProfile
from endpoint.errors import ConfigurationError

FABRIC_VARIABLE: Final = "ETHLINK_FABRIC"
GPU_VARIABLE: Final = "ETHLINK_GPU"
INCARNATION_VARIABLE: Final = "ETHLINK_INCARNATION"
_HOW: Final = "on a running fabric, `make run SCRIPT=my.py` starts a script on every GPU with the environment it needs"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process stands in the fabric."""

    fabric: Fabric
    gpu: GpuNode
    incarnation: int

    def managed_links(self) -> dict[int, LinkProfile]:
        """Return the planes on which the switch's port is managed, each with the profile of its link."""
        links = {}
        for port in self.gpu.ports:
            if port.switch is None:
                continue
            for end in self.fabric.switch(port.switch).ports:
                if end.port == port.switch_port and end.mode == "managed":
                    links[port.plane] = self.fabric.profiles[end.profile]
        return links


def place_from_environment(environment: Mapping[str, str] = os.environ) -> Place:
    """Return the place that the environment gives this process, and count the start.

    Raises ConfigurationError when a variable is missing or wrong.
    """
    path = _variable(environment, FABRIC_VARIABLE, "the path of the fabric description")
    name = _variable(environment, GPU_VARIABLE, "the id or name of the GPU")
    try:
        fabric = Fabric.load(path)
    except FabricError as error:
        raise ConfigurationError(f"{FABRIC_VARIABLE}: {error}") from error
    try:
        gpu = fabric.gpu(int(name) if name.isdecimal() else name)
    except KeyError as error:
        raise ConfigurationError(f"{GPU_VARIABLE} = {name}: {error.args[0]}") from error
    given = environment.get(INCARNATION_VARIABLE)
    if given is None:
        incarnation = gpu.incarnation + _count_start(Path(path).parent / "incarnations" / gpu.name)
    elif given.isdecimal() and int(given) <= MAX_INCARNATION:
        incarnation = int(given)
    else:
        raise ConfigurationError(f"{INCARNATION_VARIABLE} = {given}: not a number from 0 to {MAX_INCARNATION}")
    return Place(fabric, gpu, incarnation & MAX_INCARNATION)


def _variable(environment: Mapping[str, str], name: str, what: str) -> str:
    value = environment.get(name)
    if not value:
        raise ConfigurationError(f"{name} is not set: it gives {what}; {_HOW}")
    return value


def _count_start(path: Path) -> int:
    """Return how many starts a file has counted before this one. Raises ConfigurationError when it cannot be kept."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read().strip()
            starts = int(text) if text.isdecimal() else 0
            file.seek(0)
            file.truncate()
            file.write(f"{starts + 1}\n")
    except OSError as error:
        raise ConfigurationError(
            f"{path}: the start of the GPU cannot be counted: {error.strerror}; set {INCARNATION_VARIABLE} instead"
        ) from error
    return starts
