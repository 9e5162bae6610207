"""One GPU on the fabric: its memory, and load/store on everybody else's.

    with Gpu.from_environment() as gpu:
        region = gpu.register(4096)                  # others may access it at addresses 0 to 4095
        gpu.barrier()                                # everybody has registered
        gpu.store(gpu.peers[0], 64, b"hello")
        assert gpu.load(gpu.peers[0], 64, 5) == b"hello"
        ticket = gpu.atomic_add(gpu.peers[0], 8, 1)  # the value before
        gpu.barrier()                                # everybody is done

Every access happens exactly once, or fails with an error in bounded time. Accesses of one GPU that overlap in time
may take effect in any order; one that has returned took effect before the next is sent.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

from codec.constants import ATOMIC_BYTES, LSU_MAX_BYTES, MAX_GPU_ID, TMA_MAX_MESSAGE, Ecn, LsuOpcode
from codec.fabric import MAX_INCARNATION
from codec.profile import LinkProfile
from endpoint.barrier import REGION_BYTES, Barrier
from endpoint.carrier import Carriers
from endpoint.collectives.group import Group
from endpoint.collectives.mailbox import Mailboxes, scratch_bytes
from endpoint.congestion import block_cost, lossless_rto_s
from endpoint.engine import Engine, Operation
from endpoint.environment import place_from_environment
from endpoint.errors import ConfigurationError
from endpoint.event_log import EventRecord
from endpoint.failover import Failover
from endpoint.impairments import ImpairedPort, Impairment, check_planes
from endpoint.initiator import Initiator
from endpoint.link import LinkLayer, OpenLink
from endpoint.llr import ReceiveState, TransmitState
from endpoint.managed_link import ManagedLink
from endpoint.memory import BARRIER_KEY, FIRST_RESERVED_KEY, MAX_KEY, SCRATCH_KEY, Memory, Region
from endpoint.options import EndpointOptions
from endpoint.paths import Paths
from endpoint.port import Port
from endpoint.reachability import Reachability
from endpoint.target import Target
from endpoint.tma.notifications import Notification, Notifications
from endpoint.tma.source import TmaSource
from endpoint.tma.target import TmaTarget
from endpoint.tma.unit import TmaUnit, fence
from endpoint.transfer import Transfer

Data = bytes | bytearray | memoryview | npt.NDArray[Any]
Into = TypeVar("Into", npt.NDArray[Any], bytearray)


class Semantics(StrEnum):
    """The two ways to another GPU's memory."""

    LOAD_STORE = "load_store"
    RDMA = "rdma"


DEFAULT_KEY: Final = 1
MAX_PLANE: Final = 0xFF
"""What an event can say."""

_LOAD: Final = int(LsuOpcode.LOAD)
_STORE: Final = int(LsuOpcode.STORE)
_ADDRESS_END: Final = 1 << 64


