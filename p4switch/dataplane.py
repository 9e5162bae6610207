"""Python's view of the native switch: ports, a traffic manager, and the program that is loaded into them.

    with DataPlane(SwitchOptions(cpu_port=510)) as switch:
        switch.load(build("ethlink.p4").library)
        switch.add_port(1, "veth1")
        switch.start()

Packets never pass through Python; the switch runs in a thread of its own, without the GIL. Every method may be called from any
thread, and returns when the change has taken effect for the next packet. Ids are P4Info ids, values are ints.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import cffi

from p4switch.toolchain import RUNTIME, runtime_library

LOG = logging.getLogger(__name__)
INSERT, MODIFY, DELETE = 1, 2, 3  # kinds of table updates, numbered as in P4Runtime
NO_PORT = 0xFFFFFFFF
_DRAIN_BYTES = 1 << 18
_DRAIN_MS = 200  # how long stop() may have to wait for a thread that delivers packet-ins
_EXACT, _LPM, _TERNARY, _RANGE, _OPTIONAL = range(5)  # enum p4_match
DROP_REASONS = (  # enum sw_drop
    "no_program", "too_long", "no_packet", "ring_full", "ingress", "queue_full", "priority", "egress", "unbound", "tx_error",
    "recirculate_full", "cpu_full",
)  # fmt: skip

MeterConfig = tuple[int, int, int, int]  # cir, cburst, pir, pburst; rates per second, in the meter's unit


# --------------------------------------------------------------------------------------------------------------- errors


class DataPlaneError(Exception):
    """Something the switch refused; the message says what and why."""


class InvalidArgument(DataPlaneError):
    """An argument makes no sense: an unknown id, an index out of range, a value that is too wide."""


class EntryExists(DataPlaneError):
    pass


class EntryMissing(DataPlaneError):
    pass


class TableFull(DataPlaneError):
    pass


class ReadOnly(DataPlaneError):
    """Const entries or a const default action."""


class SystemFailure(DataPlaneError):
    """The operating system refused: an interface, a socket, memory, a file."""


class WrongState(DataPlaneError):
    """Not now: no program is loaded, the switch runs already."""


class EndlessPacket(DataPlaneError):
    """An injected packet goes round for ever."""


_ERRORS: dict[int, type[DataPlaneError]] = {
    -1: InvalidArgument, -2: EntryExists, -3: EntryMissing, -4: TableFull, -5: ReadOnly, -6: SystemFailure, -7: WrongState,
    -8: EndlessPacket,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------- types


@dataclass(frozen=True)
class SwitchOptions:
    """How a switch is set up; fixed for its life.

    device_id: names it in messages. cpu_port: frames sent there become packet-ins. drop_port: mark_to_drop()'s egress_spec.
    event_port: the program finds port changes and ticks there as 16-byte frames (12 zero bytes; type 8: 1 port status, 2 tick;
    state 8: 1 up; port 16), and the states of all ports when it starts; None: no such frames. tick_us: microseconds between
    ticks, 0 for none. packets: how many may wait inside the switch at once (memory is used as they come). queue_depth: of every
    egress queue, in packets, until set otherwise. recirculate_depth: of the queue of resubmitted and recirculated packets
    (BMv2: 1024). priorities: queues per port, served highest standard_metadata.priority first; a packet with a priority beyond
    is dropped, as on BMv2, whose default is 1 as well. ring_frames: receive ring of each port. busy_poll: never sleep, for
    least latency at the cost of a core. qdisc_bypass: send past the queueing discipline, which is faster but hides sent frames
    from captures on the switch's side and defeats shaping there. trace: log_msg() and drops on stderr. pcap_dir: captures
    portN_in.pcap and portN_out.pcap.
    """

    device_id: int = 1
    cpu_port: int | None = None
    drop_port: int = 511
    event_port: int | None = None
    tick_us: int = 0
    packets: int = 16384
    queue_depth: int = 1024
    recirculate_depth: int = 16384
    priorities: int = 1
    ring_frames: int = 2048
    busy_poll: bool = False
    qdisc_bypass: bool = False
    trace: bool = False
    pcap_dir: Path | None = None


@dataclass(frozen=True, slots=True)
class FieldMatch:
    """One component of a key. value: exact, optional, ternary and lpm value, low end of a range; mask_or_hi: ternary mask,
    high end of a range; prefix: lpm prefix length in bits."""

    value: int
    mask_or_hi: int = 0
    prefix: int = 0


@dataclass(frozen=True, slots=True)
class TableEntry:
    """An entry. matches: one per key, None for don't care. priority: larger wins; 0 where only exact and lpm keys are.
    params: the action's arguments in order."""

    table_id: int
    matches: tuple[FieldMatch | None, ...]
    priority: int = 0
    action_id: int = 0
    params: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EntryRecord:
    """An entry as the switch has it. packets, bytes: its direct counter's (counted also for direct meters and time-outs).
    idle_us: microseconds since its last hit or its insertion, 0 where nothing keeps track."""

    entry: TableEntry
    is_const: bool
    packets: int
    bytes: int
    idle_us: int


