"""SetForwardingPipelineConfig and GetForwardingPipelineConfig over gRPC."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from finsy.proto import p4d, p4i, p4r

from p4switch.build import BuildResult
from p4switch.dataplane import DataPlane
from p4switch.server import P4RuntimeServer
from tests.p4switch.server.client import Client, WriteFailed, exact
from tests.p4switch.server.test_entities import counter, group, meter, session

Action = p4r.SetForwardingPipelineConfigRequest
Response = p4r.GetForwardingPipelineConfigRequest
Connect = Callable[[P4RuntimeServer], Client]


@pytest.fixture
def fresh(empty_server: P4RuntimeServer, connect: Connect) -> Client:
    """The primary of a switch without a program."""
    return connect(empty_server).become_primary()


def refusal(action: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        action()
    return caught.value.code(), caught.value.details() or ""


def test_nothing_without_a_pipeline(fresh: Client) -> None:
    assert fresh.get_config() is None
    code, message = refusal(lambda: fresh.insert(table_entry=p4r.TableEntry()))
    assert code == grpc.StatusCode.FAILED_PRECONDITION
    assert "no forwarding pipeline config" in message
    assert refusal(lambda: fresh.read(table_entry=p4r.TableEntry()))[0] == grpc.StatusCode.FAILED_PRECONDITION
    fresh.send(p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=b"x")))
    assert "no forwarding pipeline config" in fresh.next("error").message


def test_push_and_get(fresh: Client, program: BuildResult) -> None:
    fresh.push(Action.VERIFY_AND_COMMIT, program.p4info, program.container, cookie=0)
    everything = fresh.get_config()
    assert everything is not None
    assert everything.p4info == program.p4info
    assert everything.p4_device_config == program.container
    assert everything.HasField("cookie") and everything.cookie.cookie == 0
    for kind, with_p4info, with_config in [
        (Response.COOKIE_ONLY, False, False),
        (Response.P4INFO_AND_COOKIE, True, False),
        (Response.DEVICE_CONFIG_AND_COOKIE, False, True),
    ]:
        config = fresh.get_config(kind)
        assert config is not None
        assert config.HasField("cookie")
        assert config.HasField("p4info") == with_p4info
        assert bool(config.p4_device_config) == with_config
    assert refusal(lambda: fresh.get_config(9))[0] == grpc.StatusCode.INVALID_ARGUMENT


def test_push_clears_tables(fresh: Client, program: BuildResult) -> None:
    fresh.push(Action.VERIFY_AND_COMMIT, program.p4info, program.container)
    entry = fresh.entry("exact_table", exact(1, 1), action=fresh.action("counted_forward", 1))
    group = p4r.PacketReplicationEngineEntry()
    group.multicast_group_entry.multicast_group_id = 1
    fresh.insert(table_entry=entry)
    fresh.insert(packet_replication_engine_entry=group)
    fresh.push(Action.VERIFY_AND_COMMIT, program.p4info, program.container)
    assert fresh.read(table_entry=fresh.entry("exact_table")) == []
    group.multicast_group_entry.multicast_group_id = 0
    assert fresh.read(packet_replication_engine_entry=group) == []
    fresh.insert(table_entry=entry)


def test_verify_changes_nothing(fresh: Client, program: BuildResult) -> None:
    fresh.push(Action.VERIFY, program.p4info, program.container)
    assert fresh.get_config() is None


def test_save_and_commit(fresh: Client, program: BuildResult) -> None:
    assert refusal(lambda: fresh.push(Action.COMMIT, None))[0] == grpc.StatusCode.NOT_FOUND
    fresh.push(Action.VERIFY_AND_SAVE, program.p4info, program.container, cookie=5)
    assert fresh.get_config() is None  # nothing runs yet
    code, message = refusal(lambda: fresh.push(Action.COMMIT, program.p4info, program.container))
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert "takes none" in message
    fresh.push(Action.COMMIT, None)
    config = fresh.get_config()
    assert config is not None and config.cookie.cookie == 5
    assert refusal(lambda: fresh.push(Action.COMMIT, None))[0] == grpc.StatusCode.NOT_FOUND


def everything(client: Client) -> list[p4r.Entity]:
    queries = [
        p4r.Entity(table_entry=p4r.TableEntry(counter_data=p4r.CounterData(), meter_config=p4r.MeterConfig())),
        p4r.Entity(table_entry=p4r.TableEntry(is_default_action=True)),
        p4r.Entity(counter_entry=p4r.CounterEntry()),
        p4r.Entity(meter_entry=p4r.MeterEntry()),
        p4r.Entity(register_entry=p4r.RegisterEntry()),
        p4r.Entity(value_set_entry=p4r.ValueSetEntry()),
        p4r.Entity(digest_entry=p4r.DigestEntry()),
    ]
    replication = p4r.PacketReplicationEngineEntry
    queries.append(
        p4r.Entity(packet_replication_engine_entry=replication(multicast_group_entry=p4r.MulticastGroupEntry()))
    )
    queries.append(p4r.Entity(packet_replication_engine_entry=replication(clone_session_entry=p4r.CloneSessionEntry())))
    return [entity for response in client.read_responses(*queries) for entity in response.entities]


def populate(client: Client) -> None:
    """Write something of every kind."""
    entry = client.entry("exact_table", exact(1, 1), action=client.action("counted_forward", 1), metadata=b"mine")
    entry.counter_data.packet_count = 7
    client.insert(table_entry=entry)
    entry = client.entry("ternary_table", exact(2, 1), priority=4, action=client.action("rated"))
    entry.meter_config.CopyFrom(p4r.MeterConfig(cir=1, cburst=2, pir=3, pburst=4))
    client.insert(table_entry=entry)
    client.insert(table_entry=client.entry("optional_table", priority=4, action=client.action("deny")))
    client.modify(table_entry=client.entry("lpm_table", is_default_action=True, action=client.action("forward", 9)))
    client.insert(packet_replication_engine_entry=group(3, (1, 1)))
    client.insert(packet_replication_engine_entry=session(3, (1, 1), packet_length_bytes=60))
    client.modify(counter_entry=counter(client, 2, 5, 50))
    client.modify(meter_entry=meter(client, 1, 1, 2, 3, 4))
    register = p4r.RegisterEntry(register_id=client.id_of("wide"), data=p4d.P4Data(bitstring=b"\x05"))
    register.index.index = 1
    client.modify(register_entry=register)
    member = p4r.ValueSetMember(match=[exact(1, 0x1234)])
    value_set = p4r.ValueSetEntry(value_set_id=client.p4info.value_sets[0].preamble.id, members=[member])
    client.modify(value_set_entry=value_set)
    client.insert(digest_entry=p4r.DigestEntry(digest_id=client.id_of("learn_t")))


def test_saved_program_takes_writes(fresh: Client, program: BuildResult) -> None:
    fresh.push(Action.VERIFY_AND_COMMIT, program.p4info, program.container)
    populate(fresh)
    fresh.push(Action.VERIFY_AND_SAVE, program.p4info, program.container)
    assert fresh.read(table_entry=fresh.entry("exact_table")) == []  # the saved program's tables
    populate(fresh)
    written = everything(fresh)
    fresh.push(Action.COMMIT, None)
    assert everything(fresh) == written


def test_reconcile_of_the_same_program_keeps_entries(fresh: Client, program: BuildResult) -> None:
    fresh.push(Action.VERIFY_AND_COMMIT, program.p4info, program.container, cookie=1)
    populate(fresh)
    written = everything(fresh)
    fresh.push(Action.RECONCILE_AND_COMMIT, program.p4info, program.container, cookie=2)
    assert everything(fresh) == written
    config = fresh.get_config(Response.COOKIE_ONLY)
    assert config is not None and config.cookie.cookie == 2


def test_reconcile_of_another_program(fresh: Client, program: BuildResult, variants: dict[str, BuildResult]) -> None:
    fresh.push(Action.VERIFY_AND_COMMIT, program.p4info, program.container)
    populate(fresh)
    written = everything(fresh)
    more = variants["more"]
    fresh.push(Action.RECONCILE_AND_COMMIT, more.p4info, more.container)
    fresh.p4info = more.p4info
    kept = [e for e in everything(fresh) if e.table_entry.table_id != fresh.id_of("extra_table")]
    assert kept == written
    fresh.insert(table_entry=fresh.entry("extra_table", exact(1, 1), action=fresh.action("deny")))


def test_reconcile_takes_over_what_is_kept_of_misses(
    fresh: Client, program: BuildResult, variants: dict[str, BuildResult]
) -> None:
    fresh.push(Action.VERIFY_AND_COMMIT, program.p4info, program.container)
    count = p4r.CounterData(packet_count=3, byte_count=4)
    meter = p4r.MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
    fresh.modify(table_entry=fresh.entry("exact_table", is_default_action=True, counter_data=count))
    fresh.modify(table_entry=fresh.entry("ternary_table", is_default_action=True, meter_config=meter,
                                         action=fresh.action("paint", 5)))  # fmt: skip
    query = p4r.TableEntry(is_default_action=True, counter_data=p4r.CounterData(), meter_config=p4r.MeterConfig())
    written = {entry.table_id: entry for entry in fresh.read(table_entry=query)}
    more = variants["more"]
    fresh.push(Action.RECONCILE_AND_COMMIT, more.p4info, more.container)
    fresh.p4info = more.p4info
    kept = {entry.table_id: entry for entry in fresh.read(table_entry=query)}
    assert kept.pop(fresh.id_of("extra_table"))
    assert kept == written
    assert kept[fresh.id_of("exact_table")].counter_data == count
    assert kept[fresh.id_of("ternary_table")].meter_config == meter


def test_reconcile_keeps_what_packets_did(
    fresh: Client, program: BuildResult, variants: dict[str, BuildResult], dataplane: DataPlane
) -> None:
    """Counts of const entries, too, what is left of a meter's burst, and how long ago an entry was hit."""
    fresh.push(Action.VERIFY_AND_COMMIT, program.p4info, program.container)
    tagged = bytes.fromhex("00000000000a00000000000b8100") + bytes(46)
    idle = fresh.entry("optional_table", priority=1, action=fresh.action("NoAction"))
    fresh.insert(table_entry=idle)
    fresh.modify(meter_entry=meter(fresh, 1, 1, 1, 1, 3))
    config = p4r.MeterConfig(cir=1, cburst=60, pir=1, pburst=60)
    rated = fresh.entry("ternary_table", exact(2, 0x8100), priority=1, action=fresh.action("rated"))
    rated.meter_config.CopyFrom(config)
    fresh.insert(table_entry=rated)

    def colors() -> list[int]:
        queries: list[Any] = [meter(fresh, 1), p4r.DirectMeterEntry(table_entry=fresh.entry("ternary_table"))]
        found = []
        for kind, query in zip(("meter_entry", "direct_meter_entry"), queries, strict=True):
            query.counter_data.SetInParent()
            (entry,) = fresh.read(**{kind: query})
            data = entry.counter_data
            found += [data.green.packet_count, data.yellow.packet_count, data.red.packet_count]
        return found

    def idle_ns() -> int:
        (found,) = fresh.read(
            table_entry=fresh.entry("optional_table", time_since_last_hit=p4r.TableEntry.IdleTimeout())
        )
        return int(found.time_since_last_hit.elapsed_ns)

    for _ in range(2):
        dataplane.inject(1, tagged)
    assert colors() == [1, 1, 0, 1, 0, 1]
    time.sleep(0.05)
    before = idle_ns()
    fresh.push(Action.RECONCILE_AND_COMMIT, variants["more"].p4info, variants["more"].container)
    assert idle_ns() > before > 50_000_000
    dataplane.inject(1, tagged)
    assert colors() == [1, 2, 0, 1, 0, 2]  # neither bucket was filled again
    counts = {e.table_entry.priority: e.data.packet_count for e in fresh.read(
        direct_counter_entry=p4r.DirectCounterEntry(table_entry=fresh.entry("const_table")))}  # fmt: skip
    assert counts == {2: 3, 1: 0}
    register = p4r.RegisterEntry(register_id=fresh.id_of("last_source"))
    register.index.index = 1
    (cell,) = fresh.read(register_entry=register)
    assert cell.data.bitstring == b"\x0b"


