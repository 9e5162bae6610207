"""What passes between the data plane and controllers on their streams: packets, digests, idle entries, counts."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable

import pytest
from finsy.proto import p4r, stratum

from p4switch.dataplane import DataPlane, TableFull
from p4switch.server import P4RuntimeServer, status
from tests.p4switch.server.client import Client, WriteFailed, between, exact, lpm, octets, optional, ternary
from tests.p4switch.server.conftest import CPU_PORT

Connect = Callable[[P4RuntimeServer], Client]


def frame(dst: int = 0x0A, src: int = 0x0B, kind: int = 0x1234, payload: bytes = bytes(50)) -> bytes:
    return dst.to_bytes(6, "big") + src.to_bytes(6, "big") + kind.to_bytes(2, "big") + payload


def metadata(*values: int) -> list[p4r.PacketMetadata]:
    return [p4r.PacketMetadata(metadata_id=n, value=octets(value)) for n, value in enumerate(values, 1)]


def punt(client: Client, reason: int = 5) -> None:
    """Let every frame become a packet-in."""
    client.insert(table_entry=client.entry("exact_table", exact(1, 0x0A), action=client.action("counted_forward", 1)))
    client.insert(table_entry=client.entry("lpm_table", action=client.action("to_cpu", reason)))


def test_packet_in_with_metadata(client: Client, dataplane: DataPlane) -> None:
    punt(client)
    dataplane.packet_out(frame(), 300)
    packet = client.next("packet")
    assert packet.payload == frame()
    assert list(packet.metadata) == metadata(300, 5, 0)


def test_packet_out(client: Client) -> None:
    """A packet sent out of the CPU port comes back as it left, but for the packet-in header that nothing set."""
    packet = p4r.PacketOut(payload=frame(), metadata=metadata(CPU_PORT, 0))
    client.send(p4r.StreamMessageRequest(packet=packet))
    assert client.next("packet").payload == frame()[2:]  # two bytes were read as the header that is not there


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (p4r.PacketOut(payload=b"x"), "metadata 'egress_port' (1) is missing"),
        (p4r.PacketOut(metadata=metadata(1)), "metadata 'pad' (2) is missing"),
        (p4r.PacketOut(metadata=metadata(1, 0, 0)), "unknown metadata id 3; there is 1 (egress_port), 2 (pad)"),
        (p4r.PacketOut(metadata=metadata(512, 0)), "does not fit in 9 bits"),
        (p4r.PacketOut(metadata=[*metadata(1, 0), *metadata(1)]), "'egress_port' is given twice"),
        (p4r.PacketOut(metadata=[p4r.PacketMetadata(metadata_id=1), *metadata(1, 0)[1:]]), "empty byte string"),
    ],
)
def test_bad_packet_out(client: Client, packet: p4r.PacketOut, reason: str) -> None:
    client.send(p4r.StreamMessageRequest(packet=packet))
    error = client.next("error")
    assert error.canonical_code == status.INVALID_ARGUMENT
    assert reason in error.message
    assert error.packet_out.packet_out == packet


def test_only_the_primary_takes_part(server: P4RuntimeServer, connect: Connect, dataplane: DataPlane) -> None:
    primary, backup = connect(server).become_primary(2), connect(server)
    backup.bid(1)
    backup.next("arbitration")
    backup.send(p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=frame(), metadata=metadata(CPU_PORT, 0))))
    assert backup.next("error").canonical_code == status.PERMISSION_DENIED
    punt(primary)
    dataplane.packet_out(frame(), 1)
    primary.next("packet")
    assert backup.received.empty()


def test_packet_in_filter_of_a_role(server: P4RuntimeServer, connect: Connect, dataplane: DataPlane) -> None:
    main, picky, deaf = connect(server).become_primary(), connect(server), connect(server)
    config = stratum.P4RoleConfig(receives_packet_ins=True)
    config.packet_in_filter.metadata_id, config.packet_in_filter.value = 1, b"\x02"
    picky.bid(1, role="picky", config=config)
    deaf.bid(1, role="deaf", config=stratum.P4RoleConfig())
    for each in (picky, deaf):
        each.next("arbitration")
    punt(main)
    for port in (1, 2):
        dataplane.packet_out(frame(), port)
    assert [main.next("packet").metadata[0].value for _ in range(2)] == [b"\x01", b"\x02"]
    assert picky.next("packet").metadata[0].value == b"\x02"
    assert picky.received.empty() and deaf.received.empty()


def test_packet_in_burst(client: Client, dataplane: DataPlane) -> None:
    punt(client)
    for number in range(500):
        dataplane.packet_out(frame(payload=number.to_bytes(4, "big")), 1)
    assert [int.from_bytes(client.next("packet").payload[14:18], "big") for _ in range(500)] == list(range(500))


def test_value_set_is_parsed(client: Client, dataplane: DataPlane) -> None:
    (value_set,) = client.p4info.value_sets
    assert client.read(value_set_entry=p4r.ValueSetEntry()) == [p4r.ValueSetEntry(value_set_id=value_set.preamble.id)]
    member = p4r.ValueSetMember(match=[exact(1, 0x1234)])
    entry = p4r.ValueSetEntry(value_set_id=value_set.preamble.id, members=[member])
    client.insert(table_entry=client.entry("exact_table", exact(1, 0x0A), action=client.action("counted_forward", 1)))
    client.modify(value_set_entry=entry)
    assert client.read(value_set_entry=p4r.ValueSetEntry(value_set_id=value_set.preamble.id)) == [entry]
    dataplane.packet_out(frame(), 1)
    assert client.next("packet").metadata[1].value == b"\x07"


def test_counts_and_registers(client: Client, dataplane: DataPlane) -> None:
    punt(client)
    for _ in range(3):
        dataplane.packet_out(frame(), 5)
        client.next("packet")
    query = p4r.CounterEntry(counter_id=client.id_of("port_rx"))
    query.index.index = 5
    (counter,) = client.read(counter_entry=query)
    assert (counter.data.packet_count, counter.data.byte_count) == (3, 3 * len(frame()))
    (direct,) = client.read(direct_counter_entry=p4r.DirectCounterEntry(table_entry=client.entry("exact_table")))
    assert (direct.data.packet_count, direct.data.byte_count) == (3, 3 * len(frame()))
    register = p4r.RegisterEntry(register_id=client.id_of("last_source"))
    register.index.index = 5
    (cell,) = client.read(register_entry=register)
    assert cell.data.bitstring == b"\x0b"
    register.register_id, register.index.index = client.id_of("wide"), 0
    (cell,) = client.read(register_entry=register)
    assert int.from_bytes(cell.data.bitstring, "big") == 0x0B << 144


def test_direct_meter_colors(client: Client, dataplane: DataPlane) -> None:
    punt(client)
    entry = client.entry("ternary_table", ternary(1, 0x0A, 0xFF), exact(2, 0x1234), priority=1)
    entry.action.CopyFrom(client.action("rated"))
    entry.meter_config.CopyFrom(p4r.MeterConfig(cir=1, cburst=64, pir=1, pburst=64))
    client.insert(table_entry=entry)
    for _ in range(4):
        dataplane.packet_out(frame(), 1)
    assert client.next("packet").payload == frame()
    with pytest.raises(queue.Empty):  # the others are red: dropped
        client.received.get(timeout=0.3)


def test_mirror_and_multicast_reach_the_controller(client: Client, dataplane: DataPlane) -> None:
    client.insert(table_entry=client.entry("exact_table", exact(1, 0x0A), action=client.action("counted_forward", 1)))
    client.insert(table_entry=client.entry("lpm_table", action=client.action("flood", 3)))
    group = p4r.PacketReplicationEngineEntry()
    group.multicast_group_entry.multicast_group_id = 3
    for instance in (1, 2):
        group.multicast_group_entry.replicas.add(port=octets(CPU_PORT), instance=instance)
    client.insert(packet_replication_engine_entry=group)
    dataplane.packet_out(frame(), 1)
    for _ in range(2):
        assert client.next("packet").payload == frame()[2:]
    client.modify(table_entry=client.entry("lpm_table", action=client.action("mirror", 9)))
    session = p4r.PacketReplicationEngineEntry()
    session.clone_session_entry.session_id = 9
    session.clone_session_entry.packet_length_bytes = 20
    session.clone_session_entry.replicas.add(port=octets(CPU_PORT), instance=1)
    client.insert(packet_replication_engine_entry=session)
    dataplane.packet_out(frame(), 1)
    assert client.next("packet").payload == frame()[2:20]
    client.delete(packet_replication_engine_entry=session)
    dataplane.packet_out(frame(), 1)
    with pytest.raises(queue.Empty):
        client.received.get(timeout=0.3)


def learn(client: Client, **config: int) -> p4r.DigestEntry:
    client.insert(
        table_entry=client.entry("range_table", between(1, 1, 0xFFFF), priority=1, action=client.action("learn"))
    )
    entry = p4r.DigestEntry(digest_id=client.id_of("learn_t"), config=p4r.DigestEntry.Config(**config))
    client.insert(digest_entry=entry)
    return entry


def sources(message: p4r.DigestList) -> list[tuple[int, int]]:
    return [
        tuple(int.from_bytes(member.bitstring, "big") for member in data.struct.members)  # type: ignore[misc]
        for data in message.data
    ]


def test_digest_one_by_one(client: Client, dataplane: DataPlane) -> None:
    entry = learn(client, max_list_size=1)
    dataplane.packet_out(frame(src=1), 300)
    message = client.next("digest")
    assert message.digest_id == entry.digest_id
    assert sources(message) == [(1, 300)]
    dataplane.packet_out(frame(src=1), 300)  # no acknowledgement is awaited: reported again
    assert client.next("digest").list_id != message.list_id


def test_digest_list_fills_or_ages(client: Client, dataplane: DataPlane) -> None:
    learn(client, max_list_size=3, max_timeout_ns=400_000_000)
    for src in (1, 2, 2, 3, 4):
        dataplane.packet_out(frame(src=src), 1)
    assert sources(client.next("digest")) == [(1, 1), (2, 1), (3, 1)]
    start = time.monotonic()
    assert sources(client.next("digest")) == [(4, 1)]
    assert time.monotonic() - start > 0.2


def test_digest_acknowledgement(client: Client, dataplane: DataPlane) -> None:
    entry = learn(client, max_list_size=1, ack_timeout_ns=60_000_000_000)
    dataplane.packet_out(frame(src=1), 1)
    first = client.next("digest")
    dataplane.packet_out(frame(src=1), 1)  # not acknowledged: not reported again
    dataplane.packet_out(frame(src=2), 1)
    assert sources(client.next("digest")) == [(2, 1)]
    ack = p4r.DigestListAck(digest_id=entry.digest_id, list_id=first.list_id)
    client.send(p4r.StreamMessageRequest(digest_ack=ack))
    time.sleep(0.2)
    dataplane.packet_out(frame(src=1), 1)
    assert sources(client.next("digest")) == [(1, 1)]
    ack.digest_id = 7
    client.send(p4r.StreamMessageRequest(digest_ack=ack))
    error = client.next("error")
    assert error.canonical_code == status.INVALID_ARGUMENT
    assert error.digest_list_ack.digest_list_ack == ack


def test_digest_not_enabled(client: Client, dataplane: DataPlane) -> None:
    entry = learn(client, max_list_size=1)
    client.delete(digest_entry=entry)
    dataplane.packet_out(frame(), 1)
    with pytest.raises(queue.Empty):
        client.received.get(timeout=0.3)


def test_idle_entries_are_reported(client: Client, dataplane: DataPlane) -> None:
    ttl = 200_000_000
    entry = client.entry(
        "optional_table",
        optional(2, 0x1234),
        priority=3,
        action=client.action("NoAction"),
        idle_timeout_ns=ttl,
        metadata=b"m",
    )
    client.insert(table_entry=entry)
    start = time.monotonic()
    while time.monotonic() - start < 0.5:  # hit all the time: no report
        dataplane.packet_out(frame(), 1)
        time.sleep(0.02)
    assert client.received.empty()
    stopped = time.monotonic()
    for _ in range(2):  # once per TTL for as long as it stays idle
        (found,) = client.next("idle_timeout_notification").table_entry
        assert found.priority == 3 and found.metadata == b"m" and found.idle_timeout_ns == ttl
        assert found.match == entry.match
    assert time.monotonic() - stopped > 0.35
    query = client.entry("optional_table")
    query.time_since_last_hit.SetInParent()
    (read,) = client.read(table_entry=query)
    assert read.time_since_last_hit.elapsed_ns >= 2 * ttl
    client.delete(table_entry=entry)


def test_lpm_miss_drops(client: Client, dataplane: DataPlane) -> None:
    client.insert(table_entry=client.entry("exact_table", exact(1, 0x0A), action=client.action("counted_forward", 1)))
    client.insert(table_entry=client.entry("lpm_table", lpm(1, 0x0B, 48), action=client.action("to_cpu", 1)))
    dataplane.packet_out(frame(src=0x0C), 1)
    dataplane.packet_out(frame(src=0x0B), 1)
    assert client.next("packet").payload == frame(src=0x0B)
    assert client.received.empty()


def test_atomic_batch_is_seen_as_a_whole(client: Client, dataplane: DataPlane) -> None:
    """Entries of two tables change together while packets pass: no packet meets one of them without the other."""
    client.insert(table_entry=client.entry("exact_table", exact(1, 0x0A), action=client.action("counted_forward", 1)))

    def states(reason: int) -> list[p4r.Update]:
        entries = [
            client.entry("lpm_table", lpm(1, 0x0B, 48), action=client.action("to_cpu", reason)),
            client.entry("ternary_table", exact(2, 0x1234), priority=1, action=client.action("paint", reason)),
        ]
        return [p4r.Update(type=p4r.Update.MODIFY, entity=p4r.Entity(table_entry=entry)) for entry in entries]

    for update in states(1):
        client.insert(table_entry=update.entity.table_entry)
    done = threading.Event()

    def traffic() -> None:
        while not done.is_set():
            with contextlib.suppress(TableFull):
                for _ in range(4):
                    dataplane.packet_out(frame(), 1)
            time.sleep(0.0005)

    thread = threading.Thread(target=traffic)
    thread.start()
    try:
        for number in range(150):
            client.write(*states(1 + number % 7), atomicity=p4r.WriteRequest.DATAPLANE_ATOMIC)
    finally:
        done.set()
        thread.join()
    packets = []
    with contextlib.suppress(queue.Empty):
        while True:
            packets.append(client.next("packet", 0.3))
    assert {packet.metadata[1].value == packet.metadata[2].value for packet in packets} == {True}
    assert len({packet.metadata[1].value for packet in packets}) > 3


def test_atomic_batch_with_an_error_does_nothing(client: Client) -> None:
    entry = client.entry("lpm_table", lpm(1, 0x0B, 48), action=client.action("to_cpu", 1))
    updates = [p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(table_entry=entry)) for _ in range(2)]
    with pytest.raises(WriteFailed) as caught:
        client.write(*updates, atomicity=p4r.WriteRequest.DATAPLANE_ATOMIC)
    assert [error.canonical_code for error in caught.value.errors] == [status.ABORTED, status.ALREADY_EXISTS]
    assert client.read(table_entry=client.entry("lpm_table")) == []