@dataclass(frozen=True)
class PortStatus:
    """A port. iface: empty for an internal one. waiting: packets in its egress queues. drops: by reason; those of reception
    count at the ingress port, those of queues and sending at the egress port."""

    port: int
    iface: str
    up: bool
    depth: int
    waiting: int
    rate_pps: int
    rate_bps: int
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    drops: dict[str, int] = field(default_factory=dict)


# ----------------------------------------------------------------------------------------------------------- the library


@cache
def _ffi() -> cffi.FFI:
    ffi = cffi.FFI()
    for header in ("p4program.h", "control.h"):
        text = (RUNTIME / header).read_text()
        ffi.cdef(text[text.index("/* cdef begin */") : text.index("/* cdef end */")])
    return ffi


@cache
def _open(library: Path) -> Any:
    return _ffi().dlopen(str(library), os.RTLD_NOW | os.RTLD_GLOBAL)


def checksum(kind: str, data: bytes) -> int:
    """Compute what programs compute: kind is crc32, crc16, csum16, or crc32_portable (without carry-less multiplication)."""
    kinds = ("crc32", "crc16", "csum16", "crc32_portable")
    return int(_open(runtime_library()).sw_checksum(kinds.index(kind), data, len(data)))


def _words(width: int) -> int:
    return (width + 63) // 64


_WORD = (1 << 64) - 1


def _split(value: int, words: int) -> list[int]:
    return [value >> 64 * i & _WORD for i in range(words)]


def _join(words: Sequence[int], at: int, n: int) -> int:
    if n == 1:
        return words[at]
    return sum(words[at + i] << 64 * i for i in range(n))


@dataclass(frozen=True)
class _Key:
    name: str
    width: int
    word: int
    words: int
    kind: int
    full: int


@dataclass(frozen=True)
class _Action:
    id: int
    name: str
    params: tuple[tuple[str, int, int, int], ...]  # name, width, first word, words
    data_words: int


@dataclass
class _Table:
    """What a table's updates need to know, read once from the program."""

    index: int
    name: str
    keys: tuple[_Key, ...]
    key_words: int
    actions: tuple[_Action, ...]
    entries_const: bool
    action_index: dict[int, int] = field(init=False)
    simple: bool = field(init=False)  # every key and parameter is one word

    def __post_init__(self) -> None:
        self.action_index = {action.id: i for i, action in enumerate(self.actions)}
        self.simple = all(k.words == 1 for k in self.keys) and all(p[3] == 1 for a in self.actions for p in a.params)

    def encode_key(self, entry: TableEntry) -> list[int]:
        """Give value and mask words."""
        if len(entry.matches) != len(self.keys):
            raise InvalidArgument(f"table {self.name} has {len(self.keys)} keys, the entry has {len(entry.matches)}")
        values: list[int] = []
        masks: list[int] = []
        for key, match in zip(self.keys, entry.matches, strict=True):
            kind, full = key.kind, key.full
            if match is None:
                if kind == _EXACT:
                    raise InvalidArgument(f"table {self.name}: exact key {key.name} cannot be left out")
                value, mask = 0, full if kind == _RANGE else 0
            else:
                value = match.value
                if kind in (_EXACT, _OPTIONAL):
                    mask = full
                elif kind == _LPM:
                    if not 0 <= match.prefix <= key.width:
                        raise InvalidArgument(
                            f"table {self.name}: key {key.name} has {key.width} bits, the prefix length is {match.prefix}"
                        )
                    mask = full >> (key.width - match.prefix) << (key.width - match.prefix)
                else:
                    mask = match.mask_or_hi
            if not (0 <= value <= full and 0 <= mask <= full):
                raise InvalidArgument(f"table {self.name}: key {key.name} has {key.width} bits; {match} does not fit")
            if key.words == 1:
                values.append(value)
                masks.append(mask)
            else:
                values += _split(value, key.words)
                masks += _split(mask, key.words)
        return values + masks

    def encode_action(self, action_id: int, params: tuple[int, ...]) -> tuple[int, list[int]]:
        """Give the action's index in the table and its data words."""
        index = self.action_index.get(action_id)
        if index is None:
            known = ", ".join(f"{a.name} ({a.id:#x})" for a in self.actions)
            raise InvalidArgument(f"table {self.name} has no action {action_id:#x}; it has {known}")
        action = self.actions[index]
        if len(params) != len(action.params):
            raise InvalidArgument(f"action {action.name} takes {len(action.params)} arguments, not {len(params)}")
        data: list[int] = []
        for value, (name, width, _, words) in zip(params, action.params, strict=True):
            if not 0 <= value < 1 << width:
                raise InvalidArgument(f"action {action.name}: {name} has {width} bits; {value} does not fit")
            if words == 1:
                data.append(value)
            else:
                data += _split(value, words)
        return index, data

    def decode(self, table_id: int, record: Sequence[int]) -> EntryRecord:
        """Read a record of sw_table_dump()."""
        _, action_index, priority, packets, octets, idle = record[:6]
        matches: list[FieldMatch | None] = []
        for key in self.keys:
            value = _join(record, 6 + key.word, key.words)
            mask = _join(record, 6 + self.key_words + key.word, key.words)
            matches.append(_decode_match(key, value, mask))
        action = self.actions[action_index]
        base = 6 + 2 * self.key_words
        params = tuple(_join(record, base + word, words) for _, _, word, words in action.params)
        priority = priority - (1 << 64) if priority >> 63 else priority
        entry = TableEntry(table_id, tuple(matches), priority, action.id, params)
        return EntryRecord(entry, self.entries_const, packets, octets, idle)


