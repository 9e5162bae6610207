"""The switch on real interfaces: packet I/O, queues, link state, ticks, packet-in and -out, captures, reloading."""

from __future__ import annotations

import itertools
import os
import queue
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from p4switch.dataplane import (
    INSERT,
    DataPlane,
    EntryExists,
    EntryMissing,
    FieldMatch,
    InvalidArgument,
    PortStatus,
    SwitchOptions,
    SystemFailure,
    TableEntry,
    WrongState,
)

from .conftest import (
    AGAIN,
    ALWAYS,
    CLONE,
    CPU,
    DIGEST,
    DROP,
    DROP_ACTION,
    EVENT,
    EXACT_WIDE,
    MULTICAST,
    TABLE,
    TRUNCATE,
    Seen,
    frame,
)
from .wires import FarEnd, cable, ip, own_namespace

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
PASSES = 0x16000001


@pytest.fixture
def wires() -> Iterator[tuple[FarEnd, FarEnd]]:
    """Two cables; the switch's ends are rt-p1 and rt-p2."""
    with own_namespace():
        cable("rt-p1", "rt-h1")
        cable("rt-p2", "rt-h2")
        ends = FarEnd("rt-h1"), FarEnd("rt-h2")
        yield ends
        for end in ends:
            end.close()


@pytest.fixture
def running(wires: tuple[FarEnd, FarEnd], verbs: Path) -> Iterator[DataPlane]:
    """A running switch with ports 1 and 2 on the cables."""
    # Rings that a machine busy with other tests does not make overflow.
    with DataPlane(SwitchOptions(cpu_port=CPU, packets=4096, ring_frames=4096)) as dataplane:
        dataplane.load(verbs)
        dataplane.add_port(1, "rt-p1")
        dataplane.add_port(2, "rt-p2")
        dataplane.start()
        yield dataplane


def port(switch: DataPlane, number: int) -> PortStatus:
    return next(status for status in switch.ports() if status.port == number)


