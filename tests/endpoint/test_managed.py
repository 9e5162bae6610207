"""Managed links on a real veth pair: bring-up, credits, a restarted end, a bad cable."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from codec.constants import MAX_FRAME, VC_COUNT, Kind
from codec.control import LinkInit, credit_update_body, link_init_body, parse_link_init
from codec.frames import frame, parse_link
from codec.layouts import LINK, session_of
from codec.profile import LinkProfile
from endpoint import ClosedError, Gpu
from tests.endpoint.conftest import FAST, Wire, settle

Maker = Callable[..., Gpu]
EPOCH = 0x12345678
MANAGED = {0: LinkProfile()}


@pytest.fixture
def pair(cable: tuple[str, str], gpus: Maker) -> tuple[Gpu, Gpu]:
    return gpus(1, {0: cable[0]}, peers=[2], managed=MANAGED), gpus(2, {0: cable[1]}, peers=[1], managed=MANAGED)


def test_every_byte_is_right_and_every_credit_comes_back(pair: tuple[Gpu, Gpu]) -> None:
    a, b = pair
    region = b.register(1 << 16)
    data = np.random.default_rng(3).integers(0, 256, 1 << 16, np.uint8)
    a.store(2, 0, data)
    assert region.array.tobytes() == data.tobytes()
    assert a.load(2, 0, 1 << 16) == data.tobytes()
    for gpu in pair:
        link = gpu._links[0]
        assert settle(lambda link=link: all(s.used == 0 for s in link.senders))  # type: ignore[misc]
        assert all(receiver.used == 0 for receiver in link.receivers)  # type: ignore[attr-defined]
        assert gpu.port_counters()[0].get("drop_over_limit", 0) == 0
    assert a._links[0].senders[0].consumed == b._links[0].receivers[0].consumed > 500  # type: ignore[attr-defined]
    assert a._links[0].senders[0].used_watermark <= max(MANAGED[0].limits())  # type: ignore[attr-defined]


def test_an_end_that_restarts(cable: tuple[str, str], gpus: Maker) -> None:
    a = gpus(1, {0: cable[0]}, managed=MANAGED)
    b = gpus(2, {0: cable[1]}, managed=MANAGED)
    b.register(64)
    a.store(2, 0, b"one")
    b.close()
    b = gpus(2, {0: cable[1]}, managed=MANAGED, incarnation=2)
    region = b.register(64)
    a.store(2, 0, b"two")
    assert region.array[:3].tobytes() == b"two"
    assert a.port_counters()[0]["link_ups"] >= 2


class Peer:
    """A switch's end of the link, played by the test frame by frame."""

    def __init__(self, iface: str, limit: int = 64) -> None:
        self.wire = Wire(iface)
        self.limit = limit
        self.gpu_epoch = 0

    @property
    def session(self) -> int:
        return session_of(EPOCH, self.gpu_epoch)

    def receive(self, *kinds: Kind, timeout_s: float = 1.0) -> tuple[Kind, bytes]:
        """Return the next frame of one of the kinds, and its body; of another kind is passed over."""
        deadline = time.monotonic() + timeout_s
        while True:
            self.wire.socket.settimeout(max(0.001, deadline - time.monotonic()))
            data = self.wire.socket.recv(9000)
            header = parse_link(memoryview(data))
            if header.kind in kinds:
                return Kind(header.kind), data[LINK.size :]

    def send_init(self, kind: Kind, peer_epoch: int, own_epoch: int = EPOCH, in_use: int = 0) -> None:
        limits = tuple(self.limit if vc < 2 else 0 for vc in range(VC_COUNT))
        used = tuple(in_use if vc < 2 else 0 for vc in range(VC_COUNT))
        init = LinkInit(2, own_epoch, peer_epoch, 10, 0, MAX_FRAME, 3, 0, limits, used)
        self.wire.send(frame(kind, link_init_body(init)))

    def come_up(self) -> None:
        _, body = self.receive(Kind.LLR_INIT)
        self.gpu_epoch = parse_link_init(body).own_epoch
        self.send_init(Kind.LLR_INIT, self.gpu_epoch)
        _, body = self.receive(Kind.LLR_INIT_ECHO)
        assert parse_link_init(body).peer_epoch == EPOCH

    def freed(self, vc0: int, vc1: int = 0) -> None:
        body = credit_update_body((vc0, vc1, 0, 0, 0, 0, 0, 0))
        self.wire.send(frame(Kind.CF_UPDATE, body, session=self.session))

    def count_data(self, seconds: float, keep_alive: int | None = None) -> int:
        """Return how many DATA frames come in that time, keeping the link alive meanwhile."""
        count, end, beat = 0, time.monotonic() + seconds, 0.0
        while (now := time.monotonic()) < end:
            if keep_alive is not None and now > beat:
                self.freed(keep_alive)
                beat = now + 0.01
            try:
                self.receive(Kind.DATA, timeout_s=0.005)
                count += 1
            except TimeoutError:
                pass
        return count


