"""Reads of one, some and all entries, canonical byte strings, default entries, and what a const table allows.

The shell names a table in each read; those of all tables go by its client's read_one().
"""

import grpc
from p4.v1 import p4runtime_pb2
from p4runtime_sh import shell
from p4runtime_sh.p4runtime import P4RuntimeException, P4RuntimeWriteException
from setup import connected

INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, OUT_OF_RANGE = 3, 5, 7, 11


def refused(action, code):
    try:
        action()
    except P4RuntimeWriteException as error:
        assert [each.canonical_code for _, each in error.errors] == [code], error
        return
    raise AssertionError("not refused")


def entry(number, priority, action="rated", metadata=b""):
    made = shell.TableEntry("ternary_table")(action=action)
    made.match["hdr.ethernet.type"] = str(number)
    made.priority, made.metadata = priority, metadata
    return made


def found(**fields):
    query = shell.TableEntry("ternary_table")(**fields)
    return sorted(e.match["hdr.ethernet.type"].exact.value[-1] for e in query.read())


def everything(**query):
    entity = p4runtime_pb2.Entity(**query)
    return [e for response in shell.client.read_one(entity) for e in response.entities]


with connected():
    entry(1, 5).insert()
    entry(2, 5, "NoAction", b"two").insert()
    entry(3, 6, "NoAction").insert()
    everywhere = shell.TableEntry("ternary_table")(action="NoAction")
    everywhere.match["hdr.ethernet.type"] = "4"
    everywhere.priority = 9
    everywhere.insert()
    assert found() == [1, 2, 3, 4]
    assert found(priority=5) == [1, 2]
    assert found(action="NoAction") == [2, 3, 4]
    assert found(metadata=b"two") == [2]
    one = shell.TableEntry("ternary_table")
    one.match["hdr.ethernet.type"] = "3"
    assert [e.priority for e in one.read()] == [6]
    one.priority = 5
    assert list(one.read()) == []
    tables = {e.table_entry.table_id for e in everything(table_entry=p4runtime_pb2.TableEntry())}
    assert tables == {shell.TableEntry(t).id for t in ("ternary_table", "const_table")}, tables
    assert len(everything(table_entry=p4runtime_pb2.TableEntry(is_default_action=True))) == 7
    assert len(everything(counter_entry=p4runtime_pb2.CounterEntry())) == 16
    assert len(everything(meter_entry=p4runtime_pb2.MeterEntry())) == 4
    assert len(everything(register_entry=p4runtime_pb2.RegisterEntry())) == 8 + 4
    try:
        everything(table_entry=p4runtime_pb2.TableEntry(priority=5))
    except grpc.RpcError as error:  # the shell has a type of its own only in its iterators
        assert "takes no other filter" in str(error), error
    else:
        raise AssertionError("not refused")

    # Byte strings with leading zeros are taken, and read back without; all of an optional table is left out.
    shell.global_options["canonical_bytestrings"] = False
    padded = shell.TableEntry("exact_table")(action="counted_forward")
    padded.match["hdr.ethernet.dst"] = "00:00:00:00:00:0a"
    padded.action["port"] = "5"
    padded.insert()
    assert padded.match["hdr.ethernet.dst"].exact.value == bytes(5) + b"\x0a"
    shell.global_options["canonical_bytestrings"] = True
    (read,) = shell.TableEntry("exact_table").read()
    assert read.match["hdr.ethernet.dst"].exact.value == b"\x0a" and read.action["port"].value == b"\x05", read
    anything = shell.TableEntry("optional_table")(action="deny")
    refused(anything.insert, INVALID_ARGUMENT)  # without a priority
    anything.priority = 1
    anything.insert()
    (read,) = shell.TableEntry("optional_table")(priority=1).read()
    assert len(read.msg().match) == 0
    anything.time_since_last_hit.elapsed_ns = 0
    assert next(anything.read()).time_since_last_hit.elapsed_ns > 0

    # A const table: its entries are read, and only their counters are written.
    first = max(shell.TableEntry("const_table").read(), key=lambda e: e.priority)
    assert next(iter(first.read())).msg() == first.msg()
    for update in (first.insert, first.modify, first.delete):
        refused(update, PERMISSION_DENIED)
    first.clear_action()
    first.counter_data.packet_count = 7
    first.modify()
    counts = sorted(c.packet_count for c in shell.DirectCounterEntry("const_hits").read())
    assert counts == [0, 7], counts

    # Default entries: changed, given back, const ones and those of actions that do not belong there refused.
    default = shell.TableEntry("lpm_table")(action="forward", is_default=True, metadata=b"m")
    default.action["port"] = "1"
    default.modify()
    read = next(shell.TableEntry("lpm_table")(is_default=True).read())
    assert (read.metadata, read.action["port"].value) == (b"m", b"\x01"), read
    for update in (default.insert, default.delete):
        refused(update, INVALID_ARGUMENT)
    default.clear_action()
    default.modify()
    read = next(shell.TableEntry("lpm_table")(is_default=True).read())
    assert (read.metadata, read.action.action_name) == (b"", "NoAction"), read
    refused(shell.TableEntry("range_table")(action="learn", is_default=True).modify, PERMISSION_DENIED)
    refused(shell.TableEntry("lpm_table")(action="mirror", is_default=True).modify, PERMISSION_DENIED)

    # One that is not there.
    try:
        next(shell.CounterEntry("port_rx")(index=16).read())
    except P4RuntimeException as error:
        assert "index 16 is beyond the last one, 15" in str(error), error
    else:
        raise AssertionError("not refused")
    counter = shell.CounterEntry("port_rx")(index=16)
    counter.packet_count = 1
    refused(counter.modify, OUT_OF_RANGE)
    refused(shell.MulticastGroupEntry(9).delete, NOT_FOUND)
