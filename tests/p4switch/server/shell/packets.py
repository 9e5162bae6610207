"""Packet-out, packet-in, digests, idle time-outs."""

from p4runtime_sh import shell
from setup import connected

FRAME = bytes.fromhex("00000000000a00000000000b1234") + bytes(46)

with connected():
    packet_in, digests, idle = shell.PacketIn(), shell.DigestList(), shell.IdleTimeoutNotification()
    packet = shell.PacketOut(FRAME, egress_port="510", pad="0")
    packet.send()
    received = list(packet_in.sniff(timeout=1))
    assert len(received) == 1, received
    assert received[0].packet.payload == FRAME[2:], received  # no packet-in header was put before it

    entry = shell.TableEntry("optional_table")(action="deny")
    entry.match["standard_metadata.ingress_port"] = "3"
    entry.priority = 1
    entry.idle_timeout_ns = 50_000_000
    entry.insert()
    expired = list(idle.sniff(timeout=1))
    assert expired and expired[0].idle_timeout_notification.table_entry[0].priority == 1, expired
    entry.delete()
