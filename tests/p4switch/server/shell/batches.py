"""The atomicity modes of a batch, registers and value sets: what the shell has no words for, over its own client.

Batches go by the client's stub: where an update before the failed one is OK, its write() never ends.
"""

import grpc
from google.rpc import status_pb2
from p4.v1 import p4runtime_pb2
from p4runtime_sh import shell
from setup import connected

OK, ALREADY_EXISTS, ABORTED = 0, 6, 10


def entry(address):
    made = shell.TableEntry("exact_table")(action="counted_forward")
    made.match["hdr.ethernet.dst"] = address
    made.action["port"] = "5"
    return made


def batch(atomicity, *addresses):
    """Insert entries in one Write; give the code of each, None when all went well."""
    request = p4runtime_pb2.WriteRequest(atomicity=p4runtime_pb2.WriteRequest.Atomicity.Value(atomicity))
    for address in addresses:
        update = request.updates.add(type=p4runtime_pb2.Update.INSERT)
        made = entry(address)
        made._update_msg()
        update.entity.table_entry.CopyFrom(made._entry)
    request.device_id, request.election_id.low = 1, 1
    try:
        shell.client.stub.Write(request)
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNKNOWN, error
        return codes(error.trailing_metadata())
    return None


def codes(metadata):
    (status,) = (value for key, value in metadata if key == "grpc-status-details-bin")
    found = []
    for detail in status_pb2.Status.FromString(status).details:
        error = p4runtime_pb2.Error()
        assert detail.Unpack(error)
        found.append(error.canonical_code)
    return found


def there():
    return sorted(e.match["hdr.ethernet.dst"].exact.value[-1] for e in shell.TableEntry("exact_table").read())


def identify(kind, alias):
    (number,) = (o.preamble.id for o in getattr(shell.context.p4info, kind) if o.preamble.alias == alias)
    return number


with connected():
    one, two, three, four = (f"00:00:00:00:00:0{n}" for n in (1, 2, 3, 4))
    assert batch("CONTINUE_ON_ERROR", one, one, two) == [OK, ALREADY_EXISTS, OK]
    assert there() == [1, 2], there()
    assert batch("ROLLBACK_ON_ERROR", three, one, four) == [ABORTED, ALREADY_EXISTS, ABORTED]
    assert there() == [1, 2], there()
    assert batch("DATAPLANE_ATOMIC", three, one) == [ABORTED, ALREADY_EXISTS]
    assert there() == [1, 2], there()
    for number, atomicity in enumerate(("CONTINUE_ON_ERROR", "ROLLBACK_ON_ERROR", "DATAPLANE_ATOMIC"), 5):
        assert batch(atomicity, f"00:00:00:00:00:{number:02}") is None
    assert there() == [1, 2, 5, 6, 7], there()

    register = p4runtime_pb2.Update(type=p4runtime_pb2.Update.MODIFY)
    cell = register.entity.register_entry
    cell.register_id = identify("registers", "last_source")
    cell.index.index, cell.data.bitstring = 3, b"\x01\x02"
    shell.client.write_update(register)
    cell.ClearField("data")
    (read,) = [e.register_entry for r in shell.client.read_one(register.entity) for e in r.entities]
    assert read.data.bitstring == b"\x01\x02", read

    members = p4runtime_pb2.Update(type=p4runtime_pb2.Update.MODIFY)
    members.entity.value_set_entry.value_set_id = identify("value_sets", "special_types")
    member = members.entity.value_set_entry.members.add()
    member.match.add(field_id=1).exact.value = b"\x08\x00"
    shell.client.write_update(members)
    del members.entity.value_set_entry.members[:]
    (read,) = [e.value_set_entry for r in shell.client.read_one(members.entity) for e in r.entities]
    assert [m.match[0].exact.value for m in read.members] == [b"\x08\x00"], read