@pytest.fixture
def peer(cable: tuple[str, str], gpus: Maker) -> tuple[Peer, Gpu]:
    options = replace(FAST, window=512, first_rto_s=5.0, max_rto_s=5.0, timeout_s=10.0)
    peer = Peer(cable[1])
    return peer, gpus(1, {0: cable[0]}, peers=[2, 3, 4, 5, 6], managed=MANAGED, options=options)


def test_sends_only_within_credit(peer: tuple[Peer, Gpu]) -> None:
    switch, gpu = peer
    switch.come_up()
    switch.freed(0)
    assert settle(lambda: gpu._links[0].is_up)
    for dst in range(2, 7):  # each may have a quarter of 64 in flight
        for i in range(16):
            gpu.store_async(dst, i, b"x")
    assert switch.count_data(0.3, keep_alive=0) == 64
    assert switch.count_data(0.2, keep_alive=10) == 10
    assert switch.count_data(0.2, keep_alive=16) == 6
    assert gpu.port_counters()[0]["frames_held"] >= 16


def test_one_destination_has_a_quarter(peer: tuple[Peer, Gpu]) -> None:
    switch, gpu = peer
    switch.come_up()
    switch.freed(0)
    assert settle(lambda: gpu._links[0].is_up)
    time.sleep(0.05)  # the cap follows the link within a keepalive

    def store() -> None:
        with pytest.raises(ClosedError):
            gpu.store(2, 0, bytes(256 * 40))

    thread = threading.Thread(target=store, daemon=True)
    thread.start()
    assert switch.count_data(0.3, keep_alive=0) == 16
    gpu.close()
    thread.join(5)
    assert not thread.is_alive()


def test_no_data_before_the_first_credit_update(peer: tuple[Peer, Gpu]) -> None:
    switch, gpu = peer
    gpu.store_async(2, 0, b"x")
    switch.come_up()
    assert switch.count_data(0.05) == 0
    assert switch.count_data(0.05, keep_alive=0) == 1


def test_credits_in_use_at_bring_up_are_not_available(peer: tuple[Peer, Gpu]) -> None:
    switch, gpu = peer
    _, body = switch.receive(Kind.LLR_INIT)
    switch.gpu_epoch = parse_link_init(body).own_epoch
    switch.send_init(Kind.LLR_INIT, switch.gpu_epoch, in_use=60)
    for dst in range(2, 7):
        gpu.store_async(dst, 0, b"x")
    assert switch.count_data(0.1, keep_alive=0) == 4
    assert switch.count_data(0.1, keep_alive=1) == 1


def test_announces_what_its_buffer_takes(peer: tuple[Peer, Gpu]) -> None:
    switch, _ = peer
    init = parse_link_init(switch.receive(Kind.LLR_INIT)[1])
    assert (init.credit_limit[:3], init.lossless_vcs, init.capabilities) == ((128, 128, 0), 3, 2)
    assert init.credits_in_use == (0,) * VC_COUNT
    assert init.own_epoch and not init.peer_epoch


def test_silence_is_noticed(peer: tuple[Peer, Gpu]) -> None:
    switch, gpu = peer
    switch.come_up()
    switch.freed(0)
    first = switch.gpu_epoch
    _, body = switch.receive(Kind.LLR_INIT, timeout_s=1.0)
    assert parse_link_init(body).own_epoch != first
    assert gpu.port_counters()[0]["silences"] == 1


def test_keepalives_and_reconciliation(peer: tuple[Peer, Gpu]) -> None:
    switch, gpu = peer
    switch.come_up()
    switch.freed(0)
    assert settle(lambda: gpu._links[0].is_up)
    gpu.store_async(2, 0, b"x")
    switch.receive(Kind.DATA)
    seen = {Kind.CF_UPDATE: 0, Kind.CC_UPDATE: 0}
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        switch.freed(0)
        kind, body = switch.receive(Kind.CF_UPDATE, Kind.CC_UPDATE)
        seen[kind] += 1
        if kind is Kind.CC_UPDATE:
            assert int.from_bytes(body[6:9], "big") == 1  # what was sent and is not known to be freed
    assert seen[Kind.CF_UPDATE] >= 10
    assert seen[Kind.CC_UPDATE] >= 10
    switch.freed(1)
    time.sleep(0.03)
    while switch.count_data(0.01, keep_alive=1):
        pass
    switch.wire.socket.setblocking(False)
    try:
        while True:
            switch.wire.socket.recv(9000)
    except BlockingIOError:
        pass
    switch.wire.socket.setblocking(True)
    switch.freed(1)
    with pytest.raises(TimeoutError):
        switch.receive(Kind.CC_UPDATE, timeout_s=0.05)  # nothing is in use: nothing to reconcile
    lost = credit_update_body((7, 0, 0, 0, 0, 0, 0, 0))
    switch.wire.send(frame(Kind.CC_UPDATE, lost, session=switch.session))
    switch.freed(1)
    deadline = time.monotonic() + 1
    while True:
        _, body = switch.receive(Kind.CF_UPDATE)
        if int.from_bytes(body[6:9], "big") == 7:
            break
        assert time.monotonic() < deadline
