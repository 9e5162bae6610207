"""Registers of structs over P4Runtime: a P4Data of the struct's own form, packed in the data plane."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from finsy.proto import p4d, p4r

from p4switch.build import build
from p4switch.dataplane import DataPlane
from p4switch.server import ServerOptions, serve, status
from tests.p4switch.server.client import Client, WriteFailed
from tests.p4switch.server.conftest import PROGRAMS

PROGRAM = PROGRAMS.parents[1] / "language" / "programs" / "struct_registers.p4"


@pytest.fixture
def client(dataplane: DataPlane) -> Iterator[Client]:
    program = build(PROGRAM)
    with serve(dataplane, ServerOptions(grpc_addr="127.0.0.1:0"), program) as server:
        client = Client(server.port, p4info=program.p4info).become_primary()
        yield client
        client.close()


def bits(value: bytes) -> p4d.P4Data:
    return p4d.P4Data(bitstring=value)


def cell(a: bytes, low: bytes, flag: bool, number: bytes, wide: bytes) -> p4d.P4Data:
    inner = p4d.P4Data(struct=p4d.P4StructLike(members=[bits(low), p4d.P4Data(bool=flag)]))
    return p4d.P4Data(struct=p4d.P4StructLike(members=[bits(a), inner, bits(number), bits(wide)]))


def entry(client: Client, name: str, index: int, data: p4d.P4Data | None = None) -> p4r.RegisterEntry:
    return p4r.RegisterEntry(register_id=client.id_of(name), index=p4r.Index(index=index), data=data)


def test_what_a_client_writes_the_program_reads(client: Client, dataplane: DataPlane) -> None:
    written = entry(client, "cells", 2, cell(b"\x12", b"\x09", True, b"\xfd", b"\x0c" + bytes(12)))
    client.modify(register_entry=written)
    assert client.read(register_entry=entry(client, "cells", 2)) == [written]
    assert dataplane.inject(1, bytes([0, 2, 0, 0])) == [(2, bytes([0xFF, 0xCC, 0x12, 0x91]))]


def test_what_the_program_writes_a_client_reads(client: Client, dataplane: DataPlane) -> None:
    dataplane.inject(1, bytes([1, 3, 0xAB, 0x37]))
    wanted = cell(b"\xab", b"\x07", True, b"\xfd", b"\x0c" + bytes(12))
    assert client.read(register_entry=entry(client, "cells", 3)) == [entry(client, "cells", 3, wanted)]
    dataplane.inject(1, bytes([2, 0, 0x11, 0]))
    dataplane.inject(1, bytes([2, 0, 0x22, 0]))
    pair = p4d.P4Data(tuple=p4d.P4StructLike(members=[bits(b"\x11"), bits(b"\x22")]))
    assert client.read(register_entry=entry(client, "pairs", 1)) == [entry(client, "pairs", 1, pair)]


def test_data_of_another_form_are_refused(client: Client) -> None:
    for data in (bits(b"\x01"), p4d.P4Data(struct=p4d.P4StructLike(members=[bits(b"\x01")]))):
        with pytest.raises(WriteFailed) as caught:
            client.modify(register_entry=entry(client, "cells", 0, data))
        assert caught.value.errors[0].canonical_code == status.INVALID_ARGUMENT
