"""Direct counters and meters, counts per colour, groups and sessions that change, digests' settings.

The shell has no words for counts per colour and for the metadata of groups: they go by its client.
"""

from p4.v1 import p4runtime_pb2
from p4runtime_sh import shell
from p4runtime_sh.p4runtime import P4RuntimeWriteException
from setup import connected


def refused(action, message):
    try:
        action()
    except P4RuntimeWriteException as error:
        assert message in str(error), error
        return
    raise AssertionError("not refused")


def modify(**entity):
    shell.client.write_update(
        p4runtime_pb2.Update(type=p4runtime_pb2.Update.MODIFY, entity=p4runtime_pb2.Entity(**entity))
    )


def read(**query):
    (found,) = [e for r in shell.client.read_one(p4runtime_pb2.Entity(**query)) for e in r.entities]
    return found


with connected():
    entry = shell.TableEntry("exact_table")(action="counted_forward")
    entry.match["hdr.ethernet.dst"] = "00:00:00:00:00:0a"
    entry.action["port"] = "5"
    counter = shell.DirectCounterEntry("exact_hits")
    counter.table_entry.match["hdr.ethernet.dst"] = "00:00:00:00:00:0a"
    counter.packet_count = 3
    refused(counter.modify, "it does not exist")
    entry.insert()
    counter.modify()
    (count,) = shell.DirectCounterEntry("exact_hits").read()
    assert (count.packet_count, count.byte_count) == (3, 0), count
    entry.counter_data.packet_count = 0  # asks for it
    assert next(entry.read()).counter_data.packet_count == 3

    entry = shell.TableEntry("ternary_table")(action="rated")
    entry.match["hdr.ethernet.type"] = "0x800"
    entry.priority = 1
    entry.insert()
    meter = shell.DirectMeterEntry("ternary_rate")
    meter.table_entry.match["hdr.ethernet.type"] = "0x800"
    meter.table_entry.priority = 1
    meter.cir, meter.cburst, meter.pir, meter.pburst = 1, 2, 3, 4
    meter.modify()
    entry.meter_config.cir = 0  # asks for it
    assert next(entry.read()).meter_config.pburst == 4
    entry.clear_meter_config()
    entry.modify()  # without one: the meter is the default one again
    direct = p4runtime_pb2.DirectMeterEntry(table_entry=meter.msg().table_entry)
    direct.counter_data.SetInParent()
    answer = read(direct_meter_entry=direct).direct_meter_entry
    assert not answer.HasField("config") and answer.HasField("counter_data"), answer
    direct.counter_data.red.packet_count = 1
    refused(lambda: modify(direct_meter_entry=direct), "counts of colours can only be set to zero")

    cell = shell.MeterEntry("police")(index=1)
    cell.cir, cell.cburst, cell.pir, cell.pburst = 5, 6, 4, 7
    refused(cell.modify, "the committed rate 5 exceeds the peak rate 4")
    cell.pir = 9
    cell.modify()
    police = p4runtime_pb2.MeterEntry(meter_id=cell.id)
    police.index.index = 1
    police.counter_data.SetInParent()
    assert read(meter_entry=police).meter_entry.HasField("counter_data")
    cell.clear_config()
    cell.modify()
    assert not read(meter_entry=police).meter_entry.HasField("config")

    all_counters = shell.CounterEntry("port_rx")
    all_counters.packet_count, all_counters.byte_count = 2, 20
    all_counters.modify()  # no index: all of them
    assert {(c.packet_count, c.byte_count) for c in shell.CounterEntry("port_rx").read()} == {(2, 20)}

    group = shell.MulticastGroupEntry(4).add(1, 1)
    group.insert()
    refused(group.insert, "exists already")
    group.add(1, 1)
    refused(group.modify, "port 1, instance 1 is listed twice")
    group.replicas = [shell.Replica(2, 7)]
    group.modify()
    shell.MulticastGroupEntry(5).insert()
    assert sorted(len(g.replicas) for g in shell.MulticastGroupEntry().read()) == [0, 1]
    noted = p4runtime_pb2.PacketReplicationEngineEntry()
    noted.multicast_group_entry.multicast_group_id, noted.multicast_group_entry.metadata = 5, b"five"
    noted.multicast_group_entry.replicas.add(port=b"\x00\x03")
    modify(packet_replication_engine_entry=noted)
    answer = read(packet_replication_engine_entry=noted).packet_replication_engine_entry.multicast_group_entry
    assert (answer.metadata, answer.replicas[0].port) == (b"five", b"\x03"), answer
    for number in (4, 5):
        shell.MulticastGroupEntry(number).delete()
    assert list(shell.MulticastGroupEntry().read()) == []
    session = shell.CloneSessionEntry(9).add(1)
    session.insert()
    session.packet_length_bytes = 20
    session.modify()
    assert [s.packet_length_bytes for s in shell.CloneSessionEntry().read()] == [20]
    session.cos = 1
    refused(session.modify, "class of service 1")
    session.delete()
    refused(session.delete, "does not exist")

    digest = shell.DigestEntry("learn_t")
    refused(digest.modify, "INSERT it first")
    digest.insert()
    digest.max_list_size, digest.max_timeout_ns, digest.ack_timeout_ns = 10, 20, 30
    digest.modify()
    (setting,) = shell.DigestEntry("learn_t").read()
    assert (setting.max_list_size, setting.max_timeout_ns, setting.ack_timeout_ns) == (10, 20, 30), setting
    digest.delete()
