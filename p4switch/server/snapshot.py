"""The forwarding state as the updates that would make it anew: how it gets from one program to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from finsy.proto import p4d, p4r

from p4switch.server.entities import Entities
from p4switch.server.handler import INSERT, MODIFY
from p4switch.server.schema import Schema


def snapshot(entities: Entities, target: Schema) -> list[p4r.Update]:
    """List what a client would have to write on a fresh switch with program `target` to get this state.

    What clients wrote is always among it, whether the target has a place for it or not. Counts and registers, which
    the data plane writes as well, are left out where the target has no such object, and where they are zero.
    """
    updates: list[p4r.Update] = []

    def add(kind: p4r.Update.Type.ValueType, found: Iterable[p4r.Entity]) -> None:
        updates.extend(p4r.Update(type=kind, entity=entity) for entity in found)

    def read(**query: object) -> Iterator[p4r.Entity]:
        responses, error = entities.read(p4r.ReadRequest(entities=[p4r.Entity(**query)]), None)  # type: ignore[arg-type]
        if error is not None:
            raise error
        return (entity for response in responses for entity in response.entities)

    colors = p4r.MeterCounterData()
    everything = p4r.TableEntry(
        counter_data=p4r.CounterData(), meter_config=p4r.MeterConfig(), meter_counter_data=colors
    )
    replication = p4r.PacketReplicationEngineEntry
    add(INSERT, read(packet_replication_engine_entry=replication(multicast_group_entry=p4r.MulticastGroupEntry())))
    add(INSERT, read(packet_replication_engine_entry=replication(clone_session_entry=p4r.CloneSessionEntry())))
    add(INSERT, read(digest_entry=p4r.DigestEntry()))
    add(MODIFY, (e for e in read(value_set_entry=p4r.ValueSetEntry()) if e.value_set_entry.members))
    add(MODIFY, filter(_meters_in(target), read(meter_entry=p4r.MeterEntry(counter_data=colors))))
    add(INSERT, read(action_profile_member=p4r.ActionProfileMember()))
    add(INSERT, read(action_profile_group=p4r.ActionProfileGroup()))
    add(INSERT, (e for e in read(table_entry=everything) if not e.table_entry.is_const))
    written = entities.tables.written_defaults
    everything.is_default_action = True
    for entity in read(table_entry=everything):
        update = _default_of(entity.table_entry, target, entity.table_entry.table_id in written)
        if update is not None:
            add(MODIFY, [p4r.Entity(table_entry=update)])
    add(MODIFY, filter(_counts_in(target), read(counter_entry=p4r.CounterEntry())))
    add(MODIFY, filter(_holds_in(target), read(register_entry=p4r.RegisterEntry())))
    return updates


def _default_of(entry: p4r.TableEntry, target: Schema, written: bool) -> p4r.TableEntry | None:
    """Give the update that makes a default entry anew: its action, if a client wrote one, what it counted, where the
    target counts it too, and its meter. None where there is nothing of that."""
    table = target.tables.get(entry.table_id)
    update = p4r.TableEntry(table_id=entry.table_id, is_default_action=True)
    if written:
        update.action.CopyFrom(entry.action)
        update.metadata, update.controller_metadata = entry.metadata, entry.controller_metadata
    counted = entry.counter_data.packet_count or entry.counter_data.byte_count
    if counted and table is not None and table.direct_counter:
        update.counter_data.CopyFrom(entry.counter_data)
    if entry.HasField("meter_config"):
        update.meter_config.CopyFrom(entry.meter_config)
        update.meter_counter_data.CopyFrom(entry.meter_counter_data)
    given = written or update.HasField("counter_data") or update.HasField("meter_config")
    return update if given else None


def _meters_in(target: Schema) -> Callable[[p4r.Entity], bool]:
    def metered(entity: p4r.Entity) -> bool:
        entry = entity.meter_entry
        array = target.meters.get(entry.meter_id)
        counted = entry.counter_data != p4r.MeterCounterData(
            green=p4r.CounterData(), yellow=p4r.CounterData(), red=p4r.CounterData()
        )
        return entry.HasField("config") or (counted and array is not None and entry.index.index < array.size)

    return metered


def _counts_in(target: Schema) -> Callable[[p4r.Entity], bool]:
    def counts(entity: p4r.Entity) -> bool:
        entry = entity.counter_entry
        array = target.counters.get(entry.counter_id)
        counted = entry.data.packet_count or entry.data.byte_count
        return bool(counted) and array is not None and entry.index.index < array.size

    return counts


def _holds_in(target: Schema) -> Callable[[p4r.Entity], bool]:
    def holds(entity: p4r.Entity) -> bool:
        entry = entity.register_entry
        array = target.registers.get(entry.register_id)
        return not _is_zero(entry.data) and array is not None and entry.index.index < array.size

    return holds


def _is_zero(data: p4d.P4Data) -> bool:
    """Tell whether a cell is what it was at the start."""
    match data.WhichOneof("data"):
        case "bitstring":
            return not data.bitstring.strip(b"\x00")
        case "bool":
            return not data.bool
        case "struct":
            return all(map(_is_zero, data.struct.members))
        case "tuple":
            return all(map(_is_zero, data.tuple.members))
    return False
