"""Ports: interfaces that cannot be one, that go down, come back, vanish, are slow or full."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from endpoint import (
    ConfigurationError,
    EndpointOptions,
    Gpu,
    PortError,
    Unreachable,
)
from endpoint.port import Port
from tests.endpoint.conftest import PATIENT, add_cable, ip

Maker = Callable[..., Gpu]


def shape(iface: str, rate: str) -> None:
    """Slow an interface down; what waits there stays charged to its sender's socket."""
    options = f"root tbf rate {rate} burst 10kb limit 10mb"
    subprocess.run(["tc", "qdisc", "add", "dev", iface, *options.split()], check=True)


def test_dead_interface_is_unreachable_and_recovers(cable: tuple[str, str], gpus: Maker) -> None:
    a = gpus(1, {0: cable[0]}, options=EndpointOptions(timeout_s=0.3, linger_s=0))
    b = gpus(2, {0: cable[1]})
    b.register(8)
    ip(f"link set {cable[0]} down")
    with pytest.raises(Unreachable, match=r"no plane leads there \(plane 0: own link down for \d+\.\d s\)"):
        a.load(2, 0, 8)
    assert a.counters()["unreachable_requests"] == 1
    ip(f"link set {cable[0]} up")
    assert a.load(2, 0, 8) == bytes(8)


def test_start_while_the_cable_is_out(cable: tuple[str, str], gpus: Maker) -> None:
    ip(f"link set {cable[1]} down")
    a = gpus(0, {0: cable[0]})
    b = gpus(0xEFF, {0: cable[1]})
    b.register(8)
    ip(f"link set {cable[1]} up")
    assert a.load(0xEFF, 0, 8) == bytes(8)


def test_full_buffer_loses_frames_but_no_access(cable: tuple[str, str], gpus: Maker) -> None:
    """Requests that the target's socket has no room for are counted there and sent again."""
    a = gpus(1, {0: cable[0]}, options=EndpointOptions(window=512, linger_s=0))
    b = gpus(2, {0: cable[1]}, options=EndpointOptions(receive_buffer=1 << 15, linger_s=0))
    words = np.zeros(1, np.uint64)
    b.register(words)
    with b._engine.lock:  # b is busy with something else
        transfers = [a.atomic_add_async(2, 0, 1) for _ in range(500)]
        time.sleep(0.02)
    assert sorted(transfer.result() for transfer in transfers) == list(range(500))
    assert words[0] == 500
    lost = b.counters()["rx_dropped_full"]
    assert lost > 0
    assert a.counters()["resent_requests"] >= lost


def test_port_errors(namespace: str, gpus: Maker) -> None:
    ip("link add ep0 type veth peer name ep1")
    with pytest.raises(PortError, match=r"interface nothing0: No such device; there are .*ep0"):
        gpus(1, {0: "nothing0"})
    with pytest.raises(PortError, match="ep0 has MTU 1500, the largest frame needs 4132: ip link set ep0 mtu 4132"):
        gpus(1, {0: "ep0"})
    ip("link set ep0 mtu 4132")
    gpus(1, {0: "ep0"})
    with pytest.raises(PortError, match="interface ep0 is in use by another endpoint"):
        gpus(2, {0: "ep0"})
    with pytest.raises(ConfigurationError, match="GPU id 3840 is out of range"):
        gpus(0xF00, {0: "ep1"})
    with pytest.raises(ConfigurationError, match=r"planes \[0, 256\] are out of range, 0 to 255"):
        gpus(3, {256: "ep1", 0: "ep0"})
    with pytest.raises(ConfigurationError, match="needs at least one port"):
        gpus(3, {})
    with pytest.raises(ConfigurationError, match="incarnation 65536 is out of range"):
        gpus(3, {0: "ep1"}, incarnation=65536)
    with pytest.raises(ConfigurationError, match="window = 1024 is out of range, 1 to 1023"):
        EndpointOptions(window=1024)


def test_failed_start_gives_ports_back(namespace: str, gpus: Maker) -> None:
    add_cable("ep0", "ep1")
    with pytest.raises(PortError):
        gpus(1, {0: "ep0", 1: "nothing0"})
    gpus(1, {0: "ep0"})


def test_removed_interface_neither_spins_nor_hangs(cable: tuple[str, str], gpus: Maker) -> None:
    a = gpus(1, {0: cable[0]}, options=EndpointOptions(timeout_s=0.3, linger_s=0))
    ip(f"link delete {cable[0]}")
    with pytest.raises(Unreachable):
        a.load(2, 0, 8)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


def test_slow_interface_makes_frames_wait(cable: tuple[str, str], gpus: Maker) -> None:
    """What the interface does not take at once waits in the port, in order, and is sent by and by."""
    shape(cable[0], "20mbit")
    slow = replace(PATIENT, window=1000)
    a, b = gpus(1, {0: cable[0]}, options=slow), gpus(2, {0: cable[1]}, options=slow)
    region = b.register(1 << 18)
    data = np.random.default_rng(1).integers(0, 256, 1 << 18, np.uint8)
    transfer = a.store_async(2, 0, data)
    assert a._ports[0].backlogged
    transfer.result()
    assert region.array.tobytes() == data.tobytes()
    counters = a.counters()
    assert counters["tx_frames"] == 1024
    assert "resent_requests" not in counters and "tx_dropped_backlog" not in counters
    assert not a._ports[0].backlogged
    # Responses wait as well: b loads from a.
    a.register(data)
    assert b.load(1, 0, 1 << 18) == data.tobytes()


def test_backlog_is_bounded(cable: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    counters: Counter[str] = Counter()
    port = Port(cable[0], 1 << 16, counters)
    shape(cable[0], "1mbit")
    for _ in range(6000):
        port.send(bytes(1000))
    assert port.backlogged
    assert counters["tx_dropped_backlog"] > 1000
    before = counters["tx_frames"]
    time.sleep(0.1)
    port.flush()
    assert counters["tx_frames"] > before
    ip(f"link set {cable[0]} down")
    port.flush()  # what cannot be sent any more is counted, not kept
    assert counters["tx_dropped_down"] > 1000
    assert not port.backlogged
    port.close()


def test_events_come_before_what_came_first(cable: tuple[str, str]) -> None:
    """Each frame comes once, whatever it is; a frame that is cut before it says what follows is no event."""
    near, far = (Port(iface, 1 << 20, Counter()) for iface in cable)
    data, cut = bytes((0x10, *bytes(15), 0x18, *bytes(30))), bytes((0x10, *bytes(13)))
    event = bytes((0x10, *bytes(15), 0x38, *bytes(30)))
    try:
        for frame in (data, cut, data, event, event):
            near.send(frame)
        got: list[bytes] = []
        deadline = time.monotonic() + 10
        while len(got) < 5 and time.monotonic() < deadline:
            frame_or_none = far.receive()
            if frame_or_none is not None:
                got.append(bytes(frame_or_none))
        assert got == [event, event, data, cut, data]
        assert far.receive() is None
    finally:
        near.close()
        far.close()
