"""Several clients at once: backups, take-over, roles; and every way to push and to get a pipeline.

The shell has one session; others are clients of its own kind. It pushes with VERIFY_AND_COMMIT only, so that the other
actions go by its client's stub.
"""

import sys
from pathlib import Path

import grpc
from google.protobuf import text_format
from p4.v1 import p4runtime_pb2
from p4runtime_sh import shell
from p4runtime_sh.p4runtime import P4RuntimeClient
from setup import connected

OK, NOT_FOUND, ALREADY_EXISTS = 0, 5, 6
ADDRESS = sys.argv[1]
P4INFO, BLOB = Path(sys.argv[2]).read_text(), Path(sys.argv[3]).read_bytes()
Set, Get = p4runtime_pb2.SetForwardingPipelineConfigRequest, p4runtime_pb2.GetForwardingPipelineConfigRequest


def entry(number):
    made = shell.TableEntry("exact_table")(action="counted_forward")
    made.match["hdr.ethernet.dst"] = f"00:00:00:00:00:{number:02}"
    made.action["port"] = "5"
    return made


def insert(client, number):
    update = p4runtime_pb2.Update(type=p4runtime_pb2.Update.INSERT)
    update.entity.table_entry.CopyFrom(entry(number).msg())
    client.write_update(update)


def count(client):
    query = p4runtime_pb2.Entity()
    query.table_entry.table_id = shell.TableEntry("exact_table").id
    return sum(len(response.entities) for response in client.read_one(query))


def told(client):
    message = client.get_stream_packet("arbitration", timeout=5).arbitration
    return message.status.code, message.election_id.low


def refused(action, code):
    try:
        action()
    except grpc.RpcError as error:
        assert error.code() == code, error
        return
    raise AssertionError("not refused")


def push(client, action, cookie=None, with_config=True):
    request = Set(device_id=1, action=Set.Action.Value(action), role=client.role_name or "")
    request.election_id.high, request.election_id.low = client.election_id
    if with_config:
        text_format.Merge(P4INFO, request.config.p4info)
        request.config.p4_device_config = BLOB
        if cookie is not None:
            request.config.cookie.cookie = cookie
    client.stub.SetForwardingPipelineConfig(request)


def get(client, kind):
    return client.stub.GetForwardingPipelineConfig(Get(device_id=1, response_type=Get.ResponseType.Value(kind))).config


with connected(election_id=5):
    primary = shell.client
    backup = P4RuntimeClient(1, ADDRESS, (0, 4))
    insert(primary, 1)
    refused(lambda: insert(backup, 2), grpc.StatusCode.PERMISSION_DENIED)
    assert count(primary) == count(backup) == 1
    rival = P4RuntimeClient(1, ADDRESS, (0, 9))
    assert told(primary) == told(backup) == (ALREADY_EXISTS, 9)
    refused(lambda: insert(primary, 2), grpc.StatusCode.PERMISSION_DENIED)
    insert(rival, 2)
    rival.tear_down()
    assert told(primary) == told(backup) == (NOT_FOUND, 9)  # nobody is promoted
    primary.election_id = (0, 10)
    message = p4runtime_pb2.StreamMessageRequest()
    message.arbitration.device_id, message.arbitration.election_id.low = 1, 10
    primary.stream_out_q.put(message)
    assert told(primary) == (OK, 10)
    assert told(backup) == (ALREADY_EXISTS, 10)
    insert(primary, 3)
    assert count(backup) == 3

    role = P4RuntimeClient(1, ADDRESS, (0, 1), role_name="acl")
    insert(role, 4)
    assert count(role) == 4
    other = P4RuntimeClient(1, ADDRESS, (0, 2), role_name="acl")
    assert told(role) == (ALREADY_EXISTS, 2)
    insert(primary, 5)  # the other role's election is not this one's
    insert(other, 6)
    stranger = P4RuntimeClient(1, ADDRESS, (0, 1), role_name="nobody")
    stranger.role_name = "somebody"
    refused(lambda: insert(stranger, 7), grpc.StatusCode.NOT_FOUND)

    everything = get(backup, "ALL")
    assert everything.p4_device_config == BLOB and everything.p4info.tables
    assert not everything.HasField("cookie")
    push(primary, "VERIFY", cookie=1)
    assert count(primary) == 6 and not get(primary, "COOKIE_ONLY").HasField("cookie")
    push(primary, "RECONCILE_AND_COMMIT", cookie=2)
    assert count(primary) == 6 and get(primary, "COOKIE_ONLY").cookie.cookie == 2
    refused(lambda: push(backup, "VERIFY"), grpc.StatusCode.PERMISSION_DENIED)
    refused(lambda: push(primary, "COMMIT", with_config=False), grpc.StatusCode.NOT_FOUND)
    push(primary, "VERIFY_AND_SAVE", cookie=3)
    assert count(primary) == 0 and get(primary, "COOKIE_ONLY").cookie.cookie == 2
    insert(primary, 1)
    refused(lambda: push(primary, "COMMIT"), grpc.StatusCode.INVALID_ARGUMENT)
    push(primary, "COMMIT", with_config=False)
    assert count(primary) == 1 and get(primary, "COOKIE_ONLY").cookie.cookie == 3
    part = get(primary, "P4INFO_AND_COOKIE")
    assert part.p4info.tables and not part.p4_device_config and part.cookie.cookie == 3
    part = get(primary, "DEVICE_CONFIG_AND_COOKIE")
    assert not part.p4info.tables and part.p4_device_config and part.cookie.cookie == 3
    push(other, "VERIFY_AND_COMMIT")  # a role without a config may do everything
    assert count(primary) == 0
    for client in (backup, role, other, stranger):
        client.tear_down()
