"""Tables of 10,000 entries come, change and go, and the same program is pushed again, while frames flow: none is lost.

The sender keeps a window of frames under way, so that nothing depends on how fast the machine is.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
from finsy.proto import p4r

from p4switch.build import BuildResult
from p4switch.dataplane import DataPlane, SwitchOptions
from p4switch.server import ServerOptions, serve
from tests.p4switch.runtime.wires import FarEnd, cable, own_namespace
from tests.p4switch.server.client import Client, exact

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
WINDOW = 128
ENTRIES = 10_000
KEPT = 100
"""Entries that frames go by; they stay."""


class Flow(threading.Thread):
    """Numbered frames from one end to the other, by all the kept entries in turn."""

    def __init__(self, source: FarEnd, sink: FarEnd) -> None:
        super().__init__()
        self._source, self._sink = source, sink
        self._stopping = threading.Event()
        self.sent = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        expected = 0
        while not (self._stopping.is_set() and expected == self.sent):
            while self.sent < expected + WINDOW and not self._stopping.is_set():
                dst = (1 + self.sent % KEPT).to_bytes(6, "big")
                self._source.send(dst + bytes(6) + b"\x12\x34" + self.sent.to_bytes(8, "big") + bytes(40))
                self.sent += 1
            received = self._sink.receive(timeout_s=20)
            if received is None or received[14:22] != expected.to_bytes(8, "big"):
                self.wrong.append(f"frame {expected} of {self.sent}: got {received!r}")
                return
            expected += 1

    def stop(self) -> None:
        self._stopping.set()
        self.join()


def test_no_frame_is_lost(program: BuildResult) -> None:
    with DataPlane(SwitchOptions(cpu_port=510), program.runtime) as dataplane:
        with own_namespace():  # which lives on with the sockets that are opened here
            cable("rt-p1", "rt-h1")
            cable("rt-p3", "rt-h3")
            source, sink = FarEnd("rt-h1"), FarEnd("rt-h3")
            dataplane.add_port(1, "rt-p1")
            dataplane.add_port(3, "rt-p3")
            dataplane.start()
        with serve(dataplane, ServerOptions(grpc_addr="127.0.0.1:0"), program) as server:
            client = Client(server.port, p4info=program.p4info).become_primary()
            try:
                change_tables(client, program, source, sink)
            finally:
                client.close()
    source.close()
    sink.close()


def change_tables(client: Client, program: BuildResult, source: FarEnd, sink: FarEnd) -> None:
    def update(kind: Any, number: int, port: int) -> p4r.Update:
        entry = client.entry("exact_table", exact(1, number), action=client.action("counted_forward", port))
        return p4r.Update(type=kind, entity=p4r.Entity(table_entry=entry))

    client.write(*[update(p4r.Update.INSERT, number, 3) for number in range(1, KEPT + 1)])
    flow = Flow(source, sink)
    flow.start()
    counts = []
    try:
        for kind, port in ((p4r.Update.INSERT, 7), (p4r.Update.MODIFY, 8), (p4r.Update.DELETE, 8)):
            client.write(*[update(kind, number, port) for number in range(1_000, 1_000 + ENTRIES)])
            counts.append(len(client.read(table_entry=client.entry("exact_table"))))
        client.push(p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT, program.p4info, program.container)
        # What frames go by is written again as well, each entry's action as it is.
        client.write(*[update(p4r.Update.MODIFY, number, 3) for number in range(1, KEPT + 1)])
    finally:
        flow.stop()
    assert counts == [KEPT + ENTRIES, KEPT + ENTRIES, KEPT]
    assert not flow.wrong
    assert flow.sent > 10 * WINDOW
