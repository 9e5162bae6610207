"""Read switches without taking part in who controls them: counters and entries for summaries and command lines.

P4Runtime lets anybody read. A reader opens no stream, so it never becomes the primary client and disturbs nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import finsy as fy
import grpc
from finsy.p4entity import decode_entity
from finsy.proto import p4r, p4r_grpc

from codec.fabric import SwitchNode
from controller.credits import EVENT_COUNTERS, LANE_REGISTERS, LINK_COUNTERS, PORT_REGISTERS, PortCredits
from controller.entities import from_p4
from controller.entries import Entry
from controller.packets import DROP_REASONS
from controller.retries import RETRY_REGISTERS, RetryProfile

TIMEOUT_S: Final = 10.0
CPU_PORT: Final = 510


@dataclass
class PortCounters:
    """Frames and bytes of one port, and what was dropped of what came in on it, by reason (only what is not 0).

    `link` holds the counters of a managed port's link by name.
    """

    rx_frames: int = 0
    rx_bytes: int = 0
    tx_frames: int = 0
    tx_bytes: int = 0
    drops: dict[str, int] = field(default_factory=dict)
    link: dict[str, int] = field(default_factory=dict)


class ReadError(Exception):
    """A switch could not be read; the message names it and says why."""


class RegistersHidden(ReadError):
    """The target does not read registers over P4Runtime."""


class SwitchReader:
    """A read-only view of one switch. Use it as a context manager."""

    def __init__(self, node: SwitchNode) -> None:
        self.node = node
        self._channel = grpc.insecure_channel(node.grpc)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._schema: fy.P4Schema | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._channel.close()

    @property
    def schema(self) -> fy.P4Schema:
        """The P4Info that the switch runs. Raises ReadError when it has no program or cannot be reached."""
        if self._schema is None:
            request = p4r.GetForwardingPipelineConfigRequest(
                device_id=self.node.device_id, response_type=p4r.GetForwardingPipelineConfigRequest.P4INFO_AND_COOKIE
            )
            try:
                reply = self._stub.GetForwardingPipelineConfig(request, timeout=TIMEOUT_S)
            except grpc.RpcError as error:
                raise self._error(error) from None
            self._schema = fy.P4Schema(reply.config.p4info)
        return self._schema

    def entries(self) -> list[Entry]:
        """Return the entries of all tables but the constant ones."""
        return [from_p4(item) for item in self._read([fy.P4TableEntry()]) if not item.is_const]

    def retry_profiles(self) -> dict[int, RetryProfile]:
        """Return the profiles of link-layer retry by port number. Raises ReadError."""
        return dict(RetryProfile.from_entry(from_p4(item)) for item in self._read([fy.P4TableEntry("llr_profile")]))

    def counters(self) -> dict[int, PortCounters]:
        """Return the counters of the switch's ports and of its CPU port, by port number."""
        numbers = [*(port.port for port in self.node.ports), CPU_PORT]
        ports = {number: PortCounters() for number in numbers}
        names = ["port_rx", "port_tx", *DROP_REASONS.values(), *EVENT_COUNTERS]
        known = {counter.alias for counter in self.schema.counters}
        managed = {port.port for port in self.node.ports if port.mode == "managed"}
        # Port by port, so that what belongs together is read together: links speak all the time.
        wanted = [
            fy.P4CounterEntry(name, index=n)
            for n in numbers
            for name in (*names, *(LINK_COUNTERS if n in managed else ()))
            if name in known
        ]
        for cell in self._read(wanted):
            port = ports[cell.index]
            if cell.counter_id == "port_rx":
                port.rx_frames, port.rx_bytes = cell.packet_count, cell.byte_count
            elif cell.counter_id == "port_tx":
                port.tx_frames, port.tx_bytes = cell.packet_count, cell.byte_count
            elif cell.counter_id in (*LINK_COUNTERS, *EVENT_COUNTERS):
                port.link[cell.counter_id] = cell.packet_count
            elif cell.packet_count:
                port.drops[cell.counter_id] = cell.packet_count
        return ports

    def link_counter(self, name: str) -> dict[int, int]:
        """Return the packets of one counter at the managed ports, by port number. Raises ReadError."""
        numbers = [port.port for port in self.node.ports if port.mode == "managed"]
        cells = self._read([fy.P4CounterEntry(name, index=number) for number in numbers])
        return {cell.index: cell.packet_count for cell in cells}

    def credits(self) -> dict[int, PortCredits]:
        """Return the credits of the managed ports by port number, as the registers have them.

        Raises ReadError, RegistersHidden where the target reads no registers (BMv2): ask with probes there.
        """
        numbers = [port.port for port in self.node.ports if port.mode == "managed"]
        # What was freed before what was consumed, one after the other: traffic goes on meanwhile, and the difference
        # then comes out a little too large rather than below zero.
        names = sorted((*PORT_REGISTERS, *LANE_REGISTERS), key=lambda name: (name.partition("_credits")[0], name[::-1]))
        names += RETRY_REGISTERS
        values: dict[int, dict[str, int]] = {number: {} for number in numbers}
        for cell in self._read([fy.P4RegisterEntry(name, index=n) for n in numbers for name in names]):
            values[cell.index][cell.register_id] = cell.data
        try:
            return {number: PortCredits.from_registers(number, some) for number, some in values.items()}
        except KeyError as error:
            raise RegistersHidden(f"switch {self.node.name}: no answer about the register {error}") from None

    def _read(self, entities: Sequence[fy.P4TableEntry | fy.P4CounterEntry | fy.P4RegisterEntry]) -> Iterator[Any]:
        if not entities:
            return
        schema = self.schema
        request = p4r.ReadRequest(device_id=self.node.device_id, entities=[item.encode(schema) for item in entities])
        try:
            for reply in self._stub.Read(request, timeout=TIMEOUT_S):
                for item in reply.entities:
                    yield decode_entity(item, schema)
        except grpc.RpcError as error:
            raise self._error(error) from None

    def _error(self, error: grpc.RpcError) -> ReadError:
        reason = error.details() if isinstance(error, grpc.Call) else str(error)
        if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.UNIMPLEMENTED:
            return RegistersHidden(f"switch {self.node.name} ({self.node.grpc}): {reason}")
        return ReadError(f"switch {self.node.name} ({self.node.grpc}): {reason}")
