"""Types with @p4runtime_translation: controllers and program see different widths, or strings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from finsy.proto import p4r

from p4switch.build import BuildResult, build
from p4switch.dataplane import DataPlane
from p4switch.server import P4RuntimeServer, ServerOptions, serve, status
from p4switch.server.status import RequestError
from p4switch.server.translation import Translation
from tests.p4switch.server.client import Client, WriteFailed, exact, octets, ternary
from tests.p4switch.server.conftest import CPU_PORT, PROGRAMS

FRAME = bytes.fromhex("00000000000a00000000000b1234") + bytes(46)


@pytest.fixture(scope="module")
def translated() -> BuildResult:
    return build(PROGRAMS / "translated.p4")


@pytest.fixture
def client(dataplane: DataPlane, translated: BuildResult) -> Iterator[Client]:
    with serve(dataplane, ServerOptions(grpc_addr="127.0.0.1:0"), translated) as server:
        client = connect(server, translated)
        yield client
        client.close()


def connect(server: P4RuntimeServer, program: BuildResult) -> Client:
    return Client(server.port, p4info=program.p4info).become_primary()


def text(field: int, name: str) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=field, exact=p4r.FieldMatch.Exact(value=name.encode()))


def named(client: Client, action: str, name: str) -> p4r.TableAction:
    message = client.action(action, 0)
    message.action.params[0].value = name.encode()
    return message


def failure(action: Callable[[], Any]) -> p4r.Error:
    with pytest.raises(WriteFailed) as caught:
        action()
    return caught.value.errors[0]


def test_widths_are_the_controllers(translated: BuildResult) -> None:
    table = next(t for t in translated.p4info.tables if t.preamble.alias == "by_mask")
    assert [field.bitwidth for field in table.match_fields] == [32, 0]
    assert translated.translated == {"port_number_t": 9, "port_name_t": 9, "color_t": 4}


def test_entries_read_back_as_written(client: Client) -> None:
    optional = p4r.FieldMatch(field_id=2, optional=p4r.FieldMatch.Optional(value=b"uplink"))
    entries = [
        client.entry("by_number", exact(1, 300), action=client.action("to_number", 511)),
        client.entry("by_name", text(1, "uplink"), action=named(client, "to_name", "7")),
        client.entry("by_color", text(1, "red"), action=client.action("punt")),
        client.entry("by_color", text(1, "blue"), action=client.action("punt")),
        client.entry("by_mask", ternary(1, 5, 0xFFFFFFFF), optional, priority=1, action=client.action("punt")),
        client.entry("by_mask", priority=2, action=client.action("punt")),
    ]
    for entry in entries:
        client.insert(table_entry=entry)
    found = client.read(table_entry=p4r.TableEntry())
    key = lambda entry: entry.SerializeToString(deterministic=True)  # noqa: E731
    assert sorted(found, key=key) == sorted(entries, key=key)
    default = client.entry("by_name", is_default_action=True, action=named(client, "to_name", "downlink"))
    client.modify(table_entry=default)
    assert client.read(table_entry=client.entry("by_name", is_default_action=True)) == [default]


@pytest.mark.parametrize(
    ("build_entry", "reason"),
    [
        (lambda c: c.entry("by_number", exact(1, 512), action=c.action("punt")), "512 has no counterpart"),
        (lambda c: c.entry("by_number", exact(1, 1 << 32), action=c.action("punt")), "does not fit in 32 bits"),
        (lambda c: c.entry("by_number", exact(1, 1), action=c.action("to_number", 600)), "600 has no counterpart"),
        (lambda c: c.entry("by_name", text(1, ""), action=c.action("punt")), "1 to 256 printable characters"),
        (lambda c: c.entry("by_name", text(1, "a\nb"), action=c.action("punt")), "1 to 256 printable characters"),
        (lambda c: c.entry("by_name", text(1, "512"), action=c.action("punt")), "512 does not fit in the 9 bits"),
        (lambda c: c.entry("by_name", exact(1, 0xFF), action=c.action("punt")), "1 to 256 printable characters"),
        (
            lambda c: c.entry("by_mask", ternary(1, 4, 0xFF), priority=1, action=c.action("punt")),
            "it matches one value or is left out",
        ),
    ],
)
def test_bad_values(client: Client, build_entry: Callable[[Client], p4r.TableEntry], reason: str) -> None:
    error = failure(lambda: client.insert(table_entry=build_entry(client)))
    assert error.canonical_code == status.INVALID_ARGUMENT
    assert reason in error.message


def test_packets_carry_the_controllers_numbers(client: Client, dataplane: DataPlane) -> None:
    client.insert(table_entry=client.entry("by_number", exact(1, 300), action=client.action("punt")))
    dataplane.packet_out(FRAME, 300)
    packet = client.next("packet")
    assert packet.payload == FRAME
    assert packet.metadata[0].value == octets(300)
    out = p4r.PacketOut(payload=FRAME)
    for number, value in enumerate((CPU_PORT, 0), 1):
        out.metadata.add(metadata_id=number, value=octets(value))
    client.send(p4r.StreamMessageRequest(packet=out))
    assert client.next("packet").payload == FRAME[2:]
    out.metadata[0].value = octets(1 << 20)
    client.send(p4r.StreamMessageRequest(packet=out))
    assert "has no counterpart" in client.next("error").message


def test_strings_match_packets(client: Client, dataplane: DataPlane) -> None:
    client.insert(table_entry=client.entry("by_name", text(1, "12"), action=named(client, "paint", "red")))
    client.insert(table_entry=client.entry("by_color", text(1, "red"), action=client.action("punt")))
    config = p4r.DigestEntry.Config(max_list_size=1)
    client.insert(digest_entry=p4r.DigestEntry(digest_id=client.id_of("seen_t"), config=config))
    dataplane.packet_out(FRAME, 12)
    messages = {message.WhichOneof("update"): message for message in (client.received.get(timeout=5) for _ in "12")}
    assert messages["packet"].packet.metadata[0].value == b"\x0c"
    members = messages["digest"].digest.data[0].struct.members
    assert [member.bitstring for member in members] == [b"\x0c", b"12"]


def test_interface_names_are_ports() -> None:
    ports = {"s1-eth4": 4}
    translation = Translation("port_name_t", "", 0, 9, ports.get)
    assert translation.to_plane(b"s1-eth4", "x") == 4
    assert translation.to_sdn(4) == b"s1-eth4"
    assert translation.to_sdn(5) == b"5"
    assert translation.to_plane(b"other", "x") == 511


def test_names_run_out() -> None:
    translation = Translation("color_t", "", 0, 2)
    assert [translation.to_plane(name, "x") for name in (b"a", b"b", b"c", b"d", b"a")] == [3, 2, 1, 0, 3]
    with pytest.raises(RequestError) as caught:
        translation.to_plane(b"e", "x")
    assert caught.value.code == status.RESOURCE_EXHAUSTED
