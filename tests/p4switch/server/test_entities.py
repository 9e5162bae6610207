"""Counters, meters, registers, direct resources, multicast groups, clone sessions and digest settings over gRPC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from finsy.proto import p4d, p4r

from p4switch.dataplane import DataPlane
from p4switch.server import status
from tests.p4switch.server.client import Client, WriteFailed, exact, octets


def failure(action: Callable[[], Any]) -> p4r.Error:
    with pytest.raises(WriteFailed) as caught:
        action()
    (error,) = caught.value.errors
    return error


def counter(client: Client, index: int | None = None, packets: int | None = None, octets: int = 0) -> p4r.CounterEntry:
    message = p4r.CounterEntry(counter_id=client.id_of("port_rx"))
    if index is not None:
        message.index.index = index
    if packets is not None:
        message.data.packet_count, message.data.byte_count = packets, octets
    return message


def test_counter(client: Client) -> None:
    assert client.read(counter_entry=counter(client, 3)) == [counter(client, 3, 0, 0)]
    client.modify(counter_entry=counter(client, 3, 7, 700))
    assert client.read(counter_entry=counter(client, 3)) == [counter(client, 3, 7, 700)]
    client.modify(counter_entry=counter(client, 3))  # without data: nothing changes
    found = client.read(counter_entry=counter(client))
    assert [entry.index.index for entry in found] == list(range(16))
    assert found[3].data.packet_count == 7
    assert client.read(counter_entry=p4r.CounterEntry()) == found
    client.modify(counter_entry=counter(client, None, 0, 0))  # no index: all of them
    assert all(entry.data.packet_count == 0 for entry in client.read(counter_entry=counter(client)))


@pytest.mark.parametrize(
    ("index", "code"), [(-1, status.INVALID_ARGUMENT), (16, status.OUT_OF_RANGE), (1 << 62, status.OUT_OF_RANGE)]
)
def test_bad_index(client: Client, index: int, code: int) -> None:
    error = failure(lambda: client.modify(counter_entry=counter(client, index, 1)))
    assert error.canonical_code == code
    assert f"index {index}" in error.message
    register = p4r.RegisterEntry(register_id=client.id_of("wide"), data=p4d.P4Data(bitstring=b"\x01"))
    register.index.index = index
    assert failure(lambda: client.modify(register_entry=register)).canonical_code == code
    meter = p4r.MeterEntry(meter_id=client.id_of("police"))
    meter.index.index = index
    assert failure(lambda: client.modify(meter_entry=meter)).canonical_code == code


@pytest.mark.parametrize("kind", [p4r.Update.INSERT, p4r.Update.DELETE])
def test_arrays_can_only_be_modified(client: Client, kind: p4r.Update.Type.ValueType) -> None:
    direct = client.entry("exact_table", exact(1, 1))
    for entity in (
        p4r.Entity(counter_entry=counter(client, 1, 1)),
        p4r.Entity(meter_entry=p4r.MeterEntry(meter_id=client.id_of("police"))),
        p4r.Entity(register_entry=p4r.RegisterEntry(register_id=client.id_of("wide"))),
        p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=direct)),
        p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry(table_entry=direct)),
    ):
        error = failure(lambda entity=entity: client.write(p4r.Update(type=kind, entity=entity)))  # type: ignore[misc]
        assert error.canonical_code == status.INVALID_ARGUMENT
        assert "only MODIFY" in error.message


def test_unknown_ids(client: Client) -> None:
    error = failure(lambda: client.modify(counter_entry=p4r.CounterEntry(counter_id=5)))
    assert error.canonical_code == status.INVALID_ARGUMENT
    assert "no counter has id 5" in error.message and "port_rx" in error.message
    direct = client.id_of("exact_hits")
    error = failure(lambda: client.modify(counter_entry=p4r.CounterEntry(counter_id=direct)))
    assert "use DirectCounterEntry" in error.message
    error = failure(lambda: client.modify(register_entry=p4r.RegisterEntry(register_id=direct)))
    assert "is direct counter 'Features.exact_hits', not a register" in error.message


def meter(client: Client, index: int, *config: int) -> p4r.MeterEntry:
    message = p4r.MeterEntry(meter_id=client.id_of("police"))
    message.index.index = index
    if config:
        message.config.cir, message.config.cburst, message.config.pir, message.config.pburst = config
    return message


def test_meter(client: Client) -> None:
    assert client.read(meter_entry=meter(client, 1)) == [meter(client, 1)]
    client.modify(meter_entry=meter(client, 1, 100, 10, 200, 20))
    assert client.read(meter_entry=meter(client, 1)) == [meter(client, 1, 100, 10, 200, 20)]
    assert len(client.read(meter_entry=p4r.MeterEntry())) == 4
    client.modify(meter_entry=meter(client, 1))  # without a config: back to green for all
    assert client.read(meter_entry=meter(client, 1)) == [meter(client, 1)]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"cir": -1}, "cir is negative"),
        ({"pburst": -1}, "pburst is negative"),
        ({"eburst": 5}, "eburst is set"),
        ({"cir": 2, "pir": 1}, "exceeds the peak rate"),
    ],
)
def test_bad_meter(client: Client, config: dict[str, int], reason: str) -> None:
    message = meter(client, 1)
    message.config.CopyFrom(p4r.MeterConfig(**config))
    error = failure(lambda: client.modify(meter_entry=message))
    assert error.canonical_code == status.INVALID_ARGUMENT
    assert reason in error.message


def colors(green: int = 0, yellow: int = 0, red: int = 0, size: int = 60) -> p4r.MeterCounterData:
    def count(packets: int) -> p4r.CounterData:
        return p4r.CounterData(packet_count=packets, byte_count=packets * size)

    return p4r.MeterCounterData(green=count(green), yellow=count(yellow), red=count(red))


def test_meter_counters_per_color(client: Client, dataplane: DataPlane) -> None:
    """The program runs each frame through cell port & 3: a burst of 1 green, 2 above it yellow, the rest red."""
    client.modify(meter_entry=meter(client, 1, 1, 1, 1, 3))
    for _ in range(5):
        dataplane.inject(1, bytes(60))
    query = meter(client, 1)
    query.counter_data.SetInParent()
    (found,) = client.read(meter_entry=query)
    assert found.counter_data == colors(1, 2, 2)
    (without,) = client.read(meter_entry=meter(client, 1))
    assert not without.HasField("counter_data")  # only who asks for it gets it
    message = meter(client, 1, 1, 1, 1, 3)
    message.counter_data.CopyFrom(colors(7, 8, 9))
    client.modify(meter_entry=message)
    dataplane.inject(1, bytes(60))
    (found,) = client.read(meter_entry=query)
    assert found.counter_data == colors(8, 8, 9)
    message.counter_data.red.byte_count = -1
    error = failure(lambda: client.modify(meter_entry=message))
    assert error.canonical_code == status.INVALID_ARGUMENT
    assert "a count of a colour is negative" in error.message


def test_direct_meter_counters_per_color(client: Client, dataplane: DataPlane) -> None:
    match = p4r.FieldMatch(field_id=2, exact=p4r.FieldMatch.Exact(value=b"\x12\x34"))
    config = p4r.MeterConfig(cir=1, cburst=60, pir=1, pburst=120)
    entry = client.entry("ternary_table", match, priority=1, action=client.action("rated"), meter_config=config)
    client.insert(table_entry=entry)
    frame = bytes(12) + b"\x12\x34" + bytes(46)
    for _ in range(3):
        dataplane.inject(1, frame)
    query = client.entry("ternary_table", meter_counter_data=p4r.MeterCounterData())
    (found,) = client.read(table_entry=query)
    assert found.meter_counter_data == colors(1, 1, 1)
    direct = p4r.DirectMeterEntry(table_entry=client.entry("ternary_table", match, priority=1))
    direct.counter_data.SetInParent()
    (one,) = client.read(direct_meter_entry=direct)
    assert one.counter_data == colors(1, 1, 1)
    client.modify(table_entry=entry)  # no counts in it: they stay
    assert client.read(direct_meter_entry=direct)[0].counter_data == colors(1, 1, 1)
    entry.meter_counter_data.CopyFrom(colors(0, 0, 1))
    direct.config.CopyFrom(config)
    direct.counter_data.CopyFrom(colors(1))
    for write in (
        lambda: client.modify(table_entry=entry),
        lambda: client.insert(table_entry=entry),
        lambda: client.modify(direct_meter_entry=direct),
    ):
        error = failure(write)  # 1.4, "Direct Resources": nothing but zero can be written
        assert error.canonical_code == status.INVALID_ARGUMENT and "only be set to zero" in error.message
    entry.meter_counter_data.Clear()
    entry.meter_counter_data.SetInParent()
    client.modify(table_entry=entry)
    assert client.read(direct_meter_entry=direct)[0].counter_data == colors()
    dataplane.inject(1, frame)
    direct.counter_data.CopyFrom(colors())
    client.modify(direct_meter_entry=direct)
    assert client.read(table_entry=query)[0].meter_counter_data == colors()
    bad = client.entry("lpm_table", is_default_action=True, meter_counter_data=colors())
    assert failure(lambda: client.modify(table_entry=bad)).canonical_code == status.INVALID_ARGUMENT


def test_colors_are_taken_back_with_their_batch(client: Client) -> None:
    good, bad = meter(client, 1, 1, 1, 1, 1), meter(client, 99, 1, 1, 1, 1)
    good.counter_data.CopyFrom(colors(7))
    updates = [p4r.Update(type=p4r.Update.MODIFY, entity=p4r.Entity(meter_entry=each)) for each in (good, bad)]
    with pytest.raises(WriteFailed):
        client.write(*updates, atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR)
    query = meter(client, 1)
    query.counter_data.SetInParent()
    (found,) = client.read(meter_entry=query)
    assert (found.HasField("config"), found.counter_data) == (False, colors())


@pytest.mark.parametrize(("name", "size", "width"), [("last_source", 8, 48), ("wide", 4, 192)])
def test_register(client: Client, name: str, size: int, width: int) -> None:
    def cell(index: int | None, value: int | None = None) -> p4r.RegisterEntry:
        message = p4r.RegisterEntry(register_id=client.id_of(name))
        if index is not None:
            message.index.index = index
        if value is not None:
            message.data.bitstring = octets(value)
        return message

    most = (1 << width) - 1
    client.modify(register_entry=cell(2, most))
    assert client.read(register_entry=cell(2)) == [cell(2, most)]
    assert client.read(register_entry=cell(None)) == [cell(n, most if n == 2 else 0) for n in range(size)]
    client.modify(register_entry=cell(None, 5))
    assert client.read(register_entry=cell(None)) == [cell(n, 5) for n in range(size)]
    assert failure(lambda: client.modify(register_entry=cell(0, most + 1))).canonical_code == status.INVALID_ARGUMENT
    assert "data is missing" in failure(lambda: client.modify(register_entry=cell(0))).message
    wrong = cell(0)
    wrong.data.bool = True
    assert "kind bool, where a bitstring" in failure(lambda: client.modify(register_entry=wrong)).message


def test_direct_counter(client: Client) -> None:
    key = client.entry("exact_table", exact(1, 1))
    entry = client.entry("exact_table", exact(1, 1), action=client.action("counted_forward", 1))
    message = p4r.DirectCounterEntry(table_entry=key, data=p4r.CounterData(packet_count=3, byte_count=99))
    assert failure(lambda: client.modify(direct_counter_entry=message)).canonical_code == status.NOT_FOUND
    client.insert(table_entry=entry)
    client.modify(direct_counter_entry=message)
    assert client.read(direct_counter_entry=p4r.DirectCounterEntry(table_entry=key)) == [message]
    whole_table = p4r.TableEntry(table_id=key.table_id)
    assert client.read(direct_counter_entry=p4r.DirectCounterEntry(table_entry=whole_table)) == [message]
    assert message in client.read(direct_counter_entry=p4r.DirectCounterEntry())  # besides those of the const table
    (found,) = client.read(table_entry=p4r.TableEntry(table_id=key.table_id, counter_data=p4r.CounterData()))
    assert found.counter_data == message.data
    client.modify(table_entry=entry)  # without counter_data: the count stays
    assert client.read(direct_counter_entry=p4r.DirectCounterEntry(table_entry=key)) == [message]
    elsewhere = p4r.DirectCounterEntry(table_entry=client.entry("lpm_table"))
    assert "has no direct counter" in failure(lambda: client.modify(direct_counter_entry=elsewhere)).message


def test_entry_with_initial_count(client: Client) -> None:
    entry = client.entry("exact_table", exact(1, 1), action=client.action("counted_forward", 1))
    entry.counter_data.packet_count = 42
    client.insert(table_entry=entry)
    query = p4r.TableEntry(table_id=entry.table_id, counter_data=p4r.CounterData())
    assert client.read(table_entry=query) == [entry]


def test_direct_meter(client: Client) -> None:
    key = client.entry("ternary_table", exact(2, 1), priority=1)
    entry = client.entry("ternary_table", exact(2, 1), priority=1, action=client.action("rated"))
    entry.meter_config.CopyFrom(p4r.MeterConfig(cir=10, cburst=100, pir=20, pburst=200))
    client.insert(table_entry=entry)
    query = p4r.TableEntry(table_id=key.table_id, meter_config=p4r.MeterConfig())
    assert client.read(table_entry=query) == [entry]
    message = p4r.DirectMeterEntry(table_entry=key)
    (found,) = client.read(direct_meter_entry=message)
    assert found.config == entry.meter_config and found.table_entry == key
    message.config.CopyFrom(p4r.MeterConfig(cir=1, cburst=2, pir=3, pburst=4))
    client.modify(direct_meter_entry=message)
    assert client.read(direct_meter_entry=p4r.DirectMeterEntry()) == [message]
    entry.ClearField("meter_config")
    client.modify(table_entry=entry)  # without a config: reset, unlike counters
    assert client.read(table_entry=query) == [entry]


# ------------------------------------------------------------------------------------------------------ replication


def group(number: int, *replicas: tuple[int, int], **fields: Any) -> p4r.PacketReplicationEngineEntry:
    message = p4r.MulticastGroupEntry(multicast_group_id=number, **fields)
    for port, instance in replicas:
        message.replicas.add(port=octets(port), instance=instance)
    return p4r.PacketReplicationEngineEntry(multicast_group_entry=message)


def session(number: int, *replicas: tuple[int, int], **fields: Any) -> p4r.PacketReplicationEngineEntry:
    message = p4r.CloneSessionEntry(session_id=number, **fields)
    for port, instance in replicas:
        message.replicas.add(port=octets(port), instance=instance)
    return p4r.PacketReplicationEngineEntry(clone_session_entry=message)


@pytest.mark.parametrize("make", [group, session])
def test_replication(client: Client, make: Callable[..., p4r.PacketReplicationEngineEntry]) -> None:
    first, second = make(5, (1, 0), (2, 7)), make(6)
    client.insert(packet_replication_engine_entry=first)
    client.insert(packet_replication_engine_entry=second)
    assert client.read(packet_replication_engine_entry=make(5)) == [first]
    assert client.read(packet_replication_engine_entry=make(0)) == [first, second]
    assert failure(lambda: client.insert(packet_replication_engine_entry=first)).canonical_code == status.ALREADY_EXISTS
    changed = make(5, (3, 1))
    client.modify(packet_replication_engine_entry=changed)
    assert client.read(packet_replication_engine_entry=make(5)) == [changed]
    client.delete(packet_replication_engine_entry=make(5))
    assert client.read(packet_replication_engine_entry=make(0)) == [second]
    for action in (client.delete, client.modify):
        error = failure(lambda action=action: action(packet_replication_engine_entry=make(5)))  # type: ignore[misc]
        assert error.canonical_code == status.NOT_FOUND


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (group(0), "between 1 and 65535"),
        (group(1 << 16), "between 1 and 65535"),
        (session(0), "between 1 and 32767"),
        (session(1 << 15), "between 1 and 32767"),
        (group(1, (512, 0)), "does not fit in 9 bits"),
        (group(1, (1, 1 << 16)), "above 65535"),
        (group(1, (1, 2), (1, 2)), "listed twice"),
        (session(1, (1, 2), (1, 2)), "listed twice"),
        (session(1, (1, 0), class_of_service=3), "class of service 3"),
        (session(1, (1, 0), packet_length_bytes=-1), "is negative"),
        (p4r.PacketReplicationEngineEntry(), "neither multicast_group_entry nor clone_session_entry"),
    ],
)
def test_bad_replication(client: Client, entry: p4r.PacketReplicationEngineEntry, reason: str) -> None:
    error = failure(lambda: client.insert(packet_replication_engine_entry=entry))
    too_high = entry.multicast_group_entry.multicast_group_id > 65535
    assert error.canonical_code == (status.OUT_OF_RANGE if too_high else status.INVALID_ARGUMENT)
    assert reason in error.message


def test_deprecated_egress_port(client: Client) -> None:
    entry = group(1)
    entry.multicast_group_entry.replicas.add(egress_port=3, instance=1)
    client.insert(packet_replication_engine_entry=entry)
    assert client.read(packet_replication_engine_entry=group(1)) == [entry]
    entry.multicast_group_entry.replicas[0].egress_port = 600
    assert "port 600" in failure(lambda: client.modify(packet_replication_engine_entry=entry)).message


def test_clone_session_with_length(client: Client) -> None:
    entry = session(9, (1, 0), packet_length_bytes=64)
    client.insert(packet_replication_engine_entry=entry)
    assert client.read(packet_replication_engine_entry=session(9)) == [entry]


# ------------------------------------------------------------------------------------------------ digests, the rest


def test_digest_settings(client: Client) -> None:
    entry = p4r.DigestEntry(digest_id=client.id_of("learn_t"))
    entry.config.max_list_size = 10
    error = failure(lambda: client.modify(digest_entry=entry))
    assert error.canonical_code == status.NOT_FOUND and "INSERT it first" in error.message
    client.insert(digest_entry=entry)
    assert failure(lambda: client.insert(digest_entry=entry)).canonical_code == status.ALREADY_EXISTS
    entry.config.max_timeout_ns = 1000
    client.modify(digest_entry=entry)
    assert client.read(digest_entry=p4r.DigestEntry()) == [entry]
    entry.config.ack_timeout_ns = -1
    assert failure(lambda: client.modify(digest_entry=entry)).canonical_code == status.INVALID_ARGUMENT
    client.delete(digest_entry=entry)
    assert client.read(digest_entry=p4r.DigestEntry()) == []


def test_unsupported_kinds(client: Client) -> None:
    error = failure(lambda: client.insert(extern_entry=p4r.ExternEntry()))
    assert error.canonical_code == status.UNIMPLEMENTED
    assert "extern_entry" in error.message


def test_mixed_batch_rolls_back(client: Client) -> None:
    client.modify(counter_entry=counter(client, 1, 5, 50))
    entry = client.entry("exact_table", exact(1, 1), action=client.action("counted_forward", 1))

    def update(kind: int, **entity: Any) -> p4r.Update:
        return p4r.Update(type=kind, entity=p4r.Entity(**entity))  # type: ignore[arg-type]

    with pytest.raises(WriteFailed):
        client.write(
            update(p4r.Update.INSERT, packet_replication_engine_entry=group(1, (1, 1))),
            update(p4r.Update.INSERT, table_entry=entry),
            update(p4r.Update.MODIFY, counter_entry=counter(client, 1, 6, 60)),
            update(p4r.Update.MODIFY, meter_entry=meter(client, 1, 1, 1, 1, 1)),
            update(p4r.Update.MODIFY, counter_entry=counter(client, 99, 6, 60)),
            atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR,
        )
    assert client.read(packet_replication_engine_entry=group(0)) == []
    assert client.read(table_entry=client.entry("exact_table")) == []
    assert client.read(counter_entry=counter(client, 1)) == [counter(client, 1, 5, 50)]
    assert client.read(meter_entry=meter(client, 1)) == [meter(client, 1)]