def eventually(condition: Callable[[], bool], timeout_s: float = 3.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def test_forwards_frames_of_every_length(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    one, two = wires
    lengths = [16, 17, 60, 64, 65, 1500, 4000, 4146]
    for length in lengths:
        one.send(frame(payload=bytes(i & 0xFF for i in range(length - 16))))
    for length in lengths:
        data = two.receive()
        assert data is not None and len(data) == length
        seen = Seen.of((2, data))
        assert seen.payload == bytes(i & 0xFF for i in range(length - 16))
        assert (seen.length, seen.ingress_port, seen.egress_passes) == (length, 1, 1)
    one.send(b"short frame 15b")  # a parser error: leaves as it came
    assert two.receive() == b"short frame 15b"
    two.send(frame(port=1))
    assert one.receive() is not None
    status = port(running, 1)
    assert (status.rx_packets, status.tx_packets, status.iface, status.up) == (len(lengths) + 1, 1, "rt-p1", True)
    assert status.rx_bytes == sum(lengths) + 15
    assert port(running, 2).tx_bytes == status.rx_bytes


def test_a_vlan_tag_is_put_back(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    one, two = wires
    tagged = bytearray(frame(payload=b"behind the tag"))
    tagged[12:16] = bytes.fromhex("8100 6100")
    one.send(bytes(tagged))
    data = two.receive()
    assert data is not None
    seen = Seen.of((2, data))
    assert seen.length == len(tagged) and seen.payload == b"behind the tag"


def test_copies_on_the_wire(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    one, two = wires
    running.set_multicast_group(3, [(1, 7), (2, 8)])
    running.set_clone_session(3, [(1, 9)])
    one.send(frame(MULTICAST | CLONE, args=(3, 3), payload=b"copies"))
    at_one = [Seen.of((1, data)) for _, data in one.receive_all(2)]
    assert sorted((s.instance, s.rid, s.payload) for s in at_one) == [(1, 9, b"copies"), (5, 7, b"copies")]
    data = two.receive()
    assert data is not None and Seen.of((2, data)).rid == 8
    one.send(frame(AGAIN, AGAIN, payload=b"round"))
    data = two.receive()
    assert data is not None and Seen.of((2, data)).payload == b"round"


def test_wire_and_injection_agree(verbs: Path) -> None:
    """In place in a receive ring, or copied: the same frames come out."""
    rng = random.Random(3)
    ports = range(1, 6)
    outputs = 0
    with own_namespace(), DataPlane(SwitchOptions(packets=512)) as switch:
        for number in ports:
            cable(f"rt-p{number}", f"rt-h{number}")
        ends = {number: FarEnd(f"rt-h{number}") for number in ports}
        switch.load(verbs)
        switch.set_multicast_group(1, [(1, 5), (2, 6), (2, 7)])
        switch.set_multicast_group(2, [(3, 0)])
        switch.set_clone_session(1, [(4, 0)])
        switch.set_clone_session(2, [(5, 1), (3, 2)], truncate=20)
        for number in ports:
            switch.add_port(number, f"rt-p{number}")
        switch.start()
        for _ in range(400):
            ingress, egress = (rng.getrandbits(8) & rng.getrandbits(8) & ~(ALWAYS | DIGEST | TABLE) for _ in range(2))
            data = frame(
                ingress,
                egress,
                args=(rng.choice((1, 2, 3, 24)), rng.randrange(4)),
                port=rng.choice((1, 2, 3, 77)),
                payload=rng.randbytes(rng.choice((0, 1, 30, 1400, 4000))),
            )
            port_in = rng.choice(ports)
            expected = sorted((to, out) for to, out in switch.inject(port_in, data) if to in ports and len(out) >= 14)
            ends[port_in].send(data)
            received = sorted((to, ends[to].receive() or b"") for to, _ in expected)
            assert received == expected, data[:16].hex()
            assert not any(end.receive(0.0) for end in ends.values()), data[:16].hex()
            outputs += len(expected)
        for end in ends.values():
            end.close()
    assert outputs > 250


def test_more_than_a_burst_and_in_order(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    one, two = wires
    for i in range(1000):
        one.send(frame(payload=i.to_bytes(4, "big")))
    got = [int.from_bytes(data[16:20], "big") for _, data in two.receive_all(1000)]
    assert got == list(range(1000))


def test_queue_rate_and_depth(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    one, two = wires
    running.set_queue(2, depth=100, rate_pps=1000)
    for i in range(300):
        one.send(frame(payload=i.to_bytes(4, "big")))
    got = two.receive_all(300, timeout_s=0.3)
    span = got[-1][0] - got[0][0]
    assert 0.5 < (len(got) - 1) / span / 1000 < 1.05  # a loaded machine may hold the switch up
    lost = port(running, 2).drops["queue_full"]
    assert len(got) + lost == 300 and lost > 100
    assert [int.from_bytes(data[16:20], "big") for _, data in got[:100]] == list(range(100))
    running.set_queue(2, depth=1000, rate_pps=0, rate_bps=8_000_000)
    for _ in range(100):
        one.send(frame(payload=bytes(984)))  # 1 ms each
    got = two.receive_all(100, timeout_s=0.3)
    assert len(got) == 100
    assert 0.094 < got[-1][0] - got[0][0] < 0.200


def test_paced_frames_are_spaced(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    one, two = wires
    running.set_queue(2, rate_pps=500)
    for _ in range(20):
        one.send(frame())
    times = [at for at, _ in two.receive_all(20)]
    gaps = sorted(b - a for a, b in itertools.pairwise(times))
    assert 0.0015 < gaps[len(gaps) // 2] < 0.0025


@pytest.mark.parametrize(
    "options", [SwitchOptions(busy_poll=True), SwitchOptions(qdisc_bypass=True)], ids=("poll", "bypass")
)
def test_options_for_speed(wires: tuple[FarEnd, FarEnd], verbs: Path, options: SwitchOptions) -> None:
    one, two = wires
    with DataPlane(options) as switch:
        switch.load(verbs)
        switch.add_port(1, "rt-p1")
        switch.add_port(2, "rt-p2")
        switch.start()
        for i in range(200):
            one.send(frame(payload=bytes([i])))
        assert [data[16] for _, data in two.receive_all(200)] == list(range(200))
        assert switch.register_read(PASSES, 1) == 200  # a busy switch still lets the control plane in


def test_priorities(wires: tuple[FarEnd, FarEnd], verbs: Path) -> None:
    one, two = wires
    with DataPlane(SwitchOptions(priorities=2, packets=1024)) as switch:
        switch.load(verbs)
        switch.add_port(1, "rt-p1")
        switch.add_port(2, "rt-p2", rate_pps=500)
        switch.start()
        for i in range(10):
            one.send(frame(payload=bytes([i])))
        for i in range(10, 15):
            one.send(frame(payload=bytes([i]), priority=1))
        one.send(frame(priority=2))  # there is no such queue
        got = [data[16] for _, data in two.receive_all(15)]
        assert sorted(got) == list(range(15))
        assert got.index(14) < got.index(9)  # what outranks passes what waits
        assert got.index(14) < 12
        assert eventually(lambda: port(switch, 2).drops["priority"] == 1)


def test_a_loop_inside_the_switch_does_not_stop_traffic(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    one, two = wires
    running.set_clone_session(4, [(509, 0)])
    one.send(frame(0, CLONE | ALWAYS | DROP, args=(0, 4), port=509))  # goes round in egress, unpaced, for ever
    one.send(frame(0, AGAIN | ALWAYS, port=508))  # and this one through ingress
    for _ in range(100):
        one.send(frame())
    assert len(two.receive_all(100)) == 100
    rounds = running.register_read(PASSES, 1)
    assert eventually(lambda: running.register_read(PASSES, 1) > rounds + 1000)


def test_unbound_ports_discard(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    wires[0].send(frame(port=77))
    assert eventually(lambda: any(s.port == 77 and s.drops["unbound"] == 1 for s in running.ports()))


def test_frames_that_cannot_be_sent_are_counted(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    one, two = wires
    one.send(frame(TRUNCATE, args=(5, 0)))  # a veth takes nothing below 14 bytes
    one.send(frame())
    assert two.receive() is not None
    assert port(running, 2).drops["tx_error"] == 1
    ip("link", "set", "rt-p2", "down")
    one.send(frame())
    assert eventually(lambda: port(running, 2).drops["tx_error"] == 2)
    ip("link", "set", "rt-p2", "up")
    assert eventually(lambda: port(running, 2).up)
    one.send(frame())
    assert two.receive() is not None


def test_packet_in_and_out(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    one, two = wires
    received: queue.Queue[bytes] = queue.Queue()
    running.on_packet_in = received.put
    data = frame(port=CPU, payload=b"to the controller")
    one.send(data)
    assert received.get(timeout=2)[16:] == b"to the controller"
    for i in range(200):
        one.send(frame(port=CPU, payload=bytes([i])))
    assert [received.get(timeout=2)[16] for _ in range(200)] == list(range(200))
    running.packet_out(frame(payload=b"from the controller"))
    out = two.receive()
    assert out is not None
    assert Seen.of((2, out)).ingress_port == CPU and out[16:] == b"from the controller"


def test_digest(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    received: queue.Queue[tuple[int, list[tuple[int, ...]]]] = queue.Queue()
    running.on_digest = lambda number, messages: received.put((number, messages))
    wires[0].send(frame(DIGEST | DROP, args=(42, 0)))  # also of a dropped packet
    assert received.get(timeout=2) == (0x17000001, [(42, 0x99 << 64 | 0x1122334455667788)])


@pytest.mark.parametrize("busy", [False, True])
def test_port_status_and_ticks_enter_the_program(wires: tuple[FarEnd, FarEnd], verbs: Path, busy: bool) -> None:
    events: queue.Queue[bytes] = queue.Queue()

    def next_status() -> tuple[int, ...]:
        while (event := events.get(timeout=2))[12] != 1:
            pass
        return tuple(event[12:])

    options = SwitchOptions(cpu_port=CPU, event_port=EVENT, tick_us=1000, packets=1024, busy_poll=busy)
    with DataPlane(options) as switch:
        switch.on_packet_in = events.put  # verbs.c sends what the event port brings to the CPU port
        switch.load(verbs)
        switch.add_port(1, "rt-p1")
        switch.add_port(3, "rt-p2")
        switch.start()
        assert sorted((next_status(), next_status())) == [(1, 1, 0, 1), (1, 1, 0, 3)]
        ip("link", "set", "rt-h1", "down")
        assert next_status() == (1, 0, 0, 1)
        ip("link", "set", "rt-h1", "up")
        assert next_status() == (1, 1, 0, 1)
        while not events.empty():
            events.get()
        start = time.monotonic()
        while events.qsize() < 100:
            time.sleep(0.001)
        assert time.monotonic() - start > 0.08
        event = events.get()
        assert event == bytes(12) + b"\x02\0\0\0"
        switch.load(verbs)
        assert sorted((next_status(), next_status())) == [(1, 1, 0, 1), (1, 1, 0, 3)]  # a new program learns the states


def test_an_interface_that_goes_and_comes_back(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    one = wires[0]
    ip("link", "del", "rt-p2")
    assert eventually(lambda: not port(running, 2).up)
    one.send(frame())
    assert eventually(lambda: port(running, 2).drops["tx_error"] == 1)
    cable("rt-p2", "rt-h2")
    again = FarEnd("rt-h2")
    assert eventually(lambda: port(running, 2).up)
    one.send(frame(payload=b"back"))
    data = again.receive()
    assert data is not None and data[16:] == b"back"
    again.send(frame(port=1))
    assert one.receive() is not None
    again.close()


def test_a_port_follows_a_growing_mtu(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    one, two = wires
    for end in ("rt-p1", "rt-h1", "rt-p2", "rt-h2"):
        ip("link", "set", end, "mtu", "9000")
    long = frame(payload=bytes(8000))
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:  # until the ring has been replaced
        one.send(long)
        if (data := two.receive(0.05)) is not None:
            break
    assert data is not None and len(data) == len(long)
    assert port(running, 1).up and port(running, 2).up


def test_ports_come_and_go_while_running(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    one, two = wires
    with pytest.raises(EntryExists, match="rt-p2 is port 2 already"):
        running.add_port(3, "rt-p2")
    with pytest.raises(EntryExists, match="port 2 is bound to rt-p2"):
        running.add_port(2, "rt-h2")
    with pytest.raises(EntryMissing, match="no interface nowhere"):
        running.add_port(4, "nowhere")
    with pytest.raises(InvalidArgument, match="not the drop, CPU or event port"):
        running.add_port(CPU, "rt-h2")
    running.remove_port(2)
    with pytest.raises(EntryMissing, match="port 2 is not bound"):
        running.remove_port(2)
    running.add_port(5, "rt-p2")
    one.send(frame(port=5))
    assert two.receive() is not None


def test_a_capture_on_a_full_disk_ends_and_traffic_goes_on(
    wires: tuple[FarEnd, FarEnd], verbs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    one, two = wires
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "rt-full", tmp_path], check=True)
    try:
        with DataPlane(SwitchOptions(pcap_dir=tmp_path)) as switch:
            switch.load(verbs)
            switch.add_port(1, "rt-p1")
            switch.add_port(2, "rt-p2")
            switch.start()
            for _ in range(200):
                one.send(frame(payload=bytes(984)))
            assert len(two.receive_all(200)) == 200
            with pytest.raises(SystemFailure, match=r"port3_in\.pcap: No space left"):
                switch.add_port(3, "rt-h1")
        assert "port1_in.pcap ends here: No space left on device" in capfd.readouterr().err
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_stopped_switch_can_start_again(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    one, two = wires
    with pytest.raises(WrongState, match="runs already"):
        running.start()
    entry = TableEntry(EXACT_WIDE, (FieldMatch(1), FieldMatch(2)), 0, DROP_ACTION)
    running.table_insert(entry)
    running.stop()
    running.stop()
    one.send(frame(payload=b"lost"))
    assert two.receive(0.1) is None
    assert running.table_entries(EXACT_WIDE) == [entry]
    running.add_port(1, "rt-p1")
    running.add_port(2, "rt-p2")
    running.start()
    one.send(frame(payload=b"carried"))
    data = two.receive()
    assert data is not None and data[16:] == b"carried"


def test_captures(wires: tuple[FarEnd, FarEnd], verbs: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="is no directory"):
        DataPlane(SwitchOptions(pcap_dir=tmp_path / "none"))
    with DataPlane(SwitchOptions(pcap_dir=tmp_path)) as switch:
        switch.load(verbs)
        switch.add_port(1, "rt-p1")
        switch.add_port(2, "rt-p2")
        switch.start()
        sent = frame(payload=b"captured")
        wires[0].send(sent)
        out = wires[1].receive()
    received, transmitted = ((tmp_path / name).read_bytes() for name in ("port1_in.pcap", "port2_out.pcap"))
    assert received[:4] == bytes.fromhex("4d3cb2a1")  # nanoseconds, little-endian
    assert received[24 + 16 :] == sent
    assert transmitted[24 + 16 :] == out


class Flood:
    """Keep sending frames until stopped."""

    def __init__(self, end: FarEnd) -> None:
        self.sent = 0
        self._end = end
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for _ in range(16):
                self._end.send(frame(payload=self.sent.to_bytes(4, "big")))
                self.sent += 1
            time.sleep(0.001)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def test_packets_come_before_the_control_plane(running: DataPlane) -> None:
    names = {int(task.name): (task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()}
    niceness = {name: os.getpriority(os.PRIO_PROCESS, task) for task, name in names.items()}
    assert niceness["p4switch"] == os.getpriority(os.PRIO_PROCESS, 0) - 5, niceness


def test_ten_thousand_inserts_lose_no_frame(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    one, two = wires
    flood = Flood(one)
    keys = ((FieldMatch(i & 0xFFF), FieldMatch(i << 90)) for i in range(10_000))
    errors = running.apply([(INSERT, TableEntry(EXACT_WIDE, key, 0, DROP_ACTION)) for key in keys])
    flood.stop()
    assert not any(errors)
    got = [int.from_bytes(data[16:20], "big") for _, data in two.receive_all(flood.sent, timeout_s=1)]
    assert got == list(range(flood.sent))


def test_programs_are_replaced_under_traffic(wires: tuple[FarEnd, FarEnd], running: DataPlane, verbs: Path) -> None:
    one, two = wires
    running.set_queue(2, rate_pps=20000)  # so that packets wait inside
    flood = Flood(one)
    for _ in range(10):
        running.load(verbs)
        running.table_insert(TableEntry(EXACT_WIDE, (FieldMatch(1), FieldMatch(2)), 0, DROP_ACTION))
        time.sleep(0.02)
    flood.stop()
    assert len(running.table_entries(EXACT_WIDE)) == 1
    got = [int.from_bytes(data[16:20], "big") for _, data in two.receive_all(flood.sent, timeout_s=0.3)]
    assert len(got) > flood.sent / 2 and got == sorted(set(got))
    assert running.register_read(PASSES, 1) < flood.sent  # registers started anew
    with pytest.raises(InvalidArgument, match="cannot load the program"):
        running.load(Path("/nonexistent.so"))
    one.send(frame(payload=b"still"))
    assert two.receive_all(1)[-1][1][16:] == b"still"


def test_what_waits_leaves_before_a_new_program_comes(
    wires: tuple[FarEnd, FarEnd], running: DataPlane, verbs: Path
) -> None:
    one, two = wires
    running.set_queue(2, rate_pps=1)
    for i in range(200):
        one.send(frame(payload=i.to_bytes(4, "big")))
    assert eventually(lambda: port(running, 2).waiting >= 198)
    running.load(verbs)
    got = two.receive_all(200, timeout_s=0.5)
    assert [int.from_bytes(data[16:20], "big") for _, data in got] == list(range(200))
    assert port(running, 2).waiting == 0
    assert not any(sum(status.drops.values()) for status in running.ports())


def test_what_goes_round_inside_ends_with_its_program(
    wires: tuple[FarEnd, FarEnd], running: DataPlane, verbs: Path
) -> None:
    one, _ = wires
    running.set_clone_session(4, [(509, 0)])
    one.send(frame(0, CLONE | ALWAYS | DROP, args=(0, 4), port=509))
    one.send(frame(0, AGAIN | ALWAYS, port=508))
    assert eventually(lambda: running.register_read(PASSES, 1) > 1000)
    running.load(verbs)
    assert eventually(lambda: sum(status.drops["given_up"] for status in running.ports()) == 2)
    passes = running.register_read(PASSES, 1)
    time.sleep(0.05)
    assert running.register_read(PASSES, 1) == passes


def test_control_calls_from_many_threads(wires: tuple[FarEnd, FarEnd], running: DataPlane) -> None:
    flood = Flood(wires[0])
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for i in range(150):
                key = FieldMatch(number), FieldMatch(i)
                running.table_insert(TableEntry(EXACT_WIDE, key, 0, DROP_ACTION))
                running.register_write(PASSES, 300 + number, i)
                assert running.register_read(PASSES, 300 + number) == i
                running.set_multicast_group(1 + number, [(1, i), (2, i)])
                if i % 3 == 0:
                    running.table_delete(TableEntry(EXACT_WIDE, key))
                running.ports()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    flood.stop()
    assert not failures
    assert len(running.table_entries(EXACT_WIDE)) == 400
