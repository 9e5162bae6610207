"""Many clients at once: they take the primacy from each other, write, read, send packets and push pipelines."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import grpc
from finsy.proto import p4r

from p4switch.build import BuildResult
from p4switch.dataplane import DataPlane
from p4switch.server import P4RuntimeServer
from tests.p4switch.server.client import Client, WriteFailed, exact, lpm

DURATION_S = 4.0
ALLOWED = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.CANCELLED)


def test_everything_at_once(server: P4RuntimeServer, dataplane: DataPlane, program: BuildResult) -> None:
    stop = time.monotonic() + DURATION_S
    trouble: list[BaseException] = []
    done: dict[str, int] = {}
    election_ids = iter(range(1, 1 << 30))
    lock = threading.Lock()

    def work(name: str, step: Callable[[Client, random.Random], None], client: Client) -> None:
        generator = random.Random(name)
        try:
            while time.monotonic() < stop:
                try:
                    step(client, generator)
                    done[name] = done.get(name, 0) + 1
                except WriteFailed as failed:
                    assert all(error.canonical_code in (0, 5, 6, 10) for error in failed.errors), failed
                    done[name] = done.get(name, 0) + 1
                except grpc.RpcError as error:
                    assert error.code() in ALLOWED, error
        except BaseException as error:
            trouble.append(error)

    def bid(client: Client, generator: random.Random) -> None:
        with lock:
            client.bid(next(election_ids))
        time.sleep(0.3)

    def write(client: Client, generator: random.Random) -> None:
        kind = generator.choice((p4r.Update.INSERT, p4r.Update.DELETE))
        entries = [
            client.entry("exact_table", exact(1, generator.randrange(50)), action=client.action("counted_forward", 1))
            for _ in range(20)
        ]
        updates = [p4r.Update(type=kind, entity=p4r.Entity(table_entry=entry)) for entry in entries]
        client.write(*updates, atomicity=generator.choice((0, 1)))

    def read(client: Client, generator: random.Random) -> None:
        client.read(table_entry=p4r.TableEntry(counter_data=p4r.CounterData()))

    def push(client: Client, generator: random.Random) -> None:
        client.push(p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT, program.p4info, program.container)
        time.sleep(0.1)

    def packets(client: Client, generator: random.Random) -> None:
        dataplane.packet_out(bytes.fromhex("00000000000a00000000000b1234") + bytes(46), 1)
        time.sleep(0.001)

    clients = [Client(server.port, p4info=program.p4info) for _ in range(4)]
    threads = []
    for number, client in enumerate(clients):
        for step in (bid, write, read, push, packets):
            name = f"{step.__name__} {number}"
            threads.append(threading.Thread(target=work, args=(name, step, client)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DURATION_S + 20)
        assert not thread.is_alive()
    for client in clients:
        client.close()
    assert not trouble, trouble
    for kind in ("write", "read", "push", "packets"):
        assert sum(count for name, count in done.items() if name.startswith(kind)) > 5, done

    last = Client(server.port, p4info=program.p4info).become_primary(1 << 40)
    try:
        last.push(p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT, program.p4info, program.container)
        last.insert(table_entry=last.entry("exact_table", exact(1, 0x0A), action=last.action("counted_forward", 1)))
        last.insert(table_entry=last.entry("lpm_table", lpm(1, 0x0B, 48), action=last.action("to_cpu", 1)))
        dataplane.packet_out(bytes.fromhex("00000000000a00000000000b1234") + b"the end", 1)
        assert last.next("packet").payload.endswith(b"the end")
    finally:
        last.close()
