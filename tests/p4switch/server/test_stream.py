"""StreamChannel over gRPC: sessions, their ends, and errors on the stream."""

from __future__ import annotations

from collections.abc import Callable

import grpc
import pytest
from finsy.proto import p4r, stratum

from p4switch.dataplane import DataPlane
from p4switch.server import P4RuntimeServer, PortInUse, ServerOptions, serve, status
from tests.p4switch.server.client import Client, WriteFailed, details, exact, lpm

Connect = Callable[[P4RuntimeServer], Client]


def test_port_in_use_is_said(dataplane: DataPlane, empty_server: P4RuntimeServer) -> None:
    address = f"127.0.0.1:{empty_server.port}"
    with pytest.raises(PortInUse, match=f"cannot listen on {address}"):
        serve(dataplane, ServerOptions(grpc_addr=address)).start()


def test_promotion_and_demotion(server: P4RuntimeServer, connect: Connect) -> None:
    old = connect(server).become_primary(1)
    new = connect(server).become_primary(2)
    assert old.next("arbitration").status.code == status.ALREADY_EXISTS
    new.close()
    told = old.next("arbitration")
    assert told.status.code == status.NOT_FOUND
    assert told.election_id.low == 2
    old.become_primary(2)


def test_half_closed_stream_counts_as_gone(server: P4RuntimeServer, connect: Connect) -> None:
    primary, backup = connect(server).become_primary(2), connect(server)
    backup.bid(1)
    assert backup.next("arbitration").status.code == status.ALREADY_EXISTS
    primary.half_close()
    assert primary.stream_ended.wait(5)
    assert primary.stream_error is None
    assert backup.next("arbitration").status.code == status.NOT_FOUND


def test_wrong_device_ends_the_stream(server: P4RuntimeServer, connect: Connect) -> None:
    client = connect(server)
    client.device_id = 99
    client.bid(1)
    code, message = client.stream_status()
    assert code == grpc.StatusCode.NOT_FOUND
    assert "device 99" in message


def test_duplicate_election_id_ends_the_stream(server: P4RuntimeServer, connect: Connect) -> None:
    connect(server).become_primary(1)
    second = connect(server)
    second.bid(1)
    code, message = second.stream_status()
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert "already used" in message


def test_changed_role_ends_the_stream(server: P4RuntimeServer, connect: Connect) -> None:
    client = connect(server).become_primary(1)
    backup = connect(server)
    backup.bid(None)
    backup.next("arbitration")
    client.bid(1, role="acl")
    assert client.stream_status()[0] == grpc.StatusCode.FAILED_PRECONDITION
    assert backup.next("arbitration").status.code == status.NOT_FOUND  # the primary is gone


def test_too_many_streams(dataplane: DataPlane, connect: Connect) -> None:
    with serve(dataplane, ServerOptions(grpc_addr="127.0.0.1:0", max_streams=2)) as server:
        for election_id in (1, 2):
            connect(server).become_primary(election_id)
        third = connect(server)
        third.bid(3)
        assert third.stream_status()[0] == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert third.get_config() is None  # other requests are still served


def test_message_without_content_is_answered(client: Client) -> None:
    client.send(p4r.StreamMessageRequest())
    error = client.next("error")
    assert error.canonical_code == status.INVALID_ARGUMENT
    assert error.WhichOneof("details") == "other"
    request = p4r.StreamMessageRequest()
    request.other.Pack(p4r.TableEntry(table_id=7))
    client.send(request)
    assert client.next("error").other.other == request.other


def test_stop_ends_streams(dataplane: DataPlane, connect: Connect) -> None:
    server = serve(dataplane, ServerOptions(grpc_addr="127.0.0.1:0"))
    server.start()
    client = connect(server).become_primary()
    server.stop()
    assert client.stream_status()[0] == grpc.StatusCode.UNAVAILABLE


def test_writes_are_the_primarys(server: P4RuntimeServer, connect: Connect) -> None:
    primary, backup = connect(server).become_primary(2), connect(server)
    backup.bid(1)
    backup.next("arbitration")
    entry = primary.entry("exact_table", exact(1, 5), action=primary.action("counted_forward", 3))
    with pytest.raises(grpc.RpcError) as denied:
        backup.insert(table_entry=entry)
    assert denied.value.code() == grpc.StatusCode.PERMISSION_DENIED
    assert "not primary" in str(denied.value.details())
    primary.insert(table_entry=entry)
    assert len(backup.read(table_entry=p4r.TableEntry())) >= 1  # reading is everybody's


