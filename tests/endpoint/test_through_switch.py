"""GPUs through the real switch program, its tables filled in by hand: what the fabric does to accesses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from endpoint import EndpointOptions, Gpu, LsuTimeout
from p4switch.build import build
from p4switch.dataplane import DataPlane, FieldMatch, SwitchOptions, TableEntry
from tests.endpoint.conftest import PATIENT, add_cable

PROGRAM = Path(__file__).resolve().parents[2] / "p4src" / "ethlink.p4"
OPEN, ENDPOINT = 0, 1

Maker = Callable[..., Gpu]


class Switch:
    """A switch with a GPU on each port: GPU n on port n, its end of the cable is gpu<n>."""

    def __init__(self, tenants: dict[int, int], first_cable: int = 0) -> None:
        built = build(PROGRAM)
        self.tables = {table.preamble.alias: table.preamble.id for table in built.p4info.tables}
        self.actions = {action.preamble.alias: action.preamble.id for action in built.p4info.actions}
        self.counters = {counter.preamble.alias: counter.preamble.id for counter in built.p4info.counters}
        self.tenants = tenants
        self.plane = DataPlane(SwitchOptions(cpu_port=510))
        self.plane.load(built.library)
        for gpu, tenant in tenants.items():
            self.plane.add_port(gpu, f"sw{first_cable + gpu}")
            self.insert("port_config", (gpu,), "set_port", OPEN, ENDPOINT, tenant)
            self.insert("source_guard", (gpu, gpu), "allow")
            self.insert("egress_config", (gpu,), "set_link", OPEN)
            self.insert("destination_tenant", (gpu,), "belongs_to", tenant)
            self.plane.table_insert(self.route(gpu))
        self.plane.start()

    def entry(self, table: str, key: tuple[int, ...], action: str, *params: int) -> TableEntry:
        matches = tuple(FieldMatch(value) for value in key)
        return TableEntry(self.tables[table], matches, 0, self.actions[action], params)

    def insert(self, table: str, key: tuple[int, ...], action: str, *params: int) -> None:
        self.plane.table_insert(self.entry(table, key, action, *params))

    def route(self, gpu: int) -> TableEntry:
        return self.entry("forward", (self.tenants[gpu], gpu), "to_port", gpu)

    def drops(self, reason: str) -> int:
        return sum(packets for packets, _ in self.plane.counter_read_all(self.counters[reason]))


@pytest.fixture
def switch(namespace: str) -> Iterator[Callable[..., Switch]]:
    """Return a maker of switches that are stopped at the end of the test."""
    made: list[Switch] = []

    def make(tenants: dict[int, int], first_cable: int = 0) -> Switch:
        for gpu in tenants:
            add_cable(f"gpu{first_cable + gpu}", f"sw{first_cable + gpu}")
        made.append(Switch(tenants, first_cable))
        return made[-1]

    yield make
    for one in made:
        one.plane.stop()


def test_accesses_pass(switch: Callable[..., Switch], gpus: Maker) -> None:
    s = switch({1: 1, 2: 1})
    a, b = gpus(1, {0: "gpu1"}, options=PATIENT), gpus(2, {0: "gpu2"}, options=PATIENT)
    region = b.register(1 << 14)
    data = np.random.default_rng(1).integers(0, 256, 1 << 14, np.uint8)
    a.store(2, 0, data)
    assert region.array.tobytes() == a.load(2, 0, 1 << 14) == data.tobytes()
    assert [a.atomic_add(2, 0, 1) - a.atomic_add(2, 0, -1) for _ in range(50)] == [-1] * 50
    assert s.drops("no_route") == s.drops("bad_crc") == 0
    assert "resent_requests" not in a.counters()


@pytest.mark.parametrize("block_bytes", [2048, 4096])
def test_messages_pass(switch: Callable[..., Switch], gpus: Maker, block_bytes: int) -> None:
    s = switch({1: 1, 2: 1, 3: 1})
    options = replace(PATIENT, block_bytes=block_bytes)
    a, b, c = (gpus(number, {0: f"gpu{number}"}, options=options) for number in (1, 2, 3))
    region = b.register(1 << 20)
    data = np.random.default_rng(1).integers(0, 256, 1 << 20, np.uint8)
    transfers = [a.write_async(2, 0, data[: 1 << 19], notify=True), c.write_async(2, 1 << 19, data[1 << 19 :])]
    for transfer in transfers:
        transfer.result()
    assert (region.array == data).all()
    assert b.wait_notification(1, 1) == (1, 1, 0, 1 << 19)
    into = [np.empty_like(data) for _ in range(2)]
    for transfer in [gpu.read_async(2, 0, into=array) for gpu, array in zip((a, c), into, strict=True)]:
        transfer.result()
    assert all((array == data).all() for array in into)
    assert s.drops("no_route") == s.drops("bad_crc") == s.drops("truncated") == s.drops("overlong") == 0
    for gpu in (a, b, c):
        assert gpu.counters().get("resent_blocks", 0) == 0


def test_two_switches_are_two_planes(switch: Callable[..., Switch], gpus: Maker) -> None:
    """One of them dies; what was on it moves to the other, each add once."""
    switch({1: 1, 2: 1})
    second = switch({1: 1, 2: 1}, first_cable=10)
    a, b = gpus(1, {0: "gpu1", 1: "gpu11"}), gpus(2, {0: "gpu2", 1: "gpu12"})
    words = np.zeros(1, np.uint64)
    b.register(words)
    transfers = [a.atomic_add_async(2, 0, 1) for _ in range(100)]
    second.plane.remove_port(1)
    transfers += [a.atomic_add_async(2, 0, 1) for _ in range(100)]
    assert sorted(transfer.result() for transfer in transfers) == list(range(200))
    assert words[0] == 200


def test_messages_over_two_planes(switch: Callable[..., Switch], gpus: Maker) -> None:
    """Blocks overtake each other; then a plane dies, and what was on it takes the other."""
    switch({1: 1, 2: 1})
    second = switch({1: 1, 2: 1}, first_cable=10)
    a, b = gpus(1, {0: "gpu1", 1: "gpu11"}), gpus(2, {0: "gpu2", 1: "gpu12"})
    region = b.register(1 << 22)
    data = np.random.default_rng(1).integers(0, 256, 1 << 22, np.uint8)
    a.write(2, 0, data[: 1 << 21], notify=True)
    assert (region.array[: 1 << 21] == data[: 1 << 21]).all()
    frames = [b.port_counters()[plane]["rx_frames"] for plane in (0, 1)]
    assert min(frames) >= 512
    transfer = a.write_async(2, 1 << 21, data[1 << 21 :], notify=True)
    second.plane.remove_port(1)
    transfer.result()
    assert (region.array == data).all()
    assert a.read(2, 0, 1 << 22) == data.tobytes()
    assert [b.wait_notification(1).address for _ in range(2)] == [0, 1 << 21]
    assert b.notifications == 0


def test_other_tenants_memory_is_out_of_reach(switch: Callable[..., Switch], gpus: Maker) -> None:
    s = switch({1: 1, 2: 1, 3: 2})
    quick = EndpointOptions(timeout_s=0.3, linger_s=0)
    a, b = gpus(1, {0: "gpu1"}, options=quick), gpus(2, {0: "gpu2"})
    c = gpus(3, {0: "gpu3"})
    for gpu in (b, c):
        gpu.register(8)
    assert a.load(2, 0, 8) == bytes(8)
    with pytest.raises(LsuTimeout):
        a.store(3, 0, b"x")
    assert s.drops("other_tenant") >= 1
    assert c.counters().get("requests", 0) == 0


def test_pretending_to_be_another_gpu(switch: Callable[..., Switch], gpus: Maker) -> None:
    s = switch({1: 1, 2: 1})
    liar = gpus(5, {0: "gpu1"}, options=EndpointOptions(timeout_s=0.3, linger_s=0))
    b = gpus(2, {0: "gpu2"})
    b.register(8)
    with pytest.raises(LsuTimeout):
        liar.store(2, 0, b"x")
    assert s.drops("spoofed_source") >= 1
    assert b.counters().get("requests", 0) == 0


def test_routes_come_and_go_under_load(switch: Callable[..., Switch], gpus: Maker) -> None:
    """Requests and responses are lost at random moments; every atomic happens exactly once."""
    s = switch({1: 1, 2: 1})
    options = EndpointOptions(timeout_s=20, first_rto_s=0.01, min_rto_s=0.01, max_rto_s=0.05, window=32, linger_s=0)
    a, b = gpus(1, {0: "gpu1"}, options=options), gpus(2, {0: "gpu2"}, options=options)
    words = np.zeros(1, np.uint64)
    b.register(words)
    stop = threading.Event()

    def flap() -> None:
        while not stop.is_set():
            for gpu in (1, 2):
                s.plane.table_delete(s.route(gpu))
                time.sleep(0.003)
                s.plane.table_insert(s.route(gpu))
                time.sleep(0.005)

    thread = threading.Thread(target=flap)
    thread.start()
    try:
        transfers = [a.atomic_add_async(2, 0, 1) for _ in range(3000)]
        before = sorted(transfer.result() for transfer in transfers)
    finally:
        stop.set()
        thread.join()
    assert before == list(range(3000))
    assert words[0] == 3000
    assert s.drops("no_route") + s.drops("other_tenant") > 0
    assert a.counters()["resent_requests"] > 0
    assert b.counters()["duplicate_request"] > 0
