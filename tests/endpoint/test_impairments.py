"""Impairments: what is valid, and what becomes of frames on a real cable."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from codec.constants import Kind, Next
from codec.frames import frame, oefh
from endpoint import ConfigurationError, EndpointOptions, Gpu, Impairment
from endpoint.impairments import ImpairedPort
from tests.endpoint.conftest import Wire, settle

Maker = Callable[..., Gpu]
Open = Callable[..., ImpairedPort]
DATA = frame(Kind.DATA, oefh(vc=0, dst=2, src=1, next=int(Next.LSU)) + bytes(range(40)))
CONTROL = frame(Kind.CF_UPDATE, bytes(30))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("drop=0.01", Impairment("drop", 0.01)),
        ("drop=1e-3,kind=data", Impairment("drop", 1e-3, kind="data")),
        ("corrupt=next:3,direction=both", Impairment("corrupt", count=3, direction="both")),
        ("delay=0.5,us=200,direction=rx,plane=1", Impairment("delay", 0.5, delay_us=200, direction="rx", plane=1)),
        ("kind=control,duplicate=1", Impairment("duplicate", 1.0, kind="control")),
    ],
)
def test_text(text: str, expected: Impairment) -> None:
    assert Impairment.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "impairment '': '' is none of drop=..., corrupt=..., duplicate=..., delay=..., kind=..., direction=..., "
             "us=..., plane=..."),
        ("lose=0.1", "impairment 'lose=0.1': 'lose=0.1' is none of drop=..."),
        ("kind=data", "impairment 'kind=data' does not say what goes wrong: drop, corrupt, duplicate, delay"),
        ("drop=0.1,delay=0.2", "impairment 'drop=0.1,delay=0.2': drop and delay; give each one of its own"),
        ("drop=often", "impairment 'drop=often': drop=often is neither a probability, as drop=0.01, nor a number of "
                       "frames, as drop=next:3"),
        ("drop=next:some", "impairment 'drop=next:some': drop=next:some needs a whole number"),
        ("drop=next:0", "impairment: give a probability above 0, or a count of at least 1, and not both"),
        ("drop=0", "impairment: give a probability above 0, or a count of at least 1, and not both"),
        ("drop=1.5", "impairment: probability 1.5 is out of range, 0 to 1"),
        ("drop=nan", "impairment: probability nan is out of range, 0 to 1"),
        ("drop=0.1,kind=ack", "impairment: kind = 'ack' is none of data, control, all"),
        ("drop=0.1,direction=up", "impairment: direction = 'up' is none of tx, rx, both"),
        ("delay=0.1,us=x", "impairment 'delay=0.1,us=x': us=x needs a whole number"),
        ("delay=0.1,us=0", "impairment: delay_us = 0 is out of range, 1 to 10000000"),
    ],
)  # fmt: skip
def test_wrong_text(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        Impairment.parse(text)
    assert str(error.value).startswith(message)


@pytest.fixture
def port(cable: tuple[str, str]) -> Iterator[Open]:
    """Return a maker of an impaired port on one end of the cable, which carries frames by then."""
    for iface in cable:
        state = ["ip", "-br", "link", "show", "dev", iface, "up"]
        assert settle(lambda state=state: " UP " in subprocess.check_output(state, text=True))  # type: ignore[misc]
    made: list[ImpairedPort] = []

    def make(*impairments: str) -> ImpairedPort:
        made.append(
            ImpairedPort(cable[0], 1 << 20, Counter(), 0, [Impairment.parse(text) for text in impairments], seed=1)
        )
        return made[-1]

    yield make
    for one in made:
        one.close()


def received(wire: Wire, seconds: float = 0.05) -> list[bytes]:
    frames = []
    wire.socket.settimeout(seconds)
    while True:
        try:
            frames.append(wire.socket.recv(9000))
        except TimeoutError:
            return frames


def taken(port: ImpairedPort, seconds: float = 0.05) -> list[bytes]:
    frames = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        one = port.receive()
        if one is not None:
            frames.append(bytes(one))
    return frames


def test_next_frames_of_a_kind(cable: tuple[str, str], port: Open) -> None:
    one, wire = port("drop=next:2,kind=data"), Wire(cable[1])
    for _ in range(3):
        one.send(DATA)
        one.send(CONTROL)
    assert received(wire) == [CONTROL, CONTROL, DATA, CONTROL]
    assert one.counters["impaired_tx_drop"] == 2


def test_probability(cable: tuple[str, str], port: Open) -> None:
    one, wire = port("drop=0.2,kind=control"), Wire(cable[1])
    for _ in range(100):
        one.send(CONTROL)
        one.send(DATA)
    frames = received(wire)
    assert frames.count(DATA) == 100
    assert 65 <= frames.count(CONTROL) <= 93
    assert one.counters["impaired_tx_drop"] == 100 - frames.count(CONTROL)


def test_corrupt_changes_one_bit_and_still_arrives(cable: tuple[str, str], port: Open) -> None:
    one, wire = port("corrupt=1"), Wire(cable[1])
    for _ in range(200):
        one.send(CONTROL)
    frames = received(wire)
    assert len(frames) == 200
    for changed in frames:
        bits = int.from_bytes(changed, "big") ^ int.from_bytes(CONTROL, "big")
        assert bits.bit_count() == 1
    assert len(set(frames)) > 50


def test_duplicate_and_delay(cable: tuple[str, str], port: Open) -> None:
    one, wire = port("delay=next:1,us=20000", "duplicate=next:1"), Wire(cable[1])
    started = time.monotonic()
    one.send(DATA)
    one.send(CONTROL)
    assert one.poll(started) <= started + 0.021
    assert received(wire, 0.001) == [CONTROL]
    time.sleep(0.021)
    one.poll(time.monotonic())
    assert received(wire) == [DATA, DATA]


def test_receptions(cable: tuple[str, str], port: Open) -> None:
    impairments = "drop=next:1,direction=rx", "duplicate=next:1,direction=rx", "delay=next:1,us=20000,direction=rx"
    one, wire = port(*impairments), Wire(cable[1])
    others = [frame(Kind.CF_UPDATE, bytes(29) + bytes([number])) for number in range(4)]
    for other in others:
        wire.send(other)
    assert taken(one, 0.01) == [others[2], others[3]]  # 0 is lost, 1 is late
    assert not one.has_arrivals
    time.sleep(0.02)
    assert one.has_arrivals
    assert taken(one) == [others[1], others[1]]
    wire.send(DATA)
    assert taken(one) == [DATA]


def test_other_planes_are_spared(cable: tuple[str, str], port: Open) -> None:
    one, wire = port("drop=1,plane=3"), Wire(cable[1])
    one.send(DATA)
    assert received(wire) == [DATA]


def test_the_same_seed_does_the_same(cable: tuple[str, str]) -> None:
    fates = []
    for seed in (1, 1, 2):
        one = ImpairedPort(cable[0], 1 << 20, Counter(), 0, [Impairment("drop", 0.5)], seed)
        wire = Wire(cable[1])
        for number in range(64):
            one.send(frame(Kind.CF_UPDATE, bytes(29) + bytes([number])))
        fates.append(received(wire))
        one.close()
        wire.socket.close()
    assert fates[0] == fates[1] != fates[2]


def test_late_frames_of_a_gpu_are_on_time(cable: tuple[str, str], gpus: Maker) -> None:
    """Nobody wakes the engine for them: neither those that a caller sends late nor those that come late."""
    late = Impairment("delay", 1.0, direction="both", delay_us=3000)
    a = gpus(1, {0: cable[0]}, options=EndpointOptions(timeout_s=5, linger_s=0, impairments=(late,)))
    b = gpus(2, {0: cable[1]})
    b.register(8)
    started = time.monotonic()
    for _ in range(20):
        a.load(2, 0, 8)
    assert time.monotonic() - started >= 20 * 0.006
    assert a.counters()["impaired_tx_delay"] == a.counters()["impaired_rx_delay"] == 20
    assert "resent_requests" not in a.counters()


def test_off_unless_asked_for(cable: tuple[str, str], gpus: Maker) -> None:
    a = gpus(1, {0: cable[0]})
    assert not isinstance(a._ports[0], ImpairedPort)
    with pytest.raises(ConfigurationError, match="make the GPU with EndpointOptions\\(impairments=\\(\\)\\)"):
        a.impair(Impairment("drop", 0.1))


def test_unknown_plane(cable: tuple[str, str], gpus: Maker) -> None:
    nowhere = Impairment("drop", 0.1, plane=3)
    with pytest.raises(ConfigurationError, match="impairment: plane 3 is none of 0"):
        gpus(1, {0: cable[0]}, options=EndpointOptions(impairments=(nowhere,)))
    a = gpus(1, {0: cable[0]}, options=EndpointOptions(impairments=()))
    with pytest.raises(ConfigurationError, match="impairment: plane 3 is none of 0"):
        a.impair(nowhere)