def test_unknown_role(client: Client) -> None:
    client.role = "nobody"
    with pytest.raises(grpc.RpcError) as refused:
        client.insert(table_entry=p4r.TableEntry())
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND


def test_roles_write_what_is_theirs(server: P4RuntimeServer, connect: Connect, client: Client) -> None:
    acl = connect(server)
    mine, other = client.id_of("exact_table"), client.id_of("lpm_table")
    acl.bid(1, role="acl", config=stratum.P4RoleConfig(exclusive_p4_ids=[mine]))
    assert acl.next("arbitration").status.code == status.OK
    acl.insert(table_entry=acl.entry("exact_table", exact(1, 5), action=acl.action("counted_forward", 3)))
    with pytest.raises(WriteFailed) as refused:
        acl.insert(table_entry=acl.entry("lpm_table", lpm(1, 5, 48), action=acl.action("forward", 3)))
    assert refused.value.errors[0].canonical_code == status.PERMISSION_DENIED
    with pytest.raises(grpc.RpcError) as denied:
        acl.push(p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT, acl.p4info, b"x")
    assert denied.value.code() == grpc.StatusCode.PERMISSION_DENIED
    client.insert(table_entry=client.entry("lpm_table", lpm(1, 5, 48), action=client.action("forward", 3)))
    seen = [e.table_entry.table_id for r in acl.read_responses(p4r.Entity(table_entry=p4r.TableEntry()), role="acl")
            for e in r.entities]  # fmt: skip
    assert seen == [mine]
    for role, expected in (("", [other]), ("acl", [])):  # also when it is asked for by its id
        query = p4r.Entity(table_entry=p4r.TableEntry(table_id=other))
        assert [e.table_entry.table_id for r in acl.read_responses(query, role=role) for e in r.entities] == expected


def test_roles_read_what_is_theirs(server: P4RuntimeServer, connect: Connect, client: Client) -> None:
    """Entities of every kind are filtered by the role of a Read, with and without their ids in it."""
    ids = {name: client.id_of(name) for name in ("port_rx", "police", "wide", "exact_hits", "exact_table", "learn_t")}
    group = p4r.PacketReplicationEngineEntry()
    group.multicast_group_entry.multicast_group_id = 1
    client.insert(packet_replication_engine_entry=group)
    client.insert(digest_entry=p4r.DigestEntry(digest_id=ids["learn_t"]))
    client.insert(table_entry=client.entry("exact_table", exact(1, 5), action=client.action("counted_forward", 3)))
    nobody, counting = connect(server), connect(server)
    for role, each, rights in (("nobody", nobody, []), ("counting", counting, [ids["port_rx"]])):
        each.bid(1, role=role, config=stratum.P4RoleConfig(exclusive_p4_ids=rights))
        assert each.next("arbitration").status.code == status.OK
    (value_set,) = client.p4info.value_sets
    hits = p4r.TableEntry(table_id=ids["exact_table"])
    queries = [
        p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=ids["port_rx"])),
        p4r.Entity(counter_entry=p4r.CounterEntry()),
        p4r.Entity(meter_entry=p4r.MeterEntry(meter_id=ids["police"])),
        p4r.Entity(register_entry=p4r.RegisterEntry(register_id=ids["wide"])),
        p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=hits)),
        p4r.Entity(value_set_entry=p4r.ValueSetEntry(value_set_id=value_set.preamble.id)),
        p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=ids["learn_t"])),
        p4r.Entity(packet_replication_engine_entry=group),
    ]

    def found(role: str) -> list[int]:
        return [sum(len(r.entities) for r in client.read_responses(query, role=role)) for query in queries]

    assert found("") == [16, 16, 4, 4, 1, 1, 1, 1]
    assert found("nobody") == [0] * 8
    assert found("counting") == [16, 16, 0, 0, 0, 0, 0, 0]
    with pytest.raises(grpc.RpcError) as refused:  # what is wrong is wrong in every role
        list(client.read_responses(p4r.Entity(table_entry=p4r.TableEntry(table_id=7)), role="nobody"))
    assert details(refused.value)[0].canonical_code == status.INVALID_ARGUMENT


def test_capabilities(client: Client) -> None:
    assert client.stub.Capabilities(p4r.CapabilitiesRequest()).p4runtime_api_version.startswith("1.4.")