def test_a_saved_program_starts_with_its_own_counts(fresh: Client, program: BuildResult, dataplane: DataPlane) -> None:
    fresh.push(Action.VERIFY_AND_COMMIT, program.p4info, program.container)
    fresh.push(Action.VERIFY_AND_SAVE, program.p4info, program.container)
    fresh.modify(counter_entry=counter(fresh, 1, 5, 50))
    dataplane.inject(1, bytes(60))
    fresh.push(Action.COMMIT, None)
    assert fresh.read(counter_entry=counter(fresh, 1)) == [counter(fresh, 1, 5, 50)]


def test_reconcile_that_would_lose_entries(
    fresh: Client, program: BuildResult, variants: dict[str, BuildResult]
) -> None:
    fresh.push(Action.VERIFY_AND_COMMIT, program.p4info, program.container)
    populate(fresh)
    written = everything(fresh)
    less = variants["less"]
    code, message = refusal(lambda: fresh.push(Action.RECONCILE_AND_COMMIT, less.p4info, less.container))
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert "cannot be preserved" in message
    assert everything(fresh) == written
    config = fresh.get_config()
    assert config is not None and config.p4info == program.p4info


def without_range_table(program: BuildResult) -> p4i.P4Info:
    p4info = program.p4info
    (position,) = [n for n, table in enumerate(p4info.tables) if table.preamble.alias == "range_table"]
    del p4info.tables[position]
    return p4info


