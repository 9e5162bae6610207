"""Drive a switch over P4Runtime, synchronously: what a packet test needs of a control plane.

Tables, actions, counters and meters are named by their P4Info alias or full name; values are integers.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc
from finsy.proto import p4i, p4r, p4r_grpc, rpc_code, rpc_status
from google.protobuf import text_format

RPC_TIMEOUT_S: Final = 10.0
ELECTION_ID: Final = 1


_KINDS: Final = (
    *("tables", "actions", "counters", "meters", "registers", "action_profiles", "controller_packet_metadata"),
)


class P4RuntimeError(Exception):
    """A request that the switch refused, or that cannot be made of this P4Info."""


def canonical(value: int) -> bytes:
    """Return the shortest big-endian byte string of a value, as P4Runtime wants it."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


@dataclass(frozen=True)
class PacketIn:
    """A frame that the switch sent to the controller, with the fields of its packet_in header."""

    payload: bytes
    ingress_port: int
    reason: int


@dataclass(frozen=True)
class Count:
    """A cell of a counter."""

    packets: int = 0
    bytes: int = 0

    def __sub__(self, earlier: Count) -> Count:
        return Count(self.packets - earlier.packets, self.bytes - earlier.bytes)


class Names:
    """Find P4Info's objects by alias or full name."""

    def __init__(self, p4info: p4i.P4Info) -> None:
        self.p4info = p4info
        self._by_kind: dict[str, dict[str, Any]] = {}
        for kind in _KINDS:
            named = self._by_kind[kind] = {}
            for item in getattr(p4info, kind):
                named[item.preamble.alias] = named[item.preamble.name] = item

    @classmethod
    def load(cls, text: str) -> Names:
        """Parse P4Info in protobuf's text format."""
        return cls(text_format.Parse(text, p4i.P4Info()))

    def find(self, kind: str, name: str) -> Any:
        """Return the P4Info message of an object; raise P4RuntimeError naming what there is."""
        named = self._by_kind[kind]
        if name not in named:
            raise P4RuntimeError(f"P4Info has no {name!r} among its {kind}; it has {', '.join(sorted(named))}")
        return named[name]

    def aliases(self, kind: str) -> set[str]:
        """Return the aliases of all objects of a kind."""
        return {item.preamble.alias for item in getattr(self.p4info, kind)}

    def entry(self, table: str, match: Mapping[str, int | tuple[int, int]], action: str = "", **params: int) -> Any:
        """Build a table entry; without an action it only names one.

        match: by name of the key, a value; of lpm keys (value, prefix length), of ternary ones (value, mask), of
        ranges (low, high). What is left out of these matches anything; exact keys must be there.
        """
        info = self.find("tables", table)
        fields = {field.name: field for field in info.match_fields}
        exact = {field.name for field in info.match_fields if field.match_type == p4i.MatchField.EXACT}
        if not exact <= match.keys() <= fields.keys():
            raise P4RuntimeError(f"{table} matches on {', '.join(fields)}, not on {', '.join(match)}")
        entry = p4r.TableEntry(table_id=info.preamble.id)
        for name, value in match.items():
            _set_match(entry.match.add(field_id=fields[name].id), fields[name].match_type, value)
        if action:
            of_action = self.find("actions", action)
            ids = {param.name: param.id for param in of_action.params}
            if ids.keys() != params.keys():
                raise P4RuntimeError(f"{action} takes {', '.join(ids) or 'nothing'}, not {', '.join(params)}")
            entry.action.action.action_id = of_action.preamble.id
            for name, value in params.items():
                entry.action.action.params.add(param_id=ids[name], value=canonical(value))
        return entry


