"""Direct counters and meters of default entries: what is kept of misses."""

from __future__ import annotations

import pytest
from finsy.proto import p4r

from p4switch.dataplane import DataPlane
from p4switch.server import status
from tests.p4switch.server.client import Client, WriteFailed, exact

FRAME = bytes.fromhex("00000000000a00000000000b1234") + bytes(46)


def misses(client: Client, table: str) -> p4r.TableEntry:
    query = client.entry(table, is_default_action=True, counter_data=p4r.CounterData(), meter_config=p4r.MeterConfig())
    (found,) = client.read(table_entry=query)
    return found


def refused(client: Client, message: p4r.TableEntry) -> p4r.Error:
    with pytest.raises(WriteFailed) as caught:
        client.modify(table_entry=message)
    return caught.value.errors[0]


def test_misses_are_counted_apart_from_hits(client: Client, dataplane: DataPlane) -> None:
    key = exact(1, 0x0C)
    client.insert(table_entry=client.entry("exact_table", key, action=client.action("counted_forward", 2)))
    for _ in range(3):
        dataplane.inject(1, FRAME)
    dataplane.inject(1, bytes.fromhex("00000000000c") + FRAME[6:])
    found = misses(client, "exact_table")
    assert found.is_default_action and not found.is_const
    assert (found.counter_data.packet_count, found.counter_data.byte_count) == (3, 3 * len(FRAME))
    assert not found.HasField("meter_config")
    direct = p4r.DirectCounterEntry(table_entry=client.entry("exact_table", is_default_action=True))
    (entry,) = client.read(direct_counter_entry=direct)
    assert entry.table_entry == direct.table_entry
    assert entry.data.packet_count == 3
    everywhere = p4r.DirectCounterEntry(table_entry=p4r.TableEntry(is_default_action=True))
    found_all = {e.table_entry.table_id: e for e in client.read(direct_counter_entry=everywhere)}
    assert found_all.keys() == {client.id_of("exact_table"), client.id_of("const_table")}
    assert found_all[client.id_of("exact_table")] == entry
    query = client.entry("exact_table", counter_data=p4r.CounterData())
    assert [e.counter_data.packet_count for e in client.read(table_entry=query)] == [1]


def test_counts_of_misses_can_be_set_also_beside_an_action(client: Client, dataplane: DataPlane) -> None:
    count = p4r.CounterData(packet_count=40, byte_count=50)
    client.modify(table_entry=client.entry("exact_table", is_default_action=True, counter_data=count))
    found = misses(client, "exact_table")
    assert found.counter_data == count
    assert found.action.action.action_id == client.id_of("deny")  # no action was given: it stays
    direct = p4r.DirectCounterEntry(
        table_entry=client.entry("exact_table", is_default_action=True), data=p4r.CounterData(packet_count=1)
    )
    client.modify(direct_counter_entry=direct)
    dataplane.inject(1, FRAME)
    assert misses(client, "exact_table").counter_data.packet_count == 2
    client.modify(table_entry=client.entry("const_table", is_default_action=True, counter_data=count,
                                           action=client.action("deny")))  # fmt: skip
    found = misses(client, "const_table")
    assert (found.action.action.action_id, found.counter_data.packet_count) == (client.id_of("deny"), 40)


def test_a_meter_of_misses_colours_them(client: Client, dataplane: DataPlane) -> None:
    """Without one the field that the program reads the colour into keeps its value, as on BMv2."""
    client.modify(table_entry=client.entry("exact_table", is_default_action=True, counter_data=p4r.CounterData()))
    entry = client.entry("exact_table", exact(1, 0x0A), action=client.action("counted_forward", 2))
    client.insert(table_entry=entry)
    assert [port for port, _ in dataplane.inject(1, FRAME)] == [2]
    config = p4r.MeterConfig(cir=1, cburst=1, pir=1, pburst=1)
    client.modify(table_entry=client.entry("ternary_table", is_default_action=True, meter_config=config))
    assert misses(client, "ternary_table").meter_config == config
    assert dataplane.inject(1, FRAME) == []  # red, which the program drops
    message = p4r.DirectMeterEntry(table_entry=client.entry("ternary_table", is_default_action=True))
    (found,) = client.read(direct_meter_entry=message)
    assert found.config == config
    client.modify(direct_meter_entry=message)  # no config: none any more
    assert [port for port, _ in dataplane.inject(1, FRAME)] == [2]
    assert not misses(client, "ternary_table").HasField("meter_config")


