"""Runs an STF script over a native switch: frames are injected and run to completion, there is nothing to wait for.

The ports that the script names in packet and expect statements are the switch's ports; frames to others are lost, as
on a switch without such a port (no_packet sees them all the same). As in p4c's runner the frames of each port are
compared, in order, with the port's expectations when the script has ended.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from p4switch.build import BuildResult
from p4switch.dataplane import DataPlane, DataPlaneError, SwitchOptions, TableEntry
from p4switch.stf.names import Names, find
from p4switch.stf.script import OPERATORS, Statement, StfError, parse, parse_number

_COMPARE: dict[str, Callable[[int, int], bool]] = dict(
    zip(OPERATORS, (operator.eq, operator.ne, operator.le, operator.ge, operator.lt, operator.gt), strict=True)
)


_WRITES = frozenset(
    (
        "add", "setdefault", "remove", "counter_write", "register_write", "register_reset", "meter_set_rates",
        "meter_array_set_rates", "mirroring_add", "mirroring_add_mc", "mirroring_delete", "mc_mgrp_create",
        "mc_node_create", "mc_node_associate",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Output:
    """A frame that came out, and the statement whose frame caused it."""

    place: str
    port: int
    frame: bytes


def run_stf(program: BuildResult, script: Path, trace: bool = False) -> list[str]:
    """Run a script; give its failures, each with file:line. Raises StfError for a script that makes no sense."""
    statements = parse(script)
    dataplane = DataPlane(SwitchOptions(trace=trace), program.runtime)
    dataplane.load(program.library)
    runner = Runner(dataplane, Names(program.p4info))
    return runner.run(statements)


def configure(program: BuildResult, dataplane: DataPlane, script: Path) -> None:
    """Carry out what a script writes into a switch; its packets and what it expects are passed over.

    Raises StfError for a script that makes no sense."""
    runner = Runner(dataplane, Names(program.p4info))
    runner.run([s for s in parse(script) if s.keyword in _WRITES])


class Runner:
    def __init__(self, dataplane: DataPlane, names: Names) -> None:
        self.dataplane = dataplane
        self.names = names
        self.failures: list[str] = []
        self.outputs: list[Output] = []
        self.expected: list[Statement] = []
        self.added: list[TableEntry] = []
        self.handles: dict[str, TableEntry] = {}
        self.nodes: list[tuple[int, list[int]]] = []  # BMv2's multicast nodes: rid, ports
        self.groups: dict[int, list[int]] = {}  # group -> nodes
        self.sessions: dict[int, int] = {}  # clone session -> multicast group
        self._handlers: dict[str, Callable[[Statement], None]] = {
            "add": self._add,
            "setdefault": self._set_default,
            "remove": self._remove,
            "packet": self._packet,
            "expect": self.expected.append,
            "no_packet": self._no_packet,
            "check_counter": self._check_counter,
            "counter_read": self._counter_read,
            "counter_write": self._counter_write,
            "register_read": self._register_read,
            "register_write": self._register_write,
            "register_reset": self._register_reset,
            "meter_set_rates": self._meter_set,
            "meter_array_set_rates": self._meter_set_all,
            "meter_get_rates": lambda s: None,
            "mirroring_add": self._mirroring_add,
            "mirroring_add_mc": self._mirroring_add_mc,
            "mirroring_delete": self._mirroring_delete,
            "mirroring_get": lambda s: None,
            "mc_mgrp_create": self._group_create,
            "mc_node_create": self._node_create,
            "mc_node_associate": self._node_associate,
            "wait": lambda s: None,
        }

    def run(self, statements: list[Statement]) -> list[str]:
        for statement in statements:
            try:
                self._handlers[statement.keyword](statement)
            except DataPlaneError as error:
                raise StfError(statement.place, str(error)) from error
        self._compare({s.port for s in statements if s.keyword in ("packet", "expect")})
        return self.failures

    # -------------------------------------------------------------------------------------------------- tables

    def _add(self, s: Statement) -> None:
        entry = self.names.entry(s)
        self.dataplane.table_insert(entry)
        self.added.append(entry)
        if s.handle:
            self.handles[s.handle] = entry

    def _set_default(self, s: Statement) -> None:
        assert s.call is not None
        table = self.names.table(s.place, s.table)
        action_id, params = self.names.action(s.place, table, s.call)
        self.dataplane.set_table_default(table.preamble.id, action_id, params)

    def _remove(self, s: Statement) -> None:
        everything = s.words[0].lower() == "all"
        gone = list(self.added) if everything else [self._handle(s.place, s.words[0])]
        for entry in gone:
            self.dataplane.table_delete(entry)
            self.added.remove(entry)

    def _handle(self, place: str, name: str) -> TableEntry:
        entry = self.handles.get(name.lstrip("$"))
        if entry is None:
            raise StfError(place, f"no entry was added as ${name.lstrip('$')}")
        return entry

    # -------------------------------------------------------------------------------------------------- frames

    def _packet(self, s: Statement) -> None:
        for port, frame in self.dataplane.inject(s.port, bytes.fromhex(s.data or "")):
            self.outputs.append(Output(s.place, port, frame))

    def _no_packet(self, s: Statement) -> None:
        """Fail unless every frame so far has its expect statement before this line."""
        pending = [e.port for e in self.expected]
        for output in self.outputs:
            if output.port in pending:
                pending.remove(output.port)
                continue
            sent = f"port {output.port} send {output.frame.hex().upper()}"
            self.failures.append(f"{s.place}: no packet was expected, but {output.place} made {sent}")

    def _compare(self, ports: set[int]) -> None:
        for port in sorted(ports):
            expected = [e for e in self.expected if e.port == port]
            outputs = [o for o in self.outputs if o.port == port]
            for e, o in zip(expected, outputs, strict=False):
                difference = compare(e, o.frame)
                if difference:
                    self.failures.append(f"{e.place}: port {port}: {difference}\n  (sent because of {o.place})")
            for e in expected[len(outputs) :]:
                self.failures.append(f"{e.place}: port {port}: nothing came\n  expected {e.data or 'any frame'}")
            for o in outputs[len(expected) :]:
                self.failures.append(f"{o.place}: port {port}: not expected\n  got      {o.frame.hex().upper()}")

    # ------------------------------------------------------------------------------- counters, registers, meters

    def _check_counter(self, s: Statement) -> None:
        name, index = s.words
        unit, operation, number = s.check
        if not unit:
            unit = "packets"
        if index.startswith("$"):
            counts = self.dataplane.direct_counter_read(self._handle(s.place, index))
        else:
            counter = find(s.place, "counter", self.names.p4info.counters, name)
            counts = self.dataplane.counter_read(counter.preamble.id, parse_number(s.place, index))
        actual = counts[0] if unit == "packets" else counts[1]
        if not _COMPARE[operation](actual, number):
            self.failures.append(f"{s.place}: counter {name}({index}) has {actual} {unit}, not {operation} {number}")

    def _counter_read(self, s: Statement) -> None:
        counter = find(s.place, "counter", self.names.p4info.counters, s.words[0])
        self.dataplane.counter_read(counter.preamble.id, parse_number(s.place, s.words[1]))

    def _counter_write(self, s: Statement) -> None:
        counter = find(s.place, "counter", self.names.p4info.counters, s.words[0])
        index, packets, size = (parse_number(s.place, w) for w in s.words[1:])
        self.dataplane.counter_write(counter.preamble.id, index, packets, size)

    def _register(self, s: Statement) -> int:
        return find(s.place, "register", self.names.p4info.registers, s.words[0]).preamble.id

    def _register_read(self, s: Statement) -> None:
        value = self.dataplane.register_read(self._register(s), parse_number(s.place, s.words[1]))
        if len(s.words) == 4:
            operation, number = s.words[2], parse_number(s.place, s.words[3])
            if operation not in _COMPARE:
                raise StfError(s.place, f"'{operation}' is no comparison; there are {', '.join(OPERATORS)}")
            if not _COMPARE[operation](value, number):
                cell = f"register {s.words[0]}[{s.words[1]}]"
                self.failures.append(f"{s.place}: {cell} is {value:#x}, not {operation} {number:#x}")

    def _register_write(self, s: Statement) -> None:
        index, value = (parse_number(s.place, w) for w in s.words[1:])
        self.dataplane.register_write(self._register(s), index, value)

    def _register_reset(self, s: Statement) -> None:
        register = find(s.place, "register", self.names.p4info.registers, s.words[0])
        for index in range(register.size):
            self.dataplane.register_write(register.preamble.id, index, 0)

    def _meter_set(self, s: Statement) -> None:
        meter = find(s.place, "meter", self.names.p4info.meters, s.words[0])
        self._set_rates(s, meter.preamble.id, parse_number(s.place, s.words[1]), s.words[2:])

    def _meter_set_all(self, s: Statement) -> None:
        meter = find(s.place, "meter", self.names.p4info.meters, s.words[0])
        for index in range(meter.size):
            self._set_rates(s, meter.preamble.id, index, s.words[1:])

    def _set_rates(self, s: Statement, meter_id: int, index: int, rates: tuple[str, ...]) -> None:
        """Set RATE:BURST pairs, committed and peak; BMv2's rates are per microsecond."""
        numbers: list[int] = []
        for pair in rates:
            rate, _, burst = pair.partition(":")
            try:
                numbers += [round(float(rate) * 1e6), int(burst)]
            except ValueError:
                raise StfError(s.place, f"'{pair}' is no RATE:BURST") from None
        self.dataplane.set_meter_config(meter_id, index, *numbers)

    # ----------------------------------------------------------------------------------- clones and multicast

    def _mirroring_add(self, s: Statement) -> None:
        session, port = (parse_number(s.place, w) for w in s.words)
        self.sessions.pop(session, None)
        self.dataplane.set_clone_session(session, [(port, 0)])

    def _mirroring_add_mc(self, s: Statement) -> None:
        session, group = (parse_number(s.place, w) for w in s.words)
        self.sessions[session] = group
        self._publish_group(group)

    def _mirroring_delete(self, s: Statement) -> None:
        session = parse_number(s.place, s.words[0])
        self.sessions.pop(session, None)
        self.dataplane.delete_clone_session(session)

    def _group_create(self, s: Statement) -> None:
        self.groups[parse_number(s.place, s.words[0])] = []

    def _node_create(self, s: Statement) -> None:
        rid, *ports = (parse_number(s.place, w) for w in s.words)
        self.nodes.append((rid, ports))

    def _node_associate(self, s: Statement) -> None:
        group, node = (parse_number(s.place, w) for w in s.words)
        if group not in self.groups:
            raise StfError(s.place, f"multicast group {group} was not created; use mc_mgrp_create {group}")
        if node >= len(self.nodes):
            raise StfError(s.place, f"there is no node {node}; mc_node_create made {len(self.nodes)}, counted from 0")
        self.groups[group].append(node)
        self._publish_group(group)

    def _publish_group(self, group: int) -> None:
        """Give the data plane a group's replicas, and to the clone sessions that use it."""
        nodes = [self.nodes[node] for node in self.groups.get(group, [])]
        replicas = [(port, rid) for rid, ports in nodes for port in ports]
        if not replicas:
            return
        self.dataplane.set_multicast_group(group, replicas)
        for session, of in self.sessions.items():
            if of == group:
                self.dataplane.set_clone_session(session, replicas)


def compare(expectation: Statement, frame: bytes) -> str:
    """Say how a frame differs from an expectation; '' when it does not."""
    wanted = expectation.data
    if wanted is None:
        return ""
    got, size = frame.hex().upper(), (len(wanted) + 1) // 2
    if len(got) < len(wanted):
        return _difference(f"the frame has {len(frame)} bytes, {size} were expected", wanted, got)
    if expectation.exact and len(got) > len(wanted):
        return _difference(f"the frame has {len(frame)} bytes, exactly {size} were expected", wanted, got)
    for position, (w, g) in enumerate(zip(wanted, got, strict=False)):
        if w not in ("*", g):
            return _difference(f"the frame differs in byte {position // 2}", wanted, got)
    return ""


def _difference(what: str, wanted: str, got: str) -> str:
    marks = "".join(" " if w in ("*", g) else "^" for w, g in zip(wanted, got, strict=False)).rstrip()
    return f"{what}\n  expected {wanted}\n  got      {got}\n           {marks}"