def _set_match(match: Any, kind: int, value: int | tuple[int, int]) -> None:
    """Fill in one key of an entry."""
    if not isinstance(value, tuple):
        (match.optional if kind == p4i.MatchField.OPTIONAL else match.exact).value = canonical(value)
    elif kind == p4i.MatchField.LPM:
        match.lpm.value, match.lpm.prefix_len = canonical(value[0]), value[1]
    elif kind == p4i.MatchField.TERNARY:
        match.ternary.value, match.ternary.mask = map(canonical, value)
    else:
        match.range.low, match.range.high = map(canonical, value)


class P4RuntimeClient:
    """The primary controller of one switch; a context manager."""

    def __init__(self, address: str, device_id: int, names: Names) -> None:
        self.names = names
        self._device_id = device_id
        self._channel = grpc.insecure_channel(address)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        self._arbitration: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._packets: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stream = self._stub.StreamChannel(iter(self._requests.get, None))
        self._reader = threading.Thread(target=self._read_stream, name="p4runtime-stream", daemon=True)
        self._reader.start()
        self._become_primary()

    def __enter__(self) -> P4RuntimeClient:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up the stream and the connection."""
        self._requests.put(None)
        self._stream.cancel()
        self._reader.join(RPC_TIMEOUT_S)
        self._channel.close()

    def _read_stream(self) -> None:
        try:
            for message in self._stream:
                if message.HasField("packet"):
                    self._packets.put(message.packet)
                elif message.HasField("arbitration"):
                    self._arbitration.put(message.arbitration)
        except grpc.RpcError as error:
            self._arbitration.put(error)

    def _become_primary(self) -> None:
        request = p4r.StreamMessageRequest()
        request.arbitration.device_id = self._device_id
        request.arbitration.election_id.low = ELECTION_ID
        self._requests.put(request)
        try:
            answer = self._arbitration.get(timeout=RPC_TIMEOUT_S)
        except queue.Empty:
            raise P4RuntimeError(f"no answer to the arbitration request within {RPC_TIMEOUT_S:g} s") from None
        if isinstance(answer, grpc.RpcError):
            raise P4RuntimeError(f"the stream ended: {answer}")
        if answer.status.code != rpc_code.OK:
            raise P4RuntimeError(f"another controller is primary: {answer.status.message}")

    # ------------------------------------------------------------------------------------------------------ pipeline

    def set_pipeline(self, device_config: bytes) -> None:
        """Push the program; its tables start empty. Raises P4RuntimeError if the switch refuses it."""
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self._device_id,
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        )
        request.election_id.low = ELECTION_ID
        request.config.p4info.CopyFrom(self.names.p4info)
        request.config.p4_device_config = device_config
        try:
            self._stub.SetForwardingPipelineConfig(request, timeout=6 * RPC_TIMEOUT_S)
        except grpc.RpcError as error:
            raise P4RuntimeError(_details(error)) from None

    # -------------------------------------------------------------------------------------------------- write, read

    def write(self, kind: str, entities: Iterable[Any]) -> None:
        """Send one batch of 'INSERT', 'MODIFY' or 'DELETE' updates of entities (p4r.Entity or p4r.TableEntry)."""
        request = p4r.WriteRequest(device_id=self._device_id)
        request.election_id.low = ELECTION_ID
        for entity in entities:
            update = request.updates.add(type=p4r.Update.Type.Value(kind))
            if isinstance(entity, p4r.TableEntry):
                update.entity.table_entry.CopyFrom(entity)
            else:
                update.entity.CopyFrom(entity)
        if not request.updates:
            return
        try:
            self._stub.Write(request, timeout=RPC_TIMEOUT_S)
        except grpc.RpcError as error:
            raise P4RuntimeError(f"{kind} of {len(request.updates)} entities: {_details(error)}\n{request}") from None

    def read(self, entities: Iterable[Any]) -> Iterator[Any]:
        """Read entities, wildcards included, in one request."""
        request = p4r.ReadRequest(device_id=self._device_id)
        request.entities.extend(entities)
        for response in self._stub.Read(request, timeout=RPC_TIMEOUT_S):
            yield from response.entities

    def counts(self, cells: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Count]:
        """Read cells (counter, index) of indirect counters in one request."""
        ids = {}
        entities = []
        for name, index in cells:
            entity = p4r.Entity()
            entity.counter_entry.counter_id = self.names.find("counters", name).preamble.id
            entity.counter_entry.index.index = index
            ids[entity.counter_entry.counter_id] = name
            entities.append(entity)
        counts = {}
        for entity in self.read(entities):
            cell = entity.counter_entry
            counts[ids[cell.counter_id], cell.index.index] = Count(cell.data.packet_count, cell.data.byte_count)
        return counts

    def write_register(self, name: str, index: int, value: int) -> bool:
        """Write a cell of a register of plain numbers; return False where the switch cannot (BMv2's server)."""
        entity = p4r.Entity()
        entity.register_entry.register_id = self.names.find("registers", name).preamble.id
        entity.register_entry.index.index = index
        width = self.names.find("registers", name).type_spec.bitstring.bit.bitwidth
        entity.register_entry.data.bitstring = value.to_bytes((width + 7) // 8, "big")
        request = p4r.WriteRequest(device_id=self._device_id)
        request.election_id.low = ELECTION_ID
        request.updates.add(type=p4r.Update.MODIFY).entity.CopyFrom(entity)
        try:
            self._stub.Write(request, timeout=RPC_TIMEOUT_S)
        except grpc.RpcError as error:
            details = _details(error)
            if "UNIMPLEMENTED" in details or f"code {rpc_code.UNIMPLEMENTED}" in details:
                return False
            raise P4RuntimeError(f"register {name}[{index}]: {details}") from None
        return True

    def set_meter(self, name: str, index: int, rate: int | None, burst: int = 1) -> None:
        """Let a meter cell pass `rate` units per second and `burst` at once as green; None: everything."""
        entity = p4r.Entity()
        entity.meter_entry.meter_id = self.names.find("meters", name).preamble.id
        entity.meter_entry.index.index = index
        if rate is not None:
            config = entity.meter_entry.config
            config.cir = config.pir = rate
            config.cburst = config.pburst = burst
        self.write("MODIFY", [entity])

    # --------------------------------------------------------------------------------------------------- packet I/O

    def packet_out(self, payload: bytes, egress_port: int) -> None:
        """Hand a frame to the switch; egress port 0: to be routed."""
        request = p4r.StreamMessageRequest()
        request.packet.payload = payload
        for field in self.names.find("controller_packet_metadata", "packet_out").metadata:
            request.packet.metadata.add(
                metadata_id=field.id, value=canonical(egress_port if field.name == "egress_port" else 0)
            )
        self._requests.put(request)

    def packet_in(self, timeout_s: float = 2.0) -> PacketIn | None:
        """Return the next packet-in, or None if none comes in time."""
        try:
            packet = self._packets.get(timeout=timeout_s) if timeout_s else self._packets.get_nowait()
        except queue.Empty:
            return None
        names = {field.id: field.name for field in self.names.find("controller_packet_metadata", "packet_in").metadata}
        fields = {names[item.metadata_id]: int.from_bytes(item.value, "big") for item in packet.metadata}
        return PacketIn(packet.payload, fields["ingress_port"], fields["reason"])


def _details(error: grpc.RpcError) -> str:
    """Return a failed Write's status: the overall one, then that of each update that was refused."""
    lines = [f"{error.code().name}: {error.details()}"]
    trailing: Any = error.trailing_metadata() or ()
    for key, value in trailing:
        if key == "grpc-status-details-bin":
            for number, detail in enumerate(rpc_status.Status.FromString(value).details):
                failure = p4r.Error()
                if detail.Unpack(failure) and failure.canonical_code != rpc_code.OK:
                    lines.append(f"update {number}: code {failure.canonical_code}: {failure.message}")
    return "\n".join(lines)
