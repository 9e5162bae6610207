"""The bench of tables measures what it says: its frames hit the entries that it writes, its rounds go round."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from finsy.proto import p4r

from bench.tables import COUNTS, NUMBER_OFFSET, PROGRAM, Names, entry, frame
from p4switch.build import BuildResult, build
from p4switch.dataplane import DataPlane, SwitchOptions
from p4switch.server import ServerOptions, serve
from tests.p4switch.server.client import Client

ENTRIES = 1_000


@pytest.fixture(scope="module")
def program() -> BuildResult:
    return build(PROGRAM)


@pytest.fixture
def switch(program: BuildResult) -> Iterator[DataPlane]:
    with DataPlane(SwitchOptions(cpu_port=510), program.runtime) as dataplane:
        yield dataplane


def numbered(kind: str, number: int) -> bytes:
    data = bytearray(frame(kind))
    data[NUMBER_OFFSET : NUMBER_OFFSET + 4] = number.to_bytes(4, "big")
    return bytes(data)


def test_every_frame_finds_its_entry(program: BuildResult, switch: DataPlane) -> None:
    names = Names(program.p4info)
    with serve(switch, ServerOptions(grpc_addr="127.0.0.1:0"), program) as server:
        client = Client(server.port, p4info=program.p4info).become_primary()
        for kind in COUNTS:
            entries = [p4r.Entity(table_entry=entry(names, kind, number)) for number in range(ENTRIES)]
            client.write(*[p4r.Update(type=p4r.Update.INSERT, entity=one) for one in entries])
            for number in range(0, ENTRIES, 7):
                ((port, out),) = switch.inject(1, numbered(kind, number))
                assert (port, out) == (2, numbered(kind, number))
            assert switch.inject(1, numbered(kind, ENTRIES)) == []
        client.close()