def test_a_default_entry_is_written_as_a_whole(client: Client) -> None:
    """As in entries, a meter that is not given is reset, and an action that is not given becomes the program's."""
    config, count = p4r.MeterConfig(cir=1, cburst=1, pir=1, pburst=1), p4r.CounterData(packet_count=3)
    default = client.entry("ternary_table", is_default_action=True, metadata=b"m")
    default.action.CopyFrom(client.action("paint", 5))
    default.meter_config.CopyFrom(config)
    client.modify(table_entry=default)
    assert misses(client, "ternary_table") == default
    default.ClearField("meter_config")
    client.modify(table_entry=default)
    assert misses(client, "ternary_table") == default
    default.meter_config.CopyFrom(config)
    client.modify(table_entry=default)
    client.modify(table_entry=client.entry("ternary_table", is_default_action=True))  # back to the program's
    assert misses(client, "ternary_table") == client.entry(
        "ternary_table", is_default_action=True, action=client.action("NoAction")
    )
    client.modify(table_entry=client.entry("const_table", is_default_action=True, action=client.action("deny")))
    client.modify(table_entry=client.entry("const_table", is_default_action=True, counter_data=count))
    found = misses(client, "const_table")
    assert (found.action, found.counter_data) == (client.action("NoAction"), count)


def test_a_batch_that_fails_takes_a_default_entry_back_with_its_meter(client: Client) -> None:
    default = client.entry("ternary_table", is_default_action=True, metadata=b"m", action=client.action("paint", 5))
    default.meter_config.CopyFrom(p4r.MeterConfig(cir=1, cburst=1, pir=1, pburst=1))
    client.modify(table_entry=default)
    reset = client.entry("ternary_table", is_default_action=True)
    bad = client.entry("lpm_table", is_default_action=True, counter_data=p4r.CounterData())
    updates = [p4r.Update(type=p4r.Update.MODIFY, entity=p4r.Entity(table_entry=entry)) for entry in (reset, bad)]
    with pytest.raises(WriteFailed):
        client.write(*updates, atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR)
    assert misses(client, "ternary_table") == default


def test_what_a_table_does_not_keep_is_refused(client: Client) -> None:
    for message in (
        client.entry("lpm_table", is_default_action=True, counter_data=p4r.CounterData()),
        client.entry("exact_table", is_default_action=True, meter_config=p4r.MeterConfig()),
    ):
        assert refused(client, message).canonical_code == status.INVALID_ARGUMENT
    wrong = client.entry("exact_table", exact(1, 1), is_default_action=True)
    with pytest.raises(WriteFailed) as caught:
        client.modify(direct_counter_entry=p4r.DirectCounterEntry(table_entry=wrong, data=p4r.CounterData()))
    assert "neither match fields nor a priority" in caught.value.errors[0].message


def test_a_batch_that_fails_takes_counts_of_misses_back(client: Client) -> None:
    good = client.entry("exact_table", is_default_action=True, counter_data=p4r.CounterData(packet_count=9))
    bad = client.entry("lpm_table", is_default_action=True, counter_data=p4r.CounterData())
    updates = [p4r.Update(type=p4r.Update.MODIFY, entity=p4r.Entity(table_entry=entry)) for entry in (good, bad)]
    with pytest.raises(WriteFailed):
        client.write(*updates, atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR)
    assert misses(client, "exact_table").counter_data.packet_count == 0
