"""Indexed objects: counters, meters and registers (CounterEntry, MeterEntry, RegisterEntry)."""

from __future__ import annotations

from collections.abc import Callable

from finsy.proto import p4r

from p4switch.dataplane import DataPlane, MeterConfig, MeterCounts
from p4switch.server import status
from p4switch.server.handler import DataPlaneUser, Sink, Undo, indices, only_modify
from p4switch.server.meters import decode_counts, decode_meter, encode_counts, encode_meter
from p4switch.server.schema import Array, Schema
from p4switch.server.status import INVALID_ARGUMENT, RequestError


class CounterEntities(DataPlaneUser):
    """CounterEntry: MODIFY of one index or of all, reads of one index, one counter, or every counter."""

    def __init__(self, schema: Schema, dataplane: DataPlane) -> None:
        super().__init__(dataplane)
        self._schema = schema

    def p4_id(self, message: p4r.CounterEntry) -> int:
        return message.counter_id

    def write(self, kind: int, message: p4r.CounterEntry) -> Undo:
        counter = self._find(message.counter_id)
        what = f"counter '{counter.name}'"
        only_modify(kind, what)
        where = indices(message, counter.size, what)
        if not message.HasField("data"):
            return lambda: None
        packets, octets = message.data.packet_count, message.data.byte_count
        check_count(packets, octets, what)
        before = self.dataplane.counter_read_all(counter.id, where.start, len(where))
        for index in where:
            self.dataplane.counter_write(counter.id, index, packets, octets)

        def undo() -> None:
            for index, old in zip(where, before, strict=True):
                self.dataplane.counter_write(counter.id, index, *old)

        return undo

    def read(self, query: p4r.CounterEntry, sink: Sink) -> None:
        for counter, where in _select(query, query.counter_id, self._schema.counters, self._find, "counter", sink):
            counts = self.dataplane.counter_read_all(counter.id, where.start, len(where))
            for index, (packets, octets) in zip(where, counts, strict=True):
                entry = sink.add().counter_entry
                entry.counter_id = counter.id
                entry.index.index = index
                entry.data.packet_count = packets
                entry.data.byte_count = octets

    def _find(self, counter_id: int) -> Array:
        _refuse_direct(counter_id, self._schema.direct_counters, self._schema, "counter", "DirectCounterEntry")
        return self._schema.find("counter", self._schema.counters, counter_id)


class MeterEntities(DataPlaneUser):
    """MeterEntry: like CounterEntry, with a configuration, and counts per colour."""

    def __init__(self, schema: Schema, dataplane: DataPlane) -> None:
        super().__init__(dataplane)
        self._schema = schema

    def p4_id(self, message: p4r.MeterEntry) -> int:
        return message.meter_id

    def write(self, kind: int, message: p4r.MeterEntry) -> Undo:
        meter = self._find(message.meter_id)
        what = f"meter '{meter.name}'"
        only_modify(kind, what)
        where = indices(message, meter.size, what)
        counts = decode_counts(message.counter_data, what) if message.HasField("counter_data") else None
        config = decode_meter(message.config, meter.meter_type, what) if message.HasField("config") else None
        plane = self.dataplane
        before = [
            (i, plane.meter_config(meter.id, i), plane.meter_counts(meter.id, i) if counts else None) for i in where
        ]
        for index in where:
            self._set(meter.id, index, config, counts)

        def undo() -> None:
            for index, old, old_counts in before:
                self._set(meter.id, index, old, old_counts)

        return undo

    def read(self, query: p4r.MeterEntry, sink: Sink) -> None:
        for meter, where in _select(query, query.meter_id, self._schema.meters, self._find, "meter", sink):
            for index in where:
                entry = sink.add().meter_entry
                entry.meter_id = meter.id
                entry.index.index = index
                encode_meter(self.dataplane.meter_config(meter.id, index), entry.config)
                if query.HasField("counter_data"):
                    encode_counts(self.dataplane.meter_counts(meter.id, index), entry.counter_data)

    def _set(self, meter_id: int, index: int, config: MeterConfig | None, counts: MeterCounts | None) -> None:
        self.dataplane.set_meter_config(meter_id, index, *(config or (None, None, None, None)))
        if counts is not None:
            self.dataplane.set_meter_counts(meter_id, index, counts)

    def _find(self, meter_id: int) -> Array:
        _refuse_direct(meter_id, self._schema.direct_meters, self._schema, "meter", "DirectMeterEntry")
        return self._schema.find("meter", self._schema.meters, meter_id)


class RegisterEntities(DataPlaneUser):
    """RegisterEntry: MODIFY of one index or of all, reads of one index, one register, or every register."""

    def __init__(self, schema: Schema, dataplane: DataPlane) -> None:
        super().__init__(dataplane)
        self._schema = schema

    def p4_id(self, message: p4r.RegisterEntry) -> int:
        return message.register_id

    def write(self, kind: int, message: p4r.RegisterEntry) -> Undo:
        register = self._find(message.register_id)
        what = f"register '{register.name}'"
        only_modify(kind, what)
        where = indices(message, register.size, what)
        if not message.HasField("data"):
            raise RequestError(INVALID_ARGUMENT, f"{what}: data is missing")
        assert register.element is not None
        value = register.element.pack(register.element.decode(message.data, what))
        before = self.dataplane.register_read_all(register.id, where.start, len(where))
        for index in where:
            self.dataplane.register_write(register.id, index, value)

        def undo() -> None:
            for index, old in zip(where, before, strict=True):
                self.dataplane.register_write(register.id, index, old)

        return undo

    def read(self, query: p4r.RegisterEntry, sink: Sink) -> None:
        for register, where in _select(query, query.register_id, self._schema.registers, self._find, "register", sink):
            assert register.element is not None
            values = self.dataplane.register_read_all(register.id, where.start, len(where))
            for index, value in zip(where, values, strict=True):
                entry = sink.add().register_entry
                entry.register_id = register.id
                entry.index.index = index
                entry.data.CopyFrom(register.element.encode(iter(register.element.unpack(value))))

    def _find(self, register_id: int) -> Array:
        return self._schema.find("register", self._schema.registers, register_id)


def check_count(packets: int, octets: int, what: str) -> None:
    """Raise INVALID_ARGUMENT for counts below zero."""
    if packets < 0 or octets < 0:
        raise RequestError(INVALID_ARGUMENT, f"{what}: a count is negative ({packets} packets, {octets} bytes)")


def _select(
    query: p4r.CounterEntry | p4r.MeterEntry | p4r.RegisterEntry,
    p4_id: int,
    objects: dict[int, Array],
    find: Callable[[int], Array],
    kind: str,
    sink: Sink,
) -> list[tuple[Array, range]]:
    """Resolve a read's wildcards: id 0 stands for every object, an unset index for every index."""
    if p4_id:
        array = find(p4_id)
        return [(array, indices(query, array.size, f"{kind} '{array.name}'"))]
    if query.HasField("index"):
        raise RequestError(INVALID_ARGUMENT, f"an index without the id of a {kind}")
    return [(array, range(array.size)) for array in objects.values() if sink.shows(array.id)]


def _refuse_direct(p4_id: int, direct: dict[int, int], schema: Schema, kind: str, instead: str) -> None:
    if p4_id in direct:
        raise RequestError(
            status.INVALID_ARGUMENT, f"{kind} '{schema.names[p4_id]}' belongs to the entries of a table; use {instead}"
        )
