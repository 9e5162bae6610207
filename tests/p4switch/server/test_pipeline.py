"""SetForwardingPipelineConfig and GetForwardingPipelineConfig over gRPC."""

from __future__ import annotations

from collections.abc import Callable

import grpc
import pytest
from finsy.proto import p4i, p4r

from p4switch.build import BuildResult
from p4switch.server import P4RuntimeServer
from tests.p4switch.server.client import Client, exact

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
    code, message = refusal(lambda: fresh.push(Action.COMMIT, program.p4info, program.container))
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert "takes none" in message
    fresh.push(Action.COMMIT, None)
    config = fresh.get_config()
    assert config is not None and config.cookie.cookie == 5
    assert refusal(lambda: fresh.push(Action.COMMIT, None))[0] == grpc.StatusCode.NOT_FOUND


def test_reconcile_of_the_same_program_keeps_entries(fresh: Client, program: BuildResult) -> None:
    fresh.push(Action.VERIFY_AND_COMMIT, program.p4info, program.container, cookie=1)
    entry = fresh.entry("exact_table", exact(1, 1), action=fresh.action("counted_forward", 1))
    fresh.insert(table_entry=entry)
    fresh.push(Action.RECONCILE_AND_COMMIT, program.p4info, program.container, cookie=2)
    assert fresh.read(table_entry=fresh.entry("exact_table")) == [entry]
    config = fresh.get_config(Response.COOKIE_ONLY)
    assert config is not None and config.cookie.cookie == 2


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
