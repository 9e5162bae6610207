"""Counters, meters, multicast groups, clone sessions, digests; the shell has no registers."""

from p4runtime_sh import shell
from setup import connected

with connected():
    counter = shell.CounterEntry("port_rx")
    counter.index = 3
    counter.packet_count = 5
    counter.byte_count = 50
    counter.modify()
    read = next(shell.CounterEntry("port_rx")(index=3).read())
    assert (read.packet_count, read.byte_count) == (5, 50), read
    assert len(list(shell.CounterEntry("port_rx").read())) == 16

    meter = shell.MeterEntry("police")
    meter.index = 2
    meter.cir, meter.cburst, meter.pir, meter.pburst = 1, 2, 3, 4
    meter.modify()
    read = next(shell.MeterEntry("police")(index=2).read())
    assert (read.cir, read.cburst, read.pir, read.pburst) == (1, 2, 3, 4), read

    group = shell.MulticastGroupEntry(4)
    group.add(1, 1).add(2, 2)
    group.insert()
    read = next(shell.MulticastGroupEntry(4).read())
    assert sorted((r.egress_port, r.instance) for r in read.replicas) == [(1, 1), (2, 2)], read
    group.add(3)
    group.modify()
    group.delete()

    session = shell.CloneSessionEntry(9)
    session.add(1, 1)
    session.packet_length_bytes = 64
    session.insert()
    read = next(shell.CloneSessionEntry(9).read())
    assert read.packet_length_bytes == 64, read
    session.delete()

    digest = shell.DigestEntry("learn_t")
    digest.max_list_size = 1
    digest.insert()
    digest.delete()

    assert shell.APIVersion().startswith("1.4."), shell.APIVersion()