class Gpu:
    """One GPU, with a port per plane.

    `gpu_id` is its endpoint id (0 to 0xEFF), `ports` the interface of each plane, `peers` the ids of the other GPUs
    that it shares barriers with, `managed` the profiles of the planes whose links are brought up and have credits.
    `incarnation` must be higher at each start of the same GPU on a running fabric: peers drop what an earlier start
    sent. Raises ConfigurationError and PortError.
    """

    def __init__(
        self,
        gpu_id: int,
        ports: Mapping[int, str],
        *,
        peers: Iterable[int] = (),
        managed: Mapping[int, LinkProfile] = MappingProxyType({}),
        incarnation: int = 1,
        options: EndpointOptions = EndpointOptions(),  # noqa: B008  (frozen)
    ) -> None:
        if not 0 <= gpu_id <= MAX_GPU_ID:
            raise ConfigurationError(f"GPU id {gpu_id} is out of range, 0 to {MAX_GPU_ID}")
        if not 0 <= incarnation <= MAX_INCARNATION:
            raise ConfigurationError(f"incarnation {incarnation} is out of range, 0 to {MAX_INCARNATION}")
        if not all(0 <= plane <= MAX_PLANE for plane in ports):
            raise ConfigurationError(f"planes {sorted(ports)} are out of range, 0 to {MAX_PLANE}")
        if not ports:
            raise ConfigurationError(f"GPU {gpu_id} needs at least one port")
        check_planes(options.impairments or (), ports)
        self.id = gpu_id
        self.incarnation = incarnation
        self.options = options
        self.peers = tuple(sorted(set(peers) - {gpu_id}))
        """The ids of the other GPUs of the group, ascending."""
        self._ranks = tuple(sorted({gpu_id, *self.peers}))
        self._counters: Counter[str] = Counter()
        self._port_counters: dict[int, Counter[str]] = {plane: Counter() for plane in ports}
        self._memory = Memory()
        self._closed = False
        with contextlib.ExitStack() as undo:
            self._ports: dict[int, Port] = {}
            for plane, iface in sorted(ports.items()):
                self._ports[plane] = self._open_port(plane, iface)
                undo.callback(self._ports[plane].close)
            self._links: dict[int, LinkLayer] = {
                plane: ManagedLink(port, self._port_counters[plane], managed[plane])
                if plane in managed
                else OpenLink(port, self._port_counters[plane])
                for plane, port in self._ports.items()
            }
            target = Target(gpu_id, self._memory, self._counters)
            self._carriers = Carriers()
            undo.callback(self._carriers.close)
            for plane, port in self._ports.items():
                self._links[plane].carrier(self._carriers.is_up(port.iface))
            down = [plane for plane, link in self._links.items() if not link.is_up]
            reachability = Reachability(ports, time.monotonic(), down)
            self._failover = Failover(gpu_id, self._links, reachability, self._counters, options.events)
            self._engine = Engine(
                gpu_id, self._ports, self._links, target, self._failover, self._carriers, self._counters,
                options.service_s,
            )  # fmt: skip
            self._barrier = Barrier(
                gpu_id,
                self._ranks,
                self._memory.register(REGION_BYTES, BARRIER_KEY),
                lambda dst, address, timeout_s: self._atomic(
                    LsuOpcode.ATOMIC_ADD, dst, address, BARRIER_KEY, (1,), timeout_s
                ).result(),
                self._engine.wait_written,
            )
            scratch = self._memory.register(scratch_bytes(len(self._ranks)), SCRATCH_KEY)
            self._mailboxes = Mailboxes(self, scratch, gpu_id, self._ranks)
            self._groups: dict[tuple[int, ...], Group] = {}
            paths = Paths(gpu_id, ports, options.ordered, reachability, options.tries_per_path)
            # Only links with credits tell of congestion, and only for their sake does it limit what is in flight.
            ecn = int(Ecn.CAPABLE_0 if managed else Ecn.NOT_CAPABLE)
            rto = options.lossless_rto_s or max(options.min_rto_s, lossless_rto_s(managed.values()))
            initiator = Initiator(
                gpu_id, incarnation, paths, self._engine.transmit, self._counters, options, ecn=ecn, lossless_rto_s=rto
            )
            self._initiator = initiator
            notifications = Notifications(options.notifications)
            self._tma = TmaUnit(
                TmaSource(
                    gpu_id, incarnation, paths, self._engine.transmit, initiator.congestion,
                    block_cost(managed.values()), lambda: initiator.least_rto, self._counters, options, ecn=ecn,
                ),
                TmaTarget(gpu_id, self._memory, notifications, self._counters),
                notifications,
            )  # fmt: skip
            self._failover.add_user(initiator)
            self._failover.add_user(self._tma.source)
            self._engine.start(initiator, self._tma)
            undo.pop_all()

    @classmethod
    def from_environment(cls, *, options: EndpointOptions = EndpointOptions()) -> Self:  # noqa: B008  (frozen)
        """Make the GPU that the environment names (ETHLINK_FABRIC, ETHLINK_GPU); its peers are its tenant's other
        GPUs."""
        place = place_from_environment()
        return cls(
            place.gpu.id,
            {port.plane: port.iface for port in place.gpu.ports},
            peers=[gpu.id for gpu in place.fabric.tenant_gpus(place.gpu.tenant)],
            managed=place.managed_links(),
            incarnation=place.incarnation,
            options=options,
        )

    # ------------------------------------------------------------------------------------------------ own memory

    def register(self, source: npt.NDArray[Any] | bytearray | int, key: int = DEFAULT_KEY, *, base: int = 0) -> Region:
        """Let others access memory under a key, at addresses from `base` on; return its region.

        `source` is an array (its own memory is used) or a size in bytes of fresh zeros. Raises ValueError when it
        cannot be shared or the key is in use.
        """
        if FIRST_RESERVED_KEY <= key <= MAX_KEY:
            raise ValueError(
                f"key {key:#x} is reserved for barriers and collectives; choose one from 0 to "
                f"{FIRST_RESERVED_KEY - 1:#x}"
            )
        return self._memory.register(source, key, base)

    def unregister(self, region: Region) -> None:
        """Refuse further accesses to a region. Raises KeyError when it is not registered."""
        if self._memory.get(region.key) is not region:
            raise KeyError(f"{region} is not registered")
        self._memory.unregister(region.key)

    def wait_until(self, region: Region, predicate: Callable[[], bool], timeout_s: float = 30.0) -> bool:
        """Wait until a condition on a region holds, looking again after each remote write to it; tell whether it does.

        `predicate` must not access other GPUs. Raises ClosedError when the GPU is closed meanwhile.
        """
        return self._engine.wait_written(region, predicate, timeout_s)

    # ------------------------------------------------------------------------------------------- others' memory

    def load(self, dst: int, address: int, length: int, key: int = DEFAULT_KEY) -> bytes:
        """Return `length` bytes at `address` of another GPU. More than 256 bytes are several requests.

        Raises AccessRefused (OutOfRange, BadKey, ...) or LsuTimeout.
        """
        return self.load_async(dst, address, length, key).result()

    def load_async(self, dst: int, address: int, length: int, key: int = DEFAULT_KEY) -> Transfer[bytes]:
        """Begin a load. Waits only while the window to `dst` is full."""
        _check_place(address, length, key)
        return self._issue(dst, _requests(length), _load_operations(address, length, key), b"".join)

    def load_many(self, dst: int, places: Iterable[tuple[int, int]], key: int = DEFAULT_KEY) -> list[bytes]:
        """Return the bytes at many places `(address, length)` of another GPU, as many at a time as the window holds."""
        return self.load_many_async(dst, places, key).result()

    def load_many_async(
        self, dst: int, places: Iterable[tuple[int, int]], key: int = DEFAULT_KEY
    ) -> Transfer[list[bytes]]:
        """Begin many loads. Returns once the last request is on its way."""
        operations: list[Operation] = []
        parts: list[int] = []
        for address, length in places:
            _check_place(address, length, key)
            operations += _load_operations(address, length, key)
            parts.append(_requests(length))
        return self._issue(dst, len(operations), operations, lambda values: _gather(values, parts))

    def store(self, dst: int, address: int, data: Data, key: int = DEFAULT_KEY) -> None:
        """Write bytes at `address` of another GPU; when it returns, they are there.

        `data` is bytes or an array. More than 256 bytes are several requests, whose bytes appear in any order. Raises
        AccessRefused (OutOfRange, BadKey, ...) or LsuTimeout.
        """
        self.store_async(dst, address, data, key).result()

    def store_async(self, dst: int, address: int, data: Data, key: int = DEFAULT_KEY) -> Transfer[None]:
        """Begin a store. Waits only while the window to `dst` is full; `data` may be changed once it returns."""
        view = _bytes_of(data)
        _check_place(address, len(view), key)
        return self._issue(dst, _requests(len(view)), _store_operations(address, view, key), _nothing)

    def store_many(self, dst: int, pieces: Iterable[tuple[int, Data]], key: int = DEFAULT_KEY) -> None:
        """Write many pieces `(address, data)` to another GPU, as many at a time as the window holds."""
        self.store_many_async(dst, pieces, key).result()

    def store_many_async(self, dst: int, pieces: Iterable[tuple[int, Data]], key: int = DEFAULT_KEY) -> Transfer[None]:
        """Begin many stores. Returns once the last request is on its way."""
        operations: list[Operation] = []
        for address, data in pieces:
            view = _bytes_of(data)
            _check_place(address, len(view), key)
            operations += _store_operations(address, view, key)
        return self._issue(dst, len(operations), operations, _nothing)

    def atomic_add(self, dst: int, address: int, value: int, key: int = DEFAULT_KEY) -> int:
        """Add to an aligned 8-byte word of another GPU, modulo 2^64; return the word before (0 to 2^64 - 1)."""
        return self.atomic_add_async(dst, address, value, key).result()

    def atomic_add_async(self, dst: int, address: int, value: int, key: int = DEFAULT_KEY) -> Transfer[int]:
        """Begin an atomic add."""
        return self._atomic(LsuOpcode.ATOMIC_ADD, dst, address, key, (value,))

    def swap(self, dst: int, address: int, value: int, key: int = DEFAULT_KEY) -> int:
        """Replace an aligned 8-byte word of another GPU; return the word before."""
        return self.swap_async(dst, address, value, key).result()

    def swap_async(self, dst: int, address: int, value: int, key: int = DEFAULT_KEY) -> Transfer[int]:
        """Begin a swap."""
        return self._atomic(LsuOpcode.ATOMIC_SWAP, dst, address, key, (value,))

    def compare_and_swap(self, dst: int, address: int, expected: int, value: int, key: int = DEFAULT_KEY) -> int:
        """Replace an aligned 8-byte word of another GPU if it equals `expected`; return the word before."""
        return self.compare_and_swap_async(dst, address, expected, value, key).result()

    def compare_and_swap_async(
        self, dst: int, address: int, expected: int, value: int, key: int = DEFAULT_KEY
    ) -> Transfer[int]:
        """Begin a compare-and-swap."""
        return self._atomic(LsuOpcode.ATOMIC_CAS, dst, address, key, (expected, value))

    # ------------------------------------------------------------------------------------------------- bulk: RDMA

    def write(
        self,
        dst: int,
        address: int,
        data: Data,
        key: int = DEFAULT_KEY,
        *,
        notify: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Write a message at `address` of another GPU by RDMA; when it returns, all its bytes are there.

        `data` is bytes or an array, of any size. With `notify` the target's program is told (`wait_notification`).
        `timeout_s` is how long it may make no progress, in seconds (the option by default); given, also how long it
        waits where no plane leads to `dst`, rather than `unreachable_s`. Raises Unreachable, AccessRefused
        (OutOfRange, BadKey, ...) or TmaTimeout.
        """
        self.write_async(dst, address, data, key, notify=notify, timeout_s=timeout_s).result()

    def write_async(
        self,
        dst: int,
        address: int,
        data: Data,
        key: int = DEFAULT_KEY,
        *,
        notify: bool = False,
        timeout_s: float | None = None,
    ) -> Transfer[None]:
        """Begin a write, and never wait. `data` is not copied: leave it as it is until the transfer is done."""
        view = memoryview(_bytes_of(data))
        self._check_destination(dst)
        _check_place(address, len(view), key, least=0)
        if notify and len(view) > TMA_MAX_MESSAGE:
            raise ValueError(f"a notified write has at most {TMA_MAX_MESSAGE} bytes, not {len(view)}")
        limit = timeout_s or self.options.timeout_s
        return self._tma.write(self._engine, dst, address, view, key, notify, limit, timeout_s is not None)

    @overload
    def read(
        self, dst: int, address: int, length: int, key: int = DEFAULT_KEY, *, into: None = None,
        timeout_s: float | None = None,
    ) -> bytearray: ...  # fmt: skip
    @overload
    def read(
        self, dst: int, address: int, length: int | None = None, key: int = DEFAULT_KEY, *, into: Into,
        timeout_s: float | None = None,
    ) -> Into: ...  # fmt: skip
    def read(
        self,
        dst: int,
        address: int,
        length: int | None = None,
        key: int = DEFAULT_KEY,
        *,
        into: npt.NDArray[Any] | bytearray | None = None,
        timeout_s: float | None = None,
    ) -> npt.NDArray[Any] | bytearray:
        """Return `length` bytes at `address` of another GPU by RDMA, or fill `into`, an array, from there.

        Raises AccessRefused (OutOfRange, BadKey, ...) or TmaTimeout; then `into` may be filled in part.
        """
        result: npt.NDArray[Any] | bytearray = self.read_async(
            dst, address, length, key, into=into, timeout_s=timeout_s
        ).result()
        return result

    def read_async(
        self,
        dst: int,
        address: int,
        length: int | None = None,
        key: int = DEFAULT_KEY,
        *,
        into: npt.NDArray[Any] | bytearray | None = None,
        timeout_s: float | None = None,
    ) -> Transfer[Any]:
        """Begin a read, and never wait. Leave `into` alone until the transfer is done; it is the result."""
        if into is None:
            if length is None:
                raise ValueError("a read needs a length, or an array to fill")
            _check_place(address, length, key)
            into = bytearray(length)
        view = _writable_bytes_of(into)
        if length not in (None, len(view)):
            raise ValueError(f"length {length} is not that of the array to fill, {len(view)} bytes")
        self._check_destination(dst)
        _check_place(address, len(view), key)
        limit = timeout_s or self.options.timeout_s
        return self._tma.read(self._engine, dst, address, view, key, limit, into, timeout_s is not None)

    def put(
        self, dst: int, address: int, data: Data, key: int = DEFAULT_KEY, *, semantics: Semantics | str | None = None
    ) -> None:
        """Write bytes at `address` of another GPU by whichever semantics suits their number; they are there on return.

        Below `EndpointOptions.bulk_bytes` that is a store, from there on a write, unless `semantics` says which.
        """
        self.put_async(dst, address, data, key, semantics=semantics).result()

    def put_async(
        self, dst: int, address: int, data: Data, key: int = DEFAULT_KEY, *, semantics: Semantics | str | None = None
    ) -> Transfer[None]:
        """Begin a put. `data` must stay as it is until the transfer is done."""
        view = _bytes_of(data)
        if self._by_rdma(len(view), semantics):
            return self.write_async(dst, address, view, key)
        return self.store_async(dst, address, view, key)

    def get(
        self, dst: int, address: int, length: int, key: int = DEFAULT_KEY, *, semantics: Semantics | str | None = None
    ) -> bytes | bytearray:
        """Return bytes at `address` of another GPU, by a load or by a read as `put` chooses."""
        return self.get_async(dst, address, length, key, semantics=semantics).result()

    def get_async(
        self, dst: int, address: int, length: int, key: int = DEFAULT_KEY, *, semantics: Semantics | str | None = None
    ) -> Transfer[bytes] | Transfer[bytearray]:
        """Begin a get."""
        if self._by_rdma(length, semantics):
            return self.read_async(dst, address, length, key)
        return self.load_async(dst, address, length, key)

    def wait_notification(
        self, src: int | None = None, key: int | None = None, timeout_s: float | None = None
    ) -> Notification:
        """Return, once, what another GPU's write with `notify` has completed: `(src, key, address, length)`.

        The oldest one of source `src` in region `key` (None: of any); those of a source come in the order in which its
        messages were completed. Raises NotificationTimeout when none comes in time (`timeout_s` of the options unless
        given), ClosedError when the GPU is closed meanwhile.
        """
        return self._tma.wait_notification(
            self._engine, src, key, self.options.timeout_s if timeout_s is None else timeout_s
        )

    @property
    def notifications(self) -> int:
        """How many notifications nobody has taken yet."""
        return len(self._tma.notifications)

    def fence(self, dst: int | None = None, timeout_s: float = 60.0) -> None:
        """Wait until all earlier accesses to a GPU (None: to all), of both semantics, have taken effect or failed.

        Whether one failed, its own transfer says. Raises FenceTimeout when something is still under way.
        """
        transfers = self._engine.locked(
            lambda _now: self._initiator.unfinished_transfers(dst) | self._tma.source.unfinished(dst)
        )
        fence(list(transfers), timeout_s)

    # ------------------------------------------------------------------------------------------------- the group

    @property
    def rank(self) -> int:
        """This GPU's position among the ids of its group."""
        return self._ranks.index(self.id)

    @property
    def ranks(self) -> Sequence[int]:
        """The ids of the group, this GPU's included, ascending."""
        return self._ranks

    def group(self, ids: Iterable[int] | None = None) -> Group:
        """Return the group of some GPUs of the tenant, this one among them (None: of all), for collectives.

        The same ids make the same group, in any order. Raises ValueError for ids that are no such group.
        """
        members = self._ranks if ids is None else tuple(sorted(ids))
        if strangers := sorted(set(members) - set(self._ranks)):
            raise ValueError(
                f"GPU {strangers[0]} is not of this tenant; its GPUs are {', '.join(map(str, self._ranks))}"
            )
        if len(set(members)) < len(members) or self.id not in members:
            raise ValueError(f"a group names each of its GPUs once, and GPU {self.id} among them, not {list(members)}")
        if members not in self._groups:
            self._groups[members] = Group(self._mailboxes, self.id, members)
        return self._groups[members]

    def barrier(self, timeout_s: float = 60.0) -> None:
        """Wait until every GPU of the group has come here as often as this one.

        The first one also waits for processes that are still starting. Raises BarrierTimeout, after which the group is
        out of step: end the program.
        """
        self._barrier.arrive(timeout_s)

    # -------------------------------------------------------------------------------------------------- the rest

    def counters(self) -> dict[str, int]:
        """Return what was counted so far: transactions, and the sums over the ports of frames and drops by reason."""
        total = Counter(self._counters)
        for counters in self.port_counters().values():
            total.update(counters)
        return dict(sorted(total.items()))

    def port_counters(self) -> dict[int, dict[str, int]]:
        """Return what each plane's port and link counted so far."""
        with self._engine.callers, self._engine.lock:
            if not self._closed:
                for port in self._ports.values():
                    port.count_lost()
            return {plane: dict(sorted(counters.items())) for plane, counters in self._port_counters.items()}

    def llr_states(self) -> dict[int, tuple[TransmitState, ReceiveState]]:
        """Return the states of link-layer retry of each plane's link, in the sending and the receiving direction."""
        with self._engine.callers, self._engine.lock:
            return {
                plane: (link.transmit_state, link.receive_state)
                if isinstance(link, ManagedLink)
                else (TransmitState.OFF, ReceiveState.OFF)
                for plane, link in self._links.items()
            }

    def impair(self, *impairments: Impairment) -> None:
        """Let these go wrong from now on, on the wire, and nothing else; needs `EndpointOptions.impairments`.

        Raises ConfigurationError where the option is None, which is the default, or a plane is none of this GPU's.
        """
        if self.options.impairments is None:
            raise ConfigurationError("impairments are off: make the GPU with EndpointOptions(impairments=())")
        check_planes(impairments, self._ports)
        with self._engine.callers, self._engine.lock:
            for port in self._ports.values():
                if isinstance(port, ImpairedPort):
                    port.impair(impairments)

    def event_log(self) -> list[EventRecord]:
        """Return what became of the ways to others and when, oldest first: the newest 4,096 changes."""
        with self._engine.callers, self._engine.lock:
            return self._failover.log.records()

    def close(self) -> None:
        """Stop: unfinished accesses fail with ClosedError. What peers still ask is answered for a moment
        (`linger_s`)."""
        if self._closed:
            return
        self._closed = True
        self._engine.stop(self.options.linger_s)
        self._carriers.close()
        for port in self._ports.values():
            port.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Gpu(id={self.id}, planes={sorted(self._ports)}, incarnation={self.incarnation})"

    def _open_port(self, plane: int, iface: str) -> Port:
        options, counters = self.options, self._port_counters[plane]
        if options.impairments is None:
            return Port(iface, options.receive_buffer, counters)
        return ImpairedPort(
            iface, options.receive_buffer, counters, plane, options.impairments, options.impairment_seed << 12 | self.id
        )

    def _issue(
        self,
        dst: int,
        count: int,
        operations: Iterable[Operation],
        finish: Callable[[list[Any]], Any],
        timeout_s: float | None = None,
    ) -> Transfer:
        self._check_destination(dst)
        limit = timeout_s or self.options.timeout_s
        return self._engine.issue(dst, count, operations, finish, limit, patient=timeout_s is not None)

    def _check_destination(self, dst: int) -> None:
        if not 0 <= dst <= MAX_GPU_ID:
            raise ValueError(f"destination {dst} is no GPU id: 0 to {MAX_GPU_ID}")
        if dst == self.id:
            raise ValueError(f"GPU {dst} accesses its own memory directly, through region.array")

    def _by_rdma(self, length: int, semantics: Semantics | str | None) -> bool:
        if semantics is None:
            return length >= self.options.bulk_bytes
        return Semantics(semantics) is Semantics.RDMA

    def _atomic(
        self,
        opcode: LsuOpcode,
        dst: int,
        address: int,
        key: int,
        operands: tuple[int, ...],
        timeout_s: float | None = None,
    ) -> Transfer[int]:
        _check_place(address, ATOMIC_BYTES, key)
        for operand in operands:
            if not -(1 << 63) <= operand < 1 << 64:
                raise ValueError(f"operand {operand} does not fit 8 bytes")
        data = b"".join((operand % (1 << 64)).to_bytes(ATOMIC_BYTES, "little") for operand in operands)
        operation = int(opcode), key, address, ATOMIC_BYTES, data
        return self._issue(dst, 1, [operation], _only, timeout_s)


def _check_place(address: int, length: int, key: int, least: int = 1) -> None:
    if not 0 <= key <= MAX_KEY:
        raise ValueError(f"key {key} is out of range, 0 to {MAX_KEY}")
    if length < least:
        raise ValueError(f"an access needs at least one byte, not {length}")
    if not 0 <= address <= _ADDRESS_END - length:
        raise ValueError(f"{length} bytes at {address:#x} do not lie within 64-bit addresses")


def _requests(length: int) -> int:
    """Return how many requests an access of so many bytes is."""
    return -(-length // LSU_MAX_BYTES)


def _load_operations(address: int, length: int, key: int) -> Iterator[Operation]:
    """Yield the requests of a load, at most 256 bytes each."""
    for offset in range(0, length, LSU_MAX_BYTES):
        yield _LOAD, key, address + offset, min(LSU_MAX_BYTES, length - offset), b""


def _store_operations(address: int, data: memoryview | bytes | bytearray, key: int) -> Iterator[Operation]:
    """Yield the requests of a store, at most 256 bytes each."""
    for offset in range(0, len(data), LSU_MAX_BYTES):
        piece = data[offset : offset + LSU_MAX_BYTES]
        yield _STORE, key, address + offset, len(piece), piece


def _bytes_of(data: Data) -> memoryview | bytes:
    """Return data as something whose length is in bytes and whose slices are cheap."""
    if isinstance(data, np.ndarray):
        return memoryview(np.ascontiguousarray(data).reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    if isinstance(data, bytes) and len(data) <= LSU_MAX_BYTES:
        return data
    return memoryview(data).cast("B")


def _writable_bytes_of(target: npt.NDArray[Any] | bytearray) -> memoryview:
    """Return the memory to be filled as bytes. Raises ValueError when it is not contiguous and writable."""
    if isinstance(target, np.ndarray):
        if not target.flags.c_contiguous or not target.flags.writeable:
            raise ValueError("an array to fill must be contiguous in memory and writable")
        return memoryview(target.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    return memoryview(target)


def _gather(values: list[bytes], parts: list[int]) -> list[bytes]:
    """Return the bytes of each of several loads, of which load i was `parts[i]` requests."""
    gathered = []
    at = 0
    for count in parts:
        gathered.append(values[at] if count == 1 else b"".join(values[at : at + count]))
        at += count
    return gathered


def _only(values: list[int]) -> int:
    return values[0]


def _nothing(_values: list[Any]) -> None:
    return None