def _decode_match(key: _Key, value: int, mask: int) -> FieldMatch | None:
    if key.kind == _EXACT:
        return FieldMatch(value)
    if key.kind == _RANGE:
        return None if value == 0 and mask == key.full else FieldMatch(value, mask_or_hi=mask)
    if not mask:
        return None
    if key.kind == _LPM:
        return FieldMatch(value, prefix=mask.bit_count())
    return FieldMatch(value) if key.kind == _OPTIONAL else FieldMatch(value, mask_or_hi=mask)


@dataclass(frozen=True)
class _Cells:
    """A register, counter or meter."""

    index: int
    name: str
    width: int
    size: int
    direct: bool


@dataclass(frozen=True)
class _Digest:
    id: int
    name: str
    fields: tuple[tuple[int, int], ...]  # first word, words


class _Program:
    """A loaded program's objects by P4Info id."""

    def __init__(self, ffi: cffi.FFI, program: Any) -> None:
        def text(pointer: Any) -> str:
            return str(ffi.string(pointer).decode()) if pointer else ""

        def action(a: Any) -> _Action:
            params = tuple(
                (text(p.name), p.width, p.word, _words(p.width)) for p in (a.params[i] for i in range(a.n_params))
            )
            return _Action(a.id, text(a.name), params, a.data_words)

        def key(k: Any) -> _Key:
            return _Key(text(k.name), k.width, k.word, _words(k.width), int(k.match), (1 << k.width) - 1)

        def cells(items: Any, n: int, width: bool) -> dict[int, _Cells]:
            found = {}
            for i in range(n):
                d = items[i]
                direct = not width and d.table >= 0
                found[d.id] = _Cells(i, text(d.name), d.width if width else 0, d.size, direct)
            return found

        actions = [action(program.actions[i]) for i in range(program.n_actions)]
        self.tables: dict[int, _Table] = {}
        for i in range(program.n_tables):
            t = program.tables[i]
            keys = tuple(key(t.keys[k]) for k in range(t.n_keys))
            own = tuple(actions[t.actions[a]] for a in range(t.n_actions))
            self.tables[t.id] = _Table(i, text(t.name), keys, t.key_words, own, bool(t.entries_const))
        self.registers = cells(program.registers, program.n_registers, True)
        self.counters = cells(program.counters, program.n_counters, False)
        self.meters = cells(program.meters, program.n_meters, False)
        self.digests: list[_Digest] = []
        for i in range(program.n_digests):
            d = program.digests[i]
            fields = tuple((f.word, _words(f.width)) for f in (d.fields[k] for k in range(d.n_fields)))
            self.digests.append(_Digest(d.id, text(d.name), fields))
        self.value_sets = {
            program.value_sets[i].id: (
                i,
                [key(program.value_sets[i].fields[k]) for k in range(program.value_sets[i].n_fields)],
            )
            for i in range(program.n_value_sets)
        }


# ------------------------------------------------------------------------------------------------------------ the switch


