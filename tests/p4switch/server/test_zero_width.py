"""Action data of type bit<0>: its one value is zero, and it is written like any other zero."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from p4switch.build import build
from p4switch.dataplane import DataPlane
from p4switch.server import ServerOptions, serve, status
from tests.p4switch.server.client import Client, WriteFailed, exact
from tests.p4switch.server.conftest import PROGRAMS


@pytest.fixture
def client(dataplane: DataPlane) -> Iterator[Client]:
    program = build(PROGRAMS / "zero_width.p4")
    with serve(dataplane, ServerOptions(grpc_addr="127.0.0.1:0"), program) as server:
        client = Client(server.port, p4info=program.p4info).become_primary()
        yield client
        client.close()


@pytest.mark.parametrize("zero", [b"", b"\0", b"\0\0"])  # finsy and p4runtime-shell write the first, as to BMv2
def test_zero_is_written_and_read(client: Client, dataplane: DataPlane, zero: bytes) -> None:
    action = client.action("send", 0, 3)
    action.action.params[0].value = zero
    client.insert(table_entry=client.entry("t", exact(1, 5), action=action))
    (entry,) = client.read(table_entry=client.entry("t"))
    assert [p.value for p in entry.action.action.params] == [b"\0", b"\3"]
    assert dataplane.inject(1, b"\5") == [(3, b"\5")]


def test_nothing_else_fits(client: Client) -> None:
    with pytest.raises(WriteFailed, match="value 0x01 does not fit in 0 bits") as caught:
        client.insert(table_entry=client.entry("t", exact(1, 5), action=client.action("send", 1, 3)))
    assert caught.value.errors[0].canonical_code == status.INVALID_ARGUMENT


def test_it_has_to_be_there_all_the_same(client: Client) -> None:
    action = client.action("send", 0, 3)
    del action.action.params[0]
    with pytest.raises(WriteFailed, match="lacks an argument for nothing") as caught:
        client.insert(table_entry=client.entry("t", exact(1, 5), action=action))
    assert caught.value.errors[0].canonical_code == status.INVALID_ARGUMENT
