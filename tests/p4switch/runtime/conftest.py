"""A switch with the hand-written program verbs.c, which does with a frame what the frame says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from p4switch.dataplane import DataPlane, SwitchOptions
from p4switch.toolchain import compile_program, runtime_library

CLONE, AGAIN, MULTICAST, DROP, DIGEST, TRUNCATE, ALWAYS, TABLE = (1 << i for i in range(8))
EXACT, EXACT_WIDE, LPM, TERNARY, MIXED, CONSTANT, KEYLESS = range(0x02000001, 0x02000008)
DROP_ACTION, TO_PORT, WIDE = range(0x01000001, 0x01000004)
CPU, EVENT = 510, 507


def frame(
    ingress: int = 0,
    egress: int = 0,
    args: tuple[int, int] = (0, 0),
    port: int = 2,
    payload: bytes = b"",
    priority: int = 0,
) -> bytes:
    """A frame for verbs.c: what ingress and egress are to do, their arguments, the egress port, the priority."""
    return bytes((ingress, egress, *args)) + port.to_bytes(2, "big") + bytes(9) + bytes((priority,)) + payload


@dataclass(frozen=True)
class Seen:
    """What verbs.c wrote into a frame, and where the frame came out."""

    port: int
    ingress_passes: int
    egress_passes: int
    instance: int
    rid: int
    length: int
    mark: int
    ingress_port: int
    payload: bytes

    @classmethod
    def of(cls, output: tuple[int, bytes]) -> Seen:
        port, raw = output

        def word(at: int) -> int:
            return int.from_bytes(raw[at : at + 2], "big")

        return cls(port, raw[6], raw[7], raw[8], raw[9], word(10), word(12), word(14), raw[16:])


@pytest.fixture(scope="session")
def verbs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program's library."""
    library = tmp_path_factory.mktemp("verbs") / "verbs.so"
    compile_program(Path(__file__).with_name("verbs.c"), library, runtime_library)
    return library


@pytest.fixture
def switch(verbs: Path) -> Iterator[DataPlane]:
    """A switch that runs the program, without ports and not started."""
    with DataPlane(SwitchOptions(cpu_port=CPU, event_port=EVENT, packets=4096)) as dataplane:
        dataplane.load(verbs)
        yield dataplane