def test_reconcile_with_less_of_the_program(fresh: Client, program: BuildResult) -> None:
    """What the P4Info has no more cannot be written any more; if something is there, it cannot go."""
    fresh.push(Action.VERIFY_AND_COMMIT, program.p4info, program.container)
    populate(fresh)
    entry = fresh.entry("range_table", priority=1, action=fresh.action("learn"))
    fresh.insert(table_entry=entry)
    less = without_range_table(program)
    code, message = refusal(lambda: fresh.push(Action.RECONCILE_AND_COMMIT, less, program.container))
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert "cannot be preserved" in message
    fresh.delete(table_entry=entry)
    kept = [e for e in everything(fresh) if e.table_entry.table_id != entry.table_id]
    fresh.push(Action.RECONCILE_AND_COMMIT, less, program.container)
    assert everything(fresh) == kept
    with pytest.raises(WriteFailed, match="no table has id"):
        fresh.insert(table_entry=entry)


def renamed(program: BuildResult) -> p4i.P4Info:
    p4info = program.p4info
    table = next(t for t in p4info.tables if t.preamble.name.endswith("lpm_table"))
    table.preamble.id += 1
    table.preamble.name = "Features.lpm_tables"
    return p4info


def resized(program: BuildResult) -> p4i.P4Info:
    p4info = program.p4info
    next(t for t in p4info.tables if t.preamble.name.endswith("lpm_table")).size = 1
    return p4info


