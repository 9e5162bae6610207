"""The switch itself."""

from __future__ import annotations

import logging
import struct
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from p4switch.dataplane.errors import BY_STATUS, DataPlaneError, EntryMissing, InvalidArgument, WrongState
from p4switch.dataplane.native import drop_reasons, ffi, join, open_library, split, word_count
from p4switch.dataplane.program import EXACT, RANGE, Cells, Program, Snapshot, Table
from p4switch.dataplane.types import (
    DELETE,
    INSERT,
    MODIFY,
    EntryRecord,
    FieldMatch,
    MeterConfig,
    MeterCounts,
    PortStatus,
    SwitchOptions,
    TableEntry,
)
from p4switch.toolchain import runtime_library

LOG = logging.getLogger(__name__)
_NONE = 0xFFFFFFFF  # SW_NONE
DEFAULT = 4  # SW_DEFAULT: the default entry, of those whose direct counter or meter is meant
_DRAIN_BYTES = 1 << 18
_DRAIN_MS = 200  # how long stop() may have to wait for a thread that delivers packet-ins


class DataPlane:
    """A native switch: ports and a traffic manager, into which programs are loaded.

    on_packet_in(frame) and on_digest(digest_id, [values, ...]) are called from threads of the switch, one call at a
    time.
    """

    def __init__(self, options: SwitchOptions | None = None, runtime: Path | None = None) -> None:
        """Make a switch without program and ports. runtime: the runtime library, built when not given. Raises
        BuildError, InvalidArgument, SystemFailure."""
        self.options = o = options or SwitchOptions()
        self.on_packet_in: Callable[[bytes], None] | None = None
        self.on_digest: Callable[[int, list[tuple[int, ...]]], None] | None = None
        self._ffi = ffi()
        self._lib = open_library(runtime or runtime_library())
        if o.pcap_dir is not None and not o.pcap_dir.is_dir():
            raise InvalidArgument(f"{o.pcap_dir} is no directory for captures; make it first")
        directory = self._ffi.new("char[]", str(o.pcap_dir).encode()) if o.pcap_dir is not None else self._ffi.NULL
        native = self._ffi.new(
            "struct sw_options *",
            {
                "device_id": o.device_id,
                "cpu_port": _NONE if o.cpu_port is None else o.cpu_port,
                "drop_port": o.drop_port,
                "event_port": _NONE if o.event_port is None else o.event_port,
                "tick_us": o.tick_us,
                "packets": o.packets,
                "queue_depth": o.queue_depth,
                "recirculate_depth": o.recirculate_depth,
                "priorities": o.priorities,
                "ring_frames": o.ring_frames,
                "busy_poll": o.busy_poll,
                "qdisc_bypass": o.qdisc_bypass,
                "trace": o.trace,
                "trace_fd": o.trace_fd,
                "pcap_dir": directory,
            },
        )
        switch = self._lib.sw_new(native)
        if not switch:
            raise self._error(-1)
        # Freed with this object, not by stop(): another thread may still be in a call then.
        self._switch = self._ffi.gc(switch, self._lib.sw_free)
        self._lock = threading.Lock()  # around load() and what belongs to the loaded program
        self._program: Program | None = None
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
        """Load a program, or replace the loaded one while traffic runs. Ports and queues stay; tables, registers,
        counters, meters, multicast groups and clone sessions start anew. Packets that wait in queues leave at once by
        the old program; those that go round inside are dropped. Raises InvalidArgument when the library is no program
        for this runtime; the old program then stays."""
        with self._lock:
            self._check(self._lib.sw_load(self._switch, str(library.absolute()).encode()))
            self._program = Program(self._ffi, self._lib.sw_program(self._switch))
            self._groups.clear()
            self._sessions.clear()

    def adopt(self, other: DataPlane, *, carry: bool = False) -> None:
        """Take over the program of a switch that does not run, with all that was written into it, at one moment.

        The other switch gets this one's program and state. carry: this switch keeps its registers, counts, meters and
        times of hits where both programs have them, with all that packets did to them until that moment. Ports and
        queues stay; what waits inside fares as in load(). Raises WrongState when the other one runs or has no program.
        """
        with other._lock, self._lock:
            self._check(self._lib.sw_adopt(self._switch, other._switch, carry))
            for name in ("_program", "_groups", "_sessions"):
                mine, theirs = getattr(self, name), getattr(other, name)
                setattr(self, name, theirs)
                setattr(other, name, mine)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Work on no packet meanwhile: all that this thread does inside takes effect between two packets.

        Frames wait in the receive rings; those of 1,024 frames overflow after some milliseconds of full load.
        """
        self._lib.sw_pause(self._switch)
        try:
            yield
        finally:
            self._lib.sw_resume(self._switch)

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

        depth, rate_pps, rate_bps: as in set_queue(). Raises EntryExists, EntryMissing (no such interface),
        InvalidArgument, SystemFailure.
        """
        self._check(self._lib.sw_port_add(self._switch, self._uint32("port", port), iface.encode()))
        self.set_queue(port, depth=depth, rate_pps=rate_pps, rate_bps=rate_bps)

    def remove_port(self, port: int) -> None:
        """Unbind a port. Raises EntryMissing."""
        self._check(self._lib.sw_port_remove(self._switch, self._uint32("port", port)))

    def set_queue(
        self, port: int, *, depth: int | None = None, rate_pps: int | None = None, rate_bps: int | None = None
    ) -> None:
        """Set the egress queue of a port, bound or internal. depth: packets; rate_pps, rate_bps: packets and bits (of
        frames, as they leave the queue) a second, 0 for no limit; None: unchanged. Raises InvalidArgument."""
        values = [-1 if value is None else value for value in (depth, rate_pps, rate_bps)]
        if (depth is not None and depth < 1) or any(not -1 <= value < 1 << 63 for value in values):
            raise InvalidArgument(
                f"port {port}: depth {depth}, rates {rate_pps} pps and {rate_bps} bit/s are impossible"
            )
        self._check(self._lib.sw_queue_set(self._switch, self._uint32("port", port), *values))

    def ports(self) -> list[PortStatus]:
        """All ports that are bound, configured or have seen a packet, by number."""
        out = self._ffi.new("struct sw_port_status[]", 512)
        reasons = drop_reasons()
        n = self._check(self._lib.sw_ports(self._switch, out, 512))
        return [
            PortStatus(
                port=s.port,
                iface=self._ffi.string(s.iface).decode(),
                up=s.up,
                depth=s.depth,
                waiting=s.waiting,
                rate_pps=s.rate_pps,
                rate_bps=s.rate_bps,
                rx_packets=s.rx_packets,
                rx_bytes=s.rx_bytes,
                tx_packets=s.tx_packets,
                tx_bytes=s.tx_bytes,
                drops={reason: s.drops[i] for i, reason in enumerate(reasons)},
            )
            for s in (out[i] for i in range(n))
        ]

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
        """Carry out updates (INSERT, MODIFY or DELETE, with an entry) in order, each on its own; return the error of
        each that failed. 10,000 inserts take some 0.1 s, while traffic goes on."""
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
        message = self._apply_native(ops, words, len(sent)) if sent else None
        if message is not None:
            for position, at in zip(sent, range(4, len(ops), 6), strict=True):
                if ops[at]:
                    status = struct.unpack("i", struct.pack("I", ops[at]))[0]
                    results[position] = self._explain(status, program, ops[at - 3], message)
        return results

    def _apply_native(self, ops: array[int], words: array[int], n: int) -> str | None:
        """Carry out encoded updates; when any fails, give the message of the last one that did."""
        native = self._ffi.from_buffer("struct sw_table_op[]", ops, require_writable=True)
        pool = self._ffi.from_buffer("uint64_t[]", words) if len(words) else self._ffi.NULL
        if self._lib.sw_table_apply(self._switch, native, n, pool, len(words)) >= 0:
            return None
        return str(self._ffi.string(self._lib.sw_error()).decode())

    @staticmethod
    def _explain(status: int, program: Program, table: int, message: str) -> DataPlaneError:
        """The error of an update that failed in a batch; `message` may be another one's, but for out of memory."""
        name = next((t.name for t in program.tables.values() if t.index == table), str(table))
        messages = {
            -2: f"table {name} already has an entry with this key",
            -3: f"table {name} has no entry with this key",
            -4: f"table {name} is full",
            -5: f"table {name} has const entries: they cannot be changed",
        }
        return BY_STATUS.get(status, DataPlaneError)(messages.get(status, message))

    def table_snapshot(self, table_id: int) -> Snapshot:
        """All entries with their counters, as they are now."""
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
        return Snapshot(table, table_id, words, stride)

    def table_records(self, table_id: int) -> list[EntryRecord]:
        """All entries with their counters, in the order of their insertion."""
        return list(self.table_snapshot(table_id))

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

    def set_choices(self, entry: TableEntry, choices: Sequence[tuple[int, tuple[int, ...]]]) -> None:
        """Let an entry of a table with an action selector take one of several actions (id, arguments) for each packet.

        The hash of the packet's selector keys decides; of no action at all it does what the default action does. A
        table_modify() ends it. Raises EntryMissing, InvalidArgument.
        """
        table = self._table(self._loaded(), entry.table_id)
        op, words = self._key(table, entry)
        encoded = [table.encode_action(action_id, params) for action_id, params in choices]
        actions = [index for index, _ in encoded]
        data = [word for _, params in encoded for word in params]
        self._check(
            self._lib.sw_table_choose(self._switch, op, words, len(actions), [*actions, 0], [*data, 0], len(data))
        )

    def table_lookup(self, table_id: int, key: Sequence[int]) -> EntryRecord | None:
        """What a packet with these key values would hit, None for a miss. Counts nothing."""
        table = self._table(self._loaded(), table_id)
        words = [w for k, value in zip(table.keys, key, strict=True) for w in split(value & k.full, k.words)]
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
        return action.id, tuple(join(data, word, words) for _, _, word, words in action.params)

    def set_table_default(self, table_id: int, action_id: int | None, params: tuple[int, ...] = ()) -> None:
        """Set the default action; None: back to the program's own. Raises ReadOnly, InvalidArgument."""
        table = self._table(self._loaded(), table_id)
        if action_id is None:
            self._check(self._lib.sw_default_reset(self._switch, table.index))
            return
        index, data = table.encode_action(action_id, params)
        self._check(self._lib.sw_default_set(self._switch, table.index, index, data, len(data)))

    def direct_counter_read(self, entry: TableEntry) -> tuple[int, int]:
        """Packets and bytes of an entry, or of misses. Raises EntryMissing, InvalidArgument."""
        op, words = self._key(self._table(self._loaded(), entry.table_id), entry)
        out = self._ffi.new("uint64_t[2]")
        self._check(self._lib.sw_direct_counter_read(self._switch, op, words, out))
        return int(out[0]), int(out[1])

    def direct_counter_write(self, entry: TableEntry, packets: int, octets: int) -> None:
        op, words = self._key(self._table(self._loaded(), entry.table_id), entry)
        _check_counts(packets, octets)
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

    def direct_meter_counts(self, entry: TableEntry) -> MeterCounts:
        """What an entry's meter coloured. Raises EntryMissing, InvalidArgument."""
        return self._direct_counts(entry, (0,) * 6, False)

    def set_direct_meter_counts(self, entry: TableEntry, counts: MeterCounts) -> None:
        _check_counts(*counts)
        self._direct_counts(entry, counts, True)

    def _direct_counts(self, entry: TableEntry, counts: Sequence[int], write: bool) -> MeterCounts:
        op, words = self._key(self._table(self._loaded(), entry.table_id), entry)
        cells = self._ffi.new("uint64_t[6]", list(counts))
        self._check(self._lib.sw_direct_meter_counts(self._switch, op, words, cells, write))
        return _six(cells)

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
        _check_counts(packets, octets)
        self._check(self._lib.sw_counter_write(self._switch, cells.index, index, packets, octets))

    def register_read(self, register_id: int, index: int) -> int:
        """The value of one cell."""
        return self.register_read_all(register_id, index, 1)[0]

    def register_read_all(self, register_id: int, first: int = 0, count: int | None = None) -> list[int]:
        """The values of cells [first, first + count), by default all, read at one moment."""
        cells = self._cells("register", self._loaded().registers, register_id)
        n = cells.size - first if count is None else count
        self._check_range(cells, "register", first, n)
        words = word_count(cells.width)
        out = self._ffi.new("uint64_t[]", n * words + 1)
        self._check(self._lib.sw_register_read(self._switch, cells.index, first, n, out))
        return [join(out, i * words, words) for i in range(n)]

    def register_write(self, register_id: int, index: int, value: int) -> None:
        cells = self._cells("register", self._loaded().registers, register_id)
        self._check_range(cells, "register", index, 1)
        if not 0 <= value < 1 << cells.width:
            raise InvalidArgument(f"register {cells.name} has {cells.width} bits; {value} does not fit")
        self._check(
            self._lib.sw_register_write(self._switch, cells.index, index, 1, split(value, word_count(cells.width)))
        )

    def meter_config(self, meter_id: int, index: int) -> MeterConfig | None:
        """The configuration of one cell of an indirect meter, None when it has none (then it gives green)."""
        cells = self._cells("meter", self._loaded().meters, meter_id)
        self._check_range(cells, "meter", index, 1)
        out = self._ffi.new("struct sw_meter_config *")
        self._check(self._lib.sw_meter_read(self._switch, cells.index, index, out))
        return self._meter_tuple(out)

    def set_meter_config(
        self,
        meter_id: int,
        index: int,
        cir: int | None,
        cburst: int | None,
        pir: int | None,
        pburst: int | None,
        eburst: int = 0,
    ) -> None:
        """Configure one cell (rates per second, bursts; packets or bytes by the meter's type); all None: not
        configured."""
        cells = self._cells("meter", self._loaded().meters, meter_id)
        self._check_range(cells, "meter", index, 1)
        given = (cir, cburst, pir, pburst)
        if any(v is None for v in given) and any(v is not None for v in given):
            raise InvalidArgument(f"meter {cells.name}: give all of cir, cburst, pir and pburst, or none")
        config = None
        if cir is not None and cburst is not None and pir is not None and pburst is not None:
            config = MeterConfig(cir, cburst, pir, pburst, eburst)
        self._check(self._lib.sw_meter_write(self._switch, cells.index, index, self._meter_struct(config)))

    def meter_counts(self, meter_id: int, index: int) -> MeterCounts:
        """What one cell of an indirect meter coloured."""
        return self._cell_counts(meter_id, index, (0,) * 6, False)

    def set_meter_counts(self, meter_id: int, index: int, counts: MeterCounts) -> None:
        _check_counts(*counts)
        self._cell_counts(meter_id, index, counts, True)

    def _cell_counts(self, meter_id: int, index: int, counts: Sequence[int], write: bool) -> MeterCounts:
        cells = self._cells("meter", self._loaded().meters, meter_id)
        self._check_range(cells, "meter", index, 1)
        out = self._ffi.new("uint64_t[6]", list(counts))
        self._check(self._lib.sw_meter_counts(self._switch, cells.index, index, out, write))
        return _six(out)

    def _meter_struct(self, config: MeterConfig | None) -> Any:
        if config is None:
            return self._ffi.new("struct sw_meter_config *")
        if any(not 0 <= value < 1 << 63 for value in config):
            raise InvalidArgument(f"meter rates and bursts {tuple(config)}: they are not negative and below 2^63")
        if config.eburst and config[:2] != config[2:4]:
            raise InvalidArgument(
                f"meter rates and bursts {tuple(config)}: with an excess burst there is a single rate"
            )
        return self._ffi.new("struct sw_meter_config *", (True, *config))

    @staticmethod
    def _meter_tuple(c: Any) -> MeterConfig | None:
        return MeterConfig(c.cir, c.cburst, c.pir, c.pburst, c.eburst) if c.configured else None

    def set_value_set(self, value_set_id: int, members: Iterable[tuple[FieldMatch | None, ...]]) -> None:
        """Set all members of a parser value set; exact, ternary and range fields (None: any)."""
        found = self._loaded().value_sets.get(value_set_id)
        if found is None:
            raise InvalidArgument(f"there is no value set {value_set_id:#x}")
        index, keys = found
        values: list[int] = []
        masks: list[int] = []
        n = 0
        for member in members:
            n += 1
            for key, match in zip(keys, member, strict=True):
                if match is None:
                    mask = key.full if key.kind == RANGE else 0
                else:
                    mask = key.full if key.kind == EXACT else match.mask_or_hi
                values += split(match.value if match else 0, key.words)
                masks += split(mask, key.words)
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
        """Let a frame enter the pipeline as if received on the CPU port, or on another. Raises TableFull when too many
        wait."""
        port = self.options.cpu_port if ingress_port is None else ingress_port
        if port is None:
            raise InvalidArgument("the switch has no CPU port; name the ingress port")
        self._check(self._lib.sw_packet_out(self._switch, self._uint32("port", port), data, len(data)))

    def inject(self, port: int, data: bytes) -> list[tuple[int, bytes]]:
        """Run a frame that comes in on a port, and all its copies, to the end, and return the frames sent, as (port,
        frame).

        Needs no interfaces; rates of queues are ignored, depths are not. Raises EndlessPacket when the packet
        recirculates for ever.
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
                deliver(digest.id, [tuple(join(words, word, n) for word, n in digest.fields)])
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

    def _loaded(self) -> Program:
        program = self._program
        if program is None:
            raise WrongState("no program is loaded")
        return program

    @staticmethod
    def _table(program: Program, table_id: int) -> Table:
        table = program.tables.get(table_id)
        if table is None:
            raise InvalidArgument(f"there is no table {table_id:#x}")
        return table

    @staticmethod
    def _cells(what: str, cells: dict[int, Cells], number: int) -> Cells:
        found = cells.get(number)
        if found is None:
            raise InvalidArgument(f"there is no {what} {number:#x}")
        return found

    @staticmethod
    def _check_range(cells: Cells, what: str, first: int, n: int) -> None:
        if first < 0 or n < 0 or first + n > cells.size:
            last = first + n - 1 if n else first
            raise InvalidArgument(
                f"{what} {cells.name} has {cells.size} cells; index {last if first >= 0 else first} is out of range"
            )

    def _key(self, table: Table, entry: TableEntry) -> tuple[Any, Any]:
        key = [] if entry.is_default else table.encode_key(entry)
        op = {"table": table.index, "priority": entry.priority, "op": DEFAULT if entry.is_default else 0}
        return self._ffi.new("struct sw_table_op *", op), self._ffi.new("uint64_t[]", [*key, 0])

    @staticmethod
    def _uint32(what: str, value: int) -> int:
        if not 0 <= value < 1 << 32:
            raise InvalidArgument(f"{what} {value} is impossible")
        return value

    def _error(self, status: int) -> DataPlaneError:
        return BY_STATUS.get(status, DataPlaneError)(self._ffi.string(self._lib.sw_error()).decode())

    def _check(self, status: int) -> int:
        if status < 0:
            raise self._error(status)
        return int(status)


def _check_counts(*counts: int) -> None:
    if not all(0 <= count < 1 << 64 for count in counts):
        raise InvalidArgument(f"{', '.join(map(str, counts))}: counts of packets and bytes have 64 bits and no sign")


def _six(cells: Any) -> MeterCounts:
    green_packets, green_bytes, yellow_packets, yellow_bytes, red_packets, red_bytes = map(int, cells)
    return green_packets, green_bytes, yellow_packets, yellow_bytes, red_packets, red_bytes
