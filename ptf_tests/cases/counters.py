"""Counters: packets and bytes of every port, exactly."""

from ptf_tests.base import CPU_PORT, DROP_REASONS, PORTS, Count, EthlinkTest
from ptf_tests.frames import SIZES, probe, store, write


class PortCounters(EthlinkTest):
    """What comes in and goes out counts once, with the bytes of the frame."""

    def runTest(self) -> None:
        rx, tx = self.traffic("port_rx"), self.traffic("port_tx")
        frames = [write(1, 2, size) for size in SIZES]
        self.expect_all_forwarded(1, [(frame, 2) for frame in frames])
        total = Count(len(frames), sum(len(bytes(frame)) for frame in frames))
        self.assertEqual(self.new(rx, "port_rx"), {1: total})
        self.assertEqual(self.new(tx, "port_tx"), {2: total})

    def new(self, before: dict[int, Count], counter: str) -> dict[int, Count]:
        """Return what a port counter counted since `before`, zeros left out."""
        now = self.traffic(counter)
        return {port: now[port] - before[port] for port in PORTS if now[port] != before[port]}


class DroppedFramesAreReceived(EthlinkTest):
    """A dropped frame counts as received, under its reason, and as sent nowhere."""

    def runTest(self) -> None:
        rx, tx, drops = self.traffic("port_rx"), self.traffic("port_tx"), self.drops()
        frame = store(1, 0xABC)
        for _ in range(50):
            self.send(1, frame)
        self.wait_for_drops(drops, {("no_route", 1): 50})
        self.assertEqual(self.traffic("port_rx")[1] - rx[1], Count(50, 50 * len(bytes(frame))))
        self.assertEqual(self.traffic("port_tx"), tx)


class EachPortApart(EthlinkTest):
    """Each port counts its own drops."""

    def runTest(self) -> None:
        before = self.drops()
        for port in PORTS:
            for _ in range(port):
                self.send(port, bytes(20))
        self.wait_for_drops(before, {("bad_crc", port): port for port in PORTS})


class EveryReasonHasACounter(EthlinkTest):
    """The program has a counter of its own for each reason in constants.p4, and no two share a number."""

    def runTest(self) -> None:
        self.assertEqual(len(set(DROP_REASONS.values())), len(DROP_REASONS))
        self.assertLessEqual(DROP_REASONS.keys(), self.switch.names.aliases("counters"))


class CpuPort(EthlinkTest):
    """Packet-outs and packet-ins count on the CPU port."""

    def runTest(self) -> None:
        cells = [("port_rx", CPU_PORT), ("port_tx", CPU_PORT)]
        before = self.switch.counts(cells)
        self.switch.packet_out(bytes(store(1, 2)), egress_port=2)
        self.receive(2)
        self.send(1, probe(1, 0xF01))
        self.expect_packet_in(probe(1, 0xF01), ingress_port=1, reason=127)
        now = self.switch.counts(cells)
        self.assertEqual({cell: (now[cell] - before[cell]).packets for cell in cells}, dict.fromkeys(cells, 1))