@pytest.mark.parametrize(
    ("p4info", "device_config", "reason"),
    [
        (lambda p: p.p4info, lambda p: b"", "p4_device_config is empty"),
        (lambda p: p.p4info, lambda p: b"{}", "p4_device_config"),
        (lambda p: p.p4info, lambda p: p.container[: len(p.container) // 2], "p4_device_config"),
        (renamed, lambda p: p.container, "no table 'Features.lpm_tables'"),
        (renamed, lambda p: p.container, "did you mean 'Features.lpm_table'?"),
        (resized, lambda p: p.container, "table 'Features.lpm_table' differs"),
    ],
)
def test_bad_config(
    fresh: Client,
    program: BuildResult,
    p4info: Callable[[BuildResult], p4i.P4Info],
    device_config: Callable[[BuildResult], bytes],
    reason: str,
) -> None:
    for action in (Action.VERIFY, Action.VERIFY_AND_COMMIT, Action.RECONCILE_AND_COMMIT, Action.VERIFY_AND_SAVE):
        code, message = refusal(lambda a=action: fresh.push(a, p4info(program), device_config(program)))  # type: ignore[misc]
        assert code == grpc.StatusCode.INVALID_ARGUMENT
        assert reason in message
    assert fresh.get_config() is None
    assert refusal(lambda: fresh.push(Action.COMMIT, None))[0] == grpc.StatusCode.NOT_FOUND


def test_no_config_and_no_action(fresh: Client, program: BuildResult) -> None:
    assert refusal(lambda: fresh.push(Action.VERIFY, None))[0] == grpc.StatusCode.INVALID_ARGUMENT
    code, message = refusal(lambda: fresh.push(Action.UNSPECIFIED, program.p4info, program.container))
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert "VERIFY_AND_COMMIT" in message


def test_only_the_primary_pushes(
    empty_server: P4RuntimeServer, connect: Connect, fresh: Client, program: BuildResult
) -> None:
    other = connect(empty_server)
    code, _ = refusal(lambda: other.push(Action.VERIFY_AND_COMMIT, program.p4info, program.container))
    assert code == grpc.StatusCode.PERMISSION_DENIED
    other.device_id = 9
    assert refusal(lambda: other.push(Action.VERIFY, program.p4info))[0] == grpc.StatusCode.NOT_FOUND
    assert refusal(other.get_config)[0] == grpc.StatusCode.NOT_FOUND


def test_program_from_the_start(client: Client, program: BuildResult) -> None:
    config = client.get_config()
    assert config is not None
    assert config.p4info == program.p4info and config.p4_device_config == program.container
    assert not config.HasField("cookie")
