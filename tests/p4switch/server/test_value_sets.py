"""Value sets whose fields are matched in every way: exact, by masks, prefixes and ranges."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from finsy.proto import p4r

from p4switch.build import build
from p4switch.dataplane import DataPlane
from p4switch.server import ServerOptions, serve, status
from tests.p4switch.server.client import Client, WriteFailed, between, exact, lpm, ternary
from tests.p4switch.server.conftest import PROGRAMS

HIGH = 1 << 79
MEMBER = [exact(1, 7), ternary(2, 0x10, 0xF0), lpm(3, 0xAB00, 8), between(4, 100, 200), between(5, 5, HIGH)]


@pytest.fixture
def client(dataplane: DataPlane) -> Iterator[Client]:
    program = build(PROGRAMS / "value_sets.p4")
    with serve(dataplane, ServerOptions(grpc_addr="127.0.0.1:0"), program) as server:
        client = Client(server.port, p4info=program.p4info).become_primary()
        yield client
        client.close()


def write(client: Client, *members: list[p4r.FieldMatch]) -> p4r.ValueSetEntry:
    (info,) = client.p4info.value_sets
    entry = p4r.ValueSetEntry(value_set_id=info.preamble.id, members=[p4r.ValueSetMember(match=m) for m in members])
    client.modify(value_set_entry=entry)
    return entry


def found(dataplane: DataPlane, a: int = 7, b: int = 0x1F, c: int = 0xABCD, d: int = 150, e: int = 1 << 70) -> bool:
    sizes = {1: (a, b), 2: (c, d), 10: (e,)}
    frame = b"".join(value.to_bytes(size, "big") for size, values in sizes.items() for value in values)
    ((port, _),) = dataplane.inject(1, frame)
    return port == 2


def test_every_field_has_its_match(client: Client, dataplane: DataPlane) -> None:
    entry = write(client, MEMBER)
    assert client.read(value_set_entry=p4r.ValueSetEntry()) == [entry]
    assert found(dataplane)
    assert not found(dataplane, a=8)
    assert not found(dataplane, b=0x2F)
    assert not found(dataplane, c=0xACCD)
    assert [found(dataplane, d=d) for d in (99, 100, 200, 201)] == [False, True, True, False]
    ends = (4, 5, HIGH, HIGH + 1, HIGH - 1)
    assert [found(dataplane, e=e) for e in ends] == [False, True, True, False, True]


def test_fields_that_are_left_out_match_all(client: Client, dataplane: DataPlane) -> None:
    entry = write(client, [exact(1, 9)], MEMBER)
    assert client.read(value_set_entry=p4r.ValueSetEntry()) == [entry]
    assert found(dataplane, 9, 0, 0, 0, 0) and found(dataplane, 9, 255, 0xFFFF, 0xFFFF, (1 << 80) - 1)
    assert found(dataplane) and not found(dataplane, d=1)
    write(client)
    assert not found(dataplane) and not found(dataplane, 9, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("members", "code", "reason"),
    [
        ([MEMBER[1:]], status.INVALID_ARGUMENT, "exact fields cannot be left out"),
        ([[MEMBER[0], between(4, 5, 4)]], status.INVALID_ARGUMENT, "range 5..4 is empty"),
        ([[MEMBER[0], between(4, 0, 0xFFFF)]], status.INVALID_ARGUMENT, "covers every value"),
        ([[MEMBER[0], ternary(2, 0, 0)]], status.INVALID_ARGUMENT, "the mask is zero"),
        ([[MEMBER[0], lpm(3, 0xAB01, 8)]], status.INVALID_ARGUMENT, "beyond its prefix"),
        ([MEMBER, MEMBER[::-1]], status.ALREADY_EXISTS, "is given twice"),
        ([[exact(1, n)] for n in range(4)], status.RESOURCE_EXHAUSTED, "holds 3 members, not 4"),
    ],
)
def test_bad_members(client: Client, members: list[list[p4r.FieldMatch]], code: int, reason: str) -> None:
    entry = write(client, MEMBER)
    with pytest.raises(WriteFailed) as caught:
        write(client, *members)
    assert caught.value.errors[0].canonical_code == code
    assert reason in caught.value.errors[0].message
    assert client.read(value_set_entry=p4r.ValueSetEntry()) == [entry]