class DataPlane:
    """A native switch: ports and a traffic manager, into which programs are loaded.

    on_packet_in(frame) and on_digest(digest_id, [values, ...]) are called from threads of the switch, one call at a time.
    """

    def __init__(self, options: SwitchOptions | None = None, runtime: Path | None = None) -> None:
        """Make a switch without program and ports. runtime: the runtime library, built when not given. Raises BuildError,
        InvalidArgument, SystemFailure."""
        self.options = o = options or SwitchOptions()
        self.on_packet_in: Callable[[bytes], None] | None = None
        self.on_digest: Callable[[int, list[tuple[int, ...]]], None] | None = None
        self._ffi = _ffi()
        self._lib = _open(runtime or runtime_library())
        if o.pcap_dir is not None and not o.pcap_dir.is_dir():
            raise InvalidArgument(f"{o.pcap_dir} is no directory for captures; make it first")
        directory = self._ffi.new("char[]", str(o.pcap_dir).encode()) if o.pcap_dir is not None else self._ffi.NULL
        native = self._ffi.new(
            "struct sw_options *",
            {
                "device_id": o.device_id,
                "cpu_port": NO_PORT if o.cpu_port is None else o.cpu_port,
                "drop_port": o.drop_port,
                "event_port": NO_PORT if o.event_port is None else o.event_port,
                "tick_us": o.tick_us,
                "packets": o.packets,
                "queue_depth": o.queue_depth,
                "recirculate_depth": o.recirculate_depth,
                "priorities": o.priorities,
                "ring_frames": o.ring_frames,
                "busy_poll": o.busy_poll,
                "qdisc_bypass": o.qdisc_bypass,
                "trace": o.trace,
                "pcap_dir": directory,
            },
        )
        switch = self._lib.sw_new(native)
        if not switch:
            raise self._error(-1)
        # Freed with this object, not by stop(): another thread may still be in a call then.
        self._switch = self._ffi.gc(switch, self._lib.sw_free)
        self._lock = threading.Lock()  # around load() and what belongs to the loaded program
        self._program: _Program | None = None
        self._groups: dict[int, list[tuple[int, int]]] = {}
        self._sessions: dict[int, tuple[list[tuple[int, int]], int]] = {}
        self._drains: list[threading.Thread] = []
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # ------------------------------------------------------------------------------------------------- its life

    def load(self, library: Path) -> None:
        """Load a program, or replace the loaded one while traffic runs. Ports and queues stay; tables, registers, counters,
        meters, multicast groups and clone sessions start anew; packets that wait inside are dropped. Raises InvalidArgument when
        the library is no program for this runtime; the old program then stays."""
        with self._lock:
            self._check(self._lib.sw_load(self._switch, str(library).encode()))
            self._program = _Program(self._ffi, self._lib.sw_program(self._switch))
            self._groups.clear()
            self._sessions.clear()

    @property
    def loaded(self) -> bool:
        """Whether a program is loaded; before that every packet is dropped."""
        return self._program is not None

    def start(self) -> None:
        """Start the data-plane thread and the threads that deliver packet-ins and digests."""
        self._check(self._lib.sw_start(self._switch))
        self._stopping.clear()
        for drain in (self._drain_packets, self._drain_digests):
            thread = threading.Thread(target=drain, name=f"p4switch-{drain.__name__}", daemon=True)
            thread.start()
            self._drains.append(thread)

    def stop(self) -> None:
        """Stop the threads and let go of the interfaces. Does nothing when the switch does not run."""
        self._stopping.set()
        self._check(self._lib.sw_stop(self._switch))
        for thread in self._drains:
            if thread is not threading.current_thread():
                thread.join()
        self._drains.clear()
        for status in self.ports():
            if status.iface:
                self.remove_port(status.port)

    def now_us(self) -> int:
        """The clock of standard_metadata's timestamps: microseconds since the switch was made."""
        return int(self._lib.sw_now_us(self._switch))

    # ------------------------------------------------------------------------------------------------- ports

    def add_port(
        self, port: int, iface: str, *, depth: int | None = None, rate_pps: int = 0, rate_bps: int = 0
    ) -> None:
        """Bind a port to an interface, whose offloads are switched off. The interface may go away and come back.

        depth, rate_pps, rate_bps: as in set_queue(). Raises EntryExists, EntryMissing (no such interface), InvalidArgument,
        SystemFailure.
        """
        self._check(self._lib.sw_port_add(self._switch, self._uint32("port", port), iface.encode()))
        self.set_queue(port, depth=depth, rate_pps=rate_pps, rate_bps=rate_bps)

    def remove_port(self, port: int) -> None:
        """Unbind a port. Raises EntryMissing."""
        self._check(self._lib.sw_port_remove(self._switch, self._uint32("port", port)))

    def set_queue(
        self, port: int, *, depth: int | None = None, rate_pps: int | None = None, rate_bps: int | None = None
    ) -> None:
        """Set the egress queue of a port, bound or internal. depth: packets; rate_pps, rate_bps: packets and bits (of frames, as
        they leave the queue) a second, 0 for no limit; None: unchanged. Raises InvalidArgument."""
        values = [-1 if value is None else value for value in (depth, rate_pps, rate_bps)]
        if depth is not None and depth < 1 or any(not -1 <= value < 1 << 63 for value in values):
            raise InvalidArgument(
                f"port {port}: depth {depth}, rates {rate_pps} pps and {rate_bps} bit/s are impossible"
            )
        self._check(self._lib.sw_queue_set(self._switch, self._uint32("port", port), *values))

    def ports(self) -> list[PortStatus]:
        """All ports that are bound, configured or have seen a packet, by number."""
        out = self._ffi.new("struct sw_port_status[]", 512)
        n = self._check(self._lib.sw_ports(self._switch, out, 512))
        return [
            PortStatus(
                s.port, self._ffi.string(s.iface).decode(), s.up, s.depth, s.waiting, s.rate_pps, s.rate_bps, s.rx_packets,
                s.rx_bytes, s.tx_packets, s.tx_bytes, dict(zip(DROP_REASONS, s.drops, strict=True)),
            )
            for s in (out[i] for i in range(n))
        ]  # fmt: skip

    # ------------------------------------------------------------------------------------------------- tables

    def table_insert(self, entry: TableEntry) -> None:
        """Raises EntryExists, TableFull, ReadOnly, InvalidArgument."""
        self._apply_one(INSERT, entry)

    def table_modify(self, entry: TableEntry) -> None:
        """Replace the action of an entry; its counters go on. Raises EntryMissing, ReadOnly, InvalidArgument."""
        self._apply_one(MODIFY, entry)

    def table_delete(self, entry: TableEntry) -> None:
        """Delete the entry with this key and priority. Raises EntryMissing, ReadOnly, InvalidArgument."""
        self._apply_one(DELETE, entry)

    def _apply_one(self, kind: int, entry: TableEntry) -> None:
        (error,) = self.apply([(kind, entry)])
        if error is not None:
            raise error

    def apply(self, updates: Iterable[tuple[int, TableEntry]]) -> list[DataPlaneError | None]:
        """Carry out updates (INSERT, MODIFY or DELETE, with an entry) in order, each on its own; return the error of each that
        failed. 10,000 inserts take some 0.1 s, while traffic goes on."""
        program = self._loaded()
        results: list[DataPlaneError | None] = []
        words = array("Q")
        ops = array("I")
        sent: list[int] = []  # positions in results
        for kind, entry in updates:
            try:
                table = self._table(program, entry.table_id)
                key = table.encode_key(entry)
                action, data = (0, []) if kind == DELETE else table.encode_action(entry.action_id, entry.params)
                if not -(1 << 31) <= entry.priority < 1 << 31:
                    raise InvalidArgument(f"table {table.name}: priority {entry.priority} has more than 32 bits")
            except DataPlaneError as error:
                results.append(error)
                continue
            sent.append(len(results))
            results.append(None)
            ops.extend((kind, table.index, action, entry.priority & 0xFFFFFFFF, 0, len(words)))
            words.extend(key)
            words.extend(data)
        if sent and self._apply_native(ops, words, len(sent)) < 0:
            for position, at in enumerate(range(4, len(ops), 6)):
                status = ops[at]
                if status:
                    results[sent[position]] = self._explain(
                        struct.unpack("i", struct.pack("I", status))[0], ops[at - 4], ops[at - 3], program
                    )
        return results

    def _apply_native(self, ops: array[int], words: array[int], n: int) -> int:
        native = self._ffi.from_buffer("struct sw_table_op[]", ops, require_writable=True)
        pool = self._ffi.from_buffer("uint64_t[]", words) if len(words) else self._ffi.NULL
        result = int(self._lib.sw_table_apply(self._switch, native, n, pool, len(words)))
        self._last_error = self._ffi.string(self._lib.sw_error()).decode() if result < 0 else ""
        return result

    def _explain(self, status: int, kind: int, table: int, program: _Program) -> DataPlaneError:
        """The message of an update that failed in a batch; the C side remembers only the last one's."""
        name = next((t.name for t in program.tables.values() if t.index == table), str(table))
        kinds = {
            -2: f"table {name} already has an entry with this key",
            -3: f"table {name} has no entry with this key",
            -4: f"table {name} is full",
            -5: f"table {name} has const entries: they cannot be changed",
        }
        return _ERRORS.get(status, DataPlaneError)(kinds.get(status) or self._last_error)

    def table_records(self, table_id: int) -> list[EntryRecord]:
        """All entries with their counters, in the order of their insertion."""
        table = self._table(self._loaded(), table_id)
        stride = self._check(self._lib.sw_table_stride(self._switch, table.index))
        room = 1024
        while True:
            out = self._ffi.new("uint64_t[]", room * stride)
            n = self._check(self._lib.sw_table_dump(self._switch, table.index, out, room * stride))
            if n <= room:
                break
            room = n + n // 8 + 16
        words = array("Q")
        words.frombytes(self._ffi.buffer(out, n * stride * 8)[:])
        rows = sorted((words[i * stride : (i + 1) * stride] for i in range(n)), key=lambda row: row[0])
        return [table.decode(table_id, row) for row in rows]

    def table_entries(self, table_id: int) -> list[TableEntry]:
        """All entries, in the order of their insertion."""
        return [record.entry for record in self.table_records(table_id)]

    def table_get(self, entry: TableEntry) -> EntryRecord | None:
        """The entry with this key and priority, None when there is none."""
        table = self._table(self._loaded(), entry.table_id)
        op, words = self._key(table, entry)
        stride = self._check(self._lib.sw_table_stride(self._switch, table.index))
        out = self._ffi.new("uint64_t[]", stride)
        try:
            self._check(self._lib.sw_table_get(self._switch, op, words, out, stride))
        except EntryMissing:
            return None
        return table.decode(entry.table_id, list(out))

    def table_lookup(self, table_id: int, key: Sequence[int]) -> EntryRecord | None:
        """What a packet with these key values would hit, None for a miss. Counts nothing."""
        table = self._table(self._loaded(), table_id)
        words = [w for k, value in zip(table.keys, key, strict=True) for w in _split(value & k.full, k.words)]
        stride = self._check(self._lib.sw_table_stride(self._switch, table.index))
        out = self._ffi.new("uint64_t[]", stride)
        hit = self._check(self._lib.sw_table_find(self._switch, table.index, words, out, stride))
        return table.decode(table_id, list(out)) if hit else None

    def table_default(self, table_id: int) -> tuple[int, tuple[int, ...]]:
        """The default action's id and arguments."""
        table = self._table(self._loaded(), table_id)
        most = max((a.data_words for a in table.actions), default=0)
        index, initial, data = (
            self._ffi.new("uint32_t *"),
            self._ffi.new("bool *"),
            self._ffi.new("uint64_t[]", most + 1),
        )
        self._check(self._lib.sw_default_get(self._switch, table.index, index, data, most, initial))
        action = table.actions[index[0]]
        return action.id, tuple(_join(data, word, words) for _, _, word, words in action.params)

    def set_table_default(self, table_id: int, action_id: int | None, params: tuple[int, ...] = ()) -> None:
        """Set the default action; None: back to the program's own. Raises ReadOnly, InvalidArgument."""
        table = self._table(self._loaded(), table_id)
        if action_id is None:
            self._check(self._lib.sw_default_reset(self._switch, table.index))
            return
        index, data = table.encode_action(action_id, params)
        self._check(self._lib.sw_default_set(self._switch, table.index, index, data, len(data)))

    def direct_counter_read(self, entry: TableEntry) -> tuple[int, int]:
        """Packets and bytes of an entry. Raises EntryMissing."""
        record = self.table_get(entry)
        if record is None:
            raise EntryMissing("there is no entry with this key")
        return record.packets, record.bytes

    def direct_counter_write(self, entry: TableEntry, packets: int, octets: int) -> None:
        op, words = self._key(self._table(self._loaded(), entry.table_id), entry)
        self._check(self._lib.sw_direct_counter_write(self._switch, op, words, packets, octets))

    def direct_meter_config(self, entry: TableEntry) -> MeterConfig | None:
        """The configuration of an entry's meter, None when it has none (then it gives green)."""
        op, words = self._key(self._table(self._loaded(), entry.table_id), entry)
        out = self._ffi.new("struct sw_meter_config *")
        self._check(self._lib.sw_direct_meter_read(self._switch, op, words, out))
        return self._meter_tuple(out)

    def set_direct_meter_config(self, entry: TableEntry, config: MeterConfig | None) -> None:
        op, words = self._key(self._table(self._loaded(), entry.table_id), entry)
        self._check(self._lib.sw_direct_meter_write(self._switch, op, words, self._meter_struct(config)))

    # ------------------------------------------------------------------------------------------------- externs

    def counter_read(self, counter_id: int, index: int) -> tuple[int, int]:
        """Packets and bytes of one cell of an indirect counter."""
        return self.counter_read_all(counter_id, index, 1)[0]

    def counter_read_all(self, counter_id: int, first: int = 0, count: int | None = None) -> list[tuple[int, int]]:
        """Packets and bytes of cells [first, first + count), by default all, read at one moment."""
        cells = self._cells("counter", self._loaded().counters, counter_id)
        n = cells.size - first if count is None else count
        self._check_range(cells, "counter", first, n)
        out = self._ffi.new("uint64_t[]", 2 * n + 1)
        self._check(self._lib.sw_counter_read(self._switch, cells.index, first, n, out))
        return [(out[2 * i], out[2 * i + 1]) for i in range(n)]

    def counter_write(self, counter_id: int, index: int, packets: int, octets: int) -> None:
        cells = self._cells("counter", self._loaded().counters, counter_id)
        self._check_range(cells, "counter", index, 1)
        self._check(self._lib.sw_counter_write(self._switch, cells.index, index, packets, octets))

    def register_read(self, register_id: int, index: int) -> int:
        """The value of one cell."""
        return self.register_read_all(register_id, index, 1)[0]

    def register_read_all(self, register_id: int, first: int = 0, count: int | None = None) -> list[int]:
        """The values of cells [first, first + count), by default all, read at one moment."""
        cells = self._cells("register", self._loaded().registers, register_id)
        n = cells.size - first if count is None else count
        self._check_range(cells, "register", first, n)
        words = _words(cells.width)
        out = self._ffi.new("uint64_t[]", n * words + 1)
        self._check(self._lib.sw_register_read(self._switch, cells.index, first, n, out))
        return [_join(out, i * words, words) for i in range(n)]

    def register_write(self, register_id: int, index: int, value: int) -> None:
        cells = self._cells("register", self._loaded().registers, register_id)
        self._check_range(cells, "register", index, 1)
        if not 0 <= value < 1 << cells.width:
            raise InvalidArgument(f"register {cells.name} has {cells.width} bits; {value} does not fit")
        self._check(
            self._lib.sw_register_write(self._switch, cells.index, index, 1, _split(value, _words(cells.width)))
        )

    def meter_config(self, meter_id: int, index: int) -> MeterConfig | None:
        """The configuration of one cell of an indirect meter, None when it has none (then it gives green)."""
        cells = self._cells("meter", self._loaded().meters, meter_id)
        self._check_range(cells, "meter", index, 1)
        out = self._ffi.new("struct sw_meter_config *")
        self._check(self._lib.sw_meter_read(self._switch, cells.index, index, out))
        return self._meter_tuple(out)

    def set_meter_config(
        self, meter_id: int, index: int, cir: int | None, cburst: int | None, pir: int | None, pburst: int | None
    ) -> None:
        """Configure one cell (rates per second, bursts; packets or bytes by the meter's type); all None: not configured."""
        cells = self._cells("meter", self._loaded().meters, meter_id)
        self._check_range(cells, "meter", index, 1)
        given = (cir, cburst, pir, pburst)
        if any(v is None for v in given) and any(v is not None for v in given):
            raise InvalidArgument(f"meter {cells.name}: give all of cir, cburst, pir and pburst, or none")
        config = None if cir is None or cburst is None or pir is None or pburst is None else (cir, cburst, pir, pburst)
        self._check(self._lib.sw_meter_write(self._switch, cells.index, index, self._meter_struct(config)))

    def _meter_struct(self, config: MeterConfig | None) -> Any:
        if config is None:
            return self._ffi.new("struct sw_meter_config *")
        if any(not 0 <= value < 1 << 63 for value in config):
            raise InvalidArgument(f"meter rates and bursts {config}: they are not negative and below 2^63")
        return self._ffi.new("struct sw_meter_config *", (True, *config))

    @staticmethod
    def _meter_tuple(c: Any) -> MeterConfig | None:
        return (c.cir, c.cburst, c.pir, c.pburst) if c.configured else None

    def set_value_set(self, value_set_id: int, members: Iterable[tuple[FieldMatch | None, ...]]) -> None:
        """Set all members of a parser value set; exact and ternary fields (None: any)."""
        found = self._loaded().value_sets.get(value_set_id)
        if found is None:
            raise InvalidArgument(f"there is no value set {value_set_id:#x}")
        index, keys = found
        values: list[int] = []
        masks: list[int] = []
        n = 0
        for n, member in enumerate(members, 1):
            for key, match in zip(keys, member, strict=True):
                mask = 0 if match is None else key.full if key.kind == _EXACT else match.mask_or_hi
                values += _split(match.value if match else 0, key.words)
                masks += _split(mask, key.words)
        self._check(self._lib.sw_value_set_write(self._switch, index, n, values, masks))

    # ------------------------------------------------------------------------------------------------- replication

    def set_multicast_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Make or replace a multicast group; replicas are (port, instance), the instance being egress_rid."""
        native = self._replicas(replicas)
        with self._lock:
            self._check(self._lib.sw_multicast_set(self._switch, self._uint32("group", group), native, len(replicas)))
            self._groups[group] = list(replicas)

    def delete_multicast_group(self, group: int) -> None:
        """Raises EntryMissing."""
        with self._lock:
            self._check(self._lib.sw_multicast_delete(self._switch, self._uint32("group", group)))
            self._groups.pop(group, None)

    def multicast_groups(self) -> dict[int, list[tuple[int, int]]]:
        """All groups: their replicas as (port, instance)."""
        with self._lock:
            return {group: list(replicas) for group, replicas in self._groups.items()}

    def set_clone_session(self, session: int, replicas: Sequence[tuple[int, int]], truncate: int = 0) -> None:
        """Make or replace a clone session. truncate: bytes of the packet that a copy keeps at most, 0 for all."""
        native = self._replicas(replicas)
        with self._lock:
            self._check(
                self._lib.sw_clone_set(
                    self._switch,
                    self._uint32("session", session),
                    native,
                    len(replicas),
                    self._uint32("length", truncate),
                )
            )
            self._sessions[session] = (list(replicas), truncate)

    def delete_clone_session(self, session: int) -> None:
        """Raises EntryMissing."""
        with self._lock:
            self._check(self._lib.sw_clone_delete(self._switch, self._uint32("session", session)))
            self._sessions.pop(session, None)

    def clone_sessions(self) -> dict[int, tuple[list[tuple[int, int]], int]]:
        """All sessions: their replicas as (port, instance), and the length that copies are cut to (0: not)."""
        with self._lock:
            return {session: (list(replicas), truncate) for session, (replicas, truncate) in self._sessions.items()}

    def _replicas(self, replicas: Sequence[tuple[int, int]]) -> Any:
        for port, instance in replicas:
            if not 0 <= port < 512 or not 0 <= instance < 1 << 16:
                raise InvalidArgument(
                    f"replica (port {port}, instance {instance}): ports are 0 to 511, instances 16 bits"
                )
        return self._ffi.new("struct sw_replica[]", [tuple(replica) for replica in replicas])

    # ------------------------------------------------------------------------------------------------- packets

    def packet_out(self, data: bytes, ingress_port: int | None = None) -> None:
        """Let a frame enter the pipeline as if received on the CPU port, or on another. Raises TableFull when too many wait."""
        port = self.options.cpu_port if ingress_port is None else ingress_port
        if port is None:
            raise InvalidArgument("the switch has no CPU port; name the ingress port")
        self._check(self._lib.sw_packet_out(self._switch, self._uint32("port", port), data, len(data)))

    def inject(self, port: int, data: bytes) -> list[tuple[int, bytes]]:
        """Run a frame that comes in on a port, and all its copies, to the end, and return the frames sent, as (port, frame).

        Needs no interfaces; rates of queues are ignored, depths are not. Raises EndlessPacket when the packet recirculates for
        ever.
        """
        with self._lock:
            self._check(self._lib.sw_inject(self._switch, self._uint32("port", port), data, len(data)))
            n = self._lib.sw_inject_output(self._switch, self._ffi.NULL, 0)
            out = self._ffi.new("uint8_t[]", n + 1)
            self._lib.sw_inject_output(self._switch, out, n)
        frames: list[tuple[int, bytes]] = []
        raw, at = bytes(self._ffi.buffer(out, n)), 0
        while at < n:
            to, length = struct.unpack_from("=II", raw, at)
            frames.append((to, raw[at + 8 : at + 8 + length]))
            at += 8 + length
        return frames

    def _drain_packets(self) -> None:
        for _, frame in self._drain(self._lib.sw_packet_in_wait):
            deliver = self.on_packet_in
            if deliver is not None:
                try:
                    deliver(frame)
                except Exception:
                    LOG.exception("on_packet_in failed")

    def _drain_digests(self) -> None:
        for index, record in self._drain(self._lib.sw_digest_wait):
            deliver, program = self.on_digest, self._program
            if deliver is None or program is None or index >= len(program.digests):
                continue
            digest = program.digests[index]
            words = struct.unpack(f"={len(record) // 8}Q", record)
            if digest.fields and max(word + n for word, n in digest.fields) > len(words):
                continue  # of a program that was replaced meanwhile
            try:
                deliver(digest.id, [tuple(_join(words, word, n) for word, n in digest.fields)])
            except Exception:
                LOG.exception("on_digest failed")

    def _drain(self, wait: Callable[..., int]) -> Iterable[tuple[int, bytes]]:
        """Yield the records (tag, bytes) of a native ring until the switch stops."""
        buffer = self._ffi.new("uint8_t[]", _DRAIN_BYTES)
        view = memoryview(self._ffi.buffer(buffer))
        while not self._stopping.is_set():
            n, at = wait(self._switch, buffer, _DRAIN_BYTES, _DRAIN_MS), 0
            while at < n:
                length, tag = struct.unpack_from("=II", view, at)
                yield tag, bytes(view[at + 8 : at + 8 + length])
                at += 8 + length

    # ------------------------------------------------------------------------------------------------- helpers

    def _loaded(self) -> _Program:
        program = self._program
        if program is None:
            raise WrongState("no program is loaded")
        return program

    @staticmethod
    def _table(program: _Program, table_id: int) -> _Table:
        table = program.tables.get(table_id)
        if table is None:
            raise InvalidArgument(f"there is no table {table_id:#x}")
        return table

    @staticmethod
    def _cells(what: str, cells: dict[int, _Cells], number: int) -> _Cells:
        found = cells.get(number)
        if found is None:
            raise InvalidArgument(f"there is no {what} {number:#x}")
        return found

    @staticmethod
    def _check_range(cells: _Cells, what: str, first: int, n: int) -> None:
        if first < 0 or n < 0 or first + n > cells.size:
            last = first + n - 1 if n else first
            raise InvalidArgument(
                f"{what} {cells.name} has {cells.size} cells; index {last if first >= 0 else first} is out of range"
            )

    def _key(self, table: _Table, entry: TableEntry) -> tuple[Any, Any]:
        words = self._ffi.new("uint64_t[]", [*table.encode_key(entry), 0])
        return self._ffi.new("struct sw_table_op *", {"table": table.index, "priority": entry.priority}), words

    @staticmethod
    def _uint32(what: str, value: int) -> int:
        if not 0 <= value < 1 << 32:
            raise InvalidArgument(f"{what} {value} is impossible")
        return value

    def _error(self, status: int) -> DataPlaneError:
        return _ERRORS.get(status, DataPlaneError)(self._ffi.string(self._lib.sw_error()).decode())

    def _check(self, status: int) -> int:
        if status < 0:
            raise self._error(status)
        return int(status)
