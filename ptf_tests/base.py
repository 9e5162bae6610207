"""The ground that every packet test stands on: a small fabric in the switch's tables, exact expectations, clean-up.

The switch has eight ports. GPUs 1, 2 and 3 of tenant 1 sit on ports 1 to 3, GPU 4 of tenant 2 on port 4; ports 5 to 8
lead to another switch, behind which GPUs 101 to 116 of tenant 1 (over all four ports, as a group) and 201 of tenant 2
are.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import ptf
from ptf.base_tests import BaseTest
from ptf.testutils import send_packet, test_params_get
from scapy.packet import Packet

from codec.scapy_layers import Link
from ptf_tests.frames import forwarded, probe
from ptf_tests.p4runtime import Count, Names, P4RuntimeClient, PacketIn

CONSTANTS: Final = Path(__file__).resolve().parent.parent / "p4src" / "constants.p4"

MODE_OPEN: Final = 0
MODE_MANAGED: Final = 1
ROLE_ENDPOINT: Final = 1
ROLE_FABRIC: Final = 2
EVENT_PORT: Final = 507
CPU_PORT: Final = 510

TENANT: Final = 1
OTHER_TENANT: Final = 2
ENDPOINTS: Final = {1: TENANT, 2: TENANT, 3: TENANT, 4: OTHER_TENANT}
"""Tenant of the GPU on each endpoint port; a GPU's id is its port's number."""
UPLINKS: Final = (5, 6, 7, 8)
PORTS: Final = (*ENDPOINTS, *UPLINKS)
REMOTE: Final = range(101, 117)
REMOTE_OTHER_TENANT: Final = 201
GROUP: Final = 1
GROUP_MOST: Final = 16
"""Slots of a group."""
NOBODY: Final = 0xFFF
SWITCH_ID: Final = 0xF01

FENCE_DST: Final = 0xE00  # FENCE_DST + port is an address of tenant 1 behind that port
FENCE_PORT: Final = 1

TIMEOUT_S: Final = 10.0
"""Patience with a busy machine: only a test that fails waits this long."""
BURST: Final = 64
"""Frames sent before the first is received: a socket's default buffer takes some 250 small ones."""


def drop_reasons() -> dict[str, int]:
    """Return the number of each drop reason by the name of its counter, read from the switch program's constants."""
    found = re.findall(r"^const verdict_t REASON_(\w+) = (\d+);", CONSTANTS.read_text(), re.MULTILINE)
    return {name.lower(): int(value) for name, value in found}


DROP_REASONS: Final = drop_reasons()


class Fabric:
    """The connection to the switch; one for the whole run, as arbitration and P4Info take longer than most tests."""

    _client: P4RuntimeClient | None = None

    @classmethod
    def client(cls) -> P4RuntimeClient:
        """Return the connected client."""
        if cls._client is None:
            params = test_params_get()
            names = Names.load(Path(params["p4info"]).read_text())
            cls._client = P4RuntimeClient(params["grpc"], int(params["device_id"]), names)
        return cls._client


