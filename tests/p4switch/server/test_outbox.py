"""What waits for a controller: bounded where it may be, complete where it must be."""

from __future__ import annotations

import threading

from finsy.proto import p4r

from p4switch.server import status
from p4switch.server.outbox import Outbox
from p4switch.server.status import RequestError


def message(number: int) -> p4r.StreamMessageResponse:
    return p4r.StreamMessageResponse(packet=p4r.PacketIn(payload=bytes([number])))


def test_a_slow_reader_loses_notifications_only() -> None:
    outbox = Outbox(most_waiting=2)
    assert [outbox.offer(message(n)) for n in range(4)] == [True, True, False, False]
    outbox.put(p4r.StreamMessageResponse(arbitration=p4r.MasterArbitrationUpdate(device_id=1)))
    assert outbox.dropped == 2
    outbox.close()
    kinds = [each.WhichOneof("update") for each in outbox.drain()]
    assert kinds == ["packet", "packet", "arbitration"]


def test_nothing_after_the_end() -> None:
    outbox = Outbox(most_waiting=2)
    first = RequestError(status.NOT_FOUND, "first")
    outbox.close(first)
    outbox.close(RequestError(status.INTERNAL, "second"))
    assert not outbox.offer(message(1))
    outbox.put(message(2))
    assert list(outbox.drain()) == []
    assert outbox.error is first and outbox.dropped == 0


def test_drain_waits() -> None:
    outbox = Outbox(most_waiting=10)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.extend(each.packet.payload for each in outbox.drain()))
    reader.start()
    for number in range(5):
        outbox.offer(message(number))
    outbox.close()
    reader.join(5)
    assert got == [bytes([number]) for number in range(5)]
