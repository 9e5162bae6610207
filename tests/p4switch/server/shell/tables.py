"""Entries of every kind of match, default entries, const entries, direct resources."""

from p4runtime_sh import shell
from setup import connected


def count(table):
    found: list = []
    shell.TableEntry(table).read(found.append)
    return len(found)


with connected():
    entry = shell.TableEntry("exact_table")(action="counted_forward")
    entry.match["hdr.ethernet.dst"] = "00:00:00:00:00:0a"
    entry.action["port"] = "5"
    entry.counter_data.packet_count = 7
    entry.insert()
    assert count("exact_table") == 1
    entry.action["port"] = "6"
    entry.counter_data = None
    entry.modify()
    read = next(shell.TableEntry("exact_table").read())
    assert read.action["port"].value == b"\x06", read

    counter = next(shell.DirectCounterEntry("exact_hits").read())
    assert counter.packet_count == 7, counter

    entry = shell.TableEntry("lpm_table")(action="flood")
    entry.match["hdr.ethernet.src"] = "11:00:00:00:00:00/8"
    entry.action["group"] = "7"
    entry.insert()

    entry = shell.TableEntry("ternary_table")(action="rated")
    entry.match["hdr.ethernet.dst"] = "00:00:00:00:00:10 &&& 00:00:00:00:00:f0"
    entry.match["hdr.ethernet.type"] = "0x800"
    entry.priority = 10
    entry.meter_config.cir = 1
    entry.meter_config.cburst = 2
    entry.meter_config.pir = 3
    entry.meter_config.pburst = 4
    entry.insert()
    meter = next(shell.DirectMeterEntry("ternary_rate").read())
    assert (meter.cir, meter.cburst, meter.pir, meter.pburst) == (1, 2, 3, 4), meter

    entry = shell.TableEntry("range_table")(action="learn")
    entry.match["hdr.ethernet.type"] = "0..0x600"
    entry.priority = 1
    entry.insert()

    entry = shell.TableEntry("optional_table")(action="deny")
    entry.match["standard_metadata.ingress_port"] = "3"
    entry.priority = 1
    entry.idle_timeout_ns = 10**15
    entry.metadata = b"by hand"
    entry.insert()
    read = next(shell.TableEntry("optional_table").read())
    assert read.metadata == b"by hand" and read.idle_timeout_ns == 10**15, read

    for table in ("exact_table", "lpm_table", "ternary_table", "range_table", "optional_table"):
        assert count(table) == 1, table
        next(shell.TableEntry(table).read()).delete()
        assert count(table) == 0, table
    assert count("const_table") == 2

    default = shell.TableEntry("lpm_table")(action="forward", is_default=True)
    default.action["port"] = "1"
    default.modify()
    default = next(shell.TableEntry("lpm_table")(is_default=True).read())
    assert default.action.action_name == "Features.forward", default