class EthlinkTest(BaseTest):
    """A packet test of the switch program: sets the fabric up, and removes all that it and the test wrote."""

    def setUp(self) -> None:
        super().setUp()
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()
        self.switch = Fabric.client()
        while self.switch.packet_in(0) is not None:  # what an earlier test left
            continue
        self._installed: dict[bytes, Any] = {}
        self._meters: list[tuple[str, int]] = []
        self.addCleanup(self._undo)
        self._set_up_fabric()

    def _undo(self) -> None:
        for name, index in self._meters:
            self.switch.set_meter(name, index, None)
        self.switch.write("DELETE", reversed(self._installed.values()))
        self._installed.clear()

    def _set_up_fabric(self) -> None:
        entry = self.switch.names.entry
        entries = []
        for port, tenant in ENDPOINTS.items():
            entries += [
                entry("source_guard", {"ingress_port": port, "src": port}, "allow"),
                entry("forward", {"tenant": tenant, "dst": port}, "to_port", port=port),
                entry("destination_tenant", {"dst": port}, "belongs_to", tenant=tenant),
            ]
        entries.append(self.group_entry(GROUP, UPLINKS))
        for gpu in REMOTE:
            entries += [
                entry("fabric_tenant", {"owner": gpu}, "set_tenant", tenant=TENANT),
                entry("forward", {"tenant": TENANT, "dst": gpu}, "to_group", group_id=GROUP, home=NOBODY),
                entry("destination_tenant", {"dst": gpu}, "belongs_to", tenant=TENANT),
            ]
        entries += [
            entry("fabric_tenant", {"owner": REMOTE_OTHER_TENANT}, "set_tenant", tenant=OTHER_TENANT),
            entry("destination_tenant", {"dst": REMOTE_OTHER_TENANT}, "belongs_to", tenant=OTHER_TENANT),
            entry("station", {"dst": SWITCH_ID}, "local"),
        ]
        for port in PORTS:
            entries += [
                entry("forward", {"tenant": TENANT, "dst": FENCE_DST + port}, "to_port", port=port),
                entry("egress_config", {"egress_port": port}, "set_link", mode=MODE_OPEN),
                self.port_entry(port),
            ]
        self.install(entries)

    def group_entry(self, group: int, ports: Sequence[int], size: int | None = None) -> Any:
        """Return the entry of a group of paths; 0 is an empty slot."""
        word = 0
        for port in (*ports, *(0,) * (GROUP_MOST - len(ports))):
            word = word << 9 | port
        size = len(ports) if size is None else size
        return self.switch.names.entry("path_group", {"group": group}, "set_members", size=size, ports=word)

    def port_entry(self, port: int, mode: int = MODE_OPEN) -> Any:
        """Return the fabric's `port_config` entry for a port."""
        role, tenant = (ROLE_ENDPOINT, ENDPOINTS[port]) if port in ENDPOINTS else (ROLE_FABRIC, 0)
        return self.switch.names.entry(
            "port_config", {"ingress_port": port}, "set_port", mode=mode, role=role, tenant=tenant
        )

    # ----------------------------------------------------------------------------------------------- control plane

    def install(self, entries: Iterable[Any]) -> None:
        """Insert table entries; they are deleted after the test."""
        entries = list(entries)
        self.switch.write("INSERT", entries)
        for entry in entries:
            self._installed[_key(entry)] = entry

    def insert(self, table: str, match: dict[str, int], action: str, **params: int) -> None:
        """Insert one table entry; it is deleted after the test."""
        self.install([self.switch.names.entry(table, match, action, **params)])

    def modify(self, entry: Any) -> None:
        """Change an entry that the fabric or the test inserted."""
        self.switch.write("MODIFY", [entry])

    def delete(self, table: str, match: dict[str, int]) -> None:
        """Delete an entry that the fabric or the test inserted."""
        entry = self.switch.names.entry(table, match)
        self.switch.write("DELETE", [entry])
        del self._installed[_key(entry)]

    def is_installed(self, table: str, match: dict[str, int]) -> bool:
        """Tell whether an entry that the fabric or the test inserted is still there."""
        return _key(self.switch.names.entry(table, match)) in self._installed

    def limit(self, meter: str, index: int, rate: int, burst: int) -> None:
        """Set a meter cell; it passes everything again after the test."""
        self._meters.append((meter, index))
        self.switch.set_meter(meter, index, rate, burst)

    # ----------------------------------------------------------------------------------------------------- counters

    def drops(self, ports: Iterable[int] = (*PORTS, CPU_PORT)) -> dict[tuple[str, int], Count]:
        """Read every drop counter at these ports."""
        return self.switch.counts((name, port) for name in DROP_REASONS for port in ports)

    def traffic(self, counter: str) -> dict[int, Count]:
        """Read `port_rx` or `port_tx` at every data port."""
        return {port: count for (_, port), count in self.switch.counts((counter, port) for port in PORTS).items()}

    def new_drops(self, before: dict[tuple[str, int], Count]) -> dict[tuple[str, int], int]:
        """Return what was dropped since `before`: packets by (reason, port), zeros left out."""
        ports = {port for _, port in before}
        now = self.drops(ports)
        return {cell: (now[cell] - before[cell]).packets for cell in before if now[cell] != before[cell]}

    # ------------------------------------------------------------------------------------------------------- frames

    def send(self, port: int, frame: Packet | bytes) -> None:
        """Put a frame on the link of a port."""
        data = bytes(frame)
        self.assertEqual(send_packet(self, port, data), len(data), f"{len(data)} bytes could not be sent")

    def receive(self, port: int, timeout_s: float = TIMEOUT_S) -> bytes | None:
        """Return the next frame that the switch sent to a port, or None."""
        result = self.dataplane.poll(device_number=0, port_number=port, timeout=timeout_s)
        return bytes(result.packet) if isinstance(result, self.dataplane.PollSuccess) else None

    def expect(self, port: int, frame: Packet | bytes) -> None:
        """Check that the next frame on a port is exactly this one, byte by byte and in length."""
        self._check(self.receive(port), bytes(frame), f"port {port}")

    def expect_quiet(self) -> None:
        """Check that the switch sent nothing more to any port.

        No waiting: a fence is routed to each port, and has to be the next frame there. As the switch keeps the order
        between what it received before and the fences, a frame that should not have left would come first.
        """
        for port in PORTS:
            self.send(FENCE_PORT, probe(FENCE_PORT, FENCE_DST + port, op=port))
        for port in PORTS:
            fence = forwarded(probe(FENCE_PORT, FENCE_DST + port, op=port))
            self._check(self.receive(port), fence, f"port {port}, where nothing but a fence should leave")

    def expect_all_forwarded(self, in_port: int, frames: Iterable[tuple[Packet | bytes, int]]) -> None:
        """Check that (frame, egress port) pairs all arrive, changed as a hop changes them and in order on each port.

        They go out in bursts that fit in the receive buffer of ptf's sockets.
        """
        pairs = [(bytes(frame), port) for frame, port in frames]
        for first in range(0, len(pairs), BURST):
            burst = pairs[first : first + BURST]
            for frame, _ in burst:
                self.send(in_port, frame)
            for frame, port in burst:
                self.expect(port, forwarded(frame))

    def expect_forwarded(self, in_port: int, frame: Packet | bytes, out_port: int) -> None:
        """Check that a frame leaves by one port, changed as a hop changes it, and by no other, and counts nowhere."""
        before = self.drops([in_port])
        self.send(in_port, frame)
        self.expect(out_port, forwarded(frame))
        self.expect_quiet()
        self.assertEqual(self.new_drops(before), {})

    def expect_dropped(self, in_port: int, frame: Packet | bytes, reason: str) -> None:
        """Check that a frame leaves nowhere, and counts once, under this reason and its port."""
        before = self.drops([in_port])
        self.send(in_port, frame)
        self.wait_for_drops(before, {(reason, in_port): 1})
        self.expect_quiet()
        self.assertEqual(self.new_drops(before), {(reason, in_port): 1})

    def wait_for_drops(self, before: dict[tuple[str, int], Count], expected: dict[tuple[str, int], int]) -> None:
        """Wait until the switch has dropped this many, by (reason, port); fail with what it dropped instead."""
        self.wait_until(lambda: self.new_drops(before) == expected)
        self.assertEqual(self.new_drops(before), expected)

    def wait_until(self, condition: Callable[[], bool]) -> bool:
        """Wait for a condition and return whether it came true in time."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)  # BMv2 counts a frame some time before it has done with it
        return True

    def expect_packet_in(self, frame: Packet | bytes, ingress_port: int, reason: int) -> None:
        """Check that the next packet-in is exactly this frame, with this port and reason."""
        got = self.switch.packet_in(TIMEOUT_S)
        self._check(got.payload if got else None, bytes(frame), "the packet-in")
        self.assertEqual(got, PacketIn(bytes(frame), ingress_port, reason))

    def expect_no_packet_in(self, timeout_s: float = 0.1) -> None:
        """Check that no packet-in comes for a while."""
        self.assertIsNone(self.switch.packet_in(timeout_s), "a packet-in that nothing asked for")

    def _check(self, got: bytes | None, expected: bytes, where: str) -> None:
        if got == expected:
            return
        wanted = f"expected on {where}, {len(expected)} bytes: {expected.hex()}\n{Link(expected)!r}"
        if got is None:
            self.fail(f"nothing came within {TIMEOUT_S:g} s\n{wanted}")
        else:
            self.fail(f"got {len(got)} bytes: {got.hex()}\n{Link(got)!r}\n{wanted}")


def _key(entry: Any) -> bytes:
    """Return what identifies a table entry: its table and match."""
    return bytes(str(entry.table_id), "ascii") + b"".join(m.SerializeToString(deterministic=True) for m in entry.match)
