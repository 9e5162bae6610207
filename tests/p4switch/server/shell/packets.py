"""Packet-out, packet-in, digests, idle time-outs, and errors on the stream, while frames arrive on port 6.

The shell has no words for errors on the stream; its client puts them aside as unknown.
"""

import time

from p4.v1 import p4runtime_pb2
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

    wrong = p4runtime_pb2.StreamMessageRequest()
    wrong.packet.payload = FRAME
    shell.client.stream_out_q.put(wrong)
    error = shell.client.get_stream_packet("unknown", timeout=5).error
    assert "metadata 'egress_port' (1) is missing" in error.message, error
    assert (error.canonical_code, error.packet_out.packet_out) == (3, wrong.packet), error

    entry = shell.TableEntry("optional_table")(action="deny")
    entry.match["standard_metadata.ingress_port"] = "3"
    entry.priority = 1
    entry.idle_timeout_ns = 50_000_000
    entry.insert()
    expired = list(idle.sniff(timeout=1))
    assert expired and expired[0].idle_timeout_notification.table_entry[0].priority == 1, expired
    entry.delete()

    hit = shell.TableEntry("exact_table")(action="counted_forward")  # frames are dropped without
    hit.match["hdr.ethernet.dst"] = "00:00:00:00:00:0a"
    hit.action["port"] = "1"
    hit.insert()
    punt = shell.TableEntry("lpm_table")(action="to_cpu")
    punt.action["reason"] = "2"
    punt.insert()
    deadline = time.monotonic() + 10
    while not (received := list(packet_in.sniff(timeout=0.2))):
        assert time.monotonic() < deadline
    assert received[0].packet.payload == FRAME, received
    assert [m.value for m in received[0].packet.metadata] == [b"\x06", b"\x02", b"\x00"], received

    setting = shell.DigestEntry("learn_t")
    setting.max_list_size = 1
    setting.insert()
    learn = shell.TableEntry("range_table")(action="learn")
    learn.match["hdr.ethernet.type"] = "1..0xfff0"
    learn.priority = 1
    learn.insert()
    deadline = time.monotonic() + 10
    while not (lists := list(digests.sniff(timeout=0.2))):  # the shell acknowledges each by itself
        assert time.monotonic() < deadline
    (message,) = lists[0].digest.data
    assert [m.bitstring for m in message.struct.members] == [b"\x0b", b"\x06"], message
